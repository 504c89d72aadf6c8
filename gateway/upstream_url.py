"""`upstream.address` as a JDBC URL: what each part of it says as a setting, or why it says nothing here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

PREFIX = "jdbc:hive2://"
DEFAULT_PORT = 10000
_SETTINGS = ("transportMode", "httpPath", "ssl", "auth")
_ADVICE = {
    "user": "Set upstream.user",
    "password": "Set upstream.password, in a file that nobody else reads",
    "principal": "Leave it out: the gateway has no Kerberos",
    "ssltruststore": "Name a PEM file by upstream.tls_ca",
    "truststorepassword": "Name a PEM file by upstream.tls_ca",
    "servicediscoverymode": "Name one server: the gateway asks no ZooKeeper",
    "zookeepernamespace": "Name one server: the gateway asks no ZooKeeper",
}


class BadPart(ValueError):
    """A part of a URL that cannot be meant; the message says what to do."""


def settings_of(url: str) -> Mapping[str, str | bool]:
    """The settings that the URL says, by their names; `upstream.address` among them. Raises BadPart."""
    rest = url[len(PREFIX) :]
    for sign, what in (("#", "variables"), ("?", "settings of Spark")):
        rest, found, said = rest.partition(sign)
        if found and said:
            raise BadPart(f"{what} ({sign}...) are those of a client's session. Leave them out")
    place, *pairs = rest.split(";")
    place, _, database = place.partition("/")
    if database not in ("", "default"):
        raise BadPart(f"the gateway works in all databases. Leave /{database} out")
    if not place:
        raise BadPart(f"it names no server. Write {PREFIX}HOST:PORT")
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
                advice = _ADVICE.get(name.lower(), "Leave it out; settings for that server begin with upstream")
                raise BadPart(f"{name} is no part of a server's address. {advice}")
            case other:
                raise BadPart(f"there is no {other}={value} here")
    if path and not http:
        raise BadPart("httpPath is of no use without transportMode=http")
    if path:
        yield "upstream.http_path", path
