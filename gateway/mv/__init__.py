"""Materialized views: model, catalog, freshness, refresh. Reaches Spark only through the ports in `mv.ports`."""
