"""Clients: logins, sessions, and what belongs to a session."""
