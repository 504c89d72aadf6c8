"""Reading our own statements."""
