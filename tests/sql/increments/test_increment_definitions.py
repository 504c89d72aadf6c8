"""Which definitions can be refreshed by rows, and why others cannot."""

from __future__ import annotations

from dataclasses import replace

import pytest
from outlines import COLUMNS, GROUPS, LAYERS, ROWS, VIEWS, name, outline_of

from sql.increments import texts
from sql.increments.analysis import Kind, analyse
from sql.increments.expansion import SparkView, query_of
from sql.increments.reasons import NotIncremental, Reason
from sql.increments.terms import terms
from sql.lexed import Lexed
from sql.names import Namespace, TableName, quote
from sql.reading.lineage import query_tree

OPERATOR, TOP, FUNCTION, CHANGING = (
    Reason.OPERATOR,
    Reason.AGGREGATE_NOT_ON_TOP,
    Reason.FUNCTION_NOT_MERGEABLE,
    Reason.NOT_DETERMINISTIC,
)
REFUSED = [
    ("SELECT sum(v) OVER (PARTITION BY a), rank() OVER (PARTITION BY b ORDER BY v) FROM t", OPERATOR, "in common"),
    ("SELECT sum(v) OVER (PARTITION BY a), sum(v) OVER () FROM t", OPERATOR, "in common"),
    ("SELECT sum(v) OVER (PARTITION BY 1) FROM t", OPERATOR, "in common"),
    ("SELECT sum(v) OVER (CLUSTER BY a) FROM t", OPERATOR, ""),
    ("SELECT sum(v) OVER w FROM t WINDOW w AS (PARTITION BY a)", OPERATOR, "with a name"),
    ("SELECT a, sum(v) OVER (PARTITION BY arr) FROM t", OPERATOR, "array"),
    ("SELECT a, v FROM t ORDER BY sum(v) OVER (PARTITION BY a)", OPERATOR, "window"),
    ("SELECT a, sum(v) OVER (PARTITION BY a) FROM t UNION ALL SELECT a, 1 FROM u", OPERATOR, "UNION ALL"),
    (
        "SELECT u.a FROM u JOIN (SELECT a, sum(v) OVER (PARTITION BY a) AS s FROM t) x ON x.a = u.a",
        OPERATOR,
        "a window below",
    ),
    (
        "SELECT a FROM (SELECT a, sum(v) OVER (PARTITION BY a) AS s FROM t) x WHERE s IN (SELECT k FROM small)",
        OPERATOR,
        "above a window",
    ),
    ("SELECT a, rank() OVER (PARTITION BY b ORDER BY sum(v)) FROM t GROUP BY a, b WITH ROLLUP", TOP, "sets"),
    ("SELECT n, count(*) FROM (SELECT a, count(*) AS n FROM t GROUP BY a) x GROUP BY n", TOP, "in common"),
    ("SELECT k, count(*) FROM (SELECT a + 1 AS k FROM (SELECT DISTINCT a FROM t) x) y GROUP BY k", TOP, "in common"),
    ("SELECT sum(n) FROM other.counted", TOP, "in common"),
    ("SELECT a, window(ts, '1 hour'), sum(v) OVER (PARTITION BY a) FROM t", OPERATOR, "window"),
    ("SELECT a, rand(), sum(v) OVER (PARTITION BY a) FROM t", CHANGING, "rand"),
    ("SELECT 1", OPERATOR, "without FROM"),
    ("SELECT a FROM (SELECT 1 AS a) x", OPERATOR, "without FROM"),
    ("SELECT a FROM t LIMIT 5", OPERATOR, "LIMIT"),
    ("SELECT a FROM t ORDER BY a LIMIT 5", OPERATOR, "LIMIT"),
    ("SELECT a FROM t OFFSET 5", OPERATOR, "OFFSET"),
    ("SELECT row_number() OVER (ORDER BY a) FROM t", OPERATOR, "window"),
    ("SELECT a FROM t QUALIFY row_number() OVER (ORDER BY a) = 1", OPERATOR, "QUALIFY"),
    ("SELECT a FROM t INTERSECT SELECT a FROM u", OPERATOR, "INTERSECT"),
    ("SELECT a FROM t EXCEPT ALL SELECT a FROM u", OPERATOR, "EXCEPT"),
    ("SELECT a FROM t UNION ALL SELECT a FROM u EXCEPT ALL SELECT k FROM small", OPERATOR, "EXCEPT"),
    ("SELECT a FROM t UNION ALL BY NAME SELECT a FROM u", OPERATOR, "UNION"),
    ("SELECT a FROM t WHERE v > (SELECT max(k) FROM small)", OPERATOR, "scalar subquery"),
    ("SELECT a, (SELECT max(k) FROM small) FROM t", OPERATOR, "scalar subquery"),
    ("SELECT a FROM t, LATERAL (SELECT k FROM small WHERE k = t.a) x", OPERATOR, "LATERAL"),
    ("SELECT * FROM t PIVOT (sum(v) FOR b IN ('x'))", None, ""),
    ("SELECT a FROM t TABLESAMPLE (5 PERCENT)", None, ""),
    ("SELECT a FROM t VERSION AS OF 3", OPERATOR, ""),
    ("SELECT a FROM t TIMESTAMP AS OF '2024-01-01'", OPERATOR, ""),
    ("SELECT a FROM t WITH ('key' = 'value')", OPERATOR, ""),
    ("SELECT a FROM t SORT BY a", OPERATOR, "SORT"),
    ("SELECT a FROM t DISTRIBUTE BY a", OPERATOR, "DISTRIBUTE"),
    ("SELECT a FROM t CLUSTER BY a", OPERATOR, "CLUSTER"),
    ("SELECT * FROM parquet.`/data/x`", OPERATOR, "path"),
    ("SELECT id FROM range(5)", OPERATOR, ""),
    ("SELECT shop.t.a FROM shop.t", OPERATOR, "qualified"),
    ("SELECT a FROM t NATURAL JOIN u", OPERATOR, "NATURAL"),
    ("SELECT * FROM u", OPERATOR, ""),
    ("SELECT * EXCEPT (a) FROM t", OPERATOR, ""),
    ("SELECT a FROM strange", OPERATOR, "not known"),
    ("TABLE t", OPERATOR, ""),
    ("FROM t SELECT a", OPERATOR, ""),
    ("VALUES (1)", OPERATOR, ""),
    ("WITH x AS (SELECT a FROM t) SELECT a FROM u", OPERATOR, "not used"),
    ("SELECT p.a FROM (t p JOIN u q ON p.a = q.a)", OPERATOR, "brackets"),
    ("SELECT x.a FROM t x JOIN u x ON true", OPERATOR, "called x"),
    ("SELECT explode(arr) FROM t", OPERATOR, "generator"),
    ("SELECT a FROM (SELECT a FROM t ORDER BY a LIMIT 3) x", OPERATOR, ""),
    ("SELECT mine(a) FROM t", FUNCTION, "mine"),
    ("SELECT shop.mine(a) FROM t", FUNCTION, "mine"),
    ("SELECT a FROM t WHERE mine(a)", FUNCTION, "mine"),
    ("SELECT rand() FROM t", CHANGING, "rand"),
    ("SELECT a FROM t WHERE ts > now()", CHANGING, "now"),
    ("SELECT a FROM t WHERE ts > current_date", CHANGING, "current_date"),
    ("SELECT a FROM t WHERE ts > DATE 'today'", CHANGING, "today"),
    ("SELECT a FROM t WHERE ts > 'yesterday'", CHANGING, "yesterday"),
    ("SELECT _metadata.file_path FROM t", CHANGING, "_metadata"),
    ("SELECT unix_timestamp() FROM t", CHANGING, "unix_timestamp"),
    ("SELECT input_file_name() FROM t", CHANGING, "input_file_name"),
    ("SELECT user FROM t", CHANGING, "user"),
    ("SELECT count(DISTINCT a) FROM t", FUNCTION, "count"),
    ("SELECT sum(DISTINCT v) FROM t", FUNCTION, "sum"),
    ("SELECT stddev(v) FROM t", FUNCTION, "stddev"),
    ("SELECT percentile_approx(v, 0.5) FROM t", FUNCTION, "percentile_approx"),
    ("SELECT collect_list(v) FROM t", FUNCTION, "collect_list"),
    ("SELECT approx_count_distinct(v) FROM t", FUNCTION, "approx_count_distinct"),
    ("SELECT first(v) FROM t", FUNCTION, "first"),
    ("SELECT hll_sketch_agg(v) FROM t", FUNCTION, "hll_sketch_agg"),
    ("SELECT try_sum(v) FROM t", FUNCTION, "try_sum"),
    ("SELECT try_avg(v) FROM t", FUNCTION, "try_avg"),
    ("SELECT listagg(b) WITHIN GROUP (ORDER BY b) FROM t", FUNCTION, "listagg"),
    ("SELECT a, grouping(a), count(*) FROM t GROUP BY ROLLUP(a)", FUNCTION, "grouping"),
    ("SELECT a, grouping_id(), count(*) FROM t GROUP BY ROLLUP(a)", FUNCTION, "grouping_id"),
    ("SELECT a, b, count(*) FROM t GROUP BY a", OPERATOR, "neither grouped"),
    ("SELECT a, v + 1 + 1, count(*) FROM t GROUP BY a, 1 + v", OPERATOR, "neither grouped"),
    ("SELECT a + v * 2, count(*) FROM t GROUP BY a + v", OPERATOR, "neither grouped"),
    ("SELECT a AS x, x + 1, count(*) FROM t GROUP BY a", OPERATOR, "neither grouped"),
    ("SELECT 5, count(*) FROM t GROUP BY 1", OPERATOR, "constant"),
    ("SELECT a, b, count(*) FROM t GROUP BY a, b GROUPING SETS ((a, b), a)", OPERATOR, "GROUPING SETS"),
    ("SELECT a, count(t.*) FROM t GROUP BY a", OPERATOR, "star"),
    ("SELECT struct(*) FROM t", OPERATOR, "star"),
    ("SELECT max(struct(*)) FROM t", OPERATOR, "star"),
    ("SELECT a, count(DISTINCT v) FROM t GROUP BY ROLLUP(a)", FUNCTION, "count"),
    ("SELECT a, count(DISTINCT x.v) FROM t GROUP BY a", OPERATOR, "within count"),
    ("SELECT a, count(DISTINCT mine(v)) FROM t GROUP BY a", FUNCTION, "mine"),
    ("SELECT a, max(count(v)) FROM t GROUP BY a", None, ""),
    ("SELECT a, count(*) FROM t GROUP BY (a, b)", OPERATOR, "tuple"),
    ("SELECT a AS x, max(transform(arr, y -> y + x)) FROM t GROUP BY a", OPERATOR, "x within max"),
    ("SELECT a, transform(arr, a -> a + 1), count(*) FROM t GROUP BY a, arr", OPERATOR, "lambda"),
    ("SELECT p.a FROM t p LEFT JOIN u q JOIN small ON k = q.a ON p.a = q.a", OPERATOR, ""),
    ("WITH RECURSIVE x AS (SELECT a FROM t) SELECT a FROM x", OPERATOR, ""),
    ("SELECT t.a FROM t JOIN u ON t.a IN (SELECT k FROM small)", OPERATOR, "ON"),
    ("SELECT a, count(*) FROM t GROUP BY GROUPING SETS ((a), (a))", OPERATOR, "twice"),
    ("SELECT a, count(*) FROM t GROUP BY a, ROLLUP(a)", OPERATOR, "twice"),
    ("SELECT arr, count(*) FROM t GROUP BY arr", OPERATOR, "array"),
    ("SELECT a FROM t HAVING count(*) > 1", OPERATOR, ""),
    ("SELECT a, count(*) FROM t GROUP BY a HAVING count(*) > (SELECT max(k) FROM small)", OPERATOR, ""),
    ("SELECT max(n) FROM (SELECT count(*) AS n FROM t) x", TOP, ""),
    ("SELECT a, count(*) FROM t GROUP BY a UNION ALL SELECT a, 1 FROM u", TOP, ""),
    ("SELECT DISTINCT a FROM t UNION ALL SELECT a FROM u", TOP, ""),
    ("SELECT a FROM t WHERE a IN (SELECT max(a) FROM u)", TOP, ""),
    ("SELECT a, sum(v + mine(1)) FROM t GROUP BY a", FUNCTION, "mine"),
    ("SELECT count(*) FROM t GROUP BY session_window(ts, '5 minutes')", OPERATOR, "session_window"),
    ("SELECT window(ts, '1 hour', '5 minutes'), count(*) FROM t GROUP BY 1", OPERATOR, "window"),
    ("SELECT SUM(a) FROM t WHERE `oops", OPERATOR, ""),
    ("SELECT v + 1 AS v, count(*) FROM t GROUP BY v + 1 HAVING v > 1", OPERATOR, "HAVING"),
    ("SELECT 'x', count(*) FROM t GROUP BY ALL", OPERATOR, "constants"),
    ("SELECT a + count(*) FROM t GROUP BY ALL", OPERATOR, "neither grouped"),
    ("SELECT a FROM t UNION SELECT a FROM u UNION ALL SELECT k FROM small", OPERATOR, "without ALL"),
    ("SELECT a FROM VALUES (1), (2) AS x(a)", OPERATOR, "no table"),
    ("SELECT t.a FROM t JOIN VALUES (1), (2) ON true", OPERATOR, "VALUES"),
    ("SELECT x.a FROM (SELECT a FROM t UNION ALL SELECT a FROM VALUES (1) AS y(a)) x, u", OPERATOR, "of its own"),
    (
        "SELECT x.a FROM u, (SELECT a FROM t UNION ALL SELECT y.a FROM VALUES (1) AS y(a) LEFT JOIN t ON true) x",
        OPERATOR,
        "of its own",
    ),
    ("SELECT x.a FROM (SELECT a FROM t UNION SELECT a FROM u) x, small", TOP, "UNION without ALL"),
    ("SELECT x.a FROM (SELECT a FROM t UNION ALL SELECT max(a) FROM u) x, small", TOP, ""),
    ("SELECT * FROM (SELECT a + 1 FROM t) x JOIN u ON true", OPERATOR, "without a name"),
    ("SELECT * FROM u, small JOIN u v USING (a)", OPERATOR, "USING"),
    ("SELECT u.* FROM t JOIN u USING (a)", OPERATOR, "USING"),
    ("SELECT t.a FROM t JOIN small USING (a)", OPERATOR, "not known which columns USING (a) joins"),
    ("SELECT t.a, count(*) FROM t FULL JOIN u USING (a) GROUP BY a", OPERATOR, "neither grouped"),
    ("SELECT t.a, count(*) FROM t RIGHT JOIN u USING (a) GROUP BY a", OPERATOR, "neither grouped"),
    ("SELECT a, count(*) FROM t p, u x JOIN u y USING (a) GROUP BY a", OPERATOR, "ambiguous"),
    ("WITH x AS (SELECT a FROM t), x AS (SELECT a FROM u) SELECT a FROM x", OPERATOR, "same name"),
    ("SELECT other.plain.a FROM other.plain", OPERATOR, "qualified"),
    ("SELECT a FROM other.itself", OPERATOR, "reads itself"),
    ("SELECT x FROM other.twice", OPERATOR, "told apart"),
    ("SELECT a FROM other.on_path", OPERATOR, "path"),
    ("SELECT a FROM other.broken", OPERATOR, "other.broken"),
    ("SELECT a FROM other.plain VERSION AS OF 3", OPERATOR, ""),
    ("SELECT DISTINCT n FROM other.counted", TOP, ""),
    ("SELECT sum(n) OVER () FROM other.counted", OPERATOR, "window"),
    ("SELECT a FROM other.counted WHERE n > (SELECT max(k) FROM small)", TOP, ""),
    ("SELECT n FROM (SELECT b AS x, count(*) AS n FROM t GROUP BY ROLLUP(x)) y", TOP, ""),
    ("SELECT n FROM (SELECT b AS x, count(*) AS n FROM t GROUP BY ROLLUP(1)) y", TOP, ""),
    ("SELECT x.n FROM (SELECT b, count(*) AS n FROM t GROUP BY b HAVING v > 2) x", OPERATOR, "neither grouped"),
    ("SELECT n FROM (SELECT count(*) AS n FROM t) x WHERE n > 1", TOP, ""),
    ("SELECT c.a FROM other.counted c JOIN u ON u.a = c.a", TOP, ""),
    ("SELECT a FROM plain", OPERATOR, "not known"),
    ("SELECT a FROM t |> WHERE a > 1", OPERATOR, ""),
    ("SELECT a FROM t WHERE a = :x", OPERATOR, ""),
]
"""Definitions, the reason against them, and a word of the detail."""


@pytest.mark.parametrize(("query", "columns"), ROWS)
def test_rows(query: str, columns: str) -> None:
    outline = outline_of(query, columns)
    assert (outline.kind, outline.hidden, outline.subtracts) == (Kind.ROWS, (), False)


@pytest.mark.parametrize(("query", "hidden", "subtracts"), GROUPS)
def test_groups(query: str, hidden: str, subtracts: bool) -> None:
    outline = outline_of(query, named=True)
    assert (outline.kind, set(outline.hidden), outline.subtracts) == (Kind.GROUPS, set(hidden.split()), subtracts)
    assert outline.filtered == ("freshgate_shown" in hidden)
    change = terms(outline, {name("t"): "SELECT * FROM d"}, {}, {name("t"): "SELECT * FROM r"} if subtracts else {})
    for text in (texts.complete(outline), texts.merged(outline, "SELECT * FROM stored", change)):
        assert len(query_tree(Lexed(text)).selects) == len(outline.columns) + len(outline.hidden)


@pytest.mark.parametrize(("query", "keys"), LAYERS)
def test_layers(query: str, keys: str) -> None:
    starred = "x.*" in query
    outline = outline_of(query, "b v n m" if starred else None, named=not starred)
    assert outline.groups is not None
    assert outline.regroups
    assert [*(key.text for key in outline.groups.keys), *outline.hidden] == keys.split()
    assert texts.complete(outline).endswith(f"({', '.join(map(quote, (*outline.columns, *outline.hidden)))})")


@pytest.mark.parametrize(("query", "reason", "detail"), REFUSED)
def test_refused(query: str, reason: Reason | None, detail: str) -> None:
    with pytest.raises(NotIncremental) as caught:
        outline_of(query)
    assert reason is None or caught.value.reason is reason, caught.value
    assert detail in caught.value.detail, caught.value


def test_a_view_stands_for_its_query_in_its_own_namespace() -> None:
    assert query_of(TableName("other", "above"), VIEWS) == (
        "SELECT `p`, `c` FROM (SELECT r.p, s.c FROM (SELECT `k` AS `p`, `b` AS `q` FROM (SELECT x.a AS k, b"
        " FROM `spark_catalog`.`shop`.`t` x ORDER BY b) AS `freshgate_view`) r JOIN (SELECT `a`, `c` FROM"
        " (SELECT * FROM `spark_catalog`.`shop`.`u`) AS `freshgate_view`) AS s(p, c) USING (p)) AS `freshgate_view`"
    )
    assert query_of(TableName("other", "ctes"), VIEWS) == (
        "SELECT `z` FROM ( SELECT z FROM (SELECT a AS z FROM (SELECT a FROM `spark_catalog`.`shop`.`t`) AS `t`) AS `y`)"
        " AS `freshgate_view`"
    )


def test_views_that_grow_exponentially_are_refused() -> None:
    views = {name("v0"): SparkView("SELECT a FROM u", Namespace("shop"), ("a",), ("a",))}
    for number in range(1, 40):
        text = f"SELECT x.a FROM v{number - 1} x JOIN v{number - 1} y ON x.a = y.a"
        views[name(f"v{number}")] = SparkView(text, Namespace("shop"), ("a",), ("a",))
    for top, why in (("v39", "stand on each other"), ("v20", "characters")):
        with pytest.raises(NotIncremental, match=why):
            query_of(name(top), views)


def test_a_query_over_groups_is_one_over_the_rows() -> None:
    outline = outline_of(
        "WITH x AS (SELECT date_trunc('DAY', ts) AS day, b AS v, sum(v) AS s, count(*) AS n FROM t WHERE v > 0"
        " GROUP BY day, 2 HAVING n > 1) SELECT v, s / x.n AS mean FROM x WHERE day IS NOT NULL ORDER BY mean",
        "v mean",
    )
    assert outline.text == (
        "SELECT b AS `v`, (sum(v)) / (count(*)) AS `mean` FROM t WHERE v > 0 GROUP BY date_trunc('DAY', ts), b"
        " HAVING ((count(*)) > 1) AND ((date_trunc('DAY', ts)) IS NOT NULL)"
    )


def test_a_star_over_groups_means_their_items() -> None:
    grouped = "(SELECT a, count(*) AS n, upper(b) FROM t GROUP BY ALL)"
    assert outline_of(f"SELECT * FROM {grouped} AS x(p, q, r)", "p q r").text == grouped[1:-1]
    grouped = "(SELECT a, count(*) AS n FROM t GROUP BY a)"
    assert outline_of(f"SELECT * FROM {grouped} x WHERE n > 1", "a n").text == (
        "SELECT a AS `a`, count(*) AS `n` FROM t GROUP BY a HAVING ((count(*)) > 1)"
    )


def test_types_forbid_what_cannot_be_merged() -> None:
    def refused(query: str, *, ansi: bool = True, **types: str) -> NotIncremental:
        with pytest.raises(NotIncremental) as caught:
            outline_of(query, named=False, ansi=ansi, **types)
        return caught.value

    assert refused("SELECT sum(w) FROM t", ansi=False).reason is FUNCTION
    assert "collation" in refused("SELECT b, sum(w) FROM t GROUP BY b", t0="string collate UTF8_LCASE").detail
    assert refused("SELECT max(b) FROM t", t0="string collate UTF8_LCASE").reason is FUNCTION
    assert refused("SELECT DISTINCT a FROM t", t0="map<int,int>").reason is OPERATOR
    assert refused("SELECT avg(w) FROM t", t0="decimal(20,2)", t1="decimal(24,6)").reason is FUNCTION
    assert refused("SELECT sum(w) FROM t", t0="interval day to second").reason is FUNCTION


@pytest.mark.parametrize(
    "call",
    [
        *(
            "count(DISTINCT v)",
            "count(DISTINCT v, w) FILTER (WHERE w > 1)",
            "sum(ALL v)",
            "stddev(v)",
            "collect_set(v)",
        ),
        *("percentile_cont(0.5) WITHIN GROUP (ORDER BY v DESC)", "approx_count_distinct(v)", "max(v) RESPECT NULLS"),
        *("percentile_disc(0.5) WITHIN GROUP (ORDER BY v) FILTER (WHERE w > 1)", "percentile(v, 0.5, 2)", "sum(s)"),
    ],
)
def test_groups_that_are_computed_from_all_their_rows(call: str) -> None:
    """Their aggregates stand in the texts as they are written, and nothing but keys is stored for them."""
    text = f"SELECT upper(b), {call} + 1 FROM t GROUP BY upper(b) HAVING {call} > 2"
    outline = outline_of(text, "c0 c1", t1="struct<x:int>")
    groups = outline.groups
    assert groups is not None
    assert (groups.states, outline.subtracts, outline.regroups) == ((), False, True)
    assert outline.hidden == ("freshgate_k0", "freshgate_shown")
    assert f"THEN {call} + 1 END AS `c1`" in texts.complete(outline)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT p.a FROM t p LEFT JOIN u q ON p.a = q.a", {1: (0, "p.a = q.a")}),
        (
            "SELECT t.a FROM t LEFT OUTER JOIN u ON v = c AND left(b, 2) = 'x' WHERE f > 1",
            {1: (0, "v = c AND left(b, 2) = 'x'")},
        ),
        ("SELECT a FROM t p LEFT ANTI JOIN u ON p.a = u.a", {1: (0, "p.a = u.a")}),
        (
            "SELECT p.a FROM t p JOIN u q ON p.a = q.a LEFT JOIN small ON q.c = k LEFT JOIN u z ON z.a = p.v",
            {2: (1, "q.c = k"), 3: (0, "z.a = p.v")},
        ),
        ("SELECT p.a FROM t p, u q LEFT JOIN small ON p.v = k", {2: (0, "p.v = k")}),
        # It names two other tables, or none, or one that is not known, or no plain one.
        ("SELECT p.a FROM t p JOIN u q ON p.a = q.a LEFT JOIN small ON q.a = k AND p.v > k", {}),
        ("SELECT p.a FROM t p LEFT JOIN small ON k = 1", {}),
        ("SELECT p.a FROM (SELECT a FROM t) p LEFT JOIN small ON k = p.a", {}),
        ("SELECT p.a FROM t p LEFT JOIN (SELECT a FROM u) q ON q.a = p.a", {}),
        ("SELECT p.a FROM t p LEFT JOIN u q USING (a)", {}),
        # What is preserved there is not preserved after all.
        ("SELECT p.a FROM t p LEFT JOIN u q ON p.a = q.a RIGHT JOIN small ON k = p.a", {0: (2, "k = p.a")}),
        ("SELECT p.a FROM t p LEFT JOIN u q ON p.a = q.a RIGHT JOIN small ON k = q.a", {}),
        ("SELECT p.a FROM t p FULL JOIN u q ON p.a = q.a RIGHT JOIN small ON k = 1", {}),
        ("SELECT p.a FROM (SELECT t.a FROM t FULL JOIN u q ON t.a = q.a) p RIGHT JOIN small ON k = p.a", {}),
        ("SELECT p.a FROM small LEFT JOIN (SELECT t.a FROM t FULL JOIN u ON t.a = u.a) p ON k = p.a", {}),
        # The other sides of these.
        ("SELECT p.a FROM t p RIGHT JOIN u q ON p.a = q.a", {0: (1, "p.a = q.a")}),
        ("SELECT p.a FROM t p JOIN small ON k = p.v RIGHT JOIN u q ON p.a = q.a", {0: (2, "p.a = q.a")}),
        ("SELECT p.a FROM t p FULL JOIN u q ON p.a = q.a", {0: (1, "p.a = q.a"), 1: (0, "p.a = q.a")}),
        # A column list gives other names.
        ("SELECT p.a FROM t p RIGHT JOIN u AS q(c, a) ON p.a = q.a", {}),
        ("SELECT p.a FROM t p LEFT JOIN u AS q(c, a) ON p.a = q.a", {}),
    ],
)
def test_what_changes_with_the_null_side(query: str, expected: dict[int, tuple[int, str]]) -> None:
    places = outline_of(query, "a").places
    assert {place.number: (place.touch.place, place.touch.condition) for place in places if place.touch} == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("t p JOIN u q ON p.a = q.a AND p.v > q.c", ["a", "a"]),
        ("t p, u q WHERE p.b = q.c AND (p.a <=> q.a OR p.v = 1)", ["a b", "a c"]),
        ("t p JOIN u q USING (a)", ["a", "a"]),
        ("t p LEFT JOIN u AS q(x, y) ON p.v = q.y", ["v", "c"]),
        ("t p JOIN u q ON p.a + 1 = q.a", ["", ""]),
        ("t p JOIN u q ON p.a = p.v AND p.s.x = q.a", ["", ""]),
        ("t p WHERE p.b IN (SELECT c FROM u)", ["", "c"]),
        ("t p WHERE EXISTS (SELECT 1 FROM u WHERE u.a = p.v)", ["v", "a"]),
        ("(SELECT x.v FROM t x JOIN u y ON x.a = y.a) p JOIN small ON p.v = k", ["a", "a", "k"]),
    ],
)
def test_columns_that_are_compared_with_other_relations(source: str, expected: list[str]) -> None:
    assert [" ".join(place.joined) for place in outline_of(f"SELECT p.v FROM {source}", "v").places] == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT p.a, count(*) FROM t p JOIN u q ON p.a = q.a GROUP BY p.a", [True, True]),
        ("SELECT p.a, count(*) FROM t p JOIN u AS q(c, a) ON p.a = q.a GROUP BY p.a", [True, False]),
        ("SELECT p.a, count(*) FROM (SELECT a FROM t) p JOIN u q ON p.a = q.a GROUP BY p.a", [False, True]),
    ],
)
def test_places_that_can_have_a_further_column(query: str, expected: list[bool]) -> None:
    assert [place.direct for place in outline_of(query).places] == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT q.c, max(p.v) FROM t p JOIN u q ON p.a = q.a GROUP BY q.c, q.a", True),
        ("SELECT q.c, max(p.v) FROM t p JOIN u q USING (a) GROUP BY q.c, a", False),
        ("SELECT q.y, max(p.v) FROM t p JOIN u AS q(x, y) ON p.a = q.x GROUP BY q.y", True),
        ("SELECT q.c, max(p.v) FROM t p JOIN u q ON p.a = q.a GROUP BY q.c, p.b", False),
        ("SELECT upper(q.c), max(p.v) FROM t p JOIN u q ON p.a = q.a GROUP BY upper(q.c)", False),
        ("SELECT q.c, max(p.v) FROM t p LEFT JOIN u q ON p.a = q.a GROUP BY q.c", False),
        ("SELECT q.c, rank() OVER (PARTITION BY q.c ORDER BY p.v) FROM t p JOIN u q ON p.a = q.a", True),
        ("SELECT q.c, rank() OVER (PARTITION BY p.b ORDER BY p.v) FROM t p JOIN u q ON p.a = q.a", False),
    ],
)
def test_groups_that_changed_rows_name_themselves(query: str, expected: bool) -> None:
    table = {name("u"): "SELECT * FROM new"}
    changed = terms(outline_of(query), table, table, {}, {name("t"): "SELECT * FROM now", name("u"): "SELECT 1"})
    touched = texts.touched(outline_of(query), changed)
    assert ("p.a = q" not in touched and "USING" not in touched) is expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT q.a, q.c, p.v FROM t p JOIN u q ON p.a = q.a", "SELECT DISTINCT `a` AS `c0`, `c` AS `c1` FROM ("),
        ("SELECT q.a + 1, Q.A AS y FROM t p JOIN u q ON p.a = q.a", "SELECT DISTINCT `a` AS `c1` FROM ("),
        ("SELECT q.c, p.v FROM t p JOIN u q ON p.a = q.a", ""),
        ("SELECT p.a, q.c FROM t p JOIN u q ON p.a = q.a", ""),
        ("SELECT q.a FROM t p JOIN u q ON p.a = q.a UNION ALL SELECT a FROM t", ""),
        ("SELECT q.a FROM t p LEFT JOIN u q ON p.a = q.a", ""),
    ],
)
def test_stored_rows_that_removed_rows_name(query: str, expected: str) -> None:
    outline, gone = outline_of(query), {name("u"): "SELECT * FROM gone"}
    now = {name("t"): "SELECT * FROM now", name("u"): "SELECT 1"}
    made = texts.subtracted(outline, "SELECT * FROM stored", terms(outline, {}, now, gone, now), {})
    assert made.count("SELECT DISTINCT") == (2 if expected else 0)
    assert expected in made


def test_added_and_removed_rows_of_a_place_are_read_at_once() -> None:
    outline = outline_of("SELECT q.c, count(*) FROM t p JOIN u q ON p.a = q.a GROUP BY q.c")
    table = {name("u"): "SELECT * FROM {}"}
    plus, minus = ({key: text.format(rows) for key, text in table.items()} for rows in ("new", "old"))
    made = texts.merged(outline, "SELECT 1", terms(outline, plus, table, minus))
    assert made.count("FROM `spark_catalog`.`shop`.`t`") == 1
    fed = terms(outline, plus, table, minus, {}, {name("u"): "SELECT * FROM feed"})
    made = texts.merged(outline, "SELECT 1", fed)
    assert "JOIN (SELECT * FROM feed) q" in made
    assert not {"new", "old"} & set(made.split())


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a IN (SELECT k FROM small)", (0, "a IN (SELECT k FROM (C) AS `small`)")),
        ("v > 0 AND (p.a IN (SELECT k FROM small s WHERE k < p.v))", (0, "p.a IN (SELECT k FROM (C) s WHERE k < p.v)")),
        (
            "NOT EXISTS (SELECT * FROM u WHERE u.a = p.a) OR v = 1",
            (0, "EXISTS (SELECT * FROM (C) AS `u` WHERE u.a = p.a)"),
        ),
        ("a NOT IN (SELECT k FROM small)", None),
        ("NOT (a IN (SELECT k FROM small))", None),
        ("a IN (SELECT k FROM small) OR v = 1", None),
        ("a + 1 IN (SELECT k FROM small)", None),
        ("(a, v) IN (SELECT k, 1 FROM small)", None),
        ("a IN (SELECT * FROM small)", None),
        ("a IN (SELECT k FROM small JOIN u ON k = u.a)", None),
        ("EXISTS (SELECT 1 FROM u WHERE c = 'x')", None),
        ("EXISTS (SELECT 1 FROM u WHERE u.a = p.a AND u.c = small.k)", None),
    ],
)
def test_what_changes_with_a_subquery(condition: str, expected: tuple[int, str] | None) -> None:
    touched = [place.touch for place in outline_of(f"SELECT v FROM t p, small WHERE {condition}", "v").places]
    found = [(each.place, f"{(each.query or ('', ''))[0]}(C){(each.query or ('', ''))[1]}") for each in touched if each]
    assert found == ([expected] if expected is not None else [])


def test_names_of_columns_that_are_refused() -> None:
    for columns in ("a freshgate_n", "a A", "a"):
        with pytest.raises(NotIncremental):
            outline_of("SELECT a, b FROM t", columns)


def test_a_star_is_allowed_if_it_means_the_columns_of_the_view() -> None:
    for columns, named in (("c a", False), ("a c", True), ("a c x", False)):
        with pytest.raises(NotIncremental):
            outline_of("SELECT * FROM u", columns, named=named)


PLACES = [
    ("SELECT p.a FROM t p JOIN u q ON p.a = q.a", "t+ u+"),
    ("SELECT p.a FROM t p LEFT JOIN u q ON p.a = q.a", "t+ u-"),
    ("SELECT p.a FROM t p JOIN u q ON p.a = q.a RIGHT JOIN small ON k = p.a", "t- u- small+"),
    ("SELECT p.a FROM t p FULL JOIN u q ON p.a = q.a", "t- u-"),
    ("SELECT p.a FROM t p FULL JOIN u q ON p.a = q.a JOIN small ON k = p.a", "t- u- small+"),
    ("SELECT p.a FROM t p LEFT ANTI JOIN u q ON p.a = q.a", "t+ u-"),
    ("SELECT a FROM t WHERE a IN (SELECT a FROM u) AND a NOT IN (SELECT k FROM small)", "t+ u- small-"),
    ("SELECT x.a FROM u LEFT JOIN (SELECT a FROM t, small) x ON u.a = x.a", "u+ t- small-"),
    ("WITH x AS (SELECT a FROM t) SELECT u.a FROM u LEFT JOIN x ON u.a = x.a", "u+ t-"),
    ("SELECT p.a FROM other.plain p LEFT JOIN other.plain q ON p.a = q.a", "t+ t-"),
    ("SELECT z FROM other.ctes FULL JOIN (SELECT a FROM t UNION ALL SELECT a FROM u) x ON z = a", "t- t- u-"),
]


@pytest.mark.parametrize(("query", "expected"), PLACES)
def test_places(query: str, expected: str) -> None:
    places = outline_of(query, "a").places
    assert " ".join(f"{place.table.table}{'+' if place.grows else '-'}" for place in places) == expected
    assert [place.number for place in places] == list(range(len(places)))


def test_a_change_of_the_null_side_is_refused() -> None:
    outline = outline_of("SELECT p.a FROM t p LEFT JOIN u q USING (a)", "a")
    with pytest.raises(NotIncremental) as caught:
        terms(outline, {name("u"): "SELECT 1"}, {}, {})
    assert caught.value.reason is Reason.NULL_SIDE_CHANGED


def test_one_term_for_each_place_that_changed() -> None:
    outline = outline_of("SELECT p.a FROM t p, t q, u UNION ALL SELECT a FROM t", "a")
    t, u = name("t"), name("u")
    found = terms(outline, {t: "D"}, {t: "OLD", u: "OLDU"}, {u: "R"})
    assert [(term.sources, term.branch, term.removes) for term in found] == [
        ({0: "D"}, 0, False),
        ({0: "OLD", 1: "D"}, 0, False),
        ({0: "OLD", 1: "OLD", 2: "R"}, 0, True),
        ({3: "D"}, 1, False),
    ]
    with pytest.raises(KeyError):
        terms(outline, {t: "D"}, {}, {})


def test_the_other_parts_of_a_union_are_empty() -> None:
    union = "(SELECT a FROM t UNION ALL SELECT a FROM (SELECT a FROM u UNION ALL SELECT k AS a FROM small) y)"
    outline = outline_of(f"SELECT x.a FROM t AS z, {union} AS x, u", "a")
    assert [sorted(place.beside) for place in outline.places] == [[], [2, 3], [1, 3], [1, 2], []]
    found = terms(outline, {name("t"): "D", name("u"): "E"}, {name("t"): "OLD", name("u"): "OLDU"}, {})
    assert [(term.sources, sorted(term.empty)) for term in found] == [
        ({0: "D"}, []),
        ({0: "OLD", 1: "D"}, [2, 3]),
        ({0: "OLD", 2: "E"}, [1, 3]),
        ({0: "OLD", 1: "OLD", 2: "OLDU", 4: "E"}, []),
    ]
    assert texts.rows(outline, found[1]).count(" WHERE false) AS ") == 2
    starred = outline_of("SELECT x.c FROM (SELECT * FROM u UNION ALL SELECT p.* FROM u p) x, small", "c")
    (first, _) = terms(starred, {name("u"): "D"}, {name("u"): "OLD"}, {})
    assert texts.rows(starred, replace(first, sources={**first.sources, 1: "NOW"})) == (
        "SELECT x.c FROM (SELECT * FROM (D) AS `u` UNION ALL SELECT p.* FROM (SELECT `a`, `c` FROM (NOW)"
        " AS `freshgate_none` WHERE false) p) x, `spark_catalog`.`shop`.`small` AS `small`"
    )


def test_the_text_of_new_rows() -> None:
    outline = outline_of("SELECT t.a, `x`.c -- all\n FROM t LEFT JOIN u AS x ON t.a = x.a ORDER BY 1", "a c")
    (term,) = terms(outline, {name("t"): "SELECT * FROM d"}, {}, {})
    assert texts.appended(outline, [term]) == (
        "SELECT t.a, `x`.c -- all\n FROM (SELECT * FROM d) AS `t` LEFT JOIN `spark_catalog`.`shop`.`u` AS x"
        " ON t.a = x.a"
    )


def test_a_star_keeps_its_columns() -> None:
    outline = outline_of("SELECT * FROM t, u x WHERE x.c > 'a'".replace("t, u x", "u x"), "a c")
    unchanged = texts.rows(outline, terms(outline, {name("u"): "D"}, {}, {})[0])
    assert unchanged == "SELECT * FROM (D) x WHERE x.c > 'a'"
    joined = outline_of("SELECT u.* FROM u JOIN small ON k = a", "a c")
    (term,) = terms(joined, {name("small"): "D"}, {}, {})
    assert texts.rows(joined, term) == (
        "SELECT u.* FROM (SELECT `a`, `c` FROM `spark_catalog`.`shop`.`u`) AS `u` JOIN (D) AS `small` ON k = a"
    )


def test_the_texts_of_groups() -> None:
    outline = outline_of("SELECT b AS name, count(*) AS n, max(v) FROM t WHERE v > 0 GROUP BY name", "name n top")
    assert texts.complete(outline) == (
        "SELECT b AS `name`, count(*) AS `n`, max(v) AS `top`, count(*) AS `freshgate_n`"
        " FROM `spark_catalog`.`shop`.`t` AS `t` WHERE v > 0 GROUP BY b"
    )
    assert texts.merged(outline, "S", terms(outline, {name("t"): "D"}, {}, {})) == (
        "SELECT `freshgate_k0` AS `name`, `freshgate_n` AS `n`, `freshgate_s0` AS `top`, `freshgate_n` AS `freshgate_n`"
        " FROM (SELECT `freshgate_k0`, CAST(sum(`freshgate_n`) AS bigint) AS `freshgate_n`,"
        " max(`freshgate_s0`) AS `freshgate_s0` FROM (SELECT `name` AS `freshgate_k0`,"
        " `freshgate_n` AS `freshgate_n`, `top` AS `freshgate_s0` FROM (S) AS `freshgate_stored` UNION ALL"
        " SELECT `freshgate_k0`, `freshgate_n`, `freshgate_s0` FROM (SELECT b AS `freshgate_k0`,"
        " count(*) AS `freshgate_n`, max(v) AS `freshgate_s0` FROM (D) AS `t` WHERE v > 0 GROUP BY b)"
        " AS `freshgate_term`) AS `freshgate_parts` GROUP BY `freshgate_k0`) AS `freshgate_groups`"
    )


def test_an_average_of_wide_decimals_is_computed_of_whole_and_rest() -> None:
    draft = analyse("SELECT avg(w) FROM t", Namespace("shop"), {name("t"): COLUMNS["t"]}, ["x"], named=False)
    for digits, average, exact in (("18,2", "22,6", True), ("15,2", "19,6", False), ("18,14", "22,18", False)):
        told = {"t0": f"decimal({digits})", "t1": f"decimal({average})", "t2": f"decimal(28,{digits[3:]})"}
        text = texts.merged(draft.typed(told, ansi=True), "S", [])
        assert (" % `freshgate_s0`" in text) == exact


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("SELECT a, count(*) FROM t LEFT JOIN u USING (a) GROUP BY t.a", "t.a"),
        ("SELECT p.a, x.a, count(*) FROM t p, u x JOIN u y USING (a) GROUP BY p.a, x.a", "p.a x.a"),
        ("SELECT u.a, count(*) FROM t RIGHT JOIN u USING (a) GROUP BY a, u.a", "a"),
        ("SELECT a, t.a, count(*) FROM t RIGHT JOIN u USING (a) GROUP BY a, t.a", "a t.a"),
        ("SELECT a, t.a, u.a, count(*) FROM t FULL JOIN u USING (a) GROUP BY a, t.a, u.a", "a t.a u.a"),
    ],
)
def test_which_column_of_a_join_with_using_is_meant(query: str, keys: str) -> None:
    groups = outline_of(query).groups
    assert groups is not None
    assert " ".join(key.text for key in groups.keys) == keys


def test_an_average_is_computed_of_exact_sums() -> None:
    outline = outline_of("SELECT avg(v), avg(w) FROM t", "x y")
    text = texts.merged(outline, "S", [])
    base = "CAST(2097152 AS DECIMAL(7,0))"
    high, middle, low = (f"CAST(`freshgate_s{number}` AS DECIMAL(20,0))" for number in (1, 2, 3))
    assert (
        f"CAST((({high} * {base} + {middle}) * {base} + {low}) AS DOUBLE) / CAST(`freshgate_s0` AS DOUBLE) END" in text
    )
    assert "CAST(`freshgate_s5` / CAST(`freshgate_s4` AS DECIMAL(20,0)) AS DECIMAL(16,6)) END" in text
    assert "GROUP BY" not in text


def test_branches_of_other_types_are_cast() -> None:
    outline = outline_of("SELECT a FROM t UNION ALL SELECT v FROM t", "a", t0="int", t1="bigint", t2="bigint")
    assert texts.appended(outline, terms(outline, {name("t"): "D"}, {}, {})) == (
        "(SELECT CAST(`a` AS bigint) FROM (SELECT a FROM (D) AS `t`) AS `freshgate_rows`(`a`))"
        " UNION ALL (SELECT v FROM (D) AS `t`)"
    )


def test_the_signature_tells_the_meaning_of_the_hidden_columns() -> None:
    base = outline_of("SELECT a, avg(v) FROM t GROUP BY a", "a m")
    same = outline_of("SELECT a, avg(v) FROM t WHERE v > 1 GROUP BY a", "a m")
    assert base.signature == same.signature
    others = [
        outline_of("SELECT a, avg(f) FROM t GROUP BY a", "a m"),
        outline_of("SELECT a, sum(v) FROM t GROUP BY a", "a m"),
        outline_of("SELECT a, avg(v) FROM t GROUP BY a HAVING count(*) > 1", "a m"),
        outline_of("SELECT a, b FROM t", "a m"),
    ]
    assert len({base.signature, *(each.signature for each in others)}) == 5
