"""The addresses of Spark Thrift Servers: HOST:PORT,HOST:PORT,..., or a JDBC URL as drivers take it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

PREFIX = "jdbc:hive2://"
DEFAULT_PORT = 10000
DEFAULT_PATH = "/cliservice"
_NAMES = ("transportMode", "httpPath", "ssl", "auth", "principal")
_PRINCIPAL = re.compile(r"[^/@\s]+/[^/@\s]+@[^/@\s]+")
_ADVICE = {
    "user": "Set upstream.user",
    "password": "Set upstream.password, in a file that nobody else can read",
    "ssltruststore": "Set upstream.tls_ca to a PEM file",
    "truststorepassword": "Set upstream.tls_ca to a PEM file",
    "servicediscoverymode": "Name the servers themselves: the gateway does not look for them in ZooKeeper",
    "zookeepernamespace": "Name the servers themselves: the gateway does not look for them in ZooKeeper",
}


class BadPart(ValueError):
    """An unsupported part of a URL; the message says what to do."""


@dataclass(frozen=True, slots=True)
class UpstreamPlace:
    """Where one or more servers are, and which protocol they speak."""

    addresses: tuple[str, ...]
    """HOST:PORT of each, in the order in which they are tried."""
    transport: str = "sasl"
    """sasl, nosasl or http."""
    http_path: str = DEFAULT_PATH
    tls: bool = False
    principal: str = ""
    """The server's principal, if it demands tickets of Kerberos: SERVICE/HOST@REALM; _HOST stands for each host."""

    def __str__(self) -> str:
        parts = {
            "transportMode=http": self.transport == "http",
            f"httpPath={self.http_path.strip('/')}": self.transport == "http",
            "auth=noSasl": self.transport == "nosasl",
            "ssl=true": self.tls,
            f"principal={self.principal}": self.principal,
        }
        return f"{PREFIX}{','.join(self.addresses)}/" + "".join(f";{part}" for part, there in parts.items() if there)


def place_of(text: str) -> UpstreamPlace:
    """Parses HOST:PORT or several, which are not checked, or a JDBC URL. Raises BadPart."""
    if not text.lower().startswith(PREFIX):
        return UpstreamPlace(_different(text.split(",")))
    rest = text[len(PREFIX) :]
    for sign, what in (("#", "variables"), ("?", "settings of Spark")):
        rest, _, unused = rest.partition(sign)
        if unused:
            raise BadPart(f"{what} ({sign}...) belong to a client's session. Remove them")
    place, *pairs = rest.split(";")
    place, _, database = place.partition("/")
    if database not in ("", "default"):
        raise BadPart(f"the gateway works with all databases. Remove /{database}")
    if not place:
        raise BadPart(f"the URL names no server. Write {PREFIX}HOST:PORT")
    return _with_variables(UpstreamPlace(_different(map(_with_port, place.split(",")))), pairs)


def _different(addresses: Iterable[str]) -> tuple[str, ...]:
    found = tuple(address.strip() for address in addresses)
    if len(set(found)) < len(found):
        raise BadPart("it names a server twice. Name each once")
    return found


def _with_port(place: str) -> str:
    bare = place.rpartition("]")[2] if place.startswith("[") else place
    return place if ":" in bare else f"{place}:{DEFAULT_PORT}"


def _with_variables(place: UpstreamPlace, pairs: list[str]) -> UpstreamPlace:
    known = {name.lower(): name for name in _NAMES}
    path, http = "", False
    for pair in filter(None, pairs):
        name, _, value = pair.partition("=")
        word = value.lower()
        match known.get(name.lower()):
            case "transportMode" if word in ("binary", "http"):
                http = word == "http"
            case "httpPath":
                path = f"/{value.strip('/')}"
            case "ssl" if word in ("true", "false"):
                place = replace(place, tls=word == "true")
            case "principal" if _PRINCIPAL.fullmatch(value):
                place = replace(place, principal=value)
            case "auth" if word == "nosasl":
                place = replace(place, transport="nosasl")
            case None:
                advice = _ADVICE.get(name.lower(), "Remove it; settings for that server begin with upstream")
                raise BadPart(f"{name} is not part of a server's address. {advice}")
            case other:
                raise BadPart(f"{other}={value} is not supported. Remove it")
    if place.principal and (http or place.transport == "nosasl"):
        raise BadPart(
            "principal needs the binary transport with SASL. Remove transportMode or auth, or let the server accept "
            "passwords"
        )
    if path and not http:
        raise BadPart("httpPath has no effect without transportMode=http. Add transportMode=http, or remove httpPath")
    return replace(place, transport="http", http_path=path or DEFAULT_PATH) if http else place
