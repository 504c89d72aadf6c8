"""Attacks on the monitoring endpoints, and a scraper beside them that must get its answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from fuzzing import http_mutation
from fuzzing.actors import GREETINGS, Attacker, Honest, Wrong
from fuzzing.mutation import reordered
from fuzzing.peer import HttpPeer

PATHS = (b"/metrics", b"/healthz", b"/readyz", b"/", b"/nothing")
HEADERS = (b"Accept: text/plain", b"User-Agent: scraper", b"Content-Length: 0")
REQUESTS = tuple(http_mutation.head(b"GET", path, b"HTTP/1.1", HEADERS) for path in PATHS)
MANY = 30
"""More requests than are accepted ahead."""


class MonitorAttacker(Attacker[HttpPeer]):
    name = "wrong request to the monitor"

    def ways(self) -> Sequence[Callable[[HttpPeer], Awaitable[None]]]:
        return (
            self._replay,
            self._replay,
            self._wrong_head,
            self._wrong_head,
            self._all_at_once,
            self._greet,
            self._half,
        )

    async def connect(self) -> HttpPeer:
        return await HttpPeer.connect(self._stage.monitor_port, self._random)

    async def _wrong_head(self, client: HttpPeer) -> None:
        """Malforms request lines and headers."""
        request = self._random.choice(REQUESTS)
        await self._send(client, http_mutation.wrong_head(request, self._random, self._random.randrange(1, 5)))
        await self._read_a_little(client)

    async def _all_at_once(self, client: HttpPeer) -> None:
        """Sends valid requests ahead, and more than are accepted."""
        requests = [self._random.choice(REQUESTS) for _ in range(self._random.randrange(2, MANY))]
        await self._send(client, b"".join(reordered(requests, self._random)))
        await self._read_a_little(client)

    async def _greet(self, client: HttpPeer) -> None:
        """Speaks another protocol, or sends an endless head."""
        noise = self._random.randbytes(self._random.randrange(1, 500))
        await self._send(client, self._random.choice((*GREETINGS, *http_mutation.LONG, noise)))
        await self._read_a_little(client)

    async def _half(self, client: HttpPeer) -> None:
        """Sends an incomplete request."""
        request = self._random.choice(REQUESTS)
        await self._send(client, request[: self._random.randrange(len(request))])
        await self._read_a_little(client)


class Scraper(Honest[HttpPeer]):
    """Requests the metrics as Prometheus does, over one connection."""

    name = "scrape"

    async def connect(self) -> HttpPeer:
        return await HttpPeer.connect(self._stage.monitor_port, self._random)

    async def _session(self) -> None:
        client = await self.connect()
        try:
            for _ in range(10):
                client.send(REQUESTS[0])
                answer = await client.answer()
                if answer.status != 200 or b"\nfreshgate_" not in answer.body:
                    raise Wrong(f"{answer.status} {answer.body[:200]!r}")
                self._stage.counts[self.name] += 1
                await asyncio.sleep(0.05)
        finally:
            await client.close()
