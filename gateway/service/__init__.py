"""Serves clients: sessions, operations, and the decision about each message."""
