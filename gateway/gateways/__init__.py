"""Several gateways over one metastore: one leads, and the others pass their clients to it until it has gone."""
