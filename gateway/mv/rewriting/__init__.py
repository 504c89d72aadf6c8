"""Which views answer which queries on base tables."""
