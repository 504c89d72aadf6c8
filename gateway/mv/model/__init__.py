"""Values that describe materialized views, and their stored form."""
