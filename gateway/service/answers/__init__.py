"""What the gateway answers itself, or changes in Spark's answers."""
