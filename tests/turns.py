"""How much of the gateway's own code one turn of the event loop runs: counted in lines, so it does not matter how fast
the machine is."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

_ROOT = Path(__file__).parents[1]
_OWN = (f"{_ROOT}/gateway/", f"{_ROOT}/sql/")
_TURN = asyncio.Handle._run.__code__


@dataclass
class Turns:
    """The turn with the most lines since `counted` began."""

    lines: Counter[CodeType] = field(default_factory=Counter)

    @property
    def most(self) -> int:
        return self.lines.total()

    def __str__(self) -> str:
        found = (f"{code.co_qualname} ({lines})" for code, lines in self.lines.most_common(5))
        return f"{self.most} lines in one turn of the event loop: {', '.join(found)}"


@contextmanager
def counted() -> Iterator[Turns]:
    """Counts the lines that this thread, which is the event loop's, runs. What runs in other threads does not count."""
    turns, now = Turns(), Counter[CodeType]()

    def line(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            now[frame.f_code] += 1
        return line

    def call(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code is _TURN:
            end()
            return None
        return line if frame.f_code.co_filename.startswith(_OWN) else None

    def end() -> None:
        if now.total() > turns.most:
            turns.lines = now.copy()
        now.clear()

    before = sys.gettrace()
    sys.settrace(call)
    try:
        yield turns
    finally:
        sys.settrace(before)
        end()
