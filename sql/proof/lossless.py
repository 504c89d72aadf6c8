"""The lemmas of keys: joins that keep every row exactly once, because of keys that hold, are left out.

Tests: `test_random_proofs`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from sql.proof.copies import copies_of, of_copy
from sql.proof.equalities import Equalities, is_equality
from sql.proof.identities import compose, core, replaced
from sql.proof.occurrences import assignments, renamed
from sql.proof.terms import Term, column, columns_of, in_order, step
from sql.table_keys import NO_KEYS, TableKeys

KeysOf = Mapping[str, TableKeys]
"""By a table's name with catalog and database, in quotes, the keys that hold of its rows."""


class _KeysAtHand(threading.local):
    def __init__(self) -> None:
        self.keys: KeysOf = {}


_known = _KeysAtHand()


@contextmanager
def knowing(keys: KeysOf) -> Iterator[None]:
    """Within it, these keys hold in every state of the tables that a proof is about."""
    _known.keys = keys
    try:
        yield
    finally:
        _known.keys = {}


@dataclass(frozen=True, slots=True)
class Joined:
    """The combinations of the relations' rows that meet the conditions, and values that are computed of each."""

    relations: tuple[Term, ...]
    where: frozenset[Term]
    values: tuple[Term, ...]

    def settled(self) -> Joined:
        """The same with one column for all that the conditions make equal, and without joins that change nothing.
        Raises NotUnderstood."""
        ways = [self._named(names)._settled() for names in assignments(self.relations)]
        if not ways:
            return self._settled()
        found = min(ways, key=_identity)
        # Where one occurrence is left out, the others have other numbers.
        return found.settled() if len(found.relations) < len(self.relations) else found

    def _named(self, names: Mapping[Term, Term]) -> Joined:
        """The same with other names of the occurrences of tables."""
        return Joined(
            tuple(names.get(each, each) for each in self.relations),
            frozenset(renamed(each, names) for each in self.where),
            tuple(renamed(each, names) for each in self.values),
        )

    def _settled(self) -> Joined:
        found = self
        while True:
            step()
            equal = Equalities(found.where)
            where = frozenset(each for each in equal.where() if not _is_certain(each))
            found = Joined(found.relations, where, tuple(map(equal.settled, found.values)))
            fewer = next(
                (made for each in in_order(found.relations) if (made := found._without(each)) is not None), None
            )
            if fewer is None:
                return found
            found = fewer

    def _without(self, relation: Term) -> Joined | None:
        if relation.op == "table":
            return self._without_referenced(relation)
        if relation.op == "expanded":
            return self._without_copies(relation)
        return self._without_optional(relation) if relation.op == "LeftOuter" else None

    def _uses(self, relation: Term) -> Iterator[Term]:
        for term in (*self.where, *self.values):
            yield from (each for each in columns_of(term) if each.args[0] == relation)

    def _without_referenced(self, table: Term) -> Joined | None:
        """Without a table of which each row of another one finds exactly one row, if nothing else of it is used."""
        keys, used = _keys_of(table), {_name(each): each for each in self._uses(table)}
        for other in in_order(self.relations):
            for foreign in _keys_of(other).foreign if other.op == "table" and other != table else ():
                if foreign.table != table.type or frozenset(foreign.others) not in keys.unique:
                    continue
                if used.keys() != set(foreign.others):
                    continue
                instead = self._equal_columns(other, foreign.columns, foreign.others, used)
                if instead is not None:
                    return self._replaced(table, instead)
        return None

    def _equal_columns(
        self, other: Term, columns: tuple[str, ...], others: tuple[str, ...], used: Mapping[str, Term]
    ) -> dict[Term, Term] | None:
        """By each of the key's columns, the column of the other table that the conditions make equal to it."""
        classes = Equalities(self.where)
        theirs = {_name(each): each for each in self._uses(other)}
        instead: dict[Term, Term] = {}
        for name, its in zip(columns, others, strict=True):
            column = theirs.get(name)
            if column is None or classes.settled(column) != classes.settled(used[its]):
                return None
            instead[used[its]] = column
        return instead

    def _replaced(self, table: Term, instead: Mapping[Term, Term]) -> Joined:
        def change(term: Term) -> Term:
            return instead.get(term, term)

        where = {replaced(each, change) for each in self.where}
        present = {compose("IsNotNull", (each,), ("child=#",), "boolean") for each in instead.values()}
        kept = {each for each in where if not (is_equality(each) and each.args[0] == each.args[1])}
        relations = tuple(each for each in self.relations if each != table)
        return Joined(relations, frozenset(kept | present), tuple(replaced(each, change) for each in self.values))

    def _without_optional(self, source: Term) -> Joined | None:
        """Without a LEFT JOIN that finds at most one row, if nothing of its right side is used; or as an inner join, if
        it finds one for every row."""
        _, optional, on = source.args
        tables, conditions = optional.args
        if len(tables.args) != 1 or tables.args[0].op != "table":
            return None
        (table,) = tables.args
        compared = {name: left for each in on.args for name, left in _compared(each, table)}
        if all(each.args[1].op == "left" for each in self._uses(source)):
            found = any(unique <= compared.keys() for unique in _keys_of(table).unique)
            return self._opened(source, (), ()) if found else None
        if conditions.args or len(compared) < len(on.args) or not _always_finds(compared, table):
            return None
        equal = [compose("EqualTo", _plain(each.args), each.detail, each.type) for each in on.args]
        return self._opened(source, (table,), equal)

    def _without_copies(self, source: Term) -> Joined | None:
        """Without the copies of rows that conditions leave out, and without those conditions: if one is left, the rows
        below."""
        found = copies_of(source, self.where)
        if found is None or not found[0]:
            return None
        left, where = found
        (below,) = source.args
        if len(left) > 1:
            made = Term("expanded", (below,), (str(len(left)),))

            def change(each: Term) -> Term:
                if each.args[0] != source:
                    return each
                copies = tuple(each.args[1].args[place] for place in left)
                return column(made, Term("branches", copies, type=each.type))

            relations = tuple(made if each == source else each for each in self.relations)
            conditions = frozenset(replaced(each, change) for each in where)
            return Joined(relations, conditions, tuple(replaced(each, change) for each in self.values))
        relations = (*(each for each in self.relations if each != source), *below.args[0].args)
        if len(set(relations)) < len(relations):
            return None
        its = {of_copy(each, source, left[0]) for each in where}
        values = tuple(of_copy(each, source, left[0]) for each in self.values)
        return Joined(relations, frozenset(its.union(below.args[1].args)), values)

    def _opened(self, source: Term, more: tuple[Term, ...], conditions: Iterable[Term]) -> Joined | None:
        """The left side's relations, and more, in the place of an outer join."""
        below, where = source.args[0].args
        relations = (*(each for each in self.relations if each != source), *below.args, *more)
        if len(set(relations)) < len(relations):
            return None

        def change(term: Term) -> Term:
            return term.args[1].args[0] if term.args[0] == source else term

        its = {replaced(each, change) for each in self.where}
        values = tuple(replaced(each, change) for each in self.values)
        return Joined(relations, frozenset(its.union(where.args, conditions)), values)


def _identity(joined: Joined) -> tuple[bytes, list[bytes], list[bytes]]:
    """What tells rows and values apart: first without the order of the values."""
    values = [each.digest for each in joined.values]
    return core(joined.relations, joined.where).digest, sorted(values), values


def _always_finds(compared: Mapping[str, Term], table: Term) -> bool:
    """Whether the compared columns are a foreign key of one table, all of whose columns are never NULL."""
    sources = {left.args[0] for left in compared.values() if left.op == "column"}
    if len(sources) != 1 or any(left.op != "column" for left in compared.values()):
        return False
    (source,) = sources
    pairs = {(_name(left), name) for name, left in compared.items()} if source.op == "table" else set()
    return any(
        foreign.table == table.type
        and pairs == set(zip(foreign.columns, foreign.others, strict=True))
        and frozenset(foreign.others) in _keys_of(table).unique
        and _keys_of(source).present.issuperset(foreign.columns)
        for foreign in _keys_of(source).foreign
    )


def _plain(sides: tuple[Term, ...]) -> tuple[Term, ...]:
    """Columns of the sides of a join as those below."""
    return tuple(each.args[1].args[0] for each in sides)


def _keys_of(table: Term) -> TableKeys:
    return _known.keys.get(table.type, NO_KEYS)


def _name(column: Term) -> str:
    """The name of a table's column."""
    return column.args[1].detail[0].lower()


def _compared(condition: Term, table: Term) -> Iterator[tuple[str, Term]]:
    """The column of the right side's table, and the value of the left side that a condition of ON makes equal to it."""
    if not is_equality(condition):
        return
    sides = {each.args[1].op: each.args[1].args[0] for each in condition.args if each.op == "column"}
    right = sides.get("right")
    if sides.keys() == {"left", "right"} and right is not None and right.op == "column" and right.args[0] == table:
        yield _name(right), sides["left"]


def _is_certain(condition: Term) -> bool:
    """Whether it says that a column is not NULL that never is."""
    if condition.op != "IsNotNull" or condition.args[0].op != "column":
        return False
    source, name = condition.args[0].args
    return source.op == "table" and name.op == "field" and name.detail[0].lower() in _keys_of(source).present
