"""Metrics and probes over HTTP, log formatting, and the audit file. No other package imports this one."""
