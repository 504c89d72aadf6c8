"""Definitions at random, of tables t and u with the columns a INT, b STRING, v INT, w DECIMAL(8,2), f DOUBLE."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

_FROM = (
    *("{t} AS p",) * 4,
    "{t} AS p JOIN {u} AS q ON p.a = q.a",
    "{u} AS q JOIN {t} AS p ON p.a = q.a AND p.v > q.v",
    "{t} AS p, {u} AS q WHERE p.a = q.a",
    "{t} AS p JOIN {t} AS q ON p.a = q.a",
    "{t} AS p JOIN {t} AS q ON p.a = q.a JOIN {u} AS r ON r.a = q.v",
    "{t} AS p LEFT JOIN {u} AS q ON p.a = q.a",
    "{u} AS q RIGHT JOIN {t} AS p ON p.a = q.a",
    "{t} AS p FULL OUTER JOIN {u} AS q ON p.a = q.a",
    "{u} AS q FULL OUTER JOIN {t} AS p ON p.a = q.a AND p.v > q.v",
    "{t} AS p LEFT SEMI JOIN {u} AS q ON p.a = q.a",
    "{t} AS p LEFT ANTI JOIN {u} AS q ON p.a = q.a",
    "(SELECT a, b, v, w, f FROM {t} WHERE v > 0) AS p JOIN {u} AS q ON p.a = q.a",
    "(SELECT x.a, x.b, y.v, x.w, x.f FROM {t} AS x, {u} AS y WHERE x.a = y.a) AS p",
)
_CONDITIONS = (
    *("", "", "", "p.v > 0", "p.b = 'x' OR p.v IS NULL", "p.a IN (SELECT a FROM {u})"),
    *("p.a NOT IN (SELECT a FROM {u})", "EXISTS (SELECT 1 FROM {u} AS z WHERE z.a = p.a)"),
    *("NOT EXISTS (SELECT * FROM {u} AS z WHERE z.a = p.a AND z.v > p.v)", "p.b IN (SELECT b FROM {u}) AND p.v > 0"),
)
_ITEMS = ("p.a", "p.b", "p.w", "p.f", "upper(p.b)", "p.a + 1", "p.v * p.v", "CASE WHEN p.f > 0 THEN p.b END")
_KEYS = ("p.a", "p.a", "p.b", "upper(p.b)", "p.a % 2", "coalesce(p.b, 'none')")
_SUBTRACTED = (
    *("count(*)", "count(p.w)", "sum(p.v)", "sum(p.w)", "avg(p.v)", "avg(p.w)", "count_if(p.a > 1)"),
    *("sum(p.v) FILTER (WHERE p.b = 'x')", "coalesce(sum(p.v), 0) + count(*)", "(count(*) + 1) * 2"),
)
_MERGED = (
    *("sum(p.f)", "avg(p.f)", "min(p.v)", "max(p.b)", "bool_and(p.v > 1)", "bit_or(p.v)", "max(p.v) - min(p.v)"),
    *("max_by(p.v + 1, p.v)", "bit_xor(p.v)", "min_by(p.v, p.v) FILTER (WHERE p.a > 0)"),
)
_OTHER = ("count(DISTINCT p.b)", "stddev(p.v)", "percentile(p.v, 0.5)")
_WINDOWS = (
    *("rank() OVER (PARTITION BY {} ORDER BY p.v)", "dense_rank() OVER (PARTITION BY {} ORDER BY p.b)"),
    "row_number() OVER (PARTITION BY {} ORDER BY p.v, p.a, p.b, p.w, p.f)",
    *("lead(p.v) OVER (PARTITION BY {} ORDER BY p.v)", "sum(p.v) OVER (PARTITION BY {} ORDER BY p.v)"),
    *("count(*) OVER (PARTITION BY {})", "max(p.v) OVER (PARTITION BY {})"),
)
_HAVING = ("count(*) > 1", "sum(p.v) > 2", "max(p.v) IS NOT NULL")


def random_definition(chance: Random, tables: Mapping[str, str]) -> str:
    """`tables`: the full names of t and u."""
    make = chance.choice((_rows, _groups, _groups, _ranked))
    return make(chance).format(**tables)


def _source(chance: Random) -> str:
    found, condition = chance.choice(_FROM), chance.choice(_CONDITIONS)
    if not condition:
        return found
    return f"{found} {'AND' if ' WHERE p.a = q.a' in found[-16:] else 'WHERE'} ({condition})"


def _rows(chance: Random) -> str:
    items = chance.sample(_ITEMS, chance.randrange(1, 4))
    listed = ", ".join(f"{item} AS k{number}" for number, item in enumerate(items))
    distinct = "DISTINCT " if chance.random() < 0.2 else ""
    count = 1 if distinct else chance.choice((1, 1, 2))
    return " UNION ALL ".join(f"SELECT {distinct}{listed} FROM {_source(chance)}" for _ in range(count))


def _groups(chance: Random) -> str:
    keys = list(dict.fromkeys(chance.choices(_KEYS, k=chance.randrange(3))))
    functions = chance.choice((_SUBTRACTED, _SUBTRACTED + _MERGED, _SUBTRACTED + _MERGED + _OTHER))
    measures = chance.sample(functions, chance.randrange(1, 4))
    items = [*(f"{key} AS k{number}" for number, key in enumerate(keys))]
    items += [f"{each} AS m{number}" for number, each in enumerate(measures)]
    text = f"SELECT {', '.join(items)} FROM {_source(chance)}"
    if keys:
        sets = chance.choice(("{}", "{}", "{}", "ROLLUP({})", "CUBE({})"))
        text += f" GROUP BY {sets.format(', '.join(keys))}"
    return text + (f" HAVING {chance.choice(_HAVING)}" if chance.random() < 0.2 else "")


def _ranked(chance: Random) -> str:
    """Windows that share a key, over rows or groups, perhaps filtered above; or groups of groups."""
    key, other = chance.sample(list(dict.fromkeys(_KEYS)), 2)
    by = chance.choice((key, key, f"{other}, {key}"))
    if chance.random() < 0.3:
        text = f"SELECT {key} AS k0, {other} AS k1, sum(p.v) AS s, rank() OVER (PARTITION BY {key} ORDER BY sum(p.v))"
        text += f" AS r FROM {_source(chance)} GROUP BY {key}, {other}"
        above = ("{}", "SELECT k1, r FROM ({}) AS x WHERE r = 1", "SELECT max(s) AS m, k0 FROM ({}) AS x GROUP BY k0")
    else:
        windows = chance.sample(_WINDOWS, 2)
        items = [windows[0].format(key), windows[1].format(by), *chance.sample(_ITEMS, 2)]
        listed = ", ".join(f"{item} AS {name}" for item, name in zip(items, ("r", "k1", "k2", "k0"), strict=True))
        text = f"SELECT {listed} FROM {_source(chance)}"
        above = ("{}", "SELECT * FROM ({}) AS x WHERE r <= 2", "SELECT DISTINCT k1, r FROM ({}) AS x")
    return chance.choice(above).format(text)
