"""Answers that are kept in memory: what identifies one, how it is recorded, kept and replayed."""
