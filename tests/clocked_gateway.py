"""Runs `freshgate` with a shifted clock: the first argument is a file with the number of seconds.

Only the time of day is shifted. Timeouts use the monotonic clock.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from gateway.__main__ import main

_file = Path(sys.argv.pop(1))
_time_ns: Callable[[], int] = time.time_ns


def _ahead() -> int:
    return int(float(_file.read_text(encoding="ascii")) * 1e9)


time.time_ns = lambda: _time_ns() + _ahead()
time.time = lambda: time.time_ns() / 1e9
sys.exit(main())
