"""When schedules run: intervals over changes of the clock, and cron expressions of Unix and Quartz."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.mv.model.schedule import UnknownSchedule, check, next_run, runs_within_minutes
from sql.statement import Schedule

BERLIN = ZoneInfo("Europe/Berlin")
"""Its clocks went forward on 2026-03-29, from 2:00 to 3:00, and back on 2026-10-25."""


def moment(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp() * 1000)


def runs(schedule: Schedule, after: str, number: int = 3) -> list[str | None]:
    """The next moments, as Berlin's clocks show them; None at the end of a schedule that ends."""
    anchor = last = moment(after)
    found: list[str | None] = []
    while len(found) < number:
        due = next_run(schedule, anchor, last, BERLIN)
        if due is None:
            return [*found, None]
        assert due > last
        found.append(datetime.fromtimestamp(due / 1000, BERLIN).strftime("%Y-%m-%d %H:%M:%S"))
        last = due
    return found


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        (Schedule(10, "MINUTE"), "2026-01-01 00:00:03", ["2026-01-01 00:10:03", "2026-01-01 00:20:03"]),
        (Schedule(1, "DAY"), "2026-01-01 10:20:30", ["2026-01-02 10:20:30", "2026-01-03 10:20:30"]),
        (
            Schedule(10, "HOUR", "2026-01-01 04:00:00"),
            "2026-02-01 00:00:00",
            ["2026-02-01 10:00:00", "2026-02-01 20:00:00"],
        ),
        (
            Schedule(1, "WEEK", "2030-01-31 04:00:00"),
            "2026-01-01 00:00:00",
            ["2030-01-31 04:00:00", "2030-02-07 04:00:00"],
        ),
        # A day is a day, be it of 23 or of 25 hours.
        (
            Schedule(1, "DAY", "2026-01-01 04:00:00"),
            "2026-03-28 12:00:00",
            ["2026-03-29 04:00:00", "2026-03-30 04:00:00"],
        ),
        (
            Schedule(2, "DAY", "2026-10-23 02:30:00"),
            "2026-10-24 12:00:00",
            ["2026-10-25 02:30:00", "2026-10-27 02:30:00"],
        ),
        (
            Schedule(12, "HOUR", "2026-03-28 12:00:00"),
            "2026-03-28 12:00:00",
            ["2026-03-29 00:00:00", "2026-03-29 13:00:00"],
        ),
    ],
)
def test_intervals(schedule: Schedule, after: str, expected: list[str]) -> None:
    assert runs(schedule, after, len(expected)) == expected


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        ("0 4 * * *", ["2026-03-27 04:00:00", "2026-03-28 04:00:00"]),
        ("*/15 9-17 * * 1-5", ["2026-03-27 09:00:00", "2026-03-27 09:15:00"]),
        # Unix: either of two restricted days.
        ("0 4 1 * mon", ["2026-03-30 04:00:00", "2026-04-01 04:00:00", "2026-04-06 04:00:00"]),
        ("0 0 * * 0", ["2026-03-29 00:00:00", "2026-04-05 00:00:00"]),
        ("0 0 * * 7", ["2026-03-29 00:00:00", "2026-04-05 00:00:00"]),
        ("0 0 * * fri-sun", ["2026-03-28 00:00:00", "2026-03-29 00:00:00", "2026-04-03 00:00:00"]),
        ("0 4 * * 0-7", ["2026-03-27 04:00:00", "2026-03-28 04:00:00", "2026-03-29 04:00:00", "2026-03-30 04:00:00"]),
        ("0 4 * * 5-7", ["2026-03-27 04:00:00", "2026-03-28 04:00:00", "2026-03-29 04:00:00", "2026-04-03 04:00:00"]),
        ("0 4 * * 7-1", ["2026-03-29 04:00:00", "2026-03-30 04:00:00", "2026-04-05 04:00:00"]),
        ("0 4 * * 7-7", ["2026-03-29 04:00:00", "2026-04-05 04:00:00"]),
        ("0 4 1 Jan-FEB *", ["2027-01-01 04:00:00", "2027-02-01 04:00:00", "2028-01-01 04:00:00"]),
        ("0 0 29 2 *", ["2028-02-29 00:00:00", "2032-02-29 00:00:00"]),
        # A time that the clocks leave out is made up for.
        ("30 2 29 3 *", ["2026-03-29 03:30:00", "2027-03-29 02:30:00"]),
        # Quartz: seconds first, Sunday is 1.
        ("0 0 4 ? * MON-FRI", ["2026-03-27 04:00:00", "2026-03-30 04:00:00"]),
        ("0 0 4 ? * 1", ["2026-03-29 04:00:00", "2026-04-05 04:00:00"]),
        ("0 0 4 L * ?", ["2026-03-31 04:00:00", "2026-04-30 04:00:00"]),
        ("0 0 4 ? * 7-1", ["2026-03-28 04:00:00", "2026-03-29 04:00:00", "2026-04-04 04:00:00"]),
        ("0 0 4 ? * 6L", ["2026-03-27 04:00:00", "2026-04-24 04:00:00"]),
        ("0 0 4 ? * 6#3", ["2026-04-17 04:00:00", "2026-05-15 04:00:00"]),
        ("30 0/20 * * * ?", ["2026-03-27 00:00:30", "2026-03-27 00:20:30", "2026-03-27 00:40:30"]),
        ("0 0 0 1 JAN ? 2027", ["2027-01-01 00:00:00", None]),
    ],
)
def test_cron(cron: str, expected: list[str | None]) -> None:
    assert runs(Schedule(cron=cron), "2026-03-27 00:00:00", len(expected)) == expected


def test_a_time_zone_of_its_own() -> None:
    tokyo = Schedule(cron="0 4 * * *", time_zone="Asia/Tokyo")
    assert runs(tokyo, "2026-01-01 00:00:00", 1) == ["2026-01-01 20:00:00"]


@pytest.mark.parametrize(
    ("cron", "reason"),
    [
        ("61 * * * *", "out of range: the field minute takes 0 to 59"),
        ("* * * * 9", "not a day of the week"),
        ("0 0 30 2 *", "no time in the future"),
        ("0 0 0 1 1 ? 2020", "no time in the future"),
        ("0 0 0 15W * ?", "'15W' asks for the working day nearest to a date"),
        ("5-1 * * * *", "'5-1' is backwards; .* is written 5-59,0-1$"),
        ("1-99 * * * *", "'1-99' is out of range: the field minute takes 0 to 59"),
        ("*/0 * * * *", "needs a number greater than 0 after the /"),
        ("*-5 * * * *", "not a supported part of a cron expression"),
        ("* * * * */x", "needs a number greater than 0 after the /"),
        ("* * * * 1/", "needs a number greater than 0 after the /"),
        # A month's name is a number in the field of the month alone.
        ("jan 4 * * *", "'jan' in the field minute is not a number"),
        ("0 feb * * *", "'feb' in the field hour is not a number"),
        ("0 4 dec * *", "'dec' in the field day is not a number"),
        ("0 4 * mon *", "'mon' in the field month is not a number or a month's name"),
        ("\N{ARABIC-INDIC DIGIT THREE} 4 * * *", "not a supported part of a cron expression"),
        ("0 4 * * \N{ARABIC-INDIC DIGIT THREE}", "not a day of the week"),
        # Quartz refuses to hear of a day and of a weekday.
        ("0 0 0 1 * 6#2", "cannot both name the day"),
        ("0 0 4 1 * 2", "'1' and '2' cannot both name the day; write \\? for one of them"),
    ],
)
def test_what_is_no_schedule(cron: str, reason: str) -> None:
    with pytest.raises(UnknownSchedule, match=reason):
        check(Schedule(cron=cron), BERLIN)


@pytest.mark.parametrize(
    ("cron", "often"),
    [
        ("* * * * * ?", True),
        ("*/10 0 4 * * ?", True),
        ("0,30 * * * * ?", True),
        ("0 * * * * ?", False),
        ("* * * * *", False),
    ],
)
def test_schedules_of_seconds(cron: str, often: bool) -> None:
    assert runs_within_minutes(Schedule(cron=cron)) is often
    assert not runs_within_minutes(Schedule(1, "MINUTE"))


@given(
    st.builds(Schedule, st.integers(1, 100_000), st.sampled_from(["SECOND", "MINUTE", "HOUR", "DAY", "WEEK"])),
    st.integers(0, 4_000_000_000_000),
    st.integers(0, 10**12),
    st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu"]),
)
def test_an_interval_never_stands_still(schedule: Schedule, anchor: int, later: int, zone: str) -> None:
    """The next moment lies after what is past, and no further than the interval, twice for days that are left out."""
    seconds = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86_400, "WEEK": 604_800}[schedule.unit or ""]
    try:
        due = next_run(schedule, anchor, anchor + later, ZoneInfo(zone))
    except UnknownSchedule:
        return
    assert due is not None
    assert 0 < due - (anchor + later) <= 2 * 1000 * seconds * (schedule.every or 1) + 3_600_000


@given(st.text(alphabet="0123456789*,-/?LW#MONJAN ", max_size=30))
def test_no_text_breaks_it(text: str) -> None:
    fields = text.split()
    if 5 <= len(fields) <= 7:
        with suppress(UnknownSchedule):
            check(Schedule(cron=" ".join(fields)), BERLIN)
