"""The rules of a time zone: which offset from UTC its clocks have when, and which instants its local times are.

Offsets are those that Spark has given (`zone_questions`), so they are the rules of its Java, whichever release of the
time zone database that has. Local times become instants as in java.time: docs/internals/memory.md.

Tests: `test_zone_rules`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

UTC = frozenset({"UTC", "Etc/UTC", "GMT", "Z", "+00:00", "Etc/GMT"})
"""Time zones in which a TIMESTAMP shows its own parts."""
DAY = 86_400
"""Seconds. No offset is as large."""
MICROS = 1_000_000
_EVER = 1 << 62


@dataclass(frozen=True, slots=True)
class OffsetSteps:
    """A function of times, in seconds since 1970-01-01 00:00:00, that is constant from one of them to the next."""

    starts: tuple[int, ...]
    """Where it has another value than before; the first is the first time at which it is known."""
    values: tuple[int | None, ...]
    """From there on; None: not known."""
    end: int
    """From here on it is not known."""

    def at(self, seconds: int) -> int | None:
        place = bisect_right(self.starts, seconds) - 1
        return self.values[place] if place >= 0 and seconds < self.end else None

    def within(self, low: int, high: int) -> OffsetSteps:
        """The same from `low` to before `high`, as far as it is known. One that is known nowhere has no values."""
        low, end = max(low, self.starts[0]), min(high, self.end)
        if low >= end:
            return OffsetSteps((low,), (None,), low)
        place = bisect_right(self.starts, low) - 1
        later = [(start, value) for start, value in self.pieces if low < start < end]
        return OffsetSteps(
            (low, *(start for start, _ in later)), (self.values[place], *(value for _, value in later)), end
        )

    @property
    def pieces(self) -> Iterator[tuple[int, int | None]]:
        return zip(self.starts, self.values, strict=True)


class IrregularZone(ValueError):
    """The clocks of a zone were changed so quickly that the rules here may not be those of java.time."""


@dataclass(frozen=True, slots=True)
class ZoneRules:
    """Offsets, in seconds, that are added to UTC to get the local time."""

    name: str
    """As Spark calls it."""
    by_instant: OffsetSteps
    by_local: OffsetSteps
    """The offset that java.time gives a local time. One that the clocks show twice has the earlier offset, and one that
    they skip the offset before: `LocalDateTime.atZone`."""
    by_midnight: OffsetSteps
    """The offset of the first moment of a day, by its midnight. A day whose midnight is skipped begins when the clocks
    are changed: `LocalDate.atStartOfDay`."""

    @classmethod
    def of(cls, name: str, by_instant: OffsetSteps) -> ZoneRules:
        """Raises IrregularZone."""
        local, midnights = _by_local(by_instant, at_midnight=False), _by_local(by_instant, at_midnight=True)
        return cls(name, by_instant, local, midnights)

    @classmethod
    def unknown(cls, name: str) -> ZoneRules:
        """The rules of a zone of which nothing is known."""
        return cls(name, _NEVER, _NEVER, _NEVER)

    @property
    def is_known(self) -> bool:
        return self.by_instant.starts[0] < self.by_instant.end

    @property
    def is_utc(self) -> bool:
        return self.by_instant == _ALWAYS

    @property
    def changes(self) -> Iterator[tuple[int, int, int]]:
        """When the clocks are changed, the offset before, and the one after it."""
        for start, before, after in _changes(self.by_instant):
            if before is not None and after is not None:
                yield start, before, after

    def within(self, low: int, high: int) -> ZoneRules:
        """The rules for instants from `low` to before `high`, in seconds, and for the rest of these days."""
        if self.is_utc or not self.is_known:
            return self
        return ZoneRules.of(self.name, self.by_instant.within(low - low % DAY, high + -high % DAY))

    def instant(self, local: int) -> int | None:
        """The instant, in microseconds, of a local time; None if the clocks skip it, or if it is not known."""
        seconds = local // MICROS
        offset = self.by_local.at(seconds)
        if offset is None or self.by_instant.at(seconds - offset) != offset:
            return None
        return local - offset * MICROS


def _by_local(by_instant: OffsetSteps, *, at_midnight: bool) -> OffsetSteps:
    """The piece of an offset ends, in local time, where the next one begins: at the later one of the two times that the
    clocks show then. Raises IrregularZone."""
    starts, values = [by_instant.starts[0] + DAY], [by_instant.values[0]]
    for start, before, after in _changes(by_instant):
        if before is None or after is None:
            # What the clocks show then is not known, but it is less than a day from UTC.
            first = last = start + (DAY if before is None else -DAY)
        else:
            first, last = start + min(before, after), start + max(before, after)
        if len(starts) > 1 and first < starts[-1]:
            raise IrregularZone
        if last <= starts[0]:
            values[0] = after
            continue
        midnight = -(-first // DAY) * DAY
        if at_midnight and starts[-1] < midnight < last and before is not None and after is not None and after > before:
            starts.append(midnight)
            values.append(midnight - start)
        starts.append(last)
        values.append(after)
    return OffsetSteps(tuple(starts), tuple(values), by_instant.end - DAY)


def _changes(by_instant: OffsetSteps) -> Iterator[tuple[int, int | None, int | None]]:
    values = by_instant.values
    return zip(by_instant.starts[1:], values[:-1], values[1:], strict=True)


_NEVER = OffsetSteps((0,), (None,), 0)
_ALWAYS = OffsetSteps((-_EVER,), (0,), _EVER)
UTC_RULES = ZoneRules.of("UTC", _ALWAYS)
