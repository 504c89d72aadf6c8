"""Accepts clients on its ports: one `Relay` per client, up to the limit."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from gateway import loops
from gateway.proxy.descriptors import Room
from gateway.proxy.entrance import Entrance, Port
from gateway.proxy.farewell import Farewell
from gateway.proxy.relay import ConnectUpstream, Relay
from gateway.proxy.traffic import Traffic
from gateway.service.decision import Dispatcher
from gateway.wire.frame import WireLimits

log = logging.getLogger(__name__)

SWEEP_SECONDS = 5.0
"""Interval of the checks for slow or idle clients and for renewed certificates."""
DRAINED_SECONDS = 0.2
"""Interval of the checks whether the last statement has ended."""
_CUT_SECONDS = 1.0
"""For steps that need no peer's help, only a turn of the event loop."""
STARTING = "The gateway is starting. Try again in a few seconds."


class Listener:
    """The ports that clients connect to. Serves from `start` to `close`."""

    def __init__(
        self,
        entrance: Entrance,
        limits: WireLimits,
        open_client: Callable[[], Dispatcher],
        connect_upstream: ConnectUpstream,
        traffic: Traffic | None = None,
    ) -> None:
        self._entrance = entrance
        self._limits = limits
        self._open_client = open_client
        self._connect_upstream = connect_upstream
        self.traffic = traffic if traffic is not None else Traffic()
        self._relays: set[Relay] = set()
        self._empty = asyncio.Event()
        self._empty.set()
        self._sweeper = loops.Loop("sweep of clients", self._sweep)
        self._serving = self._closing = False
        self._room = Room()

    @property
    def ports(self) -> list[int]:
        """The ports in use, in the given order, after `bind`."""
        return self._entrance.numbers

    @property
    def clients(self) -> int:
        """Current connections, including those being cleaned up."""
        return len(self._relays)

    @property
    def handshakes(self) -> int:
        """TLS connections whose handshake is not complete."""
        return self._entrance.handshakes

    async def bind(self) -> None:
        """Takes the ports; until `start`, clients are told to come back. Raises PortUnavailable."""
        await self._entrance.bind(self)

    async def start(self) -> None:
        """Begins to serve clients. Raises PortUnavailable if `bind` was not called before."""
        if not self._entrance.bound:
            await self.bind()
        self._serving = True
        self._sweeper.start()

    async def drain(self, seconds: float, busy: Callable[[], int]) -> None:
        """Accepts no more clients, and returns when nobody waits for a reply and no session is `busy`, or after
        `seconds`.

        Ports whose clients come back with new connections stay open until `close`.
        """
        self._entrance.close(tied_only=True)
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while (waiting := sum(relay.waiting for relay in self._relays)) + (sessions := busy()):
            if loop.time() > until:
                log.warning(
                    "stopping after %g seconds although %d sessions run a statement and %d clients wait for a reply",
                    seconds,
                    sessions,
                    waiting,
                )
                return
            await asyncio.sleep(DRAINED_SECONDS)

    async def close(self, grace_seconds: float = 10.0) -> None:
        """Accepts no more clients, closes every client, and waits at most `grace_seconds` for their clean-up."""
        self._closing = True
        self._sweeper.cancel()
        self._entrance.close()
        # Each step ends those that the previous one could not: clients that read nothing, then clean-ups that hang.
        steps = ((Relay.close, grace_seconds), (Relay.abort, _CUT_SECONDS), (Relay.give_up, _CUT_SECONDS))
        for step, seconds in steps:
            for relay in list(self._relays):
                step(relay)
            try:
                async with asyncio.timeout(seconds):
                    await self._empty.wait()
                return
            except TimeoutError:
                log.warning("%d clients did not finish within %g seconds", len(self._relays), seconds)

    async def _sweep(self) -> None:
        await asyncio.sleep(SWEEP_SECONDS)
        now = asyncio.get_running_loop().time()
        for relay in list(self._relays):
            relay.sweep(now)
        self._entrance.renew_certificates()

    def renew_certificates(self) -> None:
        """Loads certificates that were replaced."""
        self._entrance.renew_certificates()

    def has_room(self, handshakes: int) -> bool:
        """Implements `entrance.Host`."""
        return not self._is_full(len(self._relays) + handshakes)

    def _is_full(self, taken: int) -> bool:
        if taken < self._limits.connections_max:
            return False
        self.traffic.refused += 1
        log.warning("a client was refused: %d connections are open (limits.connections)", taken)
        return True

    def starve(self, error: OSError) -> None:
        """Implements `entrance.Host`."""
        self.traffic.starved += 1
        self._room.report(f"a client waits, because it cannot be accepted ({error.strerror or error})")

    def serve(self, port: Port) -> asyncio.Protocol:
        """Implements `entrance.Host`."""
        if not self._serving:
            return Farewell(port.open_wire(), STARTING, self.traffic)
        return Relay(
            self._open_client,
            self._connect_upstream,
            port.open_wire(),
            self._limits,
            self,
            self.traffic,
            port.proxies,
        )

    def begin(self, relay: Relay) -> str | None:
        """Registers a client. Returns why it cannot be served, or None."""
        if self._closing:
            return "The gateway is being stopped. Connect again later."
        if self._room.is_short(relay.descriptor):
            self.traffic.starved += 1
            self._room.report("a client was refused")
            return "The gateway has too many open files and sockets to serve another client. Try again later."
        if self._is_full(len(self._relays)):
            return f"Too many connections: the gateway serves {self._limits.connections_max}. Try again later."
        self.traffic.accepted += 1
        self._relays.add(relay)
        self._empty.clear()
        return None

    def end(self, relay: Relay) -> None:
        """Removes a client whose clean-up is complete."""
        self._relays.discard(relay)
        if not self._relays:
            self._empty.set()
