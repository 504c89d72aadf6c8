"""Parsers of Spark's statements."""
