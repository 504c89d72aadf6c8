"""The gateway, and the command `freshgate`.

`assembly` builds the layers from the settings (`config`), `server` starts and stops them, `__main__` parses the command
line.
"""
