"""Starts scripts/demo. Its modules take a second to import, during which Ctrl-C ends it too."""

import sys

try:
    from demonstration.command import main

    sys.exit(main())
except KeyboardInterrupt:
    print("\ndemo: interrupted", file=sys.stderr)
    sys.exit(130)
