"""Checks, before the gateway listens, what it exposes to other machines: refuses to start, or warns."""

from __future__ import annotations

import ipaddress
import logging
from urllib.parse import urlsplit

from gateway.config import OFF, Address, Jwt, Settings
from gateway.errors import FreshgateError

log = logging.getLogger(__name__)


def is_local(host: str) -> bool:
    """Whether only this machine reaches the address. A name other than localhost may be any address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_trusted(address: str) -> bool:
    """Whether nobody on the network can change what this address answers."""
    return address.startswith("https://") or (address.startswith("http://") and is_local(host_of(address)))


def host_of(address: str) -> str:
    return urlsplit(address).hostname or ""


def check(settings: Settings) -> None:
    """Warns of unencrypted passwords. Raises FreshgateError if the engine must not be exposed to other machines, or the
    keys of tokens come from an address that others can forge."""
    _refuse_forgeable_keys(settings.jwt)
    _refuse_forgeable_provider(settings)
    gateways = settings.gateways
    if gateways.enabled and not gateways.tls_ca and not is_local(Address.parse(gateways.address).host):
        log.warning(
            "passwords reach gateways.address (%s) from the other gateways unencrypted; set gateways.tls_ca, or let "
            "nothing but gateways use that network",
            gateways.address,
        )
    _refuse_open_page(settings)
    if is_local(settings.listen.host):
        return
    _refuse_shared_engine(settings)
    _warn_of_plain_passwords(settings)


def _refuse_open_page(settings: Settings) -> None:
    page = settings.page
    if not page.port or is_local(page.host):
        return
    if settings.authentication.method == "none":
        raise FreshgateError(
            f"page.host is {page.host}, which other machines can reach, and nobody has to log in. Set "
            f"authentication.method, or let the page listen on this machine only."
        )
    if not page_uses_tls(settings) and not settings.listen.trusted_proxies:
        raise FreshgateError(
            f"page.host is {page.host}, which other machines can reach, and passwords would cross the network "
            f"unencrypted. Set tls.certificate with page among tls.ports, or put a web proxy with TLS in front and "
            f"name it in listen.trusted_proxies."
        )


def page_uses_tls(settings: Settings) -> bool:
    return bool(settings.tls.certificate) and "page" in settings.tls.ports


def _refuse_forgeable_keys(jwt: Jwt) -> None:
    place = jwt.keys or jwt.issuer
    if place and (not jwt.keys or "://" in place) and not is_trusted(place):
        raise FreshgateError(
            f"The keys of tokens would be read from {place}, which is not an https:// address: anybody on the network "
            f"could replace them, and log in as anybody. Set jwt.keys to such an address, or to a file."
        )


def _refuse_forgeable_provider(settings: Settings) -> None:
    issuer = settings.jwt.issuer
    if settings.page.client_id and not is_trusted(issuer):
        raise FreshgateError(
            f"Users of the page would log in at {issuer}, which is not an https:// address: anybody on the network "
            f"could log in as anybody. Set jwt.issuer to such an address, or leave page.client_id empty."
        )


def _refuse_shared_engine(settings: Settings) -> None:
    if settings.upstream.address or settings.engine.accept_user_code:
        return
    checked = settings.authentication.methods
    everybody = "everybody who reaches the port" if not checked else "every user who can log in"
    own = f", {settings.authentication.users_file} included" if "file" in checked else ""
    raise FreshgateError(
        f"listen.host is {settings.listen.host}, which other machines can reach, and the engine is the embedded Spark: "
        f"{everybody} could run programs as the gateway's account, and read and write all its files{own}. "
        f"Listen on this machine only, set upstream.address to a separate Spark Thrift Server, or accept the risk with "
        f"engine.accept_user_code = true (docs/how-to/login.md)."
    )


def _warn_of_plain_passwords(settings: Settings) -> None:
    if not settings.upstream.address and not settings.authentication.methods:
        return  # Nobody checks passwords then, and the log already says so.
    listen, tls = settings.listen, settings.tls
    for name, port, kind in (
        ("listen.port", listen.port, "binary"),
        ("listen.http_port", listen.http_port, "http"),
    ):
        if port != OFF and not (tls.certificate and kind in tls.ports):
            log.warning(
                "passwords reach %s on %s unencrypted, and anybody on the network can read them; set tls.certificate, "
                "or let only a TLS proxy reach that port",
                name,
                listen.host,
            )
