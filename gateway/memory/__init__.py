"""The engine that answers queries from tables in memory. Implements ports of `mv.ports`."""
