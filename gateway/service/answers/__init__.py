"""The gateway's own answers, and its changes to Spark's answers."""
