"""What `freshgate status` shows: a client of a running gateway, which knows it by its SQL alone."""
