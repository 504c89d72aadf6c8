"""`python -m world`: see `world.runner`."""

import sys

from world.runner import main

sys.exit(main())
