"""When a view's refresh job runs next: EVERY n units and cron expressions, computed by APScheduler's triggers.

Times are milliseconds since the epoch. Local times are in the schedule's own time zone if it names one, otherwise in
the gateway's.
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
_PART = re.compile(r"(?:\*|(\w+)(?:-(\w+))?)(?:/(\d+))?", re.ASCII)
_NTH = ("1st", "2nd", "3rd", "4th", "5th")


class UnknownSchedule(Exception):
    """A schedule that cannot be run. The message names the faulty part, to follow "the schedule …: "."""


def next_run(schedule: Schedule, anchor: int, after: int, zone: tzinfo) -> int | None:
    """The first scheduled time later than `after`; None if the schedule has ended. Raises UnknownSchedule.

    `anchor` is when the job was created: EVERY counts from there if there is no STARTS.
    """
    # The triggers return the first time at or after the one they are given.
    asked = datetime.fromtimestamp((after + 1) / 1000, zone)
    found = _trigger(schedule, anchor, asked, zone).get_next_fire_time(None, asked)
    return None if found is None else round(found.timestamp() * 1000)


def check(schedule: Schedule, zone: tzinfo) -> None:
    """Raises UnknownSchedule if the schedule cannot be run, or never runs."""
    now = int(datetime.now(UTC).timestamp() * 1000)
    first = next_run(schedule, now, now, zone)
    if first is None:
        raise UnknownSchedule("it names no time in the future")
    # An interval that is too long fails only after the first run.
    next_run(schedule, now, first, zone)


def runs_within_minutes(schedule: Schedule) -> bool:
    """Whether this is a cron expression in Quartz' form that runs more than once in a minute."""
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
        raise UnknownSchedule(f"it cannot be computed ({error})") from error


def _every_days(days: int, start: datetime, asked: datetime, zone: tzinfo) -> BaseTrigger:
    """Runs at the same time of day, however long the days are."""
    # The trigger always begins at its first day; choose the first one that is not past.
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

    If both the day of the month and the weekday are restricted, Unix runs when either matches. Quartz refuses that and
    requires one of them to be `?`; here `*` is accepted as well.
    """
    fields = text.split()
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
    if of_month and of_week:
        if not unix:
            raise UnknownSchedule(f"'{day}' and '{weekday}' cannot both name the day; write ? for one of them")
        return OrTrigger([_cron_trigger({**plain, **days}, zone) for days in (of_month, of_week)])
    return _cron_trigger({**plain, **of_month, **of_week}, zone)


def _cron_trigger(fields: dict[str, str], zone: tzinfo) -> CronTrigger:
    try:
        return CronTrigger(timezone=zone, **fields)
    except ValueError as error:
        raise UnknownSchedule(str(error)) from error


def _numbers(field: str, text: str) -> str:
    """`*`, `5`, `1-5`, `*/10`, `0/10` (every tenth from 0 on), and lists of those."""
    return "*" if text == "*" else ",".join(map(str, sorted({*_listed(field, text)})))


def _listed(field: str, text: str) -> Iterator[int]:
    low, high = _LIMITS[field]
    for part in text.split(","):
        found = _PART.fullmatch(part)
        if found is None:
            raise UnknownSchedule(f"'{part}' is not a supported part of a cron expression")
        start, end, step = found.groups()
        first = low if start is None else _number(field, start)
        last = _number(field, end) if end else high if start is None or step else first
        if not (low <= first <= high and low <= last <= high):
            raise UnknownSchedule(f"'{part}' is out of range: the field {field} takes {low} to {high}")
        if last < first:
            raise UnknownSchedule(
                f"the range '{start}-{end}' is backwards; a range across the end of the {field}s is written "
                f"{start}-{high},{low}-{end}"
            )
        yield from range(first, last + 1, _step(part, step or "1"))


def _number(field: str, text: str) -> int:
    if text.isascii() and text.isdigit():
        return int(text)
    if field == "month" and text.lower() in _MONTHS:
        return _MONTHS.index(text.lower()) + 1
    if field == "day" and text[-1] in "wW":
        raise UnknownSchedule(f"'{text}' asks for the working day nearest to a date (W), which is not supported")
    named = " or a month's name such as JAN" if field == "month" else ""
    raise UnknownSchedule(f"'{text}' in the field {field} is not a number{named}")


def _step(part: str, text: str) -> int:
    if text.isascii() and text.isdigit() and int(text) > 0:
        return int(text)
    raise UnknownSchedule(f"'{part}' needs a number greater than 0 after the /")


def _days(text: str) -> str:
    """Days of the month; `L` is the last day."""
    if text in {"l", "L"}:
        return "last"
    return _numbers("day", text)


def _weekdays(text: str, first: int) -> dict[str, str]:
    """Days of the week. Sunday is `first`, and in Unix' form also 7. Quartz' `6L` is the last Friday of a month, `6#3`
    the third one."""
    if found := re.fullmatch(r"(\w+)#([1-5])", text):
        return {"day": f"{_NTH[int(found[2]) - 1]} {_DAYS[_weekday(found[1], first) % 7]}"}
    if found := re.fullmatch(r"(\d)[lL]", text):
        return {"day": f"last {_DAYS[_weekday(found[1], first) % 7]}"}
    chosen: list[str] = []
    for part in text.split(","):
        start, slash, step = part.partition("/")
        begin, dash, end = start.partition("-")
        low = 0 if begin == "*" else _weekday(begin, first)
        high = _weekday(end, first) if dash else 6 if begin == "*" or step else low
        # sat-mon wraps around the end of the week. Unix' 0-7 and 5-7 end with 7 for Sunday.
        last = high + (7 if high < low else 0)
        chosen += [_DAYS[day % 7] for day in range(low, last + 1, _step(part, step if slash else "1"))]
    return {"day_of_week": ",".join(dict.fromkeys(chosen))}


def _weekday(text: str, first: int) -> int:
    """The day with Sunday as 0; Unix' 7 stays 7."""
    if text.lower() in _DAYS:
        return _DAYS.index(text.lower())
    if text.isascii() and text.isdigit() and first <= int(text) <= 7:
        return int(text) - first
    raise UnknownSchedule(f"'{text}' is not a day of the week")
