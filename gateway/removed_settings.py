"""Settings of earlier releases: what replaces each, or its fixed value, for messages to those who still have it.

A removed setting is reported and has no effect, or that of its replacement. It is refused only if the gateway would
protect less than its value asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from gateway import upstream_url
from gateway.config import HEALED, ConfigError


@dataclass(frozen=True, slots=True)
class Removed:
    """A setting of an earlier release."""

    default: Any
    """Its former default, whose type its values have."""
    now: str
    """What applies instead, as a sentence without its period."""
    protects_more: Callable[[Any], bool] = lambda _: False
    """Whether a value asks for more protection than there is now."""
    applies: bool = False
    """Whether the value still has its effect, by what replaces the setting."""


_NAMES: tuple[str, ...] = ()
_GROUP_CLASSES = frozenset({"group", "groupofnames", "groupofuniquenames", "groupofurls", "posixgroup"})


def _below(least: float) -> Callable[[Any], bool]:
    return lambda value: value < least


REMOVED: Mapping[str, Removed] = MappingProxyType(
    {
        "listen.http_cookie_seconds": Removed(
            3600.0,
            "a cookie is valid for 3600 seconds, and authentication.remember_seconds = 0 switches cookies off",
            _below(3600),
        ),
        "listen.http_path": Removed("/cliservice", "the HTTP transport answers at every path"),
        "listen.http_origins": Removed(_NAMES, "requests of web pages are always refused"),
        "authentication.refusal_delay": Removed(1.0, "a refusal takes 1 second"),
        "authentication.concurrent_checks": Removed(8, "8 passwords are checked at the same time"),
        "ldap.timeout": Removed(10, "a server has 10 seconds for an answer"),
        "ldap.guid_key": Removed(
            "uid", "write ldap.user_dn_pattern, such as sAMAccountName=%s,dc=example,dc=com", applies=True
        ),
        "ldap.user_membership_key": Removed(
            "",
            'write ldap.group_membership_key = "memberOf"; for another attribute, ldap.custom_ldap_query',
            lambda key: key.lower() not in {"", "memberof"},
            applies=True,
        ),
        "ldap.group_class_key": Removed(
            "groupOfNames",
            "every entry with ldap.group_membership_key is a group; for others, write ldap.custom_ldap_query",
            lambda name: name.lower() not in _GROUP_CLASSES,
        ),
        "upstream.transport": Removed(
            "sasl", "write upstream.address as a JDBC URL, with ;transportMode=http or ;auth=noSasl", applies=True
        ),
        "upstream.http_path": Removed(
            "/cliservice", "write upstream.address as a JDBC URL, with ;httpPath=cliservice", applies=True
        ),
        "upstream.tls": Removed(False, "write upstream.address as a JDBC URL, with ;ssl=true", applies=True),
        "upstream.read_ahead": Removed(True, "pages are read ahead whenever Spark allows it"),
        "engine.master": Removed("local[*]", "write engine.spark.master", applies=True),
        "engine.driver_memory": Removed("2g", "write engine.spark.driver.memory", applies=True),
        "engine.start_timeout": Removed(120.0, "Spark may take 120 seconds to start, and 1800 on a cluster"),
        "engine.silent_seconds": Removed(40.0, "a Spark that accepts no login for 60 seconds is restarted"),
        "storage.check_interval": Removed(600.0, "the storage database is checked every 600 seconds"),
        "storage.listed": Removed(False, "SHOW DATABASES omits the storage database; its tables are found by name"),
        "versions.wait": Removed(300.0, "a refresh waits at most 300 seconds for older versions to be dropped"),
        "refresh.retries": Removed(2, "a refresh that may succeed later is tried twice more"),
        "refresh.retry_wait": Removed(5.0, "the first retry comes after 5 seconds, the second one after 10"),
        "refresh.incremental_from": Removed(
            64 * 2**20, "AUTO considers refreshes by rows from 64 MiB of base tables; the property refresh decides"
        ),
        "jobs.allow_second_schedules": Removed(False, "the shortest interval of a schedule is a minute"),
        "staleness.look_timeout": Removed(300.0, "an observation of a table may take 300 seconds"),
        "staleness.unsure_wait": Removed(
            10.0, "a statement of which it is unknown what it reads waits at most 10 seconds for stale views"
        ),
        "views.scan_interval": Removed(30.0, "the Spark views of a database are listed again after 30 seconds"),
        "limits.http_sessions": Removed(2000, "limits.connections also limits the sessions over HTTP"),
        "limits.request_bytes": Removed(
            16 << 20, "a request may be twice as long as limits.statement_bytes, and at least 16 MiB"
        ),
        "limits.half_read_bytes": Removed(256 << 20, "partially received requests may have 256 MiB together"),
        "limits.operations_per_session": Removed(10_000, "a session may have 10000 open statements"),
        "limits.login_seconds": Removed(30.0, "a new connection must log in within 30 seconds"),
        "limits.stall_seconds": Removed(120.0, "a client that takes no rows for 120 seconds is disconnected"),
        "limits.buffer_bytes": Removed(1 << 20, "1 MiB is buffered for a peer that reads slowly"),
        **{
            f"healing.{name}": Removed(default, f"write healing as a list, {how}", applies=True)
            for name, default, how in (
                *((each, True, f'without "{each}" if this was false') for each in HEALED if each != "show_tables"),
                *((each, False, f'with "{each}" if this was true') for each in ("early_metadata", "ddl_columns")),
                ("show_tables", "auto", 'with "show_tables" for auto and "show_tables_for_all" for on'),
                ("page_bytes", 0, 'with "long_pages" to limit pages to 100 MiB'),
            )
        },
        "rewrite.proof_seconds": Removed(600.0, "write access.rights_seconds", applies=True),
        "result_cache.seconds": Removed(600.0, "write access.rights_seconds", applies=True),
        "rewrite.shapes_max": Removed(2_000, "the proofs of 2000 shapes of queries are remembered"),
        "result_cache.entry_bytes": Removed(8 << 20, "a result of at most 8 MiB is kept"),
        "metrics.check_interval": Removed(5.0, "it is checked every 5 seconds whether Spark answers"),
    }
)


def report(name: str, value: Any, source: str) -> str:
    """The warning for a removed setting. Raises ConfigError if the gateway would protect less than it asks for."""
    removed = REMOVED[name]
    text = f"{source}: '{name}' is no longer a setting: {removed.now}."
    if removed.protects_more(value):
        raise ConfigError(f"{text} That protects less than the value {value!r}. Remove the setting to accept it.")
    return f"{text} Its value applies for now." if removed.applies else f"{text} Remove it."


def replaced(removed: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of present settings that removed ones stand for, unless these are `given`, too."""
    found: dict[str, Any] = dict(_parts_of_url(removed, given))
    for name, now in (("engine.master", "engine.spark.master"), ("engine.driver_memory", "engine.spark.driver.memory")):
        if name in removed:
            found[now] = removed[name]
    if healing := {name.partition(".")[2]: value for name, value in removed.items() if name.startswith("healing.")}:
        found["healing"] = _healing(healing)
    if seconds := [removed[name] for name in ("rewrite.proof_seconds", "result_cache.seconds") if name in removed]:
        found["access.rights_seconds"] = min(seconds)
    if removed.get("ldap.user_membership_key"):
        found["ldap.group_membership_key"] = removed["ldap.user_membership_key"]
    if "ldap.guid_key" in removed and (base := given.get("ldap.base_dn", "").strip()):
        found["ldap.user_dn_pattern"] = f"{removed['ldap.guid_key']}=%s,{base}"
    return {name: value for name, value in found.items() if name not in given or name == "upstream.address"}


def _parts_of_url(removed: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    address = given.get("upstream.address", "")
    if not address:
        return
    place = upstream_url.place_of(address)
    wanted = replace(place, tls=place.tls or removed.get("upstream.tls", False))
    if wanted.transport == "sasl":
        wanted = replace(wanted, transport=removed.get("upstream.transport", "sasl"))
    if wanted.http_path == upstream_url.DEFAULT_PATH:
        wanted = replace(wanted, http_path=removed.get("upstream.http_path", upstream_url.DEFAULT_PATH))
    if wanted != place:
        yield "upstream.address", str(wanted)


def _healing(old: Mapping[str, Any]) -> list[str]:
    """The list for these switches, of which the others have their defaults."""
    names = {*HEALED, "early_metadata", "ddl_columns"}
    defaults = {name: name in HEALED for name in names}
    chosen = [name for name in defaults if name != "show_tables" and old.get(name, defaults[name])]
    show_tables = {"auto": ["show_tables"], "on": ["show_tables_for_all"]}.get(old.get("show_tables", "auto"), [])
    return [*sorted(chosen), *show_tables, *(["long_pages"] if old.get("page_bytes") else [])]
