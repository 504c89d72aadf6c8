"""What keys of GROUP BY mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp


class NoSuchItem(ValueError):
    """GROUP BY 3 of a SELECT with two items. The message is the number."""


@dataclass(frozen=True, slots=True)
class KeyItems:
    """The items of a SELECT that its keys may mean. Items are numbered from 0."""

    names: Sequence[str | None]
    """The aliases, or names, of the items; None or empty for an item without one."""
    is_column: Callable[[str], bool]
    """Whether a name means a column of FROM. A key does so first."""

    def of(self, key: exp.Expr) -> int | None:
        """The item that a key means by its number or name; None: the key means itself. Raises NoSuchItem."""
        key = key.unnest()
        if isinstance(key, exp.Literal) and not key.is_string and key.name.isdecimal():
            return self.numbered(key.name)
        if isinstance(key, exp.Column) and len(key.parts) == 1:
            return self.called(key.name)
        return None

    def numbered(self, number: str) -> int:
        """Raises NoSuchItem."""
        if not 0 < int(number) <= len(self.names):
            raise NoSuchItem(number)
        return int(number) - 1

    def called(self, name: str) -> int | None:
        """The first one of the name, as in Spark, if the name means no column."""
        if self.is_column(name):
            return None
        folded = name.lower()
        return next((place for place, each in enumerate(self.names) if each and each.lower() == folded), None)

    def are_all(self, group: exp.Group) -> bool:
        """Whether it groups by all items without aggregates: GROUP BY ALL, unless a column is called so."""
        return bool(group.args.get("all")) and not group.expressions and not self.is_column("all")
