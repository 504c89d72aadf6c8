"""The algebra of queries that partition following, refreshes by rows, rewriting, suggestions and proofs share."""
