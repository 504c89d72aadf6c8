"""Routing of statements: forward, refresh first, execute or refuse."""
