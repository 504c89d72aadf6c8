"""The keys of a few groups, as constants.

Tests: `test_increment_mutants`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sql.names import quote
from sql.texts.literals import safe_literal

NAMED_TYPES = frozenset({"tinyint", "smallint", "int", "bigint", "string", "date"})
"""Types whose values have one string each, from which they can be cast in every session."""


@dataclass(frozen=True, slots=True)
class NamedKeys:
    values: tuple[tuple[str | None, ...], ...]
    """Of each group the keys as strings; at least one group."""
    kinds: tuple[str, ...]
    """The types of the keys."""

    @property
    def rows(self) -> str:
        """A query of the keys, whose columns are called as while states are merged."""
        lines = (
            ", ".join(_constant(value, kind) for value, kind in zip(row, self.kinds, strict=True))
            for row in self.values
        )
        names = ", ".join(quote(f"freshgate_k{number}") for number in range(len(self.kinds)))
        return f"SELECT * FROM VALUES {', '.join(f'({line})' for line in lines)} AS `freshgate_keys`({names})"

    def condition(self, number: int, text: str) -> str:
        """Whether the key, whose expression is `text`, has one of its values."""
        found = list(dict.fromkeys(row[number] for row in self.values))
        kind = self.kinds[number]
        listed = ", ".join(_constant(value, kind) for value in found if value is not None)
        parts = [f"({text}) IN ({listed})"] if listed else []
        parts += [f"({text}) IS NULL"] if None in found else []
        return " OR ".join(parts)


def named_keys(rows: Sequence[Sequence[object]], keys: int) -> NamedKeys | None:
    """The keys in the rows of `few_touched`; None if there are none, or if a type forbids constants."""
    if not rows or not keys:
        return None
    kinds = tuple(str(kind) for kind in rows[0][keys:])
    if not NAMED_TYPES.issuperset(kinds):
        return None
    return NamedKeys(tuple(tuple(None if each is None else str(each) for each in row[:keys]) for row in rows), kinds)


def _constant(value: str | None, kind: str) -> str:
    return f"CAST({'NULL' if value is None else safe_literal(value)} AS {kind.upper()})"
