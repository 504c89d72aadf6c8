"""Asks Spark for the rules of a time zone: SQL has no function that lists when clocks are changed, but tells the offset
of any time. So offsets are compared on a grid, and where two neighbours differ, on finer ones.

`from_utc_timestamp` and `to_utc_timestamp` convert by the same functions as everything that depends on the session's
time zone (`SparkDateTimeUtils.getLocalDateTime`, `LocalDateTime.atZone`), and depend on no setting.

Tests: `test_zone_rules`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from sql.memory.zone_rules import IrregularZone, OffsetSteps, ZoneRules

Row = Sequence[object]
NAME = re.compile(r"[\w/+:-]{1,60}", re.ASCII)


class Grid(NamedTuple):
    """Times in seconds since 1970-01-01 00:00:00 UTC, each with the next one."""

    low: int
    high: int
    step: int


def _first_of(year: int, month: int = 1) -> int:
    return int(datetime(year, month, 1, tzinfo=UTC).timestamp())


HALF_DAY, _DAYS = 43_200, 28 * 86_400
"""No zone has ever kept an offset for less than four days, so two changes between neighbours do not go unseen."""
EARLY = Grid(_first_of(1), _first_of(1800), _DAYS)
"""Local mean time. If it were changed, it would be seen, and is not used."""
USUAL = Grid(_first_of(1800), _first_of(2100), HALF_DAY)
LATE = Grid(_first_of(2100), _first_of(9999, 12), _DAYS)
"""The same changes in each year, or none. These points are at other times in each year, so if all of them have the same
offset, there are no changes."""
LAST = Grid(_first_of(9999, 12), _first_of(9999, 12) + 31 * 86_400, HALF_DAY)
"""The days of `9999-12-31`, which stands for what has no end."""
MINUTE = 60


def survey(zone: str) -> str:
    """The query for the offsets on all grids: rows of grid, time, offset, and another one. Of a grid of half days, they
    are the changes: the offset before, and after it; of another one, the least and the greatest offset, at its first
    time."""
    parts = list[str]()
    for number, grid in enumerate(_GRIDS):
        times = f"range({grid.low}, {grid.high}, {grid.step})"
        if grid.step == HALF_DAY:
            one, other = _offset("id", zone), _offset(f"(id + {HALF_DAY})", zone)
            found = f"id, {one}, {other} FROM {times} WHERE id = {grid.low} OR {one} <> {other}"
        else:
            found = f"{grid.low}L, min(offset), max(offset) FROM (SELECT {_offset('id', zone)} AS offset FROM {times})"
        parts.append(f"SELECT {number} AS grid, {found}")
    return " UNION ALL ".join(parts)


def search(zone: str, starts: Sequence[int], length: int, step: int) -> str:
    """The query for the changes within stretches of this length: rows of time, offset, and that a step later."""
    values = ", ".join(f"({each}L)" for each in starts)
    times = f"SELECT explode(sequence(at, at + {length - step}L, {step}L)) AS at FROM VALUES {values} AS t(at)"
    found = f"SELECT at, {_offset('at', zone)} AS one, {_offset(f'at + {step}', zone)} AS other FROM ({times})"
    return f"SELECT * FROM ({found}) WHERE one <> other"


def check(zone: ZoneRules) -> str:
    """The query for the offsets of local times around all changes: rows of local time and offset."""
    values = ", ".join(f"({each}L)" for each in sorted(set(_local_times(zone))))
    instant = f"unix_seconds(to_utc_timestamp(timestamp_seconds(at), '{zone.name}'))"
    return f"SELECT at, at - {instant} FROM VALUES {values} AS t(at)"


def _local_times(zone: ZoneRules) -> Iterator[int]:
    yield 0
    for start, before, after in zone.changes:
        first, last = start + min(before, after), start + max(before, after)
        yield from (first - 1, first, (first + last) // 2, last - 1, last, last + 1)


def check_answer(zone: ZoneRules, rows: Sequence[Row]) -> None:
    """Raises IrregularZone if local times have other offsets in Spark."""
    if any(zone.by_local.at(int(str(at))) != int(str(offset)) for at, offset in rows):
        raise IrregularZone


def _offset(seconds: str, zone: str) -> str:
    return f"unix_seconds(from_utc_timestamp(timestamp_seconds({seconds}), '{zone}')) - ({seconds})"


class ZoneSurvey:
    """What `survey` has found."""

    def __init__(self, zone: str, rows: Sequence[Row]) -> None:
        self._zone = zone
        self._first = dict[int, int]()
        self._changes = dict[int, list[int]]()
        for row in rows:
            number, at, one, other = (int(str(each)) for each in row)
            if at == _GRIDS[number].low:
                # The only one of a grid of days, or the other one is not used.
                self._first[number] = one
            if one != other:
                self._changes.setdefault(number, []).append(at)

    @property
    def changing(self) -> list[int]:
        """Where changes are to be looked for."""
        return sorted(self._changes.get(1, []) + self._changes.get(3, []))

    def rules(self, changes: Sequence[Row]) -> ZoneRules:
        """`changes`: rows of time, offset, and that a second later. Raises IrregularZone."""
        found = sorted((int(str(at)) + 1, int(str(other))) for at, _, other in changes)
        pieces = list[tuple[int, int | None]]()
        if 0 not in self._changes:
            pieces.append((EARLY.low, self._first[0]))
        if 0 in self._changes or self._first[0] != self._first[1]:
            pieces.append((USUAL.low, self._first[1]))
        pieces += [each for each in found if each[0] <= LATE.low]
        if 2 in self._changes:
            pieces += [(LATE.low, None), (LAST.low, self._first[3])]
        pieces += [each for each in found if each[0] > LAST.low]
        starts, values = zip(*pieces, strict=True)
        return ZoneRules.of(self._zone, OffsetSteps(starts, values, LAST.high))


_GRIDS = (EARLY, USUAL, LATE, LAST)
