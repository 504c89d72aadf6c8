"""Accepts clients on its ports: one `Relay` per client, up to the limit."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from gateway import loops
from gateway.proxy.capacity import Capacity
from gateway.proxy.entrance import Entrance, Port
from gateway.proxy.farewell import Farewell
from gateway.proxy.relay import ConnectUpstream, Relay
from gateway.proxy.traffic import Traffic
from gateway.service.decision import Dispatcher
from gateway.wire.connection import ClientEnd
from gateway.wire.frame import WireError, WireLimits

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
        self._serving = self._draining = self._closing = False
        self._ends = loops.BackgroundTasks("ending the sessions of a client that has left")
        self._capacity = Capacity(limits.connections_max, self.traffic)

    @property
    def ports(self) -> list[int]:
        """The ports in use, in the given order, after `bind`."""
        return self._entrance.numbers

    @property
    def clients(self) -> int:
        """Current connections, including those being cleaned up."""
        return len(self._relays)

    @property
    def relayed(self) -> int:
        """Those that other gateways pass on."""
        return sum(relay.relayed for relay in self._relays)

    @property
    def handshakes(self) -> int:
        """TLS connections whose handshake is not complete."""
        return self._entrance.handshakes

    async def bind(self) -> None:
        """Takes the ports; until `start`, clients are told to come back. Raises PortUnavailable."""
        await self._entrance.bind(self)

    async def start(self) -> None:
        """Begins to serve the clients of the ports, which `bind` or another host has taken. Raises PortUnavailable."""
        if not self._entrance.bound:
            await self.bind()
        self._serving = True
        self._entrance.host = self
        self._entrance.open()
        self._sweeper.start()

    async def drain(self, seconds: float, busy: Callable[[], int], *, dismiss: bool = False) -> None:
        """Accepts no more clients, and returns when nobody waits for a reply and no session is `busy`, or after
        `seconds`. With `dismiss`, closes each client meanwhile when nothing of it runs any more.

        Ports whose clients come back with new connections stay open until `close`.
        """
        self._draining = True
        self._entrance.close(tied_only=True)
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        if dismiss:
            self._dismiss()
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
            if dismiss:
                self._dismiss()

    def _dismiss(self) -> None:
        for relay in list(self._relays):
            if relay.idle:
                relay.close()

    async def close(self, grace_seconds: float = 10.0) -> None:
        """Accepts no more clients, closes every client, and waits at most `grace_seconds` for their clean-up."""
        self._closing = True
        self._sweeper.cancel()
        if self._entrance.host is self:
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
        return not self._capacity.is_full(len(self._relays) + handshakes)

    def starve(self, error: OSError) -> None:
        """Implements `entrance.Host`."""
        self._capacity.starve(error)

    def serve(self, port: Port) -> asyncio.Protocol:
        """Implements `entrance.Host`."""
        if not self._serving:
            return Farewell(port.open_wire(), STARTING, self.traffic)
        return self._relay(port, port.open_wire())

    def refuses_new(self, transport: str) -> bool:
        """Whether it accepts no more clients of this transport, because it is being stopped."""
        port = self._entrance.port_for(transport)
        return self._closing or (self._draining and port is not None and port.tied)

    def serve_relayed(self, transport: str, peer: tuple[str, int], *, secure: bool) -> Relay | None:
        """Makes the protocol for a client that another gateway passes on; None if no port has this transport.

        `peer` is the client's address; `secure`: TLS protects its connection to the other gateway."""
        port = self._entrance.port_for(transport)
        if port is None:
            return None
        wire = port.open_wire()
        wire.secure = secure
        return self._relay(port, wire, peer)

    def serve_arrived(self, port: Port, ticket: bytes) -> asyncio.Protocol:
        """Makes the protocol for a client of this process's door, which another leader has served."""
        relay = self._relay(port, port.open_wire())
        relay.ticket = ticket
        return relay

    def end_arrived(self, ticket: bytes) -> None:
        """Ends the sessions of a client of another leader that has left meanwhile."""
        dispatcher = self._open_client()
        try:
            dispatcher.moving.arrive(ticket)
        except WireError as error:
            log.error("the sessions of a client that has left cannot be ended: %s", error)
        self._ends.begin(_lose(dispatcher))

    def _relay(self, port: Port, wire: ClientEnd, peer: tuple[str, int] | None = None) -> Relay:
        return Relay(
            self._open_client, self._connect_upstream, wire, self._limits, self, self.traffic, port.proxies, peer
        )

    def begin(self, relay: Relay) -> str | None:
        """Registers a client. Returns why it cannot be served, or None."""
        if self._closing:
            return "The gateway is being stopped. Connect again later."
        if (problem := self._capacity.refusal(len(self._relays), relay.descriptor)) is not None:
            return problem
        self.traffic.accepted += 1
        self._relays.add(relay)
        self._empty.clear()
        return None

    def end(self, relay: Relay) -> None:
        """Removes a client whose clean-up is complete."""
        self._relays.discard(relay)
        if not self._relays:
            self._empty.set()


async def _lose(dispatcher: Dispatcher) -> None:
    if (done := dispatcher.client_lost()) is not None:
        await done
