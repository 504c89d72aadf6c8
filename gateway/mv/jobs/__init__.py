"""Automatic refreshes: jobs, their schedules, and the scheduler."""
