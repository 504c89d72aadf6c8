"""Analyzes a view's query: what it reads, where its columns come from, whether it is deterministic."""
