"""Tests which nondeterministic functions are found in a definition's text and Spark's plan."""

from __future__ import annotations

import time

import pytest

from sql.definition.determinism import COMPUTED, UNSEEDED, nondeterministic

AES = {UNSEEDED}
PLAN = "== Parsed Logical Plan ==\nrand(1)\n== Analyzed Logical Plan ==\n{}\n== Optimized Logical Plan ==\nuuid()\n"


@pytest.mark.parametrize(
    ("query", "analyzed", "expected"),
    [
        ("SELECT a FROM t", "Project [a#1]", set()),
        ("SELECT rand() FROM t", "Project [rand(4711) AS r#1]", {"rand"}),
        ("SELECT RAND(5) FROM t", "Project [rand(5) AS r#1]", {"rand"}),
        ("SELECT v FROM some_view", "Project [uuid(Some(1)) AS v#1]", {"uuid"}),
        ("SELECT current_date AS d FROM t", "Project [current_date(Some(UTC)) AS d#1]", {"current_date"}),
        ("SELECT unix_timestamp() FROM t", "Project [unix_timestamp(current_timestamp(), y)]", {"current_timestamp"}),
        ("SELECT 'call rand() now()' FROM t", "Project [call rand() now() AS x#1]", set()),
        ("SELECT now, 'now()' FROM t", "Project [now#1, now() AS x#2]", set()),
        ("SELECT now(), 'now()' FROM t", "Project [now() AS n#1, now() AS x#2]", {"now"}),
        ("SELECT user, 'user()' FROM t", "Project [user#1, user() AS x#2]", {"user"}),
        ("SELECT strand(a), t.rand FROM t", "Project [strand(a#1), rand#2]", set()),
        ("SELECT * FROM t TABLESAMPLE (10 PERCENT)", "Project [a#1]\n+- Sample 0.0, 0.1, false, 525", {"tablesample"}),
        ("SELECT * FROM t TABLESAMPLE (10 PERCENT) REPEATABLE (5)", "+- Sample 0.0, 0.1, false, 5", set()),
    ],
)
def test_nondeterministic_functions_are_found(query: str, analyzed: str, expected: set[str]) -> None:
    assert nondeterministic(query, PLAN.format(analyzed)) == expected


@pytest.mark.parametrize(
    ("analyzed", "expected"),
    [
        # The texts that Spark 4.1.4 prints.
        ("cast(lower(TODAY) as date) AS x#1", {COMPUTED}),
        ("try_cast(concat(to, day) as date) AS x#1", {COMPUTED}),
        ("cast(CASE WHEN true THEN today END as date) AS x#1", {"today"}),
        ("cast(if (true) today else x as date) AS x#1", {COMPUTED}),
        ("cast(decode(0x746F646179, utf-8) as date) AS x#1", {COMPUTED}),
        ("to_date(lower(TODAY), None, Some(Etc/UTC), true) AS x#1", {COMPUTED}),
        ("to_timestamp(now, None, TimestampType, Some(Etc/UTC), true) AS x#1", {"now"}),
        ("to_timestamp(concat(n, ow), Some(yyyy), TimestampType, Some(Etc/UTC), true) AS x#1", set()),
        ("(d#26 = cast(today as date)) AS x#1", {"today"}),
        ("cast(d#26 as date) IN (cast( tomorrow  as date),cast(2020-01-01 as date)) AS x#1", {"tomorrow"}),
        ("cast(today UTC as timestamp) AS x#1", {"today"}),
        ("cast(now as timestamp_ntz) AS x#1", {"now"}),
        ("between(d#26, 2020-01-01, lower(TODAY)) AS x#1", {"today"}),
        ("year(cast(yesterday as date)) AS x#1", {"yesterday"}),
        ("cast(a#11 as date) AS x#1, (a#11 = today) AS y#2", set()),
        ("cast(if ((a#11 = x)) today else now as date) AS x#1", set()),
        ("cast(epoch as date), cast(2020-01-01 as date), cast(null as date), cast(5 as timestamp)", set()),
        ("cast(cast(2020-01-01 as date) as timestamp) AS x#1", set()),
        ("cast(cast(lower(A) as string) as date) AS x#1", {COMPUTED}),
        ("cast(date_add(cast(2020-01-01 as date), 1) as timestamp) AS x#1", set()),
        ("cast(make_date(2020, 1, 1, true) as timestamp) AS x#1", set()),
        ("cast(current_date(Some(Etc/UTC)) as timestamp) AS x#1", {"current_date"}),
        ("between(d#26, 2020-01-01, 2021-01-01), nvl(now#3, x), nvl(a#1, nowhere)", set()),
        ("aes_encrypt(cast(a#11 as binary), cast(k as binary), GCM, DEFAULT, cast( as binary), cast( as binary))", AES),
        ("aes_encrypt(cast(a#11 as binary), cast(k as binary), CBC, PKCS, cast( as binary), cast( as binary))", AES),
        (
            "aes_encrypt(cast(a#11 as binary), cast(k as binary), ECB, DEFAULT, cast( as binary), cast( as binary))",
            set(),
        ),
        (
            "aes_encrypt(cast(a#11 as binary), cast(k as binary), CBC, DEFAULT, unhex(00, false), cast( as binary))",
            set(),
        ),
        ("HiveSimpleUDF#org.apache.hadoop.hive.ql.udf.UDFUUID() AS s.hu()#14", {"UDFUUID"}),
        (
            "s.f(s.f, HiveFunctionWrapper(org.apache.hadoop.hive.ql.udf.generic.GenericUDFCurrentDate,x), 1)",
            {"GenericUDFCurrentDate"},
        ),
        ("HiveGenericUDF#org.apache.hadoop.hive.ql.udf.generic.GenericUDFUpper(a#11) AS s.hg(a)#19", set()),
        ("HiveGenericUDF#com.example.UDFUUID(a#11) AS s.hg(a)#19", set()),
    ],
)
def test_nondeterministic_calls_in_the_plan_are_found(analyzed: str, expected: set[str]) -> None:
    assert nondeterministic("SELECT x FROM v", PLAN.format(f"Project [{analyzed}]")) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT DATE 'today'", {"today"}),
        ("SELECT TIMESTAMP_NTZ ' Now '", {"now"}),
        ("SELECT DATE 'to' 'day', TIMESTAMP r'yesterday'", {"today", "yesterday"}),
        (r"SELECT DATE 'tod\u0061y'", {"today"}),
        ("SELECT DATE 'today CET'", {"today"}),
        ("SELECT DATE 'epoch', 'today'", set()),
    ],
)
def test_relative_date_literals_are_found(query: str, expected: set[str]) -> None:
    """The plan shows only their value. They may be in the text of a view that the query reads."""
    assert nondeterministic(query, PLAN.format("")) == expected
    assert nondeterministic("SELECT d FROM v", PLAN.format(""), [query]) == expected


def test_a_plan_with_many_casts_takes_no_quadratic_time() -> None:
    many = PLAN.format("cast(" * 50_000 + " as date)" * 50_000)
    began = time.process_time()
    assert nondeterministic("SELECT 1", many) == set()
    assert time.process_time() - began < 5
