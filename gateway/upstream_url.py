"""Parses a JDBC URL in `upstream.address`: which settings its parts set, or why a part is not supported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

PREFIX = "jdbc:hive2://"
DEFAULT_PORT = 10000
_SETTINGS = ("transportMode", "httpPath", "ssl", "auth")
_ADVICE = {
    "user": "Set upstream.user",
    "password": "Set upstream.password, in a file that nobody else can read",
    "principal": "Remove it: the gateway does not support Kerberos",
    "ssltruststore": "Set upstream.tls_ca to a PEM file",
    "truststorepassword": "Set upstream.tls_ca to a PEM file",
    "servicediscoverymode": "Name one server: the gateway does not support ZooKeeper",
    "zookeepernamespace": "Name one server: the gateway does not support ZooKeeper",
}


class BadPart(ValueError):
    """An unsupported part of a URL; the message says what to do."""


def settings_of(url: str) -> Mapping[str, str | bool]:
    """The settings that the URL sets, by name, including `upstream.address`. Raises BadPart."""
    rest = url[len(PREFIX) :]
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
    if "," in place:
        raise BadPart(f"{place} names several servers. Name one")
    settings: dict[str, str | bool] = {"upstream.address": _with_port(place)}
    settings.update(_variables(pairs))
    return settings


def _with_port(place: str) -> str:
    bare = place.rpartition("]")[2] if place.startswith("[") else place
    return place if ":" in bare else f"{place}:{DEFAULT_PORT}"


def _variables(pairs: list[str]) -> Iterator[tuple[str, str | bool]]:
    known = {name.lower(): name for name in _SETTINGS}
    path = ""
    http = False
    for pair in filter(None, pairs):
        name, _, value = pair.partition("=")
        word = value.lower()
        match known.get(name.lower()):
            case "transportMode" if word in ("binary", "http"):
                http = word == "http"
                if http:
                    yield "upstream.transport", "http"
            case "httpPath":
                path = f"/{value.strip('/')}"
            case "ssl" if word in ("true", "false"):
                yield "upstream.tls", word == "true"
            case "auth" if word == "nosasl":
                yield "upstream.transport", "nosasl"
            case None:
                advice = _ADVICE.get(name.lower(), "Remove it; settings for that server begin with upstream")
                raise BadPart(f"{name} is not part of a server's address. {advice}")
            case other:
                raise BadPart(f"{other}={value} is not supported. Remove it")
    if path and not http:
        raise BadPart("httpPath has no effect without transportMode=http. Add transportMode=http, or remove httpPath")
    if path:
        yield "upstream.http_path", path
