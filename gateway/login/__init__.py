"""Checks user names and passwords before anything reaches Spark."""
