"""Transparent rewriting: proposes how a view can answer a query that names only base tables. Proves nothing."""
