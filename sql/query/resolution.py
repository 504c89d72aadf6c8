"""The names that a FROM makes visible, and what they mean, as Spark resolves them.

What a column means is up to the user: where its values come from, an expression over base tables, or a canonical name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Self, TypeVar

Qualifier = tuple[str, ...]
V = TypeVar("V")
HALF_JOINS = ("SEMI", "ANTI")
"""Of these, only the columns of the left side are visible."""
NULL_SIDES = {
    **dict.fromkeys(("", "INNER", "CROSS", "SEMI", "LEFT SEMI", "ANTI", "LEFT ANTI"), (False, False)),
    **dict.fromkeys(("LEFT", "LEFT OUTER"), (False, True)),
    **dict.fromkeys(("RIGHT", "RIGHT OUTER"), (True, False)),
    **dict.fromkeys(("FULL", "FULL OUTER"), (True, True)),
}
"""By the words before JOIN, other than NATURAL, whether the left and the right side may have NULL in place of a row."""


@dataclass(frozen=True, slots=True)
class Column(Generic[V]):
    name: str | None
    """None if Spark generates it."""
    value: V

    @property
    def folded(self) -> str | None:
        return None if self.name is None else self.name.lower()


@dataclass(frozen=True, slots=True)
class Named(Generic[V]):
    """A relation of a FROM, as names see it."""

    qualifiers: frozenset[Qualifier] = frozenset()
    """In lower case."""
    columns: tuple[Column[V], ...] = ()
    by_name: Mapping[str, tuple[Column[V], ...]] = field(default_factory=dict)
    """The columns by their names in lower case."""
    complete: bool = True
    """Whether these are all of its columns."""
    unlisted: Callable[[str], V] | None = None
    """What a column means that is not known, by its name in lower case."""


def relation(
    columns: Iterable[Column[V]],
    qualifiers: Iterable[Sequence[str]],
    *,
    complete: bool = True,
    unlisted: Callable[[str], V] | None = None,
) -> Named[V]:
    names = frozenset(tuple(part.lower() for part in parts) for parts in qualifiers)
    listed = tuple(columns)
    by_name: dict[str, tuple[Column[V], ...]] = {}
    for column in listed:
        if column.name is not None:
            folded = column.name.lower()
            by_name[folded] = (*by_name.get(folded, ()), column)
    return Named(names, listed, by_name, complete, unlisted)


@dataclass(frozen=True, slots=True)
class Scope(Generic[V]):
    """The columns of a FROM. A column is the same one in all fields."""

    columns: tuple[Column[V], ...] = ()
    """In the order of a star."""
    hidden: tuple[Column[V], ...] = ()
    """Columns that USING and NATURAL joins hide: only qualified names find them."""
    relations: tuple[Named[V], ...] = ()

    @classmethod
    def of(cls, named: Named[V]) -> Self:
        """One relation."""
        return cls(named.columns, (), (named,))

    def beside(self, other: Self) -> Self:
        return replace(
            self,
            columns=self.columns + other.columns,
            hidden=self.hidden + other.hidden,
            relations=self.relations + other.relations,
        )

    def mapped(self, change: Callable[[Column[V]], Column[V]]) -> Self:
        """The scope with other values of the columns."""
        changed = {id(column): change(column) for each in self.relations for column in each.columns}

        def all_of(columns: Iterable[Column[V]]) -> tuple[Column[V], ...]:
            return tuple(changed[id(column)] for column in columns)

        relations = tuple(
            replace(
                each,
                columns=all_of(each.columns),
                by_name={name: all_of(columns) for name, columns in each.by_name.items()},
            )
            for each in self.relations
        )
        return replace(self, columns=all_of(self.columns), hidden=all_of(self.hidden), relations=relations)

    @property
    def complete(self) -> bool:
        return all(each.complete for each in self.relations)

    def named(self, name: str) -> list[Column[V]]:
        """What the name alone may mean."""
        folded = name.lower()
        found = [column for each in self.relations for column in each.by_name.get(folded, ())]
        return self._visible(found) if self.hidden else found

    def found(self, parts: Sequence[str]) -> tuple[list[V], bool]:
        """What a name without fields of structs may mean, and whether there can be nothing else."""
        if len(parts) == 1:
            return [column.value for column in self.named(parts[0])], self.complete
        *qualifier, name = (part.lower() for part in parts)
        fitting = [each for each in self.relations if tuple(qualifier) in each.qualifiers]
        values = [column.value for each in fitting for column in each.by_name.get(name, ())]
        return values, all(each.complete for each in fitting)

    def resolve(self, parts: Sequence[str]) -> tuple[list[V], Sequence[str]]:
        """What a name may mean, of which the last parts may be fields of structs; and these fields."""
        folded = tuple(part.lower() for part in parts)
        for place in range(len(parts) - 1, -1, -1):
            qualifier, name = folded[:place], folded[place]
            fitting = [each for each in self.relations if not place or qualifier in each.qualifiers]
            found = [column for each in fitting for column in each.by_name.get(name, ())]
            if self.hidden and not place:
                found = self._visible(found)
            values = [each.value for each in found]
            if values or (values := [each.unlisted(name) for each in fitting if each.unlisted is not None]):
                return values, parts[place + 1 :]
        return [], ()

    def _visible(self, columns: list[Column[V]]) -> list[Column[V]]:
        """Those that a name alone finds."""
        return [each for each in columns if not any(each is other for other in self.hidden)]

    def star(self, qualifier: Sequence[str]) -> list[Column[V]] | None:
        """The columns of `*` or `t.*`; None if they are not certain."""
        if not qualifier:
            return list(self.columns) if self.complete else None
        folded = tuple(part.lower() for part in qualifier)
        matching = [each for each in self.relations if folded in each.qualifiers]
        if len(matching) != 1 or not matching[0].complete or self.hidden:
            return None
        return list(matching[0].columns)

    def common(self, right: Scope[V]) -> list[str] | None:
        """The columns of a NATURAL join; None if they are not certain. Spark compares these names case-sensitively."""
        sides = [[column.name for column in scope.columns] for scope in (self, right)]
        names = [name for side in sides for name in side if name is not None]
        if len(names) < len(sides[0]) + len(sides[1]) or len(set(names)) != len({name.lower() for name in names}):
            return None
        return [name for name in sides[0] if name in sides[1] and name is not None]

    def keys(self, right: Scope[V], names: Sequence[str]) -> list[tuple[Column[V], Column[V]]] | None:
        """The columns that a join by column names makes equal; None if they are not certain."""
        pairs = [(self.named(name), right.named(name)) for name in names]
        if not (self.complete and right.complete) or any(len(mine) != 1 or len(its) != 1 for mine, its in pairs):
            return None
        return [(mine[0], its[0]) for mine, its in pairs]

    def joined_by(
        self,
        right: Self,
        pairs: Sequence[tuple[Column[V], Column[V]]],
        label: str,
        either: Sequence[Column[V]] = (),
    ) -> Self:
        """The scope of a join by these columns (`keys`), which come first and only once: those of the right side in a
        right join, otherwise those of the left side. `either`: what they mean in a full join, where each is the one of
        the side that has a row."""
        mine, its = tuple(one for one, _ in pairs), tuple(other for _, other in pairs)
        rests = [
            tuple(column for column in scope.columns if not any(column is key for key in used))
            for scope, used in ((self, mine), (right, its))
        ]
        if label.endswith(HALF_JOINS):
            return replace(self, columns=(*mine, *rests[0]))
        shown, hidden = (its, mine) if label.startswith("RIGHT") else (mine, its)
        both = self.beside(right)
        if label.startswith("FULL") and either:
            both = both.beside(self.of(relation(either, ())))
            shown, hidden = tuple(either), mine + its
        return replace(both, columns=(*shown, *rests[0], *rests[1]), hidden=(*both.hidden, *hidden))
