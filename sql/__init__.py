"""Reads and writes SQL text. Knows nothing of the gateway: texts go in, values come out."""
