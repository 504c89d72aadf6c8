"""Views whose rows are in memory: which ones, and their loading and dropping."""
