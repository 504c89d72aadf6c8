"""One gateway in front of one server, and its memory, descriptors, connections and log."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import psutil
from processes import Engine, Gateway, free_port, none_alive

from fuzzing.spark import Spark

SETTLE_SECONDS = 30.0
LOGIN_SECONDS = 5
STALL_SECONDS = 8
"""Longer than the 5 seconds between the gateway's checks for slow clients."""
HTTP_SESSION_SECONDS = 8
"""How long the attackers' sessions stay, because over HTTP no connection tells that they are gone."""
SETTINGS: dict[str, Any] = {
    "listen.http_port": 0,
    "limits.http_session_seconds": HTTP_SESSION_SECONDS,
    "limits.connections": 4000,
}
CONSTANTS = {
    "gateway.assembly.listening.WireLimits.login_seconds": LOGIN_SECONDS,
    "gateway.assembly.listening.WireLimits.stall_seconds": STALL_SECONDS,
}
MIB = 1 << 20
FORGED = "a forged line"
"""The second line in the names of attackers."""
POOLED = 16
"""Connections to Spark that the gateway may open for itself and keep."""


class Stage:
    """What all actors share. Start it, and close it."""

    def __init__(self, directory: Path, seed: int, *, engine: bool) -> None:
        self.random = Random(seed)
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        self.cookies: set[bytes] = set()
        """The cookies of honest clients, with their name."""
        self.directory = directory
        self.log = directory / "gateway.log"
        self._engine = Engine(directory / "engine") if engine else None
        self.spark = None if engine else Spark(seed)
        self.gateway: Gateway
        self.monitor_port = 0
        self.process: psutil.Process

    async def start(self) -> None:
        if self.spark is not None:
            await self.spark.start()
            upstream = self.spark.address
        else:
            assert self._engine is not None
            upstream = f"{self._engine.host}:{self._engine.port}"
        self.monitor_port = free_port()
        settings = {**SETTINGS, "metrics.port": self.monitor_port}
        self.gateway = await asyncio.to_thread(
            lambda: Gateway(self.log, upstream=upstream, constants=CONSTANTS, settings=settings)
        )
        self.process = psutil.Process(self.gateway.pid)

    async def close(self) -> None:
        """Stops everything; it is a fault if the gateway has ended by itself, or with an error."""
        if hasattr(self, "gateway"):
            if none_alive([self.process]):
                self.report("the gateway has ended")
            if self.spark is not None:
                self.spark.hang_up()
            code = await asyncio.to_thread(self.gateway.stop)
            if code != 0:
                self.report(f"the gateway ended with {code}")
            self._read_log()
        if self.spark is not None:
            self.counts += self.spark.counts
            await self.spark.stop()
        if self._engine is not None:
            await asyncio.to_thread(self._engine.stop)

    def report(self, what: str) -> None:
        """Records a fault; the run continues, and fails."""
        self.faults.append(what)

    def _read_log(self) -> None:
        """Checks the log for tracebacks, which show unexpected faults, for forged lines, and for a gateway
        that does not know the configuration: it would read nothing ahead, and keep nothing."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        if any(line.startswith(FORGED) for line in text.splitlines()):
            self.report("a client has forged a line in the log")
        if "cannot read Spark's" in text:
            self.report("the gateway does not know the configuration of the server in Spark's place")
        found = Counter(_last_lines(text))
        for last, count in found.most_common():
            self.report(f"{count} tracebacks in the log that end with: {last}")

    # --- figures -----------------------------------------------------------------------------------------

    @property
    def port(self) -> int:
        return self.gateway.port

    @property
    def http_port(self) -> int:
        return self.gateway.http_port

    def resident(self) -> int:
        """The gateway's memory in bytes."""
        return int(self.process.memory_info().rss)

    def descriptors(self) -> int:
        return int(self.process.num_fds())

    def clients(self) -> int:
        """Client connections that the gateway has not closed."""
        found = self.process.net_connections("tcp")
        ports = {self.port, self.http_port, self.monitor_port}
        return sum(1 for each in found if each.laddr and each.laddr.port in ports and each.status != "LISTEN")

    async def settled(self, descriptors: int, what: str) -> None:
        """Waits until every client is gone, here and at Spark, and the descriptors are released."""
        deadline = asyncio.get_running_loop().time() + SETTLE_SECONDS
        while (left := self.clients()) or self.descriptors() > descriptors + POOLED or self._at_spark():
            if asyncio.get_running_loop().time() > deadline:
                more = self.descriptors() - descriptors
                sessions = self._at_spark()
                self.report(f"after {what}: {left} clients, {len(sessions)} sessions at Spark, {more} descriptors more")
                for session in sessions[:5]:
                    self.report(f"a session was left at Spark, of {session}")
                return
            await asyncio.sleep(0.05)

    def _at_spark(self) -> list[str]:
        """Client sessions there, without the gateway's own; unknown for Spark itself."""
        return self.spark.of_clients() if self.spark is not None else []


def _last_lines(log: str) -> list[str]:
    """The last line of each traceback: the exception."""
    found = []
    inside = False
    for line in log.splitlines():
        if line.startswith("Traceback "):
            inside = True
        elif inside and line and not line.startswith((" ", "\t")):
            found.append(line[:200])
            inside = False
    return found
