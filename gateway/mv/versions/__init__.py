"""The versions of a view: who reads them, and when they are dropped."""
