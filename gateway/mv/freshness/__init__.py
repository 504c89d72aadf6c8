"""Whether a view's current version contains everything that was written to its base tables."""
