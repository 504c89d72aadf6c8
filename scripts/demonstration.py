"""Starts scripts/demo. The imports take a second, during which Ctrl-C ends it too."""

import sys

try:
    from gateway.__main__ import main

    sys.exit(main(["demo", *sys.argv[1:]]))
except KeyboardInterrupt:
    print("\ndemo: interrupted", file=sys.stderr)
    sys.exit(130)
