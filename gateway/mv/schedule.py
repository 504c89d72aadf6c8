"""When a view's refresh job runs next: EVERY n units, and cron expressions, by the triggers of APScheduler.

Moments are milliseconds since the epoch. What a schedule says in local time is meant in its own time zone, where it
names one, and otherwise in the gateway's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from apscheduler.triggers.combining import OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger

from sql.statement import Schedule

UNIX_FIELDS = 5
SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600}
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LIMITS = {
    "second": (0, 59),
    "minute": (0, 59),
    "hour": (0, 23),
    "day": (1, 31),
    "month": (1, 12),
    "year": (1970, 2099),
}
_PART = re.compile(r"(\*|\w+)(?:-(\w+))?(?:/(\d+))?")
_NTH = ("1st", "2nd", "3rd", "4th", "5th")


class UnknownSchedule(Exception):
    """A schedule that cannot be run; the message says which part of it, to follow "the schedule …: "."""


def next_run(schedule: Schedule, anchor: int, after: int, zone: tzinfo) -> int | None:
    """The first moment later than `after` at which the schedule says to run; None where there is none any more.

    `anchor` is when the job was made: from there EVERY counts, where STARTS says nothing. Raises UnknownSchedule.
    """
    # The triggers give moments from the one that they are asked about on.
    asked = datetime.fromtimestamp((after + 1) / 1000, zone)
    found = _trigger(schedule, anchor, asked, zone).get_next_fire_time(None, asked)
    return None if found is None else round(found.timestamp() * 1000)


def check(schedule: Schedule, zone: tzinfo) -> None:
    """Raises UnknownSchedule where the schedule cannot be run, or never runs."""
    now = int(datetime.now(UTC).timestamp() * 1000)
    first = next_run(schedule, now, now, zone)
    if first is None:
        raise UnknownSchedule("it names no moment that is still to come")
    # A step that is too long shows only from the first moment on.
    next_run(schedule, now, first, zone)


def runs_within_minutes(schedule: Schedule) -> bool:
    """Whether it is a cron expression of Quartz' form that runs more than once in a minute."""
    fields = (schedule.cron or "").split()
    return len(fields) > UNIX_FIELDS and not fields[0].isdigit()


def _trigger(schedule: Schedule, anchor: int, asked: datetime, zone: tzinfo) -> BaseTrigger:
    try:
        if schedule.cron is not None:
            return _cron(schedule.cron, ZoneInfo(schedule.time_zone) if schedule.time_zone else zone)
        every, unit = schedule.every or 1, schedule.unit or "MINUTE"
        if schedule.starts is None:
            start = datetime.fromtimestamp(anchor // 1000, zone)
        else:
            start = datetime.fromisoformat(schedule.starts).replace(tzinfo=zone)
        if unit in SECONDS:
            return IntervalTrigger(seconds=every * SECONDS[unit], start_date=start, timezone=zone)
        return _every_days(every * (7 if unit == "WEEK" else 1), start, asked, zone)
    except (OverflowError, ValueError, ZoneInfoNotFoundError) as error:
        raise UnknownSchedule(f"it cannot be counted ({error})") from error


def _every_days(days: int, start: datetime, asked: datetime, zone: tzinfo) -> BaseTrigger:
    """At the same time of the day, however long the days are."""
    # The trigger begins with its first day, whatever it is asked: that is the first one not past.
    passed = max(0, (asked.date() - start.date()).days)
    first = start.date() + timedelta(days=-(-passed // days) * days)
    if datetime.combine(first, start.time(), zone) < asked:
        first += timedelta(days=days)
    return CalendarIntervalTrigger(
        days=days, hour=start.hour, minute=start.minute, second=start.second, start_date=first, timezone=zone
    )


# --- cron ------------------------------------------------------------------------------------------------


def _cron(text: str, zone: tzinfo) -> BaseTrigger:
    """Unix' five fields, or Quartz' six or seven, which begin with the second and may end with a year.

    Unix runs where either the day of the month or the weekday fits, if both are restricted; Quartz wants one of them
    to be `?`.
    """
    fields = text.lower().split()
    unix = len(fields) == UNIX_FIELDS
    second, minute, hour, day, month, weekday, year = [*(["0", *fields] if unix else fields), "*"][:7]
    plain = {
        "second": _numbers("second", second),
        "minute": _numbers("minute", minute),
        "hour": _numbers("hour", hour),
        "month": _numbers("month", month),
        "year": _numbers("year", year),
    }
    of_month = {"day": _days(day)} if day not in {"*", "?"} else {}
    of_week = _weekdays(weekday, first=0 if unix else 1) if weekday not in {"*", "?"} else {}
    if unix and of_month and of_week:
        return OrTrigger([_cron_trigger({**plain, **days}, zone) for days in (of_month, of_week)])
    if "day" in of_month and "day" in of_week:
        raise UnknownSchedule(f"'{day}' and '{weekday}' cannot both say the day; write ? for one of them")
    return _cron_trigger({**plain, **of_month, **of_week}, zone)


def _cron_trigger(fields: dict[str, str], zone: tzinfo) -> CronTrigger:
    try:
        return CronTrigger(timezone=zone, **fields)
    except ValueError as error:
        raise UnknownSchedule(str(error)) from error


def _numbers(field: str, text: str) -> str:
    """`*`, `5`, `1-5`, `*/10`, `0/10` (from 0 on, each tenth), and lists of those."""
    low, high = _LIMITS[field]
    return "*" if text == "*" else ",".join(map(str, sorted({*_listed(text, low, high)})))


def _listed(text: str, low: int, high: int) -> Iterator[int]:
    for part in text.split(","):
        found = _PART.fullmatch(part)
        if found is None:
            raise UnknownSchedule(f"'{part}' is no part of a cron expression that is understood here")
        start, end, step = found.groups()
        first = low if start == "*" else _number(start)
        last = _number(end) if end else high if start == "*" or step else first
        if not (low <= first <= last <= high and int(step or 1) > 0):
            raise UnknownSchedule(f"'{part}' is not within {low} to {high}")
        yield from range(first, last + 1, int(step or 1))


def _number(text: str) -> int:
    if text.isdigit():
        return int(text)
    if text in _MONTHS:
        return _MONTHS.index(text) + 1
    raise UnknownSchedule(f"'{text}' is not a number")


def _days(text: str) -> str:
    """Days of the month; `L` is the last one."""
    if text == "l":
        return "last"
    return _numbers("day", text)


def _weekdays(text: str, first: int) -> dict[str, str]:
    """Days of the week; the number of Sunday is `first`, in Unix also 7. Quartz' `6L` is the last Friday of a month,
    `6#3` the third one."""
    if found := re.fullmatch(r"(\w+)#([1-5])", text):
        return {"day": f"{_NTH[int(found[2]) - 1]} {_DAYS[_weekday(found[1], first)]}"}
    if (found := re.fullmatch(r"(\w+)l", text)) and found[1] not in _DAYS:
        return {"day": f"last {_DAYS[_weekday(found[1], first)]}"}
    chosen: list[str] = []
    for part in text.split(","):
        start, _, step = part.partition("/")
        begin, dash, end = start.partition("-")
        low = 0 if begin == "*" else _weekday(begin, first)
        high = _weekday(end, first) if dash else 6 if begin == "*" or step else low
        if step and not (step.isdigit() and int(step) > 0):
            raise UnknownSchedule(f"'{part}' has no number after the /")
        # sat-mon, and Unix' 5-7, go over the end of the week.
        chosen += [_DAYS[day % 7] for day in range(low, high + (7 if high < low else 0) + 1, int(step or 1))]
    return {"day_of_week": ",".join(dict.fromkeys(chosen))}


def _weekday(text: str, first: int) -> int:
    """0 is Sunday."""
    if text in _DAYS:
        return _DAYS.index(text)
    if text.isdigit() and first <= int(text) <= 7:
        return (int(text) - first) % 7
    raise UnknownSchedule(f"'{text}' is not a day of the week")
