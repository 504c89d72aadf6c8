"""Moves bytes between clients' sockets and Spark's."""
