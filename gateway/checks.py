"""Checks of settings' values: each returns what is wrong with a value, or None.

Tests: `test_config_reference`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from ipaddress import ip_network
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

Check = Callable[[Any], str | None]

_HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?")
_ZOOKEEPER_SERVER = re.compile(r"([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(:(?P<port>[0-9]{1,5}))?")
_ZNODE = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9_.-]+")

SECRET_CHARACTERS_MIN = 32
"""The SHA-256 of a shorter secret, which everybody may read, could be inverted by trying."""


def between(low: float, high: float) -> Check:
    def check(value: Any) -> str | None:
        return None if low <= value <= high else f"must be between {low} and {high}"

    return check


def at_least(low: float) -> Check:
    return lambda value: None if low <= value < math.inf else f"must be at least {low} and finite"


def none_or_at_least(low: float) -> Check:
    return lambda value: None if value == 0 or value >= low else f"must be 0 or at least {low}"


def one_of(*choices: str) -> Check:
    return lambda value: None if value in choices else f"must be one of {', '.join(choices)}"


def some_of(*choices: str) -> Check:
    def check(value: Any) -> str | None:
        fits = value and all(item in choices for item in value)
        return None if fits else f"must name at least one of {', '.join(choices)}, and nothing else"

    return check


def each_of(*choices: str) -> Check:
    return lambda value: None if set(value) <= set(choices) else f"must name only {', '.join(choices)}"


def filled(value: Any) -> str | None:
    return None if value else "must not be empty"


def storage_database(value: Any) -> str | None:
    # The metastore folds names to lower case, so after a restart, a name with capitals would mean another database.
    plain = value.isidentifier() and value.isascii() and value == value.lower() and value != "default"
    return None if plain else "must consist of lower-case letters, digits and _, and must not be the default database"


def catalog_name(value: Any) -> str | None:
    plain = not value or (value.isidentifier() and value.isascii() and value == value.lower())
    return None if plain else "must consist of lower-case letters, digits and _, or be empty"


def time_zone(value: Any) -> str | None:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return "must be a time zone, such as Europe/Berlin or UTC"
    return None


def networks(value: Any) -> str | None:
    try:
        for each in value:
            ip_network(each, strict=False)
    except ValueError:
        return "must be addresses and networks, such as 127.0.0.1 and 10.0.0.0/8"
    return None


def host_names(value: Any) -> str | None:
    if not all(_HOST_NAME.fullmatch(each) for each in value):
        return "must be names without a port, such as gateway.example"
    return None


def secret_or_empty(value: Any) -> str | None:
    least = SECRET_CHARACTERS_MIN
    return f"must have at least {least} characters, or be empty" if value and len(value) < least else None


def url_or_empty(value: Any) -> str | None:
    if value:
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            return "must be a URL such as http://spark.example:4040"
    return None


def webhook_or_empty(value: Any) -> str | None:
    if value:
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.fragment:
            return "must be a URL such as https://alerts.example/freshgate"
    return None


def metastore_or_empty(value: Any) -> str | None:
    if value and not value.startswith(("hive://", "arn:")):
        return "must be hive://HOST:PORT or arn:aws:glue:REGION:ACCOUNT"
    return None


def urls_or_empty(value: Any) -> str | None:
    """Several are separated by commas."""
    if value and any(not url.strip() or url_or_empty(url.strip()) for url in value.split(",")):
        return "must be a URL such as http://spark.example:4040, or several with commas"
    return None


def ldap_urls(value: Any) -> str | None:
    for url in value.split():
        try:
            parts = urlsplit(url)
            fits = parts.scheme in ("ldap", "ldaps") and parts.hostname and parts.port != 0
        except ValueError:
            fits = False
        if not fits or parts.path.strip("/") or parts.query or parts.fragment or parts.username:
            return "must be URLs such as ldaps://ldap.example or ldap://ldap.example:389, separated by spaces"
    return None


def dn_patterns(value: Any) -> str | None:
    fits = all("," in pattern and "=" in pattern for pattern in value.split(":")) or not value.strip()
    return None if fits else "must be DNs such as uid=%s,ou=people,dc=example,dc=com, separated by colons"


def attribute_name(value: Any) -> str | None:
    plain = value.isascii() and value.replace("-", "").replace(".", "").isalnum()
    return None if plain else "must be the name of an LDAP attribute or class"


def zookeeper_or_empty(value: Any) -> str | None:
    """HOST[:PORT] of each server, and after the last one an optional path that all paths are below."""
    servers, _, path = value.partition("/")
    found = [_ZOOKEEPER_SERVER.fullmatch(each.strip()) for each in servers.split(",")]
    if value and not all(each and 0 < int(each["port"] or 1) < 65536 for each in found):
        return "must be HOST:PORT of each server, separated by commas, such as zk-1.example:2181,zk-2.example:2181"
    return None if not path else znode_path(path)


def znode_path(value: Any) -> str | None:
    plain = value.strip("/") and all(_ZNODE.fullmatch(each) for each in value.strip("/").split("/"))
    return None if plain else "must consist of letters, digits, _, - and dots, with / between the parts of a path"
