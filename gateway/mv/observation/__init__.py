"""What base tables look like now."""
