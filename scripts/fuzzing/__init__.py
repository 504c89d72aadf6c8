"""Wrong bytes, and honest clients beside them. See `scripts/fuzz --help`."""
