"""A client of the gateway: SQLAlchemy's dialect `freshgate`, and Superset's engine spec for it."""
