"""Whether a view's version contains everything that was written to its base tables."""
