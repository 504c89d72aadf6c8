"""The versions of a view: who may read them, and when they are dropped."""
