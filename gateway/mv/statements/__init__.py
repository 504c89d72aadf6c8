"""CREATE, ALTER and DROP MATERIALIZED VIEW, and the rights they require."""
