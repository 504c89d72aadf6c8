"""Definitions, rows and changes at random."""

from __future__ import annotations

from decimal import Decimal

from duck import Definition, Row, Step
from hypothesis import strategies as st

_NUMBERS = st.sampled_from([None, 0, 1, 2, 3])
_NAMES = st.sampled_from([None, "x", "y", ""])
_T = st.tuples(
    _NUMBERS,
    _NAMES,
    _NUMBERS,
    st.sampled_from([None, Decimal("0.25"), Decimal("-1.50"), Decimal("7.00")]),
    st.sampled_from([None, 0.5, -2.0, 4.0]),
)
_U = st.tuples(_NUMBERS, _NAMES, _NUMBERS)
_ROW = {"t": _T, "u": _U}


def _rows(least: int, most: int) -> st.SearchStrategy[dict[str, list[Row]]]:
    return st.fixed_dictionaries({table: st.lists(row, min_size=least, max_size=most) for table, row in _ROW.items()})


STARTS = _rows(0, 6)
_REMOVED = st.fixed_dictionaries({table: st.lists(st.integers(0, 9), max_size=4) for table in _ROW})
STEPS = st.lists(st.builds(Step, _rows(0, 3), _REMOVED), min_size=1, max_size=3)

_FROM = [
    "t AS p",
    "t AS p JOIN u AS q ON p.a = q.a",
    "u AS q JOIN t AS p ON p.a = q.a AND p.v > q.v",
    "t AS p, u AS q WHERE p.a = q.a",
    "t AS p CROSS JOIN u AS q",
    "t AS p JOIN t AS q ON p.a = q.a",
    "t AS p JOIN t AS q ON p.a = q.a JOIN u AS r ON r.a = q.v",
    "t AS p LEFT JOIN u AS q ON p.a = q.a",
    "t AS p LEFT JOIN u AS q ON p.a = q.a AND p.v > q.v",
    "t AS p LEFT JOIN u AS q ON p.a = q.a AND p.v > q.v JOIN u AS r ON r.a = p.v",
    "u AS q JOIN t AS p ON p.a = q.a LEFT JOIN u AS r ON r.v = p.v LEFT JOIN t AS s ON s.a = q.a",
    "t AS p LEFT JOIN u AS q ON q.c IS NULL AND p.a = q.a",
    "u AS q RIGHT JOIN t AS p ON p.a = q.a",
    "u AS q JOIN u AS r ON r.v = q.v RIGHT JOIN t AS p ON p.a = q.a AND q.c IS NULL",
    "t AS p FULL OUTER JOIN u AS q ON p.a = q.a",
    "t AS p FULL OUTER JOIN u AS q ON p.a = q.a AND p.v > q.v JOIN u AS r ON r.a = p.v",
    "t AS p FULL OUTER JOIN t AS q ON p.a = q.v",
    "u AS q(v, c, a) RIGHT JOIN t AS p ON p.a = q.a",
    "t AS p LEFT SEMI JOIN u AS q ON p.a = q.a",
    "t AS p LEFT ANTI JOIN u AS q ON p.a = q.a",
    "(SELECT a, b, v, w, f FROM t WHERE v > 0) AS p JOIN u AS q ON p.a = q.a",
    "(SELECT x.a, b, y.v, w, f FROM t AS x, u AS y WHERE x.a = y.a) AS p JOIN t AS q USING (v)",
    "t AS p JOIN (VALUES (1, 'x'), (2, NULL)) AS q(a, c) ON p.a = q.a",
    "other.some AS p",
    "other.both AS p JOIN u AS q ON p.a = q.a",
    "u AS q JOIN other.both AS p ON p.a = q.a",
    "other.above AS p",
    "other.some AS p LEFT JOIN other.both AS q ON p.a = q.a",
    "(SELECT * FROM t UNION ALL (SELECT * FROM other.some)) AS p JOIN other.both AS q ON p.a = q.v",
]
_CONDITIONS = [
    *("", "", "p.v > 0", "p.b = 'x' OR p.v IS NULL", "p.a IN (SELECT a FROM u)", "p.a NOT IN (SELECT a FROM u)"),
    *("p.b IN (SELECT c FROM u WHERE u.v > p.v)", "EXISTS (SELECT * FROM t WHERE t.v = p.a) OR p.a IS NULL"),
    *("EXISTS (SELECT 1 FROM u AS z WHERE z.a = p.a)", "NOT EXISTS (SELECT 1 FROM u AS z WHERE z.a = p.a)"),
]
_ITEMS = ["p.a", "p.b", "p.w", "upper(p.b)", "p.a + 1", "p.v * p.v", "CASE WHEN p.f > 0 THEN p.b END"]
_KEYS = ["p.a", "p.b", "upper(p.b)", "p.a % 2", "coalesce(p.b, 'none')"]
EXACT = [
    *("count(*)", "count(p.w)", "sum(p.v)", "sum(p.w)", "avg(p.v)", "avg(p.w)", "count_if(p.a > 1)"),
    *("sum(p.v) FILTER (WHERE p.b = 'x')", "avg(p.v) FILTER (WHERE p.a > 1)", "coalesce(sum(p.v), 0) + count(*)"),
    *("sum(p.v) / count(p.v)", "(count(*) + 1) * 2"),
]
_OTHER = [
    *("sum(p.f)", "avg(p.f)", "min(p.v)", "max(p.b)", "bool_and(p.v > 1)", "bool_or(p.v > 1)", "bit_or(p.v)"),
    *("max(p.v) - min(p.v)", "max_by(p.v + 1, p.v)", "bit_xor(p.v)", "min_by(p.v, p.v) FILTER (WHERE p.a > 0)"),
]
WHOLE = [
    *("count(DISTINCT p.v)", "sum(DISTINCT p.v)", "count(DISTINCT p.b) FILTER (WHERE p.a > 0)", "stddev_pop(p.v)"),
    *("median(p.v)", "count(DISTINCT p.v) - min(p.v)", "count(ALL p.v)"),
]
"""Aggregates that are computed from all rows of a group."""
_HAVING = ["count(*) > 1", "sum(p.v) > 2", "max(p.v) IS NOT NULL", "m0 IS NOT NULL AND count(*) < 4"]


@st.composite
def sources(draw: st.DrawFn) -> str:
    found = draw(st.sampled_from(_FROM))
    condition = draw(st.sampled_from(_CONDITIONS))
    if condition:
        found += f" AND ({condition})" if " WHERE p.a = q.a" in found[-16:] else f" WHERE {condition}"
    return found


@st.composite
def selections(draw: st.DrawFn) -> Definition:
    """Rows, perhaps of a UNION ALL."""
    items = draw(st.lists(st.sampled_from(_ITEMS), min_size=1, max_size=3))
    columns = tuple(f"c{number}" for number in range(len(items)))
    named = ", ".join(f"{item} AS {column}" for item, column in zip(items, columns, strict=True))
    parts = draw(st.lists(sources(), min_size=1, max_size=3))
    return Definition(" UNION ALL ".join(f"SELECT {named} FROM {each}" for each in parts), columns)


@st.composite
def distinct(draw: st.DrawFn) -> Definition:
    made = draw(selections())
    if " UNION ALL SELECT " in made.text:
        return Definition(made.text.replace(" UNION ALL SELECT ", " UNION SELECT "), made.columns)
    return Definition(made.text.replace("SELECT", "SELECT DISTINCT", 1), made.columns)


@st.composite
def aggregations(draw: st.DrawFn, *, exact: bool | None = None, sets: bool | None = None) -> Definition:
    """Groups, perhaps one of all rows, perhaps with totals or HAVING."""
    keys = draw(st.lists(st.sampled_from(_KEYS), min_size=1 if sets else 0, max_size=2, unique=True))
    only_exact = draw(st.booleans()) if exact is None else exact
    listed = EXACT if only_exact else EXACT + _OTHER
    if keys and not only_exact and not sets and draw(st.integers(0, 2)) == 0:
        listed, sets = listed + WHOLE * 2, False
    measures = draw(st.lists(st.sampled_from(listed), min_size=1, max_size=3))
    shown = draw(st.lists(st.sampled_from(keys), unique=True)) if keys else []
    items = [*(f"{key} AS k{number}" for number, key in enumerate(shown))]
    items += [f"{each} AS m{number}" for number, each in enumerate(measures)]
    text = f"SELECT {', '.join(items)} FROM {draw(sources())}"
    columns = tuple(item.rpartition(" ")[2] for item in items)
    totals = bool(keys) and (draw(st.booleans()) if sets is None else sets)
    having = draw(st.sampled_from(["", *(_HAVING[2:] if not only_exact else _HAVING[:2])]))
    by = ", ".join(keys)
    if keys:
        text += f" GROUP BY {draw(st.sampled_from(['ROLLUP', 'CUBE']))}({by})" if totals else f" GROUP BY {by}"
    checked = f"{text} HAVING {f'({having}) AND ' if having else ''}count(*) > 0" if totals else ""
    return Definition(f"{text} HAVING {having}" if having else text, columns, by if totals else "", checked)


@st.composite
def passed_on(draw: st.DrawFn) -> Definition:
    """A CTE that is shown as it is; or expressions over a CTE with groups, perhaps filtered."""
    made = draw(st.one_of(distinct(), aggregations(sets=False)))
    if "GROUP BY" not in made.text:
        return Definition(f"WITH s AS ({made.text}) SELECT * FROM s", made.columns)
    columns = draw(st.lists(st.sampled_from(made.columns), min_size=1, unique=True))
    items = [
        draw(st.sampled_from(["{}", "{} AS {}", "coalesce(s.{}, {}) AS {}"])).replace("{}", each) for each in columns
    ]
    condition = draw(st.sampled_from(["", *(f" WHERE {each} IS NOT NULL" for each in made.columns)]))
    return Definition(f"WITH s AS ({made.text}) SELECT {', '.join(items)} FROM s{condition}", tuple(columns))


_WINDOWS = [
    *("rank() OVER ({} ORDER BY p.v)", "row_number() OVER ({} ORDER BY p.v, p.a, p.b, p.w, p.f)"),
    *("lag(p.v) OVER ({} ORDER BY p.v)", "sum(p.v) OVER ({} ORDER BY p.v)", "count(*) OVER ({})"),
    *("max(p.v) OVER ({})", "p.v - min(p.v) OVER ({})"),
]
_GROUP_WINDOWS = ["rank() OVER ({} ORDER BY sum(p.v))", "sum(count(*)) OVER ({})", "count(*) - max(count(*)) OVER ({})"]


@st.composite
def windows(draw: st.DrawFn) -> Definition:
    """Windows that share a key, over rows or groups, perhaps filtered above."""
    shared, other = draw(st.sampled_from(_KEYS)), draw(st.sampled_from(_KEYS))
    grouped = draw(st.integers(0, 3)) == 0
    listed = draw(st.lists(st.sampled_from(_GROUP_WINDOWS if grouped else _WINDOWS), min_size=1, max_size=2))
    keys = [draw(st.sampled_from([shared, f"{other}, {shared}" if not grouped else shared])) for _ in listed]
    items = [each.format(f"PARTITION BY {by}") for each, by in zip(listed, keys, strict=True)]
    shown = draw(st.lists(st.sampled_from([shared] if grouped else [shared, *_ITEMS]), max_size=2, unique=True))
    named = [*shown, *items]
    columns = tuple(f"c{number}" for number in range(len(named)))
    text = f"SELECT {', '.join(f'{item} AS {name}' for item, name in zip(named, columns, strict=True))}"
    text += f" FROM {draw(sources())}" + (f" GROUP BY {other}, {shared}" if grouped and other != shared else "")
    text += f" GROUP BY {shared}" if grouped and other == shared else ""
    above = draw(st.sampled_from(["", "", "SELECT * FROM ({}) AS s WHERE {} <= 2", "SELECT {} FROM ({}) AS s"]))
    if above.startswith("SELECT *"):
        return Definition(above.format(text, columns[-1]), columns)
    if above:
        kept = draw(st.lists(st.sampled_from(columns), min_size=1, unique=True))
        return Definition(above.format(", ".join(kept), text), tuple(kept))
    return Definition(text, columns)


@st.composite
def groups_of_groups(draw: st.DrawFn) -> Definition:
    """Groups, or DISTINCT, over groups."""
    made = draw(aggregations(sets=False).filter(lambda each: each.columns[0] == "k0"))
    other = draw(st.sampled_from(made.columns))
    outer = draw(
        st.sampled_from(["k0, max({}) AS m FROM ({}) AS s GROUP BY k0", "DISTINCT k0, {} AS m FROM ({}) AS s"])
    )
    return Definition(f"SELECT {outer.format(other, made.text)}", ("k0", "m"))


DEFINITIONS = st.one_of(selections(), distinct(), aggregations(), passed_on(), windows(), groups_of_groups())
