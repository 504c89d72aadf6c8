"""Measures the cost of the gateway against a direct connection to the same Spark Thrift server."""
