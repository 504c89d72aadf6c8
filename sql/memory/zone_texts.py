"""Texts for the engine that convert between instants and the local times of a time zone.

Outside of the times for which the rules are given, these texts fail.

Tests: `test_zone_rules`, `test_translation`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sql.memory.engine_texts import NotListed, Text, listed, sql
from sql.memory.zone_rules import DAY, OffsetSteps, ZoneRules

_ARMS = 24
"""Of one CASE: those of ten years, where clocks are changed twice a year."""
_UNITS = {"minute": 60, "hour": 3600}
_FAILS = "error('a time beyond the known rules of the time zone')"


@dataclass(frozen=True, slots=True)
class ZoneTexts:
    """Instants and local times are values of the engine's type TIMESTAMP."""

    zone: ZoneRules
    kept: Callable[[Text], Text]
    """The name of a value that is computed once, or its text: parts of the texts here are written many times."""

    def local(self, instant: Text) -> Text:
        """The local time that the clocks show at an instant."""
        return self._moved(self.kept(instant), self.zone.by_instant, "+")

    def instant(self, local: Text) -> Text:
        """As `LocalDateTime.atZone`."""
        return self._moved(self.kept(local), self.zone.by_local, "-")

    def day_begin(self, midnight: Text) -> Text:
        """As `LocalDate.atStartOfDay`."""
        return self._moved(self.kept(midnight), self.zone.by_midnight, "-")

    def truncated(self, unit: str, instant: Text) -> Text:
        """As `ZonedDateTime.truncatedTo`, with a minute, hour or day: the offset remains if the clocks show the local
        time at it."""
        if self.zone.is_utc or (self.zone.is_known and unit in _UNITS and self._whole(_UNITS[unit])):
            return self._known(instant, sql(f"date_trunc('{unit}', ?)", instant))
        instant = self.kept(instant)
        local = self.local(instant)
        truncated = self.kept(sql(f"date_trunc('{unit}', ?)", local))
        if unit == "day" and not self._shows_midnight_twice():
            return self.instant(truncated)
        same = self.kept(sql("make_timestamp(epoch_us(?) + epoch_us(?) - epoch_us(?))", instant, truncated, local))
        text = "CASE WHEN ? = ? THEN ? ELSE ? END"
        return sql(text, self.local(same), truncated, same, self.instant(truncated))

    def _whole(self, unit: int) -> bool:
        """Whether the clocks are changed only at, and by, whole units: so units are those of UTC."""
        known = self.zone.by_instant
        return all(start % unit == 0 for start in known.starts[1:]) and all(
            value is not None and value % unit == 0 for value in known.values
        )

    def _shows_midnight_twice(self) -> bool:
        """Or may do so."""
        for start, before, after in self.zone.changes:
            first, last = start + after, start + before
            if first < last and -(-first // DAY) * DAY < last:
                return True
        return False

    def _moved(self, time: Text, steps: OffsetSteps, sign: str) -> Text:
        if self.zone.is_utc:
            return time
        if not self.zone.is_known:
            raise NotListed(f"it uses times in the time zone {self.zone.name}, of which too little is known")
        moved = sql(f"make_timestamp(epoch_us(?) {sign} ?)", time, _offset(time, steps))
        return self.kept(_guarded(time, steps, moved))

    def _known(self, instant: Text, value: Text) -> Text:
        return value if self.zone.is_utc else _guarded(self.kept(instant), self.zone.by_instant, value)


def _guarded(time: Text, steps: OffsetSteps, value: Text) -> Text:
    """The value if the time is one of those that are known."""
    low, high = _moment(steps.starts[0]), _moment(steps.end)
    known = f"? >= {low} AND ? < {high}"
    return sql(f"CASE WHEN {known} THEN ? WHEN ? IS NOT NULL THEN {_FAILS} END", time, time, value, time)


def _offset(time: Text, steps: OffsetSteps) -> Text:
    """The offset, in microseconds, at a time that is not NULL and not beyond the steps."""
    pieces = [(start, Text((_FAILS if value is None else f"{value}000000",))) for start, value in steps.pieces]
    while len(pieces) > 1:
        # One CASE with all of them would be read from its beginning for each row.
        parts = [pieces[place : place + _ARMS] for place in range(0, len(pieces), _ARMS)]
        pieces = [(part[0][0], _chosen(time, part)) for part in parts]
    return pieces[0][1]


def _chosen(time: Text, pieces: Sequence[tuple[int, Text]]) -> Text:
    """The text of the piece that a time is in, which is not before the first one."""
    *others, last = (text for _, text in pieces)
    ends = (start for start, _ in pieces[1:])
    arms = [sql(f"WHEN ? < {_moment(end)} THEN ?", time, text) for end, text in zip(ends, others, strict=True)]
    return sql("CASE ? ELSE ? END", listed(arms, " "), last) if arms else last


def _moment(seconds: int) -> str:
    return f"make_timestamp({seconds}000000)"
