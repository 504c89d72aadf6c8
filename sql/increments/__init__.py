"""Refreshes by rows: which definitions allow them, and the SQL that computes only what changed."""
