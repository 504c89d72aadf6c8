"""The ports for clients, and who is served at them."""

from __future__ import annotations

import os
from functools import partial

from gateway.assembly.at_spark import MECHANISMS, AtSpark
from gateway.config import OFF, Settings
from gateway.login import exposure
from gateway.proxy import upstream
from gateway.proxy.entrance import Entrance, Port
from gateway.proxy.hosts import Hosts
from gateway.proxy.inherited import InheritedSockets
from gateway.proxy.listener import Listener
from gateway.proxy.tls import Certificate
from gateway.proxy.traffic import Traffic
from gateway.proxy.trusted_proxies import TrustedProxies
from gateway.service.dispatch import Dispatch, Service
from gateway.wire.connection import ClientConnection
from gateway.wire.cookies import COOKIE_SECONDS, Cookies
from gateway.wire.frame import REQUEST_BYTES_MIN, WireLimits
from gateway.wire.gssapi import LAYERS
from gateway.wire.http_connection import HttpClientConnection
from gateway.wire.sasl import GSSAPI, Login


def hosts_of(host: str, names: tuple[str, ...], setting: str) -> Hosts:
    """The names by which a port at the address `host` is reached; `setting`: that of the names."""
    return Hosts(names, exposed=not exposure.is_local(host), setting=setting)


def wire_limits_of(settings: Settings) -> WireLimits:
    limits = settings.limits
    return WireLimits(
        request_bytes_max=max(REQUEST_BYTES_MIN, 2 * limits.statement_bytes),
        connections_max=limits.connections,
        idle_seconds=limits.idle_seconds,
    )


def mechanisms_of(settings: Settings) -> frozenset[str]:
    """How clients of the binary port may log in."""
    transports = settings.listen.transports
    tickets = {GSSAPI} if settings.kerberos.keytab and "sasl" in transports else set()
    return frozenset({MECHANISMS[transport] for transport in transports} | tickets)


def entrance_of(settings: Settings) -> Entrance:
    """The ports for clients. Raises FreshgateError for an unusable certificate, or a socket that systemd has opened for
    no port of the settings."""
    place, tls, limits = settings.listen, settings.tls, wire_limits_of(settings)
    mechanisms = mechanisms_of(settings)
    layers = frozenset(LAYERS[name] for name in settings.kerberos.qop)
    certificate = Certificate(tls.certificate, tls.key, tls.client_ca) if tls.certificate else None
    ports = []
    if place.port != OFF:
        own = certificate if "binary" in tls.ports else None
        ports.append(Port(place.host, place.port, partial(ClientConnection, mechanisms, limits, layers), own))
    if place.http_port != OFF:
        own = certificate if "http" in tls.ports else None
        cookies = Cookies(COOKIE_SECONDS if settings.authentication.remember_seconds else 0)
        secure = own is not None
        hosts = hosts_of(place.host, place.http_hosts, "listen.http_hosts")
        tickets = bool(settings.kerberos.keytab)
        wire = partial(HttpClientConnection, limits, cookies, secure=secure, admission=hosts.refusal, tickets=tickets)
        proxies = TrustedProxies(place.trusted_proxies)
        ports.append(Port(place.host, place.http_port, wire, own, tied=False, proxies=proxies, transport="http"))
    return Entrance(ports, limits.login_seconds, InheritedSockets.of(os.environ))


def listen(settings: Settings, spark: AtSpark, service: Service, traffic: Traffic, entrance: Entrance) -> Listener:
    limits = wire_limits_of(settings)

    async def connect(login: Login, at: str | None) -> upstream.UpstreamSocket:
        opened = partial(upstream.connect, login=login, limits=limits, traffic=traffic)
        with traffic.connecting():
            return await spark.connector.reach_for_client(opened, at)

    return Listener(entrance, limits, partial(Dispatch, service), connect, traffic)
