"""A long run of everything at once. See `scripts/soak --help`."""
