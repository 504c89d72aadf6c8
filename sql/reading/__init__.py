"""Reading Spark's statements."""
