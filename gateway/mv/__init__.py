"""Materialized views: model, catalog, freshness, refresh. Reaches Spark only through the ports of `mv.ports`."""
