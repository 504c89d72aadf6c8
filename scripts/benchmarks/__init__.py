"""Measures what the gateway costs, against a direct connection to the same Spark Thrift server."""
