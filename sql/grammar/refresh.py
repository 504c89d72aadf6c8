"""Parses the clauses of CREATE and ALTER that set when and how a view is refreshed, and clauses that set a property.

Tests: `test_parser`.
"""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from sql.grammar import intervals
from sql.grammar.cursor import Grammar, listed
from sql.grammar.view_properties import IN_MEMORY, REWRITE
from sql.statement import Method, Refreshing, Schedule, Trigger, WhenStale

METHODS = {
    "AUTO": Method.AUTO,
    "FORCE": Method.AUTO,
    "COMPLETE": Method.COMPLETE,
    "FULL": Method.COMPLETE,
    "INCREMENTAL": Method.INCREMENTAL,
    "FAST": Method.INCREMENTAL,
}
"""The methods in CREATE and ALTER. (In a REFRESH statement FORCE means COMPLETE: see parser.)"""
_NOT_SUPPORTED = ("PARTITIONS",)
LONGEST_SECONDS = 100 * 365 * 86_400
_UNITS = tuple(unit for unit in intervals.SECONDS if unit != "SECOND")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}(?::\d{2})?)?", re.ASCII)
_CRON_FIELD = re.compile(
    r"(?:[0-9*/,?#LWC-]|JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC|SUN|MON|TUE|WED|THU|FRI|SAT)+", re.ASCII
)


def refreshing(grammar: Grammar) -> Refreshing:
    """Parses what follows REFRESH: a method, a trigger, or both."""
    if grammar.accept("POLICY"):
        return Refreshing(method=_policy(grammar))
    found, given = method(grammar), Refreshing()
    if grammar.accept("ON"):
        given = _trigger_after_on(grammar)
    elif accept_lag(grammar):
        given = target_lag(grammar)
    elif found is None:
        given = _starrocks_trigger(grammar)
    if found is None and given.trigger is None:
        raise grammar.problem("AUTO, INCREMENTAL, COMPLETE, ON with a trigger or TARGET LAG after REFRESH")
    return replace(given, method=found)


def method(grammar: Grammar) -> Method | None:
    """Consumes a method; None if no method comes next. Methods that other databases have are refused by name."""
    if (word := next((word for word in _NOT_SUPPORTED if grammar.sees(word)), None)) is not None:
        advice = "use AUTO (the cheapest method), INCREMENTAL or COMPLETE"
        raise grammar.refusal(f"the method {word} is not supported: {advice}")
    if grammar.accept("INCREMENTAL", "FALLBACK"):
        return Method.INCREMENTAL_FALLBACK
    word = grammar.accept_any(*METHODS)
    return None if word is None else METHODS[word]


def _policy(grammar: Grammar) -> Method:
    """Parses what follows Databricks' REFRESH POLICY. There, only INCREMENTAL STRICT rules out other methods."""
    if grammar.accept("INCREMENTAL"):
        return Method.INCREMENTAL if grammar.accept("STRICT") else Method.INCREMENTAL_FALLBACK
    if (found := method(grammar)) is None:
        raise grammar.problem("AUTO, INCREMENTAL or FULL after REFRESH POLICY")
    return found


def _trigger_after_on(grammar: Grammar) -> Refreshing:
    word = grammar.expect_any("MANUAL", "DEMAND", "COMMIT", "SCHEDULE", after="ON")
    if word == "SCHEDULE":
        if grammar.sees("CRON"):
            raise grammar.problem("EVERY (a cron expression is written SCHEDULE CRON '0 4 * * *', without ON)")
        grammar.expect("EVERY")
        return Refreshing(trigger=Trigger.SCHEDULE, schedule=_every(grammar))
    return on_update(grammar) if word == "COMMIT" else Refreshing(trigger=Trigger.MANUAL)


def _starrocks_trigger(grammar: Grammar) -> Refreshing:
    """MANUAL, or ASYNC [[START ('…')] EVERY (INTERVAL n unit)]. ASYNC alone means at each change of a base table."""
    if grammar.accept("MANUAL"):
        return Refreshing(trigger=Trigger.MANUAL)
    if not grammar.accept("ASYNC"):
        return Refreshing()
    starts = None
    if grammar.accept("START"):
        grammar.expect("(")
        starts = start_time(grammar)
        grammar.expect(")")
    elif not grammar.sees("EVERY"):
        return on_update(grammar)
    grammar.expect("EVERY")
    grammar.expect("(")
    grammar.expect("INTERVAL")
    every, unit = _number_of_units(grammar)
    grammar.expect(")")
    return Refreshing(trigger=Trigger.SCHEDULE, schedule=Schedule(every, unit, starts))


def schedule(grammar: Grammar) -> Refreshing:
    """Parses what follows Databricks' SCHEDULE: [REFRESH] EVERY n unit, or CRON with an optional time zone."""
    grammar.accept("REFRESH")
    if grammar.expect_any("EVERY", "CRON", after="SCHEDULE") == "EVERY":
        return Refreshing(trigger=Trigger.SCHEDULE, schedule=_every(grammar))
    fields = _cron(grammar)
    zone = _time_zone(grammar) if grammar.accept("AT", "TIME", "ZONE") else None
    return Refreshing(trigger=Trigger.SCHEDULE, schedule=Schedule(cron=fields, time_zone=zone))


def on_update(grammar: Grammar) -> Refreshing:
    """Parses what follows ON COMMIT, or Databricks' TRIGGER ON UPDATE: its option AT MOST EVERY."""
    return Refreshing(trigger=Trigger.COMMIT, at_most=_at_most(grammar))


def accept_lag(grammar: Grammar) -> bool:
    """Consumes the first words of a target lag: Snowflake writes TARGET_LAG."""
    return grammar.accept("TARGET", "LAG") or grammar.accept("TARGET_LAG")


def target_lag(grammar: Grammar) -> Refreshing:
    """Parses what follows TARGET LAG or TARGET_LAG: how old rows may be, or DOWNSTREAM; and AT MOST EVERY."""
    grammar.accept("=")
    place = grammar.position
    if grammar.accept("DOWNSTREAM"):
        if grammar.sees("AT", "MOST"):
            advice = "give it to the views that read this one, by whose lags it is refreshed"
            raise grammar.refusal(f"AT MOST EVERY has no meaning with TARGET LAG DOWNSTREAM: {advice}")
        return Refreshing(trigger=Trigger.LAG)
    return Refreshing(trigger=Trigger.LAG, lag=_whole_seconds(grammar, place), at_most=_at_most(grammar))


def _at_most(grammar: Grammar) -> int | None:
    """Consumes AT MOST EVERY and an interval, if they come next."""
    if not grammar.accept("AT", "MOST"):
        return None
    grammar.expect("EVERY")
    return _whole_seconds(grammar, grammar.position)


def _whole_seconds(grammar: Grammar, place: int) -> int:
    total = intervals.seconds(grammar)
    if total != int(total) or not 1 <= total <= LONGEST_SECONDS:
        raise grammar.refusal(
            "the interval must be of whole seconds, at least one, and of less than a hundred years: write '10 minutes'",
            place,
        )
    return int(total)


def _every(grammar: Grammar) -> Schedule:
    every, unit = _number_of_units(grammar)
    return Schedule(every, unit, start_time(grammar) if grammar.accept("STARTS") else None)


def _number_of_units(grammar: Grammar) -> tuple[int, str]:
    number = grammar.expect_number("how often after EVERY")
    piece = grammar.peek()
    unit = "" if piece is None or piece.kind != "word" else intervals.unit_word(piece.text)
    if unit not in intervals.SECONDS:
        raise grammar.problem(f"a unit of the schedule ({listed(_UNITS)})")
    grammar.take()
    return number, unit


def start_time(grammar: Grammar) -> str:
    """A time as a string `yyyy-MM-dd[ HH:mm[:ss]]`, with a blank or a T between; returned with seconds."""
    place = grammar.position
    text = grammar.expect_string("a time such as '2030-01-31 04:00:00'")
    try:
        if _TIME.fullmatch(text.strip()) is None:
            raise ValueError
        return datetime.fromisoformat(text.strip()).isoformat(sep=" ")
    except ValueError:
        raise grammar.refusal(f"'{text}' is not a time: write it as '2030-01-31 04:00:00'", place) from None


def _cron(grammar: Grammar) -> str:
    place = grammar.position
    text = " ".join(grammar.expect_string("a cron expression as a string").split())
    fields = text.upper().split(" ")
    if not 5 <= len(fields) <= 7:
        raise grammar.refusal(
            f"'{text}' is not a cron expression: it has {len(fields)} field{'s' * (len(fields) != 1)}; use 5 (minute "
            "hour day month weekday), 6 (with a second before them) or 7 (with a year after them)",
            place,
        )
    if (wrong := next((field for field in fields if not _CRON_FIELD.fullmatch(field)), None)) is not None:
        raise grammar.refusal(
            f"'{text}' is not a cron expression: the field '{wrong}' is invalid. Fields consist of numbers, names of "
            "three letters such as MON or JAN, and * , - / ? # L",
            place,
        )
    return text


def _time_zone(grammar: Grammar) -> str:
    place = grammar.position
    text = grammar.expect_string("a time zone as a string")
    try:
        return zoneinfo.ZoneInfo(text).key
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise grammar.refusal(f"'{text}' is not a time zone: write it as 'Europe/Berlin' or 'UTC'", place) from None


# --- clauses that set a property ---------------------------------------------------------------------


def _grace_period(grammar: Grammar) -> tuple[str, str]:
    return "grace_period", intervals.text_of(intervals.seconds(grammar))


def _when_stale(grammar: Grammar) -> tuple[str, str]:
    return "when_stale", str(grammar.expect_any(*WhenStale, after="WHEN STALE"))


PROPERTY_CLAUSES: dict[tuple[str, ...], Callable[[Grammar], tuple[str, str]]] = {
    ("GRACE", "PERIOD"): _grace_period,
    ("WHEN", "STALE"): _when_stale,
    ("ENABLE", "REWRITE"): lambda _: (REWRITE, "true"),
    ("ENABLE", "QUERY", "REWRITE"): lambda _: (REWRITE, "true"),
    ("DISABLE", "REWRITE"): lambda _: (REWRITE, "false"),
    ("DISABLE", "QUERY", "REWRITE"): lambda _: (REWRITE, "false"),
    ("IN", "MEMORY"): lambda _: (IN_MEMORY, "true"),
    ("NOT", "IN", "MEMORY"): lambda _: (IN_MEMORY, "false"),
}
"""Clauses that set a property, by their first words."""


def property_clause(grammar: Grammar) -> tuple[str, str] | None:
    """Consumes a clause such as GRACE PERIOD and returns its property (name, value); None if none comes next."""
    for words, clause in PROPERTY_CLAUSES.items():
        if grammar.accept(*words):
            return clause(grammar)
    return None
