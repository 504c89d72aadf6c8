"""Random queries on base tables, views, right rewritings over the views, and wrong ones."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

TABLES = {
    "f": """CREATE TABLE f (k INT, g STRING, d DATE, ts TIMESTAMP, x INT, y BIGINT, s SMALLINT, m DECIMAL(10,2),
            w DECIMAL(30,2), r DOUBLE, b BOOLEAN, c CHAR(4), v VARCHAR(6)) USING parquet""",
    "o": "CREATE TABLE o (ok INT, n STRING, p INT) USING parquet",
    "e": "CREATE TABLE e (ek INT, en STRING) USING parquet",
}
KEYS = ("k", "g", "d", "b", "c", "v")
"""Columns that views group by; those of f, and n of o in a join."""
VALUES = {
    "f": (
        ("0", "1", "2", "3"),
        ("''", "'a'", "'b'", "'A'"),
        ("DATE '2020-01-31'", "DATE '2020-02-29'", "DATE '2021-12-31'", "DATE '1969-12-31'"),
        ("TIMESTAMP '2020-01-31 23:59:59.999'", "TIMESTAMP '2020-03-01 00:00:00'"),
        ("0", "-1", "7", "100"),
        ("0", "-5", "4611686018427387"),
        ("0", "1", "6", "-7"),
        ("0", "1.25", "-99999999.99"),
        ("0.01", "12345678901234567890.12"),
        ("double('NaN')", "0.0D", "-0.0D", "1.5D", "1e300D"),
        ("true", "false"),
        ("''", "'a'", "'a '", "'ab'", "'A'"),
        ("''", "'a'", "'a '", "'b'", "'a   '"),
    ),
    "o": (("0", "1", "2", "9"), ("'u'", "'v'"), ("1", "5")),
}
"""What the columns of each table contain, besides NULL; e has a row for each value of k."""
ROWS = {"f": 60, "o": 6}


def rows(source: random.Random) -> dict[str, list[str]]:
    """The tables' rows as SQL."""

    def row(columns: tuple[tuple[str, ...], ...]) -> str:
        return f"({', '.join(source.choice(('NULL', *values)) for values in columns)})"

    found = {table: [row(VALUES[table]) for _ in range(count)] for table, count in ROWS.items()}
    names = ("NULL", "'q'", "'r'")
    return {**found, "e": [f"({key}, {source.choice(names)})" for key in VALUES["f"][0]]}


@dataclass(frozen=True, slots=True)
class Measure:
    """An aggregate of the rows, and how groups of a view that has it as `{m}` compute it."""

    aggregate: str
    merged: str
    wrong: str


MEASURES = (
    Measure("sum(x)", "sum({m})", "max({m})"),
    Measure("sum(y)", "sum({m})", "avg({m})"),
    Measure("sum(s)", "sum({m})", "count({m})"),
    Measure("sum(x + s)", "sum({m})", "min({m})"),
    Measure("sum(m)", "CAST(sum({m}) AS DECIMAL(20,2))", "max({m})"),
    Measure("sum(w)", "sum({m})", "max({m})"),
    Measure("count(*)", "coalesce(sum({m}), 0)", "count({m})"),
    Measure("count(x)", "coalesce(sum({m}), 0)", "count(*)"),
    Measure("count(r)", "coalesce(sum({m}), 0)", "max({m})"),
    Measure("min(x)", "min({m})", "max({m})"),
    Measure("max(g)", "max({m})", "min({m})"),
    Measure("max(c)", "max({m})", "min({m})"),
    Measure("min(v)", "min({m})", "max({m})"),
    Measure("max(ts)", "max({m})", "min({m})"),
    Measure("min(r)", "min({m})", "max({m})"),
    Measure("bit_or(s)", "bit_or({m})", "bit_and({m})"),
    Measure("bit_xor(y)", "bit_xor({m})", "bit_or({m})"),
    Measure("bool_and(b)", "bool_and({m})", "bool_or({m})"),
    Measure("sum(x) FILTER (WHERE s > 0)", "sum({m})", "max({m})"),
    Measure("count(*) FILTER (WHERE x > 0)", "coalesce(sum({m}), 0)", "count({m})"),
)
UNMERGEABLE = (
    ("avg(x)", "avg({m})"),
    ("count(DISTINCT x)", "sum({m})"),
    ("sum(r)", "sum({m})"),
    ("try_sum(y)", "try_sum({m})"),
    ("sum(DISTINCT x)", "sum({m})"),
    ("avg(m)", "CAST(avg({m}) AS DECIMAL(14,6))"),
    ("stddev(x)", "avg({m})"),
)
"""Aggregates of the rows, and what a careless matcher computes from groups."""
ROW_CONDITIONS = (
    "x > 0",
    "x <> 7",
    "s IS NOT NULL",
    "y BETWEEN -5 AND 5",
    "x % 2 = 1",
    "s <> 6",
    "m < 2",
    "ts IS NULL",
    "coalesce(s, 1) > 0",
)
"""Conditions of a view and its queries, on columns other than keys."""
KEY_CONDITIONS = {
    "k": (
        *("k = {1}", "k > {0}", "k IN ({0}, {2})", "k IS NULL", "k <=> NULL OR k < {2}", "coalesce(k, 7) <> {1}"),
        *("k IN ( SELECT ok FROM o WHERE p > 1 )", "k NOT IN ( SELECT p FROM o WHERE p > {1} )"),
        *("EXISTS (SELECT 1 FROM o WHERE ok = k AND n = 'u')", "NOT EXISTS (SELECT 1 FROM o WHERE p = k )"),
        "k >= (SELECT min(ok) FROM o)",
    ),
    "g": ("g = 'a'", "g LIKE 'a%'", "upper(g) = 'A'", "g IN ('a', 'b')", "length(g) > 0", "g IS NOT NULL"),
    "d": (
        "d >= DATE '2020-02-01'",
        "year(d) = 2020",
        "d < '2021-01-01'",
        "month(d) IN (1, 12)",
        "d <> DATE '2020-01-31'",
    ),
    # Spark reads `FROM f WHERE (b)` as a table alias with a column list.
    "b": ("b = true", "NOT b", "b IS NULL", "b <=> true"),
    "c": ("c = 'a'", "c IN ('a', 'ab')", "c > 'a'", "c LIKE 'a%'", "upper(c) = 'A   '", "c IS NOT NULL", "'a  ' <> c"),
    "v": ("v = 'a'", "v > 'a '", "v IN ('a', 'b')", "length(v) = 1", "v IS NOT NULL"),
    "n": ("n = 'u'", "n IS NULL OR n > 'u'", "n LIKE '%v'"),
}
KEY_EXPRESSIONS = {
    "k": ("k", "k % 2", "coalesce(k, -1)"),
    "g": ("g", "upper(g)", "substring(g, 1, 1)", "length(g)"),
    "d": ("d", "year(d)", "date_trunc('month', d)", "trunc(d, 'YEAR')", "CAST(d AS STRING)"),
    "b": ("b", "NOT b"),
    "c": ("c", "upper(c)", "concat(c, '!')", "length(c)"),
    "v": ("v", "substring(v, 1, 2)", "length(v)"),
    "n": ("n", "concat(n, '!')"),
}
JOINS = {"": "f", "INNER": "f JOIN o ON k = ok", "LEFT": "f LEFT JOIN o ON k = ok"}


@dataclass(frozen=True, slots=True)
class View:
    join: str
    where: tuple[str, ...]
    keys: tuple[str, ...]
    measures: tuple[str, ...]

    @property
    def sql(self) -> str:
        columns = [*self.keys, *(f"{each} AS m{place}" for place, each in enumerate(self.measures))]
        return f"SELECT {', '.join(columns)} FROM {JOINS[self.join]}{_where(self.where)}{_group(self.keys)}"


@dataclass(frozen=True, slots=True)
class Query:
    """A query on the rows or, with other values, on the view."""

    source: str
    where: tuple[str, ...]
    keys: tuple[str, ...]
    values: tuple[str, ...]
    having: str = ""
    sets: str = ""
    """ROLLUP or CUBE."""

    @property
    def sql(self) -> str:
        columns = [f"{each} AS c{place}" for place, each in enumerate((*self.keys, *self.values))]
        having = f" HAVING {self.having}" if self.having else ""
        groups = f"{_group(self.keys, self.sets)}{having}"
        return f"SELECT {', '.join(columns)} FROM {self.source}{_where(self.where)}{groups}"


@dataclass(frozen=True, slots=True)
class Wrong:
    what: str
    sql: str
    perhaps: bool = False
    """Whether its rows may be the query's nevertheless."""


@dataclass(frozen=True, slots=True)
class Trial:
    query: str
    right: str
    """Reads {view}, as the wrong ones do. Empty if there is none."""
    wrong: tuple[Wrong, ...]


def _where(conditions: tuple[str, ...]) -> str:
    return f" WHERE {' AND '.join(f'({each})' for each in conditions)}" if conditions else ""


def _group(keys: tuple[str, ...], sets: str = "") -> str:
    listed = f"{sets} ({', '.join(keys)})" if sets else ", ".join(keys)
    return f" GROUP BY {listed}" if keys else ""


def random_view(source: random.Random) -> View:
    join = source.choice(("", "", "INNER", "LEFT"))
    keys = source.sample([*KEYS, *(["n"] if join else [])], source.randint(1, 3))
    chosen = source.sample(MEASURES, source.randint(2, 4))
    unmergeable = source.choice(UNMERGEABLE)
    where = tuple(source.sample(ROW_CONDITIONS, source.choice((0, 0, 1, 2))))
    return View(join, where, tuple(keys), (*(each.aggregate for each in chosen), unmergeable[0]))


def random_trial(source: random.Random, view: View) -> Trial:
    """A query that the view can answer, and rewritings."""
    keys = tuple(
        source.choice(KEY_EXPRESSIONS[each])
        for each in source.sample(view.keys, source.choice((0, 1, 1, len(view.keys))))
    )
    numbers = source.sample(range(4), 3)
    conditions = tuple(
        source.choice(KEY_CONDITIONS[each]).format(*numbers)
        for each in source.sample(view.keys, source.choice((0, 1, 1, 2) if len(view.keys) > 1 else (0, 1)))
    )
    places = source.sample(range(len(view.measures) - 1), source.randint(1, len(view.measures) - 1))
    measures = [(place, _measure(view.measures[place])) for place in places]
    query = Query(
        JOINS[view.join],
        tuple(source.sample((*view.where, *conditions), len(view.where) + len(conditions))),
        keys,
        tuple(each.aggregate for _, each in measures),
    )
    right = Query("{view}", conditions, keys, tuple(each.merged.format(m=f"m{place}") for place, each in measures))
    query, right = _with_cases(source, view, query, right, measures)
    if source.random() < 0.2:
        sets = source.choice(("ROLLUP", "CUBE"))
        query, right = replace(query, sets=sets), replace(right, sets=sets)
    if source.random() < 0.3 and keys:
        place = source.randrange(len(measures))
        query = replace(query, having=f"{query.values[place]} IS NOT NULL")
        right = replace(right, having=f"{right.values[place]} IS NOT NULL")
    wrong = tuple(_mutants(source, view, query, right, measures))
    return Trial(query.sql, right.sql, wrong)


CASES = {
    "sum(x)": "sum(CASE WHEN {p} THEN {m} ELSE 0 END)",
    "sum(y)": "sum(CASE WHEN {p} THEN {m} ELSE 0 END)",
    "sum(m)": "CAST(sum(CASE WHEN {p} THEN {m} ELSE 0 END) AS DECIMAL(22,2))",
    "sum(w)": "CAST(sum(CASE WHEN {p} THEN {m} ELSE 0 END) AS DECIMAL(38,2))",
}
"""By sums, how groups compute the sum of those rows that meet a condition on keys, and 0 for the others."""


def _with_cases(
    source: random.Random, view: View, query: Query, right: Query, measures: list[tuple[int, Measure]]
) -> tuple[Query, Query]:
    """The pair with some sums of a CASE."""
    mine, its = list(query.values), list(right.values)
    for place, (number, measure) in enumerate(measures):
        if measure.aggregate in CASES and source.random() < 0.3:
            key = source.choice(view.keys)
            condition = source.choice([each for each in KEY_CONDITIONS[key] if "SELECT" not in each]).format(0, 1, 2)
            column = measure.aggregate.removeprefix("sum(").removesuffix(")")
            mine[place] = f"sum(CASE WHEN {condition} THEN {column} ELSE 0 END)"
            its[place] = CASES[measure.aggregate].format(p=condition, m=f"m{number}")
    return replace(query, values=tuple(mine)), replace(right, values=tuple(its))


def careless_trial(source: random.Random, view: View) -> Trial:
    """A query for an aggregate that does not merge, computed from groups nevertheless."""
    keys = view.keys[1:] if source.random() < 0.5 else ()
    merged = dict(UNMERGEABLE)[view.measures[-1]].format(m=f"m{len(view.measures) - 1}")
    query = Query(JOINS[view.join], view.where, keys, (view.measures[-1],))
    return Trial(query.sql, "", (Wrong("groups of groups", Query("{view}", (), keys, (merged,)).sql),))


def _measure(aggregate: str) -> Measure:
    return next(each for each in MEASURES if each.aggregate == aggregate)


def _mutants(
    source: random.Random, view: View, query: Query, right: Query, measures: list[tuple[int, Measure]]
) -> Iterator[Wrong]:
    place = source.randrange(len(measures))
    column, measure = measures[place]

    def valued(value: str) -> Query:
        return replace(right, values=(*right.values[:place], value, *right.values[place + 1 :]), having="")

    # Queries with HAVING keep it in other mutants; here both would have to change.
    if not query.having:
        yield Wrong("another aggregate", valued(measure.wrong.format(m=f"m{column}")).sql)
        others = [other for other in range(len(view.measures)) if other != column]
        yield Wrong("another measure", valued(measure.merged.format(m=f"m{source.choice(others)}")).sql)
        if measure.aggregate.startswith("count") and not right.keys:
            yield Wrong("NULL for no rows", valued(f"sum(m{column})").sql)
        if measure.aggregate.startswith("count"):
            filtered = f"sum(m{column}) FILTER (WHERE {view.keys[0]} IS NOT NULL)"
            yield Wrong("another filter", valued(f"coalesce({filtered}, 0)").sql)
    if right.sets and len(right.keys) > 1:
        yield Wrong("other sets of keys", replace(right, sets="CUBE" if right.sets == "ROLLUP" else "ROLLUP").sql)
    for one, other in ((" ELSE 0 ", " "), ("ELSE 0", "ELSE 1")):
        changed = tuple(each.replace(one, other) for each in right.values)
        if changed != right.values and not query.having:
            yield Wrong("another ELSE", replace(right, values=changed).sql)
    if right.where:
        yield Wrong("a condition left out", replace(right, where=right.where[1:]).sql)
    added = source.choice(KEY_CONDITIONS[source.choice(view.keys)]).format(0, 1, 2)
    if added not in right.where and not _implied(added, right.where):
        yield Wrong("a condition added", replace(right, where=(*right.where, added)).sql)
    for literal, other in (
        ("'a'", "'b'"),
        ("2020", "2021"),
        ("DATE '2020-02-01'", "DATE '2020-02-02'"),
        ("'u'", "'v'"),
    ):
        changed = tuple(each.replace(literal, other) for each in right.where)
        if changed != right.where and literal != other and "IN" not in "".join(right.where):
            yield Wrong("another literal", replace(right, where=changed).sql)
    if right.keys and len(view.keys) > 1:
        yield Wrong("a key left out", _without_key(right))
    yield from _of_other_definitions(source, view, query, right)


def _of_other_definitions(source: random.Random, view: View, query: Query, right: Query) -> Iterator[Wrong]:
    def over(definition: View) -> str:
        return right.sql.format(view=f"({definition.sql})")

    if view.join and not any(_is_on(each, "n") for each in query.where):
        yield Wrong("LEFT for INNER", over(replace(view, join="LEFT" if view.join == "INNER" else "INNER")))
    if view.where:
        yield Wrong("a condition of the definition left out", over(replace(view, where=view.where[1:])))
    else:
        yield Wrong("a definition with a condition", over(replace(view, where=(source.choice(ROW_CONDITIONS),))))
    if not right.having:
        yield Wrong("a condition on a measure", replace(right, source="(SELECT * FROM {view} WHERE m0 IS NULL)").sql)
    if not right.having and any("sum" in each for each in right.values):
        yield Wrong("distinct groups", replace(right, source=f"(SELECT DISTINCT {_columns(view)} FROM {{view}})").sql)


def _columns(view: View) -> str:
    """The view's measures without its first key, and that key as one value."""
    return ", ".join([f"max({view.keys[0]}) OVER () AS {view.keys[0]}", *view.keys[1:], *_names(view)])


def _names(view: View) -> list[str]:
    return [f"m{place}" for place in range(len(view.measures))]


def _implied(condition: str, others: tuple[str, ...]) -> bool:
    """Whether a condition may add nothing to others on the same column."""
    column = next(
        name for name in KEY_CONDITIONS if condition in {each.format(0, 1, 2) for each in KEY_CONDITIONS[name]}
    )
    return any(name == column for each in others for name in KEY_CONDITIONS if _is_on(each, name))


def _is_on(condition: str, name: str) -> bool:
    words = condition.replace("(", " ").replace(")", " ").replace(",", " ").split()
    return name in words


def _without_key(query: Query) -> str:
    """The last key as a value of the group that is not a key."""
    return replace(query, keys=query.keys[:-1], values=(f"max({query.keys[-1]})", *query.values)).sql
