"""Refreshes of views: observe, plan, execute, publish."""
