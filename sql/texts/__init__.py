"""Statements that the gateway writes."""
