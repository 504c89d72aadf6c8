"""Determines whether the gateway whose mark the storage database has is alive.

Clocks of two machines differ, so no time is compared: a gateway changes its sign of life every few seconds, and whoever
wants to know watches whether it changes.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

BEAT_SECONDS = 15.0
"""Interval of the signs of life. Each is a statement that changes the database's properties."""
SILENT_SECONDS = 40.0
"""A gateway without a sign of life for so long counts as gone: two may be late, if Spark is slow."""
BEAT_OF_SEVERAL_SECONDS = 5.0
"""Interval of the signs of life of the one that leads several gateways."""
SUSPECTED_SECONDS = 16.0
"""One of several gateways that does not answer at its own port either counts as gone after so long without a sign of
life: three are missing. With what precedes and follows, another one leads within 25 seconds."""

_PROCESS = re.compile(r"([0-9a-f]{16})_(\d+)_(\d+)")


@dataclass(frozen=True, slots=True)
class Process:
    """A process, so that another one on the same machine can tell whether it still runs."""

    machine: str
    """The same for all processes that see each other's numbers, since the machine was started."""
    number: int
    """0 if there is at most one gateway at a time on that machine."""
    started: int
    """In clock ticks since the machine was started."""

    def __str__(self) -> str:
        return f"{self.machine}_{self.number}_{self.started}"

    @classmethod
    def parse(cls, text: str) -> Process | None:
        found = _PROCESS.fullmatch(text)
        return cls(found[1], int(found[2]), int(found[3])) if found else None

    @classmethod
    def own(cls) -> Process:
        """This process. On Kubernetes, a container that is started again has another name space of processes, but the
        name of the pod, which is the only one with that name."""
        if "KUBERNETES_SERVICE_HOST" in os.environ:
            return cls(_digest("pod", socket.gethostname()), 0, 0)
        number = os.getpid()
        try:
            boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
            machine = _digest(boot.strip(), os.readlink("/proc/self/ns/pid"))
        except OSError:
            # Never the same as another one.
            machine = _digest("unknown", os.urandom(8).hex())
        return cls(machine, number, _start_of(number) or 0)

    def is_dead(self, other: Process | None) -> bool:
        """Whether the other process certainly has ended; False if only that machine can tell."""
        if other is None or other.machine != self.machine:
            return False
        return other.number == 0 or _start_of(other.number) != other.started


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _start_of(number: int) -> int | None:
    """When the process started, in clock ticks since the machine was started; None if there is no such process."""
    try:
        # The name, in parentheses, may contain anything.
        fields = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


@dataclass(frozen=True, slots=True)
class PresenceMark:
    """What the storage database says about the gateway that has put its mark last."""

    mark: str
    where: str
    """Host, port, process, and the time of its start by its own clock."""
    process: Process | None
    beat: str
    """Changes with each sign of life."""
    leaving: bool
    """It is being stopped: it ends when its clients' statements have ended."""
    ended: bool
    relay: str = ""
    """The address (HOST:PORT) at which it takes clients that other gateways pass on; empty: it takes none."""
    epoch: int = 0
    """The number of its epoch."""


class Presence(Enum):
    ALIVE = "alive"
    GONE = "gone"
    UNKNOWN = "unknown"


class Vigil:
    """Watches another gateway's mark."""

    def __init__(self, process: Process, clock: Callable[[], float] = time.monotonic) -> None:
        self._process = process
        self._clock = clock
        self._last: PresenceMark | None = None
        self._since = 0.0

    @property
    def silent_seconds(self) -> float:
        """The seconds since the last sign of life."""
        return self._clock() - self._since

    def note(self, found: PresenceMark | None, patience: float = SILENT_SECONDS) -> Presence:
        """Takes what the database says now; None: it has no mark of another gateway. `patience`: for how many seconds
        without a sign of life it may still be alive."""
        last, self._last = self._last, found
        if found is None or found.ended or self._process.is_dead(found.process):
            return Presence.GONE
        if last is None or (last.mark, last.beat) != (found.mark, found.beat):
            self._since = self._clock()
            return Presence.UNKNOWN if last is None else Presence.ALIVE
        return Presence.GONE if self.silent_seconds > patience else Presence.UNKNOWN
