"""Runs everything at once for a long time. See `scripts/soak --help`."""
