"""Generates the SQL that the gateway sends to Spark or shows to users."""
