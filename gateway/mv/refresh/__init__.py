"""A refresh: observe, plan, execute, publish."""
