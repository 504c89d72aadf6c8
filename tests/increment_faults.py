"""Definitions, and what a wrong analysis of them would read: another definition, or other mentions of tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from outlines import GROUPS, LAYERS, ROWS, outline_of

from sql.increments.agreement import keyed, marked
from sql.increments.outline import Outline, StoredKey
from sql.increments.reasons import NotIncremental

NOT_READ_SO = ["SELECT b AS a, count(*) FROM t GROUP BY b HAVING a > '5'"]
_NOT_ACCEPTED = (
    "SELECT 'all', a, count(*) FROM t GROUP BY ALL",
    "SELECT b AS a, count(*) FROM t GROUP BY b HAVING a > 'x'",
)
"""Spark refuses them."""
DEFINITIONS = [
    *((text, columns) for text, columns in ROWS),
    *((text, None) for text, *_ in GROUPS if text not in _NOT_ACCEPTED),
    *((text, "b v n m" if "x.*" in text else None) for text, _ in LAYERS),
    ("SELECT p.a, q.v FROM t p LEFT JOIN t q ON p.a = q.a", "a v"),
    ("SELECT q.a, q.v FROM t p RIGHT JOIN t q ON p.a = q.a WHERE q.v > 1", "a v"),
    ("SELECT p.a, count(*), min(q.v) FROM t p LEFT JOIN u ON p.a = u.a LEFT JOIN t q ON q.a = u.a GROUP BY p.a", None),
]
"""With the columns of their views."""
_EDITS = {
    "takes another key of a window": (r"(?<=PARTITION BY )a", "v"),
    "takes another order of a window": (r"ORDER BY (?:v|ts|sum\(v\))(?=[),]| DESC\))", "ORDER BY w"),
    "takes another window": (r"\b(?:dense_)?rank\(\)", "row_number()"),
    "takes more rows": (r" <= 3", " <= 4"),
    "drops a filter": (r" WHERE (?!a (?:NOT )?IN|EXISTS)[^()]*?(?= GROUP| UNION| ORDER|\)|;|$)", ""),
    "negates a comparison": (r" > ", " <= "),
    "takes another join": (r"LEFT (?:OUTER )?JOIN", "JOIN"),
    "takes the other side of a join": (r"LEFT (?:OUTER )?JOIN", "RIGHT JOIN"),
    "takes ANTI for SEMI": (r"LEFT ANTI", "LEFT SEMI"),
    "drops NOT": (r"NOT IN", "IN"),
    "mistakes a name": (r"(?<=SELECT )(?:t\.|p\.)?a(?=[ ,])(?! AS| FROM \()", "v"),
    "mistakes the name of a filter": (r"(?<=WHERE )v(?= > )", "a"),
    "mistakes an aggregate": (r"\bmin\(", "max("),
    "takes avg for sum": (r"\bsum\((?=[vw]\))", "avg("),
    "counts rows": (r"\bcount\([vw]\)", "count(*)"),
    "drops FILTER": (r" FILTER \(WHERE [^)]*\)", ""),
    "drops HAVING": (r" HAVING .*$", ""),
    "drops totals": (r"ROLLUP\(a\)", "a"),
    "adds a key": (r"GROUP BY a$", "GROUP BY a, v"),
    "drops a part of a union": (r" UNION ALL SELECT a FROM u$", ""),
    "reads another table": (r"FROM u\b", "FROM small AS u(a)"),
}
_THE_SAME = {
    ("mistakes a name", "SELECT x.q FROM (SELECT a, b FROM t) AS x(p, q)"),
    ("mistakes a name", "SELECT n FROM (SELECT a, count(*) AS n FROM t GROUP BY a) AS x"),
}
"""The mistaken column is not used."""


def of_texts() -> Iterator[tuple[str, str, Outline]]:
    """What went wrong, the definition, and what was read instead."""
    for text, columns in DEFINITIONS:
        for what, (pattern, other) in _EDITS.items():
            wrong = re.sub(pattern, other, text)
            if wrong != text and (what, text) not in _THE_SAME:
                try:
                    yield what, text, outline_of(wrong, columns)
                except NotIncremental:
                    continue


def of_places(outline: Outline) -> Iterator[tuple[str, Outline]]:
    """Wrong mentions of tables."""
    for number, place in enumerate(outline.places):
        others = (*outline.places[:number], *outline.places[number + 1 :])
        if not place.grows:
            changed = (*outline.places[:number], replace(place, grows=True), *outline.places[number + 1 :])
            yield "a side that does not grow", replace(outline, places=changed)
        if place.beside:
            changed = (*outline.places[:number], replace(place, beside=frozenset()), *outline.places[number + 1 :])
            yield "parts of a union that meet", replace(outline, places=changed)
        if others:
            apart = replace(place, beside=frozenset(each.number for each in others) - place.beside)
            yield (
                "mentions that do not meet",
                replace(outline, places=(*outline.places[:number], apart, *outline.places[number + 1 :])),
            )
            yield "a mention that is missed", replace(outline, places=others)


def of_keys(outline: Outline) -> Iterator[Outline]:
    """Columns that are taken for keys."""
    groups = outline.groups
    assert groups is not None
    for column in {*outline.columns} - {key.column for key in groups.keys}:
        keys = (*groups.keys, StoredKey(column, column, False))
        yield replace(outline, groups=replace(groups, keys=keys))


def texts() -> Iterator[str]:
    """All that Spark is to explain."""
    for text, columns in [*DEFINITIONS, *((text, None) for text in NOT_READ_SO)]:
        yield text.rstrip(";")
        outline = outline_of(text, columns)
        yield marked(outline)
        yield from filter(None, [keyed(outline)])
        yield from (marked(wrong) for _, wrong in of_places(outline))
    yield from (marked(wrong) for _, _, wrong in of_texts())
