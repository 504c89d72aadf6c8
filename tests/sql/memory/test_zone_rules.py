"""Tests of conversions between instants and local times, against another implementation of java.time's rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import duckdb
import pytest

from sql.memory.engine_texts import NotListed, Text, listed
from sql.memory.scalars import EngineScope, ValuesBelow
from sql.memory.zone_questions import EARLY, LAST, LATE, USUAL, ZoneSurvey, check, check_answer, search, survey
from sql.memory.zone_rules import DAY, MICROS, UTC_RULES, IrregularZone, OffsetSteps, ZoneRules
from sql.memory.zone_texts import ZoneTexts

ZONES = {
    "Europe/Berlin": (1979, 1981),
    "America/Sao_Paulo": (2017, 2019),
    "Asia/Kolkata": (1941, 1946),
    "Australia/Lord_Howe": (2022, 2023),
    "Pacific/Apia": (2010, 2013),
    "America/Toronto": (1918, 1920),
    "America/Havana": (2011, 2012),
    "Europe/Amsterdam": (1936, 1938),
    "Africa/Casablanca": (2023, 2024),
}
EPOCH = datetime(1970, 1, 1)
SECONDS = (0, 1, 600, 1799, 1800, 3599, 3600, 5400, 7200, 43_200, 82_800, DAY - 1, DAY)


def offset(zone: str, instant: int) -> int:
    found = datetime.fromtimestamp(instant, ZoneInfo(zone)).utcoffset()
    assert found is not None
    return int(found.total_seconds())


def local_offsets(zone: str, local: int) -> tuple[int, int]:
    """Those before and after a change, if the clocks show the time twice, or skip it."""
    shown = EPOCH + timedelta(seconds=local)
    found = [shown.replace(tzinfo=ZoneInfo(zone), fold=fold).utcoffset() for fold in (0, 1)]
    assert found[0] is not None
    assert found[1] is not None
    return int(found[0].total_seconds()), int(found[1].total_seconds())


@cache
def rules(zone: str) -> ZoneRules:
    """In the years of the list."""
    low, high = (int((datetime(year, 1, 1) - EPOCH).total_seconds()) for year in ZONES[zone])
    pieces = [(low, offset(zone, low))]
    for hour in range(low, high, 3600):
        if (found := offset(zone, hour + 3600)) != pieces[-1][1]:
            start = next(each for each in range(hour, hour + 3601) if offset(zone, each) == found)
            pieces.append((start, found))
    starts, values = zip(*pieces, strict=True)
    return ZoneRules.of(zone, OffsetSteps(starts, values, high))


def moments(zone: str) -> Iterator[int]:
    """Instants, or local times, around changes."""
    for start, before, after in rules(zone).changes:
        for each in sorted({*SECONDS, *(-second for second in SECONDS), before - after, after - before}):
            yield start + each
            yield start + before + each
            yield start + after + each


def answers(text: Callable[[Text], Text], times: list[int]) -> list[int | None]:
    """The value of the text, in seconds, for each time. That of NULL is NULL."""
    with duckdb.connect() as engine:
        rows = ", ".join(f"({number}, make_timestamp({each}000000))" for number, each in enumerate(times))
        value = text(Text(("t",))).filled(lambda _: "", lambda _: "")
        asked = f"SELECT epoch_us({value}) // 1000000 FROM (VALUES {rows}) AS v(n, t) ORDER BY n"
        assert engine.execute(asked.replace(rows, "(1, NULL::TIMESTAMP)")).fetchall() == [(None,)]
        return [each for (each,) in engine.execute(asked).fetchall()]


def clocks(zone: str) -> ZoneTexts:
    return ZoneTexts(rules(zone), lambda text: text)


@pytest.mark.parametrize("zone", ZONES)
def test_clocks_show_the_local_time(zone: str) -> None:
    times = list(moments(zone))
    assert answers(clocks(zone).local, times) == [each + offset(zone, each) for each in times]


@pytest.mark.parametrize("zone", ZONES)
def test_a_local_time_is_the_earlier_instant_or_moved_by_what_is_skipped(zone: str) -> None:
    times = list(moments(zone))
    wanted = [each - local_offsets(zone, each)[0] for each in times]
    assert answers(clocks(zone).instant, times) == wanted
    for local, instant in zip(times, wanted, strict=True):
        skipped = instant + offset(zone, instant) != local
        assert rules(zone).instant(local * MICROS + 5) == (None if skipped else instant * MICROS + 5)


@pytest.mark.parametrize("zone", ZONES)
def test_a_day_begins_at_its_first_moment(zone: str) -> None:
    midnights = sorted({each - each % DAY for each in moments(zone)})
    found = answers(clocks(zone).day_begin, midnights)
    for midnight, instant in zip(midnights, found, strict=True):
        assert instant is not None
        assert instant + offset(zone, instant) >= midnight > instant - 1 + offset(zone, instant - 1)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(("unit", "seconds"), [("minute", 60), ("hour", 3600), ("day", DAY)])
def test_a_truncated_time_keeps_its_offset_if_it_can(zone: str, unit: str, seconds: int) -> None:
    times, wanted = list(moments(zone)), list[int]()
    for each in times:
        own = offset(zone, each)
        local = (each + own) // seconds * seconds
        first, second = local_offsets(zone, local)
        overlaps = first > second
        wanted.append(local - (own if overlaps and own in (first, second) else first))
    assert answers(lambda text: clocks(zone).truncated(unit, text), times) == wanted


def test_units_are_those_of_utc_where_clocks_are_changed_by_whole_ones() -> None:
    pieces = [
        (zone, unit)
        for zone in ("Europe/Berlin", "Australia/Lord_Howe", "Europe/Amsterdam")
        for unit in ("minute", "hour")
        if "CASE WHEN t < " in str(clocks(zone).truncated(unit, Text(("t",))))
    ]
    others = [("Australia/Lord_Howe", "hour"), ("Europe/Amsterdam", "minute"), ("Europe/Amsterdam", "hour")]
    assert pieces == others


def test_texts_fail_beyond_the_known_rules() -> None:
    known = rules("Europe/Berlin").by_instant
    for outside in (known.starts[0] - 1, known.end):
        for text in (
            clocks("Europe/Berlin").local,
            clocks("Europe/Berlin").instant,
            clocks("Europe/Berlin").day_begin,
            lambda each: clocks("Europe/Berlin").truncated("hour", each),
        ):
            with pytest.raises(duckdb.Error, match="beyond the known rules"):
                answers(text, [outside])
    assert rules("Europe/Berlin").instant(known.end * MICROS) is None


def test_a_zone_of_which_nothing_is_known_is_refused() -> None:
    unknown = ZoneTexts(ZoneRules.unknown("Moon/Tycho").within(0, DAY), lambda text: text)
    for text in (unknown.local, unknown.day_begin, lambda each: unknown.truncated("hour", each)):
        with pytest.raises(NotListed, match="Moon/Tycho, of which too little is known"):
            text(Text(("t",)))
    assert ZoneRules.unknown("Moon/Tycho").instant(0) is None


def test_utc_needs_no_text() -> None:
    utc = ZoneTexts(UTC_RULES, lambda text: text)
    for text in (utc.local, utc.instant, utc.day_begin):
        assert text(Text(("t",))) == Text(("t",))
    assert UTC_RULES.instant(-5) == -5
    assert UTC_RULES.within(0, 1) is UTC_RULES


def test_values_that_are_written_often_are_computed_once() -> None:
    below = ValuesBelow(iter(("v1", "v2", "v3")).__next__)
    scope = EngineScope({}, zone=rules("Europe/Berlin"), below=below)
    texts = ZoneTexts(scope.zone, scope.kept)
    month = Text(("date_trunc('month', t)",))
    found = [texts.day_begin(month), texts.day_begin(month), texts.local(Text(("t",)))]
    assert [str(each) for each in found] == ["v2", "v2", "v3"]
    rows = str(below.source(Text(("SELECT t FROM r",))))
    assert rows.count("date_trunc") == 1
    assert rows.endswith("FROM (SELECT *, date_trunc('month', t) AS v1 FROM (SELECT t FROM r)))")


def test_a_long_text_is_not_written_often() -> None:
    long = ZoneTexts(rules("Europe/Berlin"), lambda text: text).local(Text(("t",)))
    texts = ZoneTexts(rules("Europe/Berlin"), EngineScope({}).kept)
    with pytest.raises(NotListed, match="a time from a computed time"):
        texts.local(listed([long, long, long], "+"))


def test_rules_for_some_years_are_the_same() -> None:
    whole = rules("America/Sao_Paulo")
    ((_, change, *_), (start, *_)) = whole.by_instant.starts, whole.by_instant.starts
    near = whole.within(change - 40 * DAY, change + 40 * DAY)
    assert [each for each, *_ in near.changes] == [change]
    assert near.by_instant.starts[0] % DAY == near.by_instant.end % DAY == 0
    for each in range(change - 30 * DAY, change + 30 * DAY, 1800):
        assert near.by_instant.at(each) == whole.by_instant.at(each)
        assert near.by_local.at(each) == whole.by_local.at(each)
        assert near.by_midnight.at(each - each % DAY) == whole.by_midnight.at(each - each % DAY)
    assert not whole.within(start - 90 * DAY, start - 80 * DAY).is_known


@pytest.mark.parametrize(
    ("zone", "wrong"),
    [
        ("Europe/Berlin", "later offset"),
        ("Australia/Lord_Howe", "later offset"),
        ("America/Toronto", "days as other times"),
        ("Europe/Berlin", "a second late"),
        ("Pacific/Apia", "a second late"),
    ],
)
def test_wrong_rules_are_seen(zone: str, wrong: str) -> None:
    """The comparisons above differ."""
    known, times = rules(zone), list(moments(zone))
    by_local, by_midnight, by_instant = known.by_local, known.by_midnight, known.by_instant
    if wrong == "later offset":
        starts = [start + min(before, after) for start, before, after in known.changes]
        by_local = replace(by_local, starts=(by_local.starts[0], *starts))
    elif wrong == "a second late":
        by_instant = replace(by_instant, starts=(by_instant.starts[0], *(each + 1 for each in by_instant.starts[1:])))
    else:
        by_midnight = by_local
    planted = ZoneTexts(ZoneRules(zone, by_instant, by_local, by_midnight), lambda text: text)
    midnights = [each - each % DAY for each in times]
    found = [
        answers(planted.local, times) == answers(clocks(zone).local, times),
        answers(planted.instant, times) == answers(clocks(zone).instant, times),
        answers(planted.day_begin, midnights) == answers(clocks(zone).day_begin, midnights),
    ]
    assert found == [wrong != "a second late", wrong != "later offset", wrong != "days as other times"]


# --- questions -----------------------------------------------------------------------------------------------------


def first_rows(*offsets: tuple[int, int]) -> list[tuple[object, ...]]:
    """The rows of a survey that has seen no change within USUAL and LAST."""
    grids = (EARLY, USUAL, LATE, LAST)
    return [(number, grid.low, *found) for number, (grid, found) in enumerate(zip(grids, offsets, strict=True))]


def test_rules_are_made_from_what_spark_tells() -> None:
    change = 1_000_000
    rows = [*first_rows((100, 100), (100, 100), (3600, 7200), (3600, 3600)), (1, change - 9, 100, 3600)]
    found = ZoneSurvey("Some/Zone", rows)
    assert found.changing == [change - 9]
    known = found.rules([(change - 1, 100, 3600)])
    assert known.by_instant.starts == (EARLY.low, change, LATE.low, LAST.low)
    assert known.by_instant.values == (100, 3600, None, 3600)
    assert known.by_instant.end == LAST.high
    assert "range(-62135596800, -5364662400, 2419200)" in survey("Some/Zone")
    assert "VALUES (5L), (7L)" in search("Some/Zone", [5, 7], 60, 1)
    # Beside what is not known, a day is left out.
    assert known.by_local.at(LATE.low - DAY - 1) == 3600
    assert known.by_local.at(LATE.low - DAY) is known.by_local.at(LAST.low + DAY - 1) is None
    assert known.by_local.at(LAST.low + DAY) == 3600


def test_a_zone_without_further_changes_is_known_for_ever() -> None:
    known = ZoneSurvey("+01:00", first_rows(*[(3600, 3600)] * 4)).rules([])
    assert known.by_instant == OffsetSteps((EARLY.low,), (3600,), LAST.high)
    changed = ZoneSurvey("Some/Zone", first_rows((0, 60), *[(3600, 3600)] * 3)).rules([])
    assert changed.by_instant == OffsetSteps((USUAL.low,), (3600,), LAST.high)


@pytest.mark.parametrize("zone", [each for each in ZONES if each != "Asia/Kolkata"])
def test_other_rules_for_local_times_are_found(zone: str) -> None:
    """Those of the later offset where the clocks show a time twice, or of the offset after what they skip."""
    known = rules(zone)
    times = [int(each.strip("(L)")) for each in check(known).partition("VALUES ")[2].partition(" AS t")[0].split(", ")]
    times = [each for each in times if known.by_local.at(each) is not None]
    java = [(each, local_offsets(zone, each)[0]) for each in times]
    check_answer(known, java)
    for wrong in (min, max):
        with pytest.raises(IrregularZone):
            check_answer(known, [(each, wrong(local_offsets(zone, each))) for each in times])


def test_clocks_that_are_changed_too_quickly_are_refused() -> None:
    with pytest.raises(IrregularZone):
        ZoneRules.of("Some/Zone", OffsetSteps((0, 10 * DAY, 10 * DAY + 1800), (0, 3600, 0), 20 * DAY))
