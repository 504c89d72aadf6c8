"""What becomes of a statement."""
