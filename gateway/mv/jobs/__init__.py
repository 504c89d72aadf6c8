"""Refreshes that nobody has to ask for."""
