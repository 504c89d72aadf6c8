"""A simulated world around the gateway's own code: docs/internals/simulation.md.

A package, unlike the other folders of tests: its modules have names that others have, too.
"""
