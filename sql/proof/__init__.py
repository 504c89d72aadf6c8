"""Proves that two queries have the same answer, from Spark's plans of them."""
