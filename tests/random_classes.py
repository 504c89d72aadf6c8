"""Random views, and queries with right and wrong rewritings, of each class of rewritings that the proof knows.

`random_pairs` has groups of one table and of its joins. Here are those that need other lemmas. In a text, {view} and
{other} stand for the views, and {lower} for the stored rows of the first one, as a table.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from random_pairs import (
    KEY_CONDITIONS,
    KEY_EXPRESSIONS,
    KEYS,
    MEASURES,
    ROW_CONDITIONS,
    Measure,
    Trial,
    Wrong,
    careless_trial,
    random_trial,
    random_view,
)

_COLUMNS = re.compile(r"'[^']*'|\b(k|g|d|ts|x|y|s|m|w|r|b|c|v)\b(?![(.])")
OF_O = ("p > 1", "n = 'u'", "ok <> 2", "n IS NOT NULL", "p = 5")
"""Conditions on the rows of o."""


@dataclass(frozen=True, slots=True)
class Case:
    kind: str
    views: tuple[str, ...]
    """The definitions; each may read the stored rows of the first one."""
    trials: Iterator[Trial]
    """Endless."""
    keyed: bool = False
    """Whether the keys of the tables are known."""


def prefixed(text: str, prefix: str) -> str:
    """An expression over the columns of f with something before each of them."""
    return _COLUMNS.sub(lambda found: f"{prefix}{found[1]}" if found[1] else found[0], text)


@dataclass(frozen=True, slots=True)
class Part:
    """An expression, as it stands in a query and over a view."""

    query: str
    right: str


def _selected(values: list[Part], *, right: bool) -> str:
    return ", ".join(f"{each.right if right else each.query} AS c{place}" for place, each in enumerate(values))


def _where(*conditions: str) -> str:
    known = [f"({each})" for each in conditions if each]
    return f" WHERE {' AND '.join(known)}" if known else ""


def _group(keys: list[str]) -> str:
    return f" GROUP BY {', '.join(keys)}" if keys else ""


def _key_condition(source: random.Random, key: str) -> str:
    plain = [each for each in KEY_CONDITIONS[key] if "SELECT" not in each]
    return source.choice(plain).format(*source.sample(range(4), 3))


@dataclass(frozen=True, slots=True)
class Grouped:
    """Groups of rows: where they come from, and the names of the columns of a view with them."""

    source: str
    where: tuple[str, ...]
    keys: tuple[Part, ...]
    """In the definition, and their names."""
    measures: tuple[tuple[str, Measure], ...]
    """What is before the columns of f, and the aggregate."""

    @property
    def sql(self) -> str:
        columns = [f"{each.query} AS {each.right}" for each in self.keys]
        columns += [f"{prefixed(each.aggregate, side)} AS m{n}" for n, (side, each) in enumerate(self.measures)]
        return (
            f"SELECT {', '.join(columns)} FROM {self.source}{_where(*self.where)}{_group([e.query for e in self.keys])}"
        )


def _rolled_up(
    source: random.Random, groups: Grouped, changed: list[tuple[str, str]], over: str = "{view}", *, added: str = ""
) -> Trial:
    """A query for coarser groups, from a view's, and wrong ones; `changed` are other definitions. `added`: a condition
    of the query that the view lacks, so that it stands in both."""
    keys = [_of_key(source, each) for each in source.sample(groups.keys, source.randint(0, len(groups.keys)))]
    tests = [_condition_of(source, each) for each in source.sample(groups.keys, source.choice((0, 0, 1)))]
    chosen = source.sample(range(len(groups.measures)), source.randint(1, len(groups.measures)))
    values = [_value(groups, place, place) for place in chosen]
    query = (
        f"SELECT {_selected([*keys, *values], right=False)} FROM {groups.source}"
        f"{_where(*groups.where, *(each.query for each in tests), added)}{_group([each.query for each in keys])}"
    )

    def right(its: list[Part], conditions: list[str], view: str = over) -> str:
        return (
            f"SELECT {_selected([*keys, *its], right=True)} FROM {view}{_where(*conditions)}"
            f"{_group([each.right for each in keys])}"
        )

    conditions = [*(each.right for each in tests), added]
    wrong = [Wrong(what, right(values, conditions, f"({sql})"), perhaps=True) for what, sql in changed]
    if len(groups.measures) > 1:
        others = [_value(groups, place, (place + 1) % len(groups.measures)) for place in chosen]
        wrong.append(Wrong("another measure", right(others, conditions), perhaps=True))
    measure = groups.measures[chosen[0]][1]
    other = Part(values[0].query, measure.wrong.format(m=f"m{chosen[0]}"))
    wrong.append(Wrong("another aggregate", right([other, *values[1:]], conditions), perhaps=True))
    if tests:
        wrong.append(Wrong("a condition left out", right(values, conditions[1:]), perhaps=True))
    more = _condition_of(source, source.choice(groups.keys)).right
    wrong.append(Wrong("a condition added", right(values, [*conditions, more]), perhaps=True))
    return Trial(query, right(values, conditions), tuple(wrong))


def _of_key(source: random.Random, key: Part) -> Part:
    """An expression over a key."""
    name = key.query.rpartition(".")[2]
    if name not in KEY_EXPRESSIONS:
        return key
    text = source.choice(KEY_EXPRESSIONS[name])
    return Part(_in(text, name, key.query), _in(text, name, key.right))


_OTHER_CONDITIONS = {"ok": ("ok <> 2", "ok > 0"), "en": ("en <> 'q'", "en IS NULL")}


def _condition_of(source: random.Random, key: Part) -> Part:
    name = key.query.rpartition(".")[2]
    text = _key_condition(source, name) if name in KEY_CONDITIONS else source.choice(_OTHER_CONDITIONS[name])
    return Part(_in(text, name, key.query), _in(text, name, key.right))


def _in(text: str, name: str, instead: str) -> str:
    return re.sub(rf"'[^']*'|\b{name}\b", lambda found: found[0] if found[0][0] == "'" else instead, text)


def _value(groups: Grouped, place: int, column: int) -> Part:
    side, measure = groups.measures[place]
    return Part(prefixed(measure.aggregate, side), measure.merged.format(m=f"m{column}"))


def _measures(source: random.Random, sides: tuple[str, ...], count: int) -> tuple[tuple[str, Measure], ...]:
    return tuple((source.choice(sides), each) for each in source.sample(MEASURES, count))


def _keys(source: random.Random, side: str, count: int, *needed: str) -> tuple[Part, ...]:
    name = side.replace(".", "_")
    rest = source.sample([each for each in KEYS if each not in needed], count)
    return tuple(Part(f"{side}{each}", f"{name}{each}") for each in (*needed, *rest))


# --- the classes ---------------------------------------------------------------------------------------


def groups_of_a_table(source: random.Random) -> Case:
    view = random_view(source)

    def trials() -> Iterator[Trial]:
        yield careless_trial(source, view)
        while True:
            yield random_trial(source, view)

    return Case("groups", (view.sql,), trials())


_UNEQUAL = ("a.x < b.x", "a.d < b.d", "a.s < b.s", "a.g <> b.c", "a.y = b.x", "a.b < b.b")


def self_joins(source: random.Random) -> Case:
    """Groups of a table that is joined with itself."""
    unequal = source.choice(_UNEQUAL)
    on = ["a.k = b.k", *([unequal] if source.random() < 0.8 else ())]
    where = tuple(prefixed(each, "a.") for each in source.sample(ROW_CONDITIONS, source.choice((0, 1))))
    keys = (*_keys(source, "a.", source.randint(1, 2)), *_keys(source, "b.", 1))
    first, second = source.choice((("a", "b"), ("b", "a")))
    groups = Grouped(
        f"f {first} JOIN f {second} ON {' AND '.join(on)}", where, keys, _measures(source, ("a.", "b."), 3)
    )
    other = Grouped(f"f b JOIN f a ON {' AND '.join(on)}", where, keys, groups.measures)

    def changed() -> list[tuple[str, str]]:
        sql = other.sql
        mirrored = {"a.": "b.", "b.": "a."}
        found = [
            ("one occurrence's measure", sql.replace(each, re.sub(r"\b[ab]\.", lambda m: mirrored[m[0]], each), 1))
            for side, m in groups.measures[:1]
            for each in [prefixed(m.aggregate, side)]
        ]
        if len(on) > 1:
            found.append(
                ("a comparison turned", sql.replace(unequal, re.sub(r"\b[ab]\.", lambda m: mirrored[m[0]], unequal)))
            )
            found.append(("a comparison left out", sql.replace(f" AND {unequal}", "")))
        if where:
            found.append(("the other occurrence filtered", sql.replace(where[0], where[0].replace("a.", "b."))))
        found.append(("a key of the other occurrence", sql.replace(keys[0].query, keys[0].query.replace("a.", "b."))))
        return found

    def trials() -> Iterator[Trial]:
        while True:
            yield _rolled_up(source, groups, changed())

    return Case("self-joins", (other.sql,), trials())


def one_occurrence(source: random.Random) -> Case:
    """Groups that take the place of one of two occurrences of their table."""
    keys = ("k", *source.sample(KEYS[1:], source.randint(1, 2)))
    chosen = source.sample(MEASURES, 3)
    columns = [*keys, *(f"{each.aggregate} AS m{place}" for place, each in enumerate(chosen))]
    view = f"SELECT {', '.join(columns)} FROM f GROUP BY {', '.join(keys)}"

    def trials() -> Iterator[Trial]:
        while True:
            place, measure = source.choice(list(enumerate(chosen)))
            key, its = source.choice(keys), source.choice(keys)
            condition = prefixed(_key_condition(source, its), "b.")
            value = Part(prefixed(measure.aggregate, "a."), measure.merged.format(m=f"a.m{place}"))
            grouped = _group([f"a.{key}"])

            def made(
                left: str,
                right: str,
                on: str,
                value: str,
                key: str = key,
                grouped: str = grouped,
                condition: str = condition,
            ) -> str:
                joined = f"{left} a JOIN {right} b ON {on}"
                return f"SELECT a.{key} AS c0, {value} AS c1 FROM {joined} WHERE {condition}{grouped}"

            right = made("{view}", "f", "a.k = b.k", value.right)
            wrong = [
                Wrong("both from groups", made("{view}", "{view}", "a.k = b.k", value.right), perhaps=True),
                Wrong("the other one from groups", made("f", "{view}", "a.k = b.k", value.query), perhaps=True),
                Wrong("another join", made("{view}", "f", "a.k <= b.k", value.right), perhaps=True),
                Wrong("the other one filtered", right.replace(condition, condition.replace("b.", "a.")), perhaps=True),
                Wrong(
                    "another aggregate",
                    made("{view}", "f", "a.k = b.k", measure.wrong.format(m=f"a.m{place}")),
                    perhaps=True,
                ),
            ]
            yield Trial(made("f", "f", "a.k = b.k", value.query), right, tuple(wrong))

    return Case("one occurrence", (view,), trials())


def several_views(source: random.Random) -> Case:
    """Groups of one table, and rows of the other one: joined, in branches of a UNION ALL, and in a subquery."""
    keys = ("k", *source.sample(KEYS[1:], source.randint(1, 2)))
    chosen = source.sample(MEASURES, 3)
    columns = [*keys, *(f"{each.aggregate} AS m{place}" for place, each in enumerate(chosen))]
    test, another = source.sample(OF_O, 2)
    view = f"SELECT {', '.join(columns)} FROM f GROUP BY {', '.join(keys)}"
    other = f"SELECT ok, n, p FROM o WHERE {test}"
    careless = f"(SELECT ok, n, p FROM o WHERE {another})"
    rest = f"SELECT ok, n, p FROM o WHERE {test}"

    def trials() -> Iterator[Trial]:
        while True:
            place, measure = source.choice(list(enumerate(chosen)))
            key = source.choice(keys)
            value, merged = measure.aggregate, measure.merged.format(m=f"m{place}")
            texts = source.choice(
                (
                    "SELECT n AS c0, {value} AS c1 FROM {f} JOIN {o} ON k = ok{test} GROUP BY n",
                    "SELECT {key} AS c0, n AS c1, {value} AS c2 FROM {o} JOIN {f} ON k = ok{test} GROUP BY {key}, n",
                    "SELECT {key} AS c0, {value} AS c1 FROM {f} GROUP BY {key} UNION ALL SELECT n, p FROM {o}{where}",
                    "SELECT {key} AS c0, {value} AS c1 FROM {f} WHERE k IN (SELECT ok FROM {o}{where}) GROUP BY {key}",
                    "SELECT {key} AS c0, {value} AS c1 FROM {f} "
                    "WHERE NOT EXISTS (SELECT 1 FROM {o} WHERE ok = k{test}) GROUP BY {key}",
                    "SELECT {key} AS c0, {value} AS c1 FROM {f} GROUP BY {key} "
                    "HAVING {value} > (SELECT max(p) FROM {o}{where})",
                )
            )
            if ("UNION" in texts and key != "g") or ("HAVING" in texts and not _is_number(value)):
                continue

            def made(f: str, o: str, value: str, condition: str = "", texts: str = texts, key: str = key) -> str:
                tests = {"test": f" AND {condition}" if condition else "", "where": _where(condition)}
                return texts.format(f=f, o=o, value=value, key=key, **tests)

            query = made("f", "o", value, test)
            wrong = [
                Wrong("another view", made("{view}", careless, merged), perhaps=True),
                Wrong("no condition of the other view", made("{view}", "o", merged), perhaps=True),
                Wrong("a condition added", made("{view}", "{other}", merged, another), perhaps=True),
                Wrong(
                    "another aggregate", made("{view}", "{other}", measure.wrong.format(m=f"m{place}")), perhaps=True
                ),
                Wrong("rows twice", made("{view}", f"({rest} UNION ALL {rest})", merged), perhaps=True),
                Wrong(
                    "distinct groups",
                    made("(SELECT DISTINCT * FROM {view} WHERE k > 0)", "{other}", merged),
                    perhaps=True,
                ),
            ]
            yield Trial(query, made("{view}", "{other}", merged), tuple(wrong))

    return Case("several views", (view, other), trials())


def _is_number(aggregate: str) -> bool:
    return aggregate.startswith(("count", "sum")) or aggregate in {"min(x)", "max(x)"}


_OVER_GROUPS = tuple(each for each in MEASURES if "DECIMAL" not in each.merged and "(w)" not in each.aggregate)


def views_of_views(source: random.Random) -> Case:
    """Groups of the stored groups of another view: the query over the lower one, and that text over the upper one."""
    keys = tuple(source.sample(KEYS, 3))
    chosen = source.sample(_OVER_GROUPS, 3)
    lower = Grouped("f", (), tuple(Part(each, each) for each in keys), tuple(("", each) for each in chosen))
    test = source.choice(("", _key_condition(source, keys[0])))
    names = [
        f"sum(m{n})" if each.aggregate.startswith("count") else each.merged.format(m=f"m{n}")
        for n, each in enumerate(chosen)
    ]
    tops = keys[: source.randint(1, 2)]
    columns = ", ".join((*tops, *(f"{each} AS u{place}" for place, each in enumerate(names))))
    upper = f"SELECT {columns} FROM {{lower}}{_where(test)}{_group(list(tops))}"

    def trials() -> Iterator[Trial]:
        while True:
            yield _rolled_up(source, lower, [])
            place, measure = source.choice(list(enumerate(chosen)))
            key = source.choice(tops)
            value, condition = source.choice(KEY_EXPRESSIONS[key]), _key_condition(source, key)

            def made(view: str, merged: str, *tests: str, value: str = value) -> str:
                return f"SELECT {value} AS c0, {merged} AS c1 FROM {view}{_where(*tests)} GROUP BY {value}"

            merged = measure.merged.format(m=f"m{place}")
            above = measure.merged.format(m=f"u{place}")
            wrong = [
                Wrong(
                    "another column",
                    made("{other}", measure.merged.format(m=f"u{(place + 1) % 3}"), condition),
                    perhaps=True,
                ),
                Wrong(
                    "another aggregate", made("{other}", measure.wrong.format(m=f"u{place}"), condition), perhaps=True
                ),
                Wrong("a condition left out", made("{other}", above), perhaps=True),
                Wrong("another condition", made("{other}", above, _key_condition(source, key)), perhaps=True),
            ]
            yield Trial(made("{lower}", merged, test, condition), made("{other}", above, condition), tuple(wrong))

    return Case("views of views", (lower.sql, upper), trials())


_KEEPING = {
    "LEFT SEMI": (
        "f LEFT SEMI JOIN o ON k = ok AND {}",
        "EXISTS (SELECT 1 FROM o WHERE ok = k AND {})",
        "k IN (SELECT ok FROM o WHERE {})",
    ),
    "LEFT ANTI": ("f LEFT ANTI JOIN o ON k = ok AND {}", "NOT EXISTS (SELECT 1 FROM o WHERE ok = k AND {})", ""),
    "NOT IN": ("", "k NOT IN (SELECT ok FROM o WHERE {})", ""),
}
"""Ways to keep the rows of f for which there is a row of o, or none."""


def rows_that_are_found(source: random.Random) -> Case:
    """Groups of a SEMI or ANTI join."""
    kind = source.choice(tuple(_KEEPING))
    test, another = source.sample(OF_O, 2)
    keys = _keys(source, "", source.randint(1, 2))
    measures = _measures(source, ("",), 3)

    def made(kind: str, test: str, way: int) -> Grouped:
        text = _KEEPING[kind][way].format(test)
        return Grouped(text if not way else "f", (text,) if way else (), keys, measures)

    ways = [place for place, each in enumerate(_KEEPING[kind]) if each]
    definition = made(kind, test, source.choice(ways)).sql
    others = {"LEFT SEMI": "LEFT ANTI", "LEFT ANTI": "NOT IN", "NOT IN": "LEFT ANTI"}
    joined = Grouped(f"f JOIN o ON k = ok AND {test}", (), keys, measures)
    changed = [
        ("rows that are not found", made(others[kind], test, 1).sql),
        ("another condition there", made(kind, another, 1).sql),
        ("rows once for each that is found", joined.sql),
        ("all rows", Grouped("f", (), keys, measures).sql),
    ]

    def trials() -> Iterator[Trial]:
        while True:
            yield _rolled_up(source, made(kind, test, source.choice(ways)), changed)

    return Case("SEMI and ANTI joins", (definition,), trials())


def correlated_values(source: random.Random) -> Case:
    """Values of a subquery that depends on a key, and views with a condition on such a value."""
    keys = _keys(source, "", source.randint(0, 1), "k")
    values = (
        "(SELECT max(p) FROM o WHERE ok = k)",
        "(SELECT min(p) FROM o WHERE ok = k)",
        "(SELECT min(n) FROM o WHERE ok = k)",
        "(SELECT sum(p) FROM o WHERE ok = k AND n = 'u')",
        "(SELECT count(*) FROM o WHERE ok = k)",
    )
    value = source.choice(values)
    measures = _measures(source, ("",), 3)
    where = (f"x > {value}",) if source.random() < 0.4 and "(n)" not in value else ()
    groups = Grouped("f", where, keys, measures)
    changed = [
        ("another value", groups.sql.replace(value, other))
        for other in source.sample(values, 2)
        if where and other != value and "(n)" not in other
    ]
    if where:
        changed.append(("a condition of the definition left out", Grouped("f", (), keys, measures).sql))

    def trials() -> Iterator[Trial]:
        while True:
            if where:
                yield _rolled_up(source, groups, changed)
            its = source.choice(values)
            place, (_, measure) = source.choice(list(enumerate(measures)))

            def made(source: str, merged: str, value: str, condition: str = "") -> str:
                columns = f"k AS c0, {value} AS c1, {merged} AS c2"
                return f"SELECT {columns} FROM {source}{_where(condition)} GROUP BY k, {value}"

            merged = measure.merged.format(m=f"m{place}")
            wrong = [
                *(Wrong("another value", made("{view}", merged, each), perhaps=True) for each in values if each != its),
                Wrong("another key there", made("{view}", merged, its.replace("ok = k", "p = k")), perhaps=True),
                Wrong("another aggregate", made("{view}", measure.wrong.format(m=f"m{place}"), its), perhaps=True),
            ]
            yield Trial(made("f", measure.aggregate, its, *where), made("{view}", merged, its), tuple(wrong))

    return Case("correlated values", (groups.sql,), trials())


def several_sets_of_keys(source: random.Random) -> Case:
    """GROUPING SETS of a view's groups, with the number of the set."""
    keys = tuple(source.sample(KEYS, 3))
    measures = _measures(source, ("",), 3)
    view = Grouped("f", (), tuple(Part(each, each) for each in keys), measures)

    def trials() -> Iterator[Trial]:
        while True:
            used = source.sample(keys, 2)
            both, *rest = (f"({used[0]}, {used[1]})", f"({used[0]})", f"({used[1]})", "()")
            sets = [both, *source.sample(rest, source.randint(1, 2))]
            number = source.choice((f"grouping_id({', '.join(used)})", f"grouping({used[0]})", "0"))
            place, (_, measure) = source.choice(list(enumerate(measures)))
            condition = source.choice(("", _key_condition(source, used[0])))

            def made(
                source: str,
                merged: str,
                number: str,
                sets: list[str],
                condition: str = condition,
                used: list[str] = used,
            ) -> str:
                columns = f"{used[0]} AS c0, {used[1]} AS c1, {number} AS c2, {merged} AS c3"
                return f"SELECT {columns} FROM {source}{_where(condition)} GROUP BY GROUPING SETS ({', '.join(sets)})"

            merged = measure.merged.format(m=f"m{place}")
            another = f"grouping({used[int(number.startswith('grouping('))]})"
            exchanged = f"SELECT {used[1]} AS c0, {used[0]} AS c1"
            right = made("{view}", merged, number, sets)
            wrong = [
                Wrong("a set left out", made("{view}", merged, number, sets[:-1]), perhaps=True),
                *(
                    Wrong("another set", made("{view}", merged, number, [*sets[:-1], each]), perhaps=True)
                    for each in rest
                    if each not in sets
                ),
                Wrong("a set twice", made("{view}", merged, number, [*sets, sets[1]]), perhaps=True),
                Wrong("another number", made("{view}", merged, another, sets), perhaps=True),
                Wrong("another aggregate", right.replace(merged, measure.wrong.format(m=f"m{place}")), perhaps=True),
                Wrong(
                    "keys exchanged", right.replace(f"SELECT {used[0]} AS c0, {used[1]} AS c1", exchanged), perhaps=True
                ),
            ]
            yield Trial(made("f", measure.aggregate, number, sets), right, tuple(wrong))

    return Case("GROUPING SETS", (view.sql,), trials())


def leaders(source: random.Random) -> Case:
    """The groups of the first ranks, from a view's groups."""
    keys = tuple(source.sample(KEYS, 3))
    measures = _measures(source, ("",), 3)
    view = Grouped("f", (), tuple(Part(each, each) for each in keys), measures)

    def trials() -> Iterator[Trial]:
        while True:
            one, two = source.sample(keys, 2)
            place, (_, measure) = source.choice(list(enumerate(measures)))
            count, way = source.randint(1, 3), source.choice(("ASC", "DESC"))
            function = source.choice(("rank()", "dense_rank()"))

            def made(
                source: str, value: str, function: str, by: str, way: str, test: str, one: str = one, two: str = two
            ) -> str:
                place = f"{function} OVER (PARTITION BY {by} ORDER BY {value} {way}) AS place"
                columns = f"{one} AS c0, {two} AS c1, {value} AS c2, {place}"
                return (
                    f"SELECT c0, c1, c2 FROM (SELECT {columns} FROM {source} GROUP BY {one}, {two}) WHERE place {test}"
                )

            merged = measure.merged.format(m=f"m{place}")
            its = (function, one, way, f"<= {count}")
            turned, another = "DESC" if way == "ASC" else "ASC", "dense_rank()" if function == "rank()" else "rank()"
            wrong = [
                Wrong("another rank", made("{view}", merged, another, *its[1:]), perhaps=True),
                Wrong("another partition", made("{view}", merged, function, two, *its[2:]), perhaps=True),
                Wrong("another direction", made("{view}", merged, *its[:2], turned, its[3]), perhaps=True),
                Wrong("one more", made("{view}", merged, *its[:3], f"<= {count + 1}"), perhaps=True),
                Wrong("only one rank", made("{view}", merged, *its[:3], f"= {count}"), perhaps=True),
                Wrong("another aggregate", made("{view}", measure.wrong.format(m=f"m{place}"), *its), perhaps=True),
                Wrong(
                    "the first ones of all groups",
                    f"SELECT * FROM ({made('{view}', merged, *its)}) ORDER BY c2 LIMIT 3",
                    perhaps=True,
                ),
            ]
            yield Trial(made("f", measure.aggregate, *its), made("{view}", merged, *its), tuple(wrong))

    return Case("ranks", (view.sql,), trials())


def outer_views(source: random.Random) -> Case:
    """Groups of a LEFT JOIN for a query with an inner join."""
    keys = (*_keys(source, "", source.randint(0, 1), "k"), Part("ok", "ok"), Part("n", "n"))
    test = source.choice(("", " AND p > 1", " AND n = 'u'"))
    measures = _measures(source, ("",), 3)
    optional = Grouped(f"f LEFT JOIN o ON k = ok{test}", (), keys, measures)
    inner = Grouped(f"f JOIN o ON k = ok{test}", (), keys, measures)
    filtered = "(SELECT * FROM {{view}} WHERE {})"

    def trials() -> Iterator[Trial]:
        while True:
            changed = [
                ("the rows that are not found, too", optional.sql),
                ("another column that is not NULL", f"SELECT * FROM ({optional.sql}) WHERE n IS NOT NULL"),
                ("the key that is not NULL", f"SELECT * FROM ({optional.sql}) WHERE k IS NOT NULL"),
                ("only rows that are not found", f"SELECT * FROM ({optional.sql}) WHERE ok IS NULL"),
            ]
            yield _rolled_up(source, inner, changed, filtered.format("ok IS NOT NULL"))
            yield _rolled_up(source, optional, [("only rows that are found", inner.sql)])

    return Case("LEFT JOIN views", (optional.sql,), trials())


_PARTS = (
    ("d", "d >= DATE '2020-02-29'", "d < DATE '2020-02-29'", "d > DATE '2020-02-29'", "d >= DATE '2020-01-31'"),
    ("k", "k < 2", "k >= 2", "k <= 2", "k < 3"),
    ("g", "g >= 'a'", "g < 'a'", "g > 'a'", "g IS NOT NULL"),
)
"""A key, a condition of a view on it, what is true where that is false, another one, and a wider one of queries."""


def parts_of_the_rows(source: random.Random) -> Case:
    """A view with a part of the rows, and base rows for the others."""
    key, test, negated, another, wider = source.choice(_PARTS)
    rest = source.sample([each for each in KEYS if each != key], source.randint(0, 1))
    keys = (key, *rest)
    measures = _measures(source, ("",), 3)
    groups = Grouped("f", (test,), tuple(Part(each, each) for each in keys), measures)
    columns = ", ".join((*keys, *(f"m{place}" for place in range(3))))

    def trials() -> Iterator[Trial]:
        while True:
            where = source.choice(("", wider))
            whole = Grouped("f", (where,) if where else (), groups.keys, measures)

            def both(condition: str, union: str = "UNION ALL", where: str = where) -> str:
                base = Grouped("f", (where, condition), groups.keys, measures).sql
                return f"(SELECT {columns} FROM {{view}} {union} {base})"

            others = (
                ("the others without NULL", f"NOT ({test})"),
                ("the others without NULL", negated),
                ("one value twice", f"{negated} OR {another} OR {key} IS NULL"),
                ("the rows without NULL", f"{negated} OR {key} IS NOT NULL"),
                ("other rows there", f"NOT coalesce({another}, false)"),
                ("NULL counts as met", f"NOT coalesce({test}, true)"),
                ("the same rows again", test),
                ("all rows again", "true"),
            )
            rest = source.choice((f"NOT coalesce({test}, false)", f"{negated} OR {key} IS NULL"))
            made = _rolled_up(source, whole, [], both(rest))
            wrong = [Wrong(what, made.right.replace(f"({rest})", f"({other})"), perhaps=True) for what, other in others]
            wrong.append(Wrong("the view's part only", made.right.replace(both(rest), "{view}"), perhaps=True))
            wrong.append(Wrong("equal groups once", made.right.replace("UNION ALL", "UNION"), perhaps=True))
            yield Trial(made.query, made.right, (*made.wrong, *wrong))

    return Case("parts of the rows", (groups.sql,), trials())


def wider_views(source: random.Random) -> Case:
    """A view that joins more tables than the query, by keys."""
    kind = source.choice(("JOIN", "LEFT JOIN"))
    keys = (*_keys(source, "", source.randint(0, 1), "k"), Part("en", "en"))
    measures = _measures(source, ("",), 3)
    view = Grouped(f"f {kind} e ON k = ek", (), keys, measures)
    fewer = Grouped("f", ("k IS NOT NULL",) if kind == "JOIN" else (), keys[:-1], measures)

    def trials() -> Iterator[Trial]:
        while True:
            changed = [
                (
                    "a join without a key",
                    Grouped(f"f {kind} o ON k = ok", (), (*keys[:-1], Part("n", "n")), measures).sql,
                ),
                ("a part of the other table", Grouped("f JOIN e ON k = ek AND en <> 'r'", (), keys, measures).sql),
                ("a cross join", Grouped("f JOIN e ON k <= ek", (), keys, measures).sql),
                (
                    "rows of no key, too" if kind == "JOIN" else "only rows of a key",
                    Grouped(f"f {'LEFT JOIN' if kind == 'JOIN' else 'JOIN'} e ON k = ek", (), keys, measures).sql,
                ),
            ]
            yield _rolled_up(source, fewer, changed)
            yield _rolled_up(source, view, changed[1:])

    return Case("wider views", (view.sql,), trials(), keyed=True)


def rows_found_or_others(source: random.Random) -> Case:
    """Groups of rows that are found or meet another condition: EXISTS and IN within OR."""
    test, another = source.sample(OF_O, 2)
    keys = (*_keys(source, "", source.randint(0, 1), "k"),)
    measures = _measures(source, ("",), 3)
    other = source.choice(("x > 0", "s IS NULL", "k = 2", "k IS NULL"))
    ways = {
        "EXISTS": "EXISTS (SELECT 1 FROM o WHERE ok = k AND {})",
        "IN": "k IN (SELECT ok FROM o WHERE {})",
        "NOT EXISTS": "NOT EXISTS (SELECT 1 FROM o WHERE ok = k AND {})",
        "NOT IN": "k NOT IN (SELECT ok FROM o WHERE {})",
    }
    way = source.choice(tuple(ways))
    negated = {"EXISTS": "NOT EXISTS", "IN": "NOT IN", "NOT EXISTS": "EXISTS", "NOT IN": "NOT EXISTS"}[way]

    def either(way: str, test: str, other: str = other) -> str:
        return f"{other} OR {ways[way].format(test)}"

    in_view = source.random() < 0.5 or "k" not in other
    where = (either(way, test),) if in_view else ()
    groups = Grouped("f", where, keys, measures)
    changed = [
        ("rows that are not found", Grouped("f", (either(negated, test),), keys, measures).sql),
        ("another condition there", Grouped("f", (either(way, another),), keys, measures).sql),
        ("both conditions", Grouped("f", (either(way, test).replace(" OR ", " AND ", 1),), keys, measures).sql),
        ("found rows only", Grouped("f", (ways[way].format(test),), keys, measures).sql),
        ("another alternative", Grouped("f", (either(way, test, "x <= 0"),), keys, measures).sql),
    ]

    def trials() -> Iterator[Trial]:
        while True:
            if in_view:
                yield _rolled_up(source, groups, changed)
                continue
            made = _rolled_up(source, groups, [], added=either(way, test))
            others = (either(negated, test), either(way, another), ways[way].format(test), other)
            found = either(way, test)
            wrong = [Wrong("another alternative", made.right.replace(found, each), perhaps=True) for each in others]
            yield Trial(made.query, made.right, (*made.wrong, *wrong))

    return Case("EXISTS within OR", (groups.sql,), trials())


def one_of_several_sets(source: random.Random) -> Case:
    """A view with several sets of keys, with what tells them apart, and queries for the groups of one of them."""
    names = tuple(source.sample(KEYS, 2))
    measures = _measures(source, ("",), 3)
    where = tuple(source.sample(ROW_CONDITIONS, source.choice((0, 1))))
    clauses = (
        "ROLLUP ({0}, {1})",
        "CUBE ({0}, {1})",
        "GROUPING SETS (({0}, {1}), ({1}), ())",
        "GROUPING SETS (({0}), ({1}))",
    )
    clause = source.choice(clauses).format(*names)
    numbered = source.random() < 0.5
    numbers = (
        f"grouping_id({names[0]}, {names[1]}) AS i"
        if numbered
        else ", ".join(f"grouping({name}) AS i{place}" for place, name in enumerate(names))
    )
    columns = [*names, numbers, *(f"{each.aggregate} AS m{n}" for n, (_, each) in enumerate(measures))]
    view = f"SELECT {', '.join(columns)} FROM f{_where(*where)} GROUP BY {clause}"
    sets = {
        "ROLLUP": [{0, 1}, {0}],
        "CUBE": [{0, 1}, {0}, {1}],
        "GROUPING SETS ((" + names[0] + ",": [{0, 1}, {1}],
    }
    known = next((its for start, its in sets.items() if clause.startswith(start)), [{0}, {1}])

    def told(places: set[int]) -> str:
        missing = [int(place not in places) for place in range(2)]
        if numbered:
            return f"i = {2 * missing[0] + missing[1]}"
        return " AND ".join(f"i{place} = {each}" for place, each in enumerate(missing))

    def trials() -> Iterator[Trial]:
        while True:
            chosen = source.choice(known)
            keys = tuple(Part(names[place], names[place]) for place in sorted(chosen))
            groups = Grouped("f", where, keys, measures)
            made = _rolled_up(source, groups, [], f"(SELECT * FROM {{view}} WHERE {told(chosen)})")
            others = [told(its) for its in ({0, 1}, {0}, {1}, set[int]()) if its != chosen]
            wrong = [
                Wrong("another set", made.right.replace(told(chosen), each), perhaps=True)
                for each in (*others, "true", told(chosen).replace(" = ", " <= "), told(chosen).replace(" = ", " <> "))
            ]
            nulls = " AND ".join(f"{name} IS {'NOT ' if n in chosen else ''}NULL" for n, name in enumerate(names))
            wrong.append(Wrong("a set by its NULLs", made.right.replace(told(chosen), nulls), perhaps=True))
            yield Trial(made.query, made.right, (*made.wrong, *wrong))

    return Case("one of several sets", (view,), trials())


def full_views(source: random.Random) -> Case:
    """Rows of a FULL JOIN, for queries with it, with a LEFT JOIN and with an inner join."""
    test = source.choice(("", " AND p > 1", " AND n = 'u'"))
    names = ("k", "x", "s", "g", "ok", "n", "p", "ek")
    from_f, from_e = f"f FULL JOIN o ON k = ok{test}", "e FULL JOIN o ON ek = ok"
    by_key = source.random() < 0.4
    base = from_e if by_key else from_f
    columns = ", ".join(each for each in names if (each in ("ek", "ok", "n", "p") if by_key else each != "ek"))
    view = f"SELECT {columns} FROM {base}"
    left = "ek" if by_key else "k"

    def trials() -> Iterator[Trial]:
        while True:
            kind = source.choice(("FULL", "INNER", "LEFT") if by_key else ("FULL", "INNER"))
            value = source.choice(("count(*)", "count(n)", "max(p)", "sum(p)"))
            key = source.choice(("n", "p", left))
            condition = source.choice(("", f"{left} > 0", "n IS NULL", "p = 5"))
            tests = {"FULL": "", "INNER": f"{left} IS NOT NULL AND ok IS NOT NULL", "LEFT": f"{left} IS NOT NULL"}

            def made(source: str, *conditions: str, value: str = value, key: str = key) -> str:
                return f"SELECT {key} AS c0, {value} AS c1 FROM {source}{_where(*conditions)} GROUP BY {key}"

            others = ("", "ok IS NOT NULL", f"{left} IS NOT NULL", "n IS NOT NULL", "ok IS NULL", "p IS NOT NULL")
            wrong = [
                Wrong("rows of another join", made("{view}", each, condition), perhaps=True)
                for each in others
                if each != tests[kind]
            ]
            another = made("{view}", tests[kind], condition, value="count(p)")
            wrong.append(Wrong("another aggregate", another, perhaps=True))
            query = made(base.replace("FULL", kind), condition)
            yield Trial(query, made("{view}", tests[kind], condition), tuple(wrong))

    return Case("FULL JOIN views", (view,), trials(), keyed=True)


def ranked_views(source: random.Random) -> Case:
    """A view with ranks, for queries for the first ones and for queries without ranks."""
    by, order = source.choice(("g", "d", "k")), source.choice(("x", "s", "y"))
    function, way = source.choice(("rank()", "dense_rank()")), source.choice(("", " DESC"))
    where = tuple(source.sample(ROW_CONDITIONS, source.choice((0, 1))))

    def ranked(function: str, by: str, order: str, where: tuple[str, ...] = where) -> str:
        window = f"{function} OVER (PARTITION BY {by} ORDER BY {order})"
        return f"SELECT k, g, d, x, s, y, {window} AS place FROM f{_where(*where)}"

    view = ranked(function, by, order + way)

    def trials() -> Iterator[Trial]:
        while True:
            count = source.randint(1, 3)
            text = source.choice(
                (
                    "SELECT k AS c0, x AS c1, place AS c2 FROM {} WHERE place <= " + str(count),
                    "SELECT g AS c0, sum(x) AS c1 FROM {} WHERE place <= " + str(count) + " GROUP BY g",
                    "SELECT d AS c0, place AS c1, count(*) AS c2 FROM {} GROUP BY d, place",
                    "SELECT place AS c0, max(s) AS c1 FROM {} WHERE " + by + " IS NOT NULL GROUP BY place",
                )
            )
            condition = _key_condition(source, by)
            wrong = [
                *(
                    Wrong(what, text.format(f"({sql})"), perhaps=True)
                    for what, sql in (
                        ("another rank", ranked("dense_rank()" if function == "rank()" else "rank()", by, order + way)),
                        ("another direction", ranked(function, by, order + ("" if way else " DESC"))),
                        ("another partition", ranked(function, "b", order + way)),
                        ("another order", ranked(function, by, "v" + way)),
                        ("other rows ranked", ranked(function, by, order + way, (*where, "x > 0"))),
                    )
                ),
                Wrong("one more", text.format("{view}").replace(f"<= {count}", f"<= {count + 1}"), perhaps=True),
                Wrong("rows left out above", text.format("(SELECT * FROM {view} WHERE x > 0)"), perhaps=True),
                Wrong("partitions left out", text.format(f"(SELECT * FROM {{view}} WHERE {condition})"), perhaps=True),
            ]
            yield Trial(text.format(f"({view})"), text.format("{view}"), tuple(wrong))
            query = f"SELECT k AS c0, sum(x) AS c1 FROM f{_where(*where)} GROUP BY k"
            yield Trial(query, "SELECT k AS c0, sum(x) AS c1 FROM {view} GROUP BY k", ())

    return Case("views with ranks", (view,), trials())


CLASSES: dict[str, Callable[[random.Random], Case]] = {
    each.__name__: each
    for each in (
        groups_of_a_table,
        self_joins,
        one_occurrence,
        several_views,
        views_of_views,
        rows_that_are_found,
        correlated_values,
        several_sets_of_keys,
        leaders,
        outer_views,
        parts_of_the_rows,
        wider_views,
        rows_found_or_others,
        one_of_several_sets,
        full_views,
        ranked_views,
    )
}
