"""The gateway's own sessions at Spark, and the embedded engine. Implements the ports of `mv.ports`."""
