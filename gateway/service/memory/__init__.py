"""Answers queries from the rows of views in memory: what is learned of a shape, how it is answered, and compared."""
