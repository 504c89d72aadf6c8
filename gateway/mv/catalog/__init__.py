"""Which views there are, as the metastore stores them, and what keeps that true."""
