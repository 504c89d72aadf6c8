"""Observes base tables: what they look like now."""
