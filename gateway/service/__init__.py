"""One client's work: sessions, operations, and the decision what happens to each message."""
