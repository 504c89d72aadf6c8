"""Who may log in: checks of user names and passwords before anything reaches Spark."""
