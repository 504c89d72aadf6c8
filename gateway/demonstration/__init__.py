"""Implements `freshgate demo`: starts a gateway, and shows it at work with real flights."""
