"""Implements `freshgate status`: a client of a running gateway, which it knows only through SQL."""
