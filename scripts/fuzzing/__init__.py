"""Attacks a gateway with malformed bytes, beside honest clients. See `scripts/fuzz --help`."""
