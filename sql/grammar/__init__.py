"""Parses the gateway's own statements."""
