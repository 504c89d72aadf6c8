"""Texts for the engine that convert between instants and the local times of a time zone.

Outside of the times for which the rules are given, these texts fail.

Tests: `test_zone_rules`, `test_translation`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sql.memory.engine_texts import NotListed, Text, sql
from sql.memory.zone_rules import DAY, OffsetSteps, ZoneRules

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
        offset = _offset(time, steps.starts[1:], steps.values)
        return self.kept(_guarded(time, steps, sql(f"make_timestamp(epoch_us(?) {sign} ?)", time, offset)))

    def _known(self, instant: Text, value: Text) -> Text:
        return value if self.zone.is_utc else _guarded(self.kept(instant), self.zone.by_instant, value)


def _guarded(time: Text, steps: OffsetSteps, value: Text) -> Text:
    """The value if the time is one of those that are known."""
    low, high = _moment(steps.starts[0]), _moment(steps.end)
    known = f"? >= {low} AND ? < {high}"
    return sql(f"CASE WHEN {known} THEN ? WHEN ? IS NOT NULL THEN {_FAILS} END", time, time, value, time)


def _offset(time: Text, starts: tuple[int, ...], values: tuple[int | None, ...]) -> Text:
    """The value, in microseconds, of the piece that a time is in, which is not NULL: one more than starts."""
    if not starts:
        return Text((_FAILS if values[0] is None else f"{values[0]}000000",))
    place = len(starts) // 2
    below = _offset(time, starts[:place], values[: place + 1])
    above = _offset(time, starts[place + 1 :], values[place + 1 :])
    return sql(f"CASE WHEN ? < {_moment(starts[place])} THEN ? ELSE ? END", time, below, above)


def _moment(seconds: int) -> str:
    return f"make_timestamp({seconds}000000)"
