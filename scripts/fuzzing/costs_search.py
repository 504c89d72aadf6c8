"""`scripts/fuzz --costs`: looks for texts that take a reader of texts long."""

from __future__ import annotations

import time
from functools import partial
from itertools import cycle
from random import Random

from costs import CORPUS, READERS, Found, Reader, phrases_of, seconds, worst

CHARACTERS = 3_900
"""Longer texts are read outside of the event loop."""
TURN_MS = 20.0
TIMES = 4
GROWTH_MAX = 9.0
"""How many times as long a text may take that is TIMES as long: 4 times if linear, 16 times if quadratic."""
EVALUATIONS = 150


def play(minutes: float, seed: int) -> int:
    """Prints the costliest text of each reader last. Returns 1 if one takes more than linear time."""
    print(f"fuzz: seed {seed}, {minutes:g} minutes of costs", flush=True)
    chance, phrases = Random(seed), phrases_of(CORPUS)
    until = time.monotonic() + 60 * minutes
    best = dict.fromkeys(READERS, (0.0, ""))
    found = 0
    for name in cycle(READERS):
        if time.monotonic() > until:
            break
        reader = READERS[name]
        worst_one = worst(partial(seconds, reader), chance, EVALUATIONS, CHARACTERS, phrases)
        took, grows = _measured(reader, worst_one)
        if took > best[name][0]:
            best[name] = took, str(worst_one)
        if grows > GROWTH_MAX:
            found += 1
            print(
                f"fuzz: FOUND: {name} takes {took * 1e3:.1f} ms, and {grows:.1f} times as long for {worst_one}",
                flush=True,
            )
    for name, (took, text) in sorted(best.items(), key=lambda item: -item[1][0]):
        note = " (more than a turn)" if took * 1e3 > TURN_MS else ""
        print(f"fuzz: {took * 1e3:7.1f} ms {name}{note}: {text[:200]}")
    print(f"fuzz: {found} findings")
    return 1 if found else 0


def _measured(reader: Reader, found: Found) -> tuple[float, float]:
    """The shortest of several runs, and how many times as long a text takes that is TIMES as long."""
    text, longer = (found.pattern.text(CHARACTERS * times) for times in (1, TIMES))
    took = min(seconds(reader, text) for _ in range(3))
    return took, min(seconds(reader, longer) for _ in range(2)) / max(took, 1e-3)
