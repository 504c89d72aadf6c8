"""What a materialized view is, as values."""
