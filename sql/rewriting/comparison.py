"""Compares the answers of two queries without fetching their rows: by numbers that do not depend on the rows' order.

A sum of floating-point numbers may differ in its last digits each time it is computed, so such values are compared by
weighted sums; the weight comes from the other columns of the row, and thus connects the value with its row.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sql.rewriting.shape import HOLE, shape_of

TOLERANCES = {"float": 1e-5, "double": 1e-9}
"""How much sums of such values may differ, relative to the sum of the absolute values."""
_UNCLEAR = frozenset({"over", "limit", "offset", "tablesample"})
"""Words of queries that may have several right answers: ties that a limit or a window function decides."""
_NOT_HASHED = re.compile(r"map<|variant|collate|float|double|geometry|geography", re.IGNORECASE)
"""In the name of a type: equal values may be different ones, or Spark has no hash of them."""
Summary = tuple[object, ...]


def determined(query: str) -> str | None:
    """The query without comments and without a LIMIT at its end; None if it may have several right answers."""
    shape = shape_of(query)
    if shape.trouble:
        return None
    rest = iter(shape.literals)
    pieces = [next(rest) if piece[0] == HOLE else piece for piece in shape.pieces]
    while len(pieces) > 1 and pieces[-2] in ("LIMIT", "OFFSET"):
        pieces = pieces[:-2]
    if not _UNCLEAR.isdisjoint(piece.lower() for piece in pieces):
        return None
    return " ".join(pieces)


def describe(query: str) -> str:
    """Returns the name and type of each column."""
    return f"DESCRIBE QUERY {query}"


def summary(query: str, types: Sequence[str]) -> str:
    """Returns one row, a `Summary`. `types` are those of the query's columns."""
    names = [f"c{place}" for place in range(len(types))]
    floats = [(name, kind) for name, kind in zip(names, types, strict=True) if kind in TOLERANCES]
    hashed = ["'row'"]
    for name, kind in zip(names, types, strict=True):
        hashed.append(f"isnull({name})")
        if kind in TOLERANCES:
            hashed += f"isnan({name})", f"abs({name}) = DOUBLE('Infinity')", f"{name} = DOUBLE('Infinity')"
        elif not _NOT_HASHED.search(kind):
            hashed.append(name)
    values = "".join(f", {_finite(name)} AS {name}" for name, _ in floats)
    rows = f"SELECT xxhash64({', '.join(hashed)}) AS h{values} FROM ({query}) AS t({', '.join(names)})"
    sums = "".join(f", {_weighted(name)}, {_weighted(f'abs({name})')}" for name, _ in floats)
    return f"SELECT count(*), bit_xor(h), sum(CAST(h AS DECIMAL(20, 0))){sums} FROM ({rows})"


def difference(first: Summary, second: Summary, types: Sequence[str]) -> str | None:
    """What differs between two answers; None if nothing does."""
    if first[0] != second[0]:
        return f"{first[0]} rows and {second[0]} rows"
    if first[1:3] != second[1:3]:
        return f"other values in {first[0]} rows"
    floats = [kind for kind in types if kind in TOLERANCES]
    for place, kind in enumerate(floats):
        at = 3 + 2 * place
        ours, size, theirs, other_size = (_number(row[each]) for row in (first, second) for each in (at, at + 1))
        if abs(ours - theirs) > TOLERANCES[kind] * max(size, other_size):
            return f"other values of the type {kind}: {ours:.17g} and {theirs:.17g} as weighted sums"
    return None


def _finite(name: str) -> str:
    unknown = f"{name} IS NULL OR isnan({name}) OR abs({name}) = DOUBLE('Infinity')"
    return f"CASE WHEN {unknown} THEN 0D ELSE CAST({name} AS DOUBLE) END"


def _weighted(value: str) -> str:
    return f"sum({value} * (1D + pmod(h, 1000) / 1000D))"


def _number(value: object) -> float:
    return float(str(value)) if value is not None else 0.0
