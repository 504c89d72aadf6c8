"""The nodes by which HiveServer2's clients find a server in ZooKeeper.

A node is a child of the namespace. Clients choose one by chance, and read from its data what they would otherwise need
in their URL. The drivers take one port from it, so each port for clients has a node of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.config import LAYERS, OFF, Address, Settings, version

HTTP_SUFFIX = "_http"
LEADERS_SUFFIX = "_leaders"
"""Not below the namespace, all of whose children are servers for the drivers."""


@dataclass(frozen=True, slots=True)
class ServerNode:
    """A node that ends with the session which has created it. ZooKeeper appends a number to its name."""

    namespace: str
    """An absolute path."""
    prefix: str
    """Of the name."""
    data: str

    @property
    def path(self) -> str:
        """Without the number."""
        return f"{self.namespace}/{self.prefix}"

    @property
    def address(self) -> str:
        """HOST:PORT for clients."""
        return self.prefix.removeprefix("serverUri=").partition(";")[0]


def server_nodes(settings: Settings, ports: Sequence[int], host: str) -> list[ServerNode]:
    """The nodes of a gateway. `ports`: those for clients that are in use, in the order of `entrance_of`. `host`: where
    clients reach them, unless `discovery.address` says so."""
    listen, discovery = settings.listen, settings.discovery
    place = discovery.place
    bound, nodes = iter(ports), list[ServerNode]()
    for transport, number in (("binary", listen.port), ("http", listen.http_port)):
        if number == OFF:
            continue
        port = next(bound)
        if place is not None:
            # The port is that of the first transport: another one has to be reached at the port where it listens.
            port = place.port if place.port and not nodes else port
        address = Address(place.host if place is not None else host, port)
        suffix = HTTP_SUFFIX if nodes else ""
        nodes.append(_node(settings, discovery.path + suffix, transport, address))
    return nodes


def leader_path(namespace: str, mark: str) -> str:
    """The path of the node that the gateway with this mark has while it leads."""
    return f"{namespace}{LEADERS_SUFFIX}/{mark}"


def _node(settings: Settings, namespace: str, transport: str, address: Address) -> ServerNode:
    said = {
        "hive.server2.thrift.bind.host": address.host,
        "hive.server2.transport.mode": transport,
        **(
            {"hive.server2.thrift.http.port": str(address.port), "hive.server2.thrift.http.path": "cliservice"}
            if transport == "http"
            else {"hive.server2.thrift.port": str(address.port), "hive.server2.thrift.sasl.qop": _protection(settings)}
        ),
        "hive.server2.authentication": _authentication(settings, transport),
        **_principal(settings, transport),
        "hive.server2.use.SSL": str(bool(settings.tls.certificate) and transport in settings.tls.ports).lower(),
    }
    data = ";".join(f"{name}={value}" for name, value in said.items())
    return ServerNode(namespace, f"serverUri={address};version={version()};sequence=", data)


def _authentication(settings: Settings, transport: str) -> str:
    """HiveServer2's name of it. The drivers only distinguish NOSASL."""
    if transport == "binary" and "sasl" not in settings.listen.transports:
        return "NOSASL"
    first = settings.authentication.methods[:1]
    return {(): "NONE", ("ldap",): "LDAP", ("kerberos",): "KERBEROS"}.get(first, "CUSTOM")


def _protection(settings: Settings) -> str:
    """The least that is offered: drivers would otherwise take the most."""
    return next((each for each in LAYERS if each in settings.kerberos.qop), LAYERS[0])


def _principal(settings: Settings, transport: str) -> dict[str, str]:
    """Drivers that find it log in with a ticket, so it is there only if clients have no other way."""
    service = "hive/" if transport == "binary" else "HTTP/"
    named = [each for each in settings.kerberos.principals if each.startswith(service) and "@" in each]
    if settings.authentication.methods != ("kerberos",) or not named:
        return {}
    return {"hive.server2.authentication.kerberos.principal": named[0]}
