"""One of several gateways: its ports, which outlive each of its terms, and its way to the one that leads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from gateway.assembly.at_spark import SparkServer, at_spark
from gateway.assembly.browsers import page_certificate
from gateway.assembly.listening import entrance_of, hosts_of, wire_limits_of
from gateway.assembly.one_gateway import Lasting
from gateway.config import Address, Settings
from gateway.discovery.registration import Registration
from gateway.discovery.zookeeper import ZooKeeper
from gateway.gateways.node import GatewayNode, LeadingTerm, Premises
from gateway.monitoring import metrics
from gateway.monitoring.monitor import DoorMonitor
from gateway.mv.catalog.epoch_counts import EpochCounts
from gateway.proxy.capacity import Capacity
from gateway.proxy.doorway import Doorway
from gateway.proxy.entrance import Entrance, Port
from gateway.proxy.leader_link import Trust
from gateway.proxy.page_door import PageDoor
from gateway.proxy.relay_gate import RelayGate
from gateway.proxy.tls import Certificate, client_context
from gateway.proxy.traffic import Traffic
from gateway.wire.connection import ClientConnection
from gateway.wire.member import Member


def registration_of(settings: Settings, deregistered: Callable[[], None]) -> Registration | None:
    """None without ZooKeeper. Raises FreshgateError without kazoo."""
    discovery = settings.discovery
    if not discovery.zookeeper:
        return None
    login = f"{discovery.user}:{discovery.password}" if discovery.user else ""
    return Registration(ZooKeeper(discovery.zookeeper, login), discovery.path, deregistered)


def registered_in(registration: Registration | None) -> Callable[[], bool] | None:
    """Whether clients find the gateway in ZooKeeper; None without ZooKeeper."""
    return None if registration is None else lambda: registration.registered


def node(
    settings: Settings,
    engine: SparkServer,
    open_term: Callable[[Lasting], LeadingTerm],
    registration: Registration | None = None,
) -> GatewayNode:
    """One of several gateways. `open_term` builds a gateway that leads. Raises FreshgateError for unusable settings."""
    gateways, limits, traffic = settings.gateways, wire_limits_of(settings), Traffic()
    capacity = Capacity(limits.connections_max, traffic)
    entrance, gate = entrance_of(settings), RelayGate(gateways.secret, capacity)
    relay, tls = Address.parse(gateways.address), settings.tls
    certificate = Certificate(tls.certificate, tls.key) if gateways.tls_ca else None
    context = client_context(gateways.tls_ca, "gateways", "gateways.tls_ca") if gateways.tls_ca else None
    port = Port(relay.host, relay.port, partial(ClientConnection, frozenset(), limits), certificate)
    relays = Entrance([port], limits.login_seconds)
    trust = Trust(gateways.secret, context)
    doorway = Doorway(trust, capacity, gateways.wait_seconds, limits.buffer_bytes_max, traffic)
    watch = at_spark(settings, engine, traffic)

    async def close() -> None:
        await watch.connector.servers.loop.stop()
        await asyncio.gather(*(pool.close() for pool in watch.pools))

    def member() -> Member:
        return made.member()

    counts = EpochCounts()
    monitor = _door_monitor(settings, doorway, member, counts, registration)
    made = GatewayNode(
        Premises(entrance, relays, doorway, gate, monitor, registration, _page_door(settings, trust, doorway, gate)),
        watch.fence,
        partial(open_term, Lasting(entrance, gate.doors, counts)),
        close,
        settings.limits.drain_seconds,
        counts,
    )
    return made


def _page_door(settings: Settings, trust: Trust, doorway: Doorway, gate: RelayGate) -> PageDoor | None:
    place = settings.page
    if not place.port:
        return None
    address, certificate = Address(place.host, place.port), page_certificate(settings)
    return PageDoor(address, certificate, trust, lambda: doorway.leader, lambda: gate.page)


def _door_monitor(
    settings: Settings,
    doorway: Doorway,
    member: Callable[[], Member],
    counts: EpochCounts,
    registration: Registration | None,
) -> DoorMonitor | None:
    if not settings.metrics.port:
        return None
    place = settings.metrics
    hosts = hosts_of(place.host, place.hosts, "metrics.hosts")

    def missing() -> list[str]:
        return [] if doorway.leader is not None else ["No gateway leads at the moment."]

    def status() -> dict[str, object]:
        leader = doorway.leader
        return member().shown(str(leader.relay) if leader is not None else None)

    text = partial(metrics.door_text, doorway, lambda: member().epoch, counts, registered_in(registration))
    return DoorMonitor(place.host, place.port, text, missing, status, hosts.refusal)
