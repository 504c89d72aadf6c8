"""The materialized views as the metastore stores them, and what keeps memory and metastore consistent."""
