"""Settings of earlier releases: what replaces each, or its fixed value, for messages to those who still have it.

A removed setting is reported and has no effect, or that of its replacement. It is refused only if the gateway would
protect less than its value asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from gateway.config import ConfigError


@dataclass(frozen=True, slots=True)
class Removed:
    """A setting of an earlier release."""

    default: Any
    """Its former default, whose type its values have."""
    now: str
    """What applies instead, as a sentence without its period."""
    protects_more: Callable[[Any], bool] = lambda _: False
    """Whether a value asks for more protection than there is now."""


def _below(least: float) -> Callable[[Any], bool]:
    return lambda value: value < least


REMOVED: Mapping[str, Removed] = MappingProxyType(
    {
        "listen.http_cookie_seconds": Removed(
            3600.0,
            "a cookie is valid for 3600 seconds, and authentication.remember_seconds = 0 switches cookies off",
            _below(3600),
        ),
        "authentication.refusal_delay": Removed(1.0, "a refusal takes 1 second"),
        "authentication.concurrent_checks": Removed(8, "8 passwords are checked at the same time"),
        "upstream.read_ahead": Removed(True, "pages are read ahead whenever Spark allows it"),
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
    return f"{text} Remove it."
