"""A view's query: what it reads, where its columns come from, whether its values may differ."""
