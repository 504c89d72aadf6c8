"""Conditions of immutable rows: which ones stay true, and what they say of a moment."""

from __future__ import annotations

import pytest

from sql.definition import immutable

STAYING = [
    "day < DATE'2024-01-01'",
    "day < current_date() - INTERVAL 30 DAYS",
    "current_date > day",
    "day <= date_sub(current_date(), 30) AND region IN ('a', 'b')",
    "(day < add_months(current_date, -1)) OR region = 'old'",
    "ts < date_trunc('MONTH', now()) - INTERVAL '1' MONTH",
    "ts < CAST(current_timestamp() AS DATE)",
    "day < to_date(now())",
    "day < trunc(curdate(), 'MM')",
    "day < current_date - 30",
    "day < dateadd(DAY, -30, current_date())",
    "day < last_day(add_months(current_date(), -2))",
    "NOT year(day) > 2020",
    "region IS NULL",
]
MOVING = [
    ("day > current_date()", "column < time"),
    ("day = current_date()", "column < time"),
    ("NOT day < current_date()", "column < time"),
    ("day NOT IN (current_date())", "column < time"),
    ("day BETWEEN DATE'2020-01-01' AND current_date()", "column < time"),
    ("CASE WHEN day < current_date() THEN true ELSE false END", "column < time"),
    ("current_date() - 30 < day", "column < time"),
    ("day < date_sub(current_date(), month(current_date()))", "not the current one"),
    ("day < current_date() - CAST(n AS INT)", "not the current one"),
    ("month(current_date()) > month(day)", "not the current one"),
    ("day < make_date(year(current_date()), 1, 1)", "not the current one"),
    ("CAST(day AS STRING) < CAST(current_date() AS STRING)", "not the current one"),
    ("n < rand()", "same value"),
    ("day < 'today'", "same value"),
    ("day < my_udf(region)", "same value"),
    ("day < localtimestamp", "same value"),
    ("owner = current_user()", "same value"),
    ("day < (SELECT max(day) FROM t)", "subquery"),
    ("day IN (SELECT day FROM t)", "subquery"),
    ("day < DATE'2024-01-01' GROUP BY day", "more than one"),
    ("day < DATE'2024-01-01' LIMIT 3", "more than one"),
    ("day < DATE'2024-01-01'; DROP TABLE t", "not understood"),
    ("day <", "not understood"),
]


@pytest.mark.parametrize("condition", STAYING)
def test_a_condition_that_stays_true_is_taken(condition: str) -> None:
    immutable.check(condition)


@pytest.mark.parametrize(("condition", "why"), MOVING)
def test_any_other_is_refused(condition: str, why: str) -> None:
    with pytest.raises(immutable.NoPast, match=why):
        immutable.check(condition)


def test_a_moment_stands_for_the_time() -> None:
    assert immutable.at("day < current_date - 3 OR ts < NOW ( )", 5) == (
        "coalesce((day < CAST(timestamp_millis(5) AS DATE) - 3 OR ts < timestamp_millis(5)), false)"
    )
    assert immutable.at("t.now < 'now()' -- now()\n AND `now` < 3", 5) == (
        "coalesce((t.now < 'now()' -- now()\n AND `now` < 3), false)"
    )


def test_the_columns_of_a_condition() -> None:
    assert immutable.columns("Day < current_date AND `region` = 'a'") == {"day", "region"}
