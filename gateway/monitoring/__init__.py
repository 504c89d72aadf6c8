"""Seeing in: metrics and probes over HTTP, log lines, the audit's file. Nobody else knows this package."""
