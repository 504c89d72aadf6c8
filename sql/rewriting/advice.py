"""Suggests views that would have answered queries: computed from the queries' texts and the types of their tables.

A suggestion counts for a query only if the matcher proposes to answer it from the suggested view.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from sqlglot import exp

from sql.names import SESSION_CATALOG, Namespace, TableName
from sql.reading.parsing import Doubt
from sql.rewriting.blocks import BlockReader, inlined, selects_in
from sql.rewriting.candidate import RewritableView
from sql.rewriting.dialect import identifier, parsed, printed
from sql.rewriting.draft import Draft, NotAdvised, drafted
from sql.rewriting.exclusions import excluded
from sql.rewriting.expression_types import type_of_value
from sql.rewriting.forms import COUNT_OF_ROWS, call_of, form, mapped
from sql.rewriting.matching import Proposal, propose
from sql.rewriting.shape import HOLE, Shape, shape_of

KEYS_MAX, UNKNOWN_KEYS_MAX = 6, 4
"""Drafts are merged up to so many keys, because with each key a view has more rows: if statistics tell how many, and if
they do not."""
COLUMNS_MAX = 60
NAME_CHARACTERS_MAX = 60
_HIDDEN = "?"
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Described:
    """What is known of a table without reading its rows."""

    types: Mapping[str, str]
    """Types as SQL by columns, which are in lower case."""
    rows: int | None = None
    bytes: int | None = None
    distinct: Mapping[str, int] | None = None
    """How many values a column has, if that is known."""


Tables = Mapping[TableName, Described]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A view that would have answered queries."""

    view: RewritableView
    serves: tuple[int, ...]
    """The numbers of the queries, in ascending order."""
    rows: int | None
    """An upper bound of its rows; None if statistics do not tell."""

    @property
    def statement(self) -> str:
        """The statement that creates it."""
        return f"CREATE MATERIALIZED VIEW {name_as_sql(self.view.name)} ENABLE QUERY REWRITE AS {self.view.query}"

    def renamed(self, taken: Collection[TableName]) -> Suggestion:
        """The same view under a name that is not taken."""
        name = self.view.name
        return replace(self, view=replace(self.view, name=_free_name(name.database, name.table, taken)))


@dataclass(slots=True)
class _Plan:
    """A draft, with the queries from which it was made."""

    draft: Draft
    queries: list[int]


class _Query:
    """A query, read once."""

    def __init__(self, text: str, namespace: Namespace, tables: Tables) -> None:
        self.shape = shape_of(text)
        self.namespace = namespace
        self.drafts: list[Draft] = []
        if excluded(self.shape) is not None:
            return
        try:
            reader = BlockReader(namespace, lambda table: _columns(tables, table))
            done: set[int] = set()
            for select in selects_in(inlined(parsed(self.shape))):
                if id(select) not in done and self._read(reader, select, tables):
                    # The derived tables in it were merged into its block.
                    done.update(id(each) for each in select.find_all(exp.Select))
        except (Doubt, RecursionError):
            self.drafts.clear()

    def _read(self, reader: BlockReader, select: exp.Select, tables: Tables) -> bool:
        """Whether there is a draft for the block. The query's other blocks may be answered if not."""
        try:
            draft = drafted(reader.block(select), lambda table, column: _type(tables, table, column))
        except (Doubt, NotAdvised):
            return False
        self.drafts.append(draft)
        return True

    def answered_by(self, view: RewritableView, tables: Tables) -> bool:
        (found,) = propose(self.shape, self.namespace, [view], lambda table: _columns(tables, table))
        return isinstance(found, Proposal)


def suggested(
    queries: Sequence[tuple[str, Namespace]],
    tables: Tables,
    taken: Collection[TableName] = (),
    is_answered: Callable[[Shape, Namespace], bool] = lambda _shape, _namespace: False,
    is_late: Callable[[], bool] = lambda: False,
) -> list[Suggestion]:
    """The views for the queries, of which the most important come first.

    `tables`: all that the queries read; a query that reads another one gets no view. `taken`: names of relations that
    exist. `is_answered`: whether a view that exists answers a query. `is_late`: whether no further query is read.
    """
    read: dict[int, _Query] = {}
    plans: list[_Plan] = []
    for number, (text, namespace) in enumerate(queries):
        if is_late():
            break
        query = _Query(text, namespace, tables)
        if query.drafts and not is_answered(query.shape, namespace):
            read[number] = query
            _add(plans, [each for each in query.drafts if _serves(each, query, tables)], number, tables)
    found: list[Suggestion] = []
    names = set(taken)
    for plan in plans:
        view = _view(plan.draft, tables, names)
        serves = tuple(each for each in sorted(set(plan.queries)) if read[each].answered_by(view, tables))
        if serves:
            found.append(Suggestion(view, serves, _rows(plan.draft, tables)))
            names.add(view.name)
    return found


def _columns(tables: Tables, table: TableName) -> tuple[str, ...] | None:
    found = tables.get(table)
    return None if found is None else tuple(found.types)


def _type(tables: Tables, table: TableName, column: str) -> str:
    found = tables.get(table)
    return "" if found is None else found.types.get(column, "").upper()


def tables_of(text: str, namespace: Namespace) -> frozenset[TableName]:
    """The tables that a query names; none if it is not understood."""
    shape = shape_of(text)
    if excluded(shape) is not None:
        return frozenset()
    try:
        nodes = inlined(parsed(shape)).find_all(exp.Table)
    except (Doubt, RecursionError):
        return frozenset()
    named = (tuple(part.name for part in each.parts) for each in nodes if isinstance(each.this, exp.Identifier))
    return frozenset(TableName.resolve(parts, namespace) for parts in named)


def without_literals(shape: Shape) -> str:
    """The text of a shape for people: a question mark for each string, and for each number but ordinals."""
    shown: list[str] = []
    for piece in shape.pieces:
        if piece.startswith("/*+"):
            continue
        is_long_number = piece[0].isdigit() and not (piece.isdecimal() and len(piece) < 3)
        shown.append(_HIDDEN if piece[0] == HOLE or piece[-1] in "'\"" or is_long_number else piece)
    text = " ".join(shown)
    return re.sub(r"(?<=[.(]) | (?=[.,)])|(?<=[a-z\d_]) (?=\()", "", text)


# --- merging -------------------------------------------------------------------------------------------


def _serves(draft: Draft, query: _Query, tables: Tables) -> bool:
    """Whether the draft alone would answer the query, with far fewer rows than the tables have."""
    return _is_small(draft, tables) and query.answered_by(_view(draft, tables, ()), tables)


def _is_small(draft: Draft, tables: Tables) -> bool:
    """Whether it has not, as far as statistics tell, more than half of the rows of the largest table."""
    size, rows = _largest(draft, tables), _rows(draft, tables)
    counts = [_distinct(key, draft, tables) for key in draft.all_keys]
    return not draft.groups or size is None or rows is None or None in counts or 2 * rows <= size


def _add(plans: list[_Plan], drafts: Iterable[Draft], number: int, tables: Tables) -> None:
    """Adds drafts of a query: to the first plan of the same rows that they fit."""
    for draft in drafts:
        for plan in plans:
            if (both := _both(plan.draft, draft, tables)) is not None:
                plan.draft = both
                plan.queries.append(number)
                break
        else:
            plans.append(_Plan(draft, [number]))


def _both(one: Draft, other: Draft, tables: Tables) -> Draft | None:
    """One draft that serves what both do; None if they should not be merged."""
    if one.source != other.source or one.is_exact != other.is_exact:
        return None
    if one.new_counted(other) or other.new_counted(one) or (one.is_exact and one.key_forms != other.key_forms):
        return None
    both = one.joined(other)
    if len(both.key_forms) + len(both.measures) > COLUMNS_MAX or not _is_small(both, tables):
        return None
    if both.groups and not one.includes(other) and not other.includes(one):
        is_known = None not in (_distinct(key, both, tables) for key in both.all_keys)
        if len(both.key_forms) > (KEYS_MAX if is_known else UNKNOWN_KEYS_MAX):
            return None
    return both


def _rows(draft: Draft, tables: Tables) -> int | None:
    """An upper bound: the combinations of the keys' values, and the rows of the largest table, unless joins multiply
    these."""
    if not draft.groups:
        return None
    if not draft.key_forms:
        return 1
    largest = _largest(draft, tables)
    bounds = [] if largest is None else [largest]
    counts = [_distinct(key, draft, tables) for key in draft.all_keys]
    if None not in counts:
        bounds.append(prod(count for count in counts if count is not None))
    return min(bounds, default=None)


def _largest(draft: Draft, tables: Tables) -> int | None:
    """The rows of the largest table; None if those of one are not known."""
    sizes = [tables[each.table].rows for each in draft.relations.values() if each.table is not None]
    known = [size for size in sizes if size is not None]
    return max(known, default=None) if len(known) == len(sizes) else None


def _distinct(key: exp.Expr, draft: Draft, tables: Tables) -> int | None:
    relation = draft.relations.get(key.table) if isinstance(key, exp.Column) else None
    table = None if relation is None or relation.table is None else tables.get(relation.table)
    count = None if table is None or table.distinct is None else table.distinct.get(key.name)
    return None if count is None else count + 1  # NULL is a group, too.


# --- the view's text -----------------------------------------------------------------------------------


def name_as_sql(name: TableName) -> str:
    """A name for people to read: without the session's own catalog, and quotes only where they are needed."""
    if name.catalog != SESSION_CATALOG:
        return name.quoted
    return f"{printed(identifier(name.database))}.{printed(identifier(name.table))}"


def _view(draft: Draft, tables: Tables, taken: Collection[TableName]) -> RewritableView:
    aliases = _aliases(draft)
    names: set[str] = set()
    keys = [(_key_name(key, draft, names), key) for key in draft.all_keys]
    measures = [(_measure_name(each, names), each) for each in draft.needed]
    first = next(iter(draft.relations.values())).table
    assert first is not None
    columns = [*keys, *measures]
    types = tuple(type_of_value(value, lambda each: _column_type(each, draft, tables)) for _, value in columns)
    bases = {each.table: _columns(tables, each.table) or () for each in draft.relations.values() if each.table}
    # A view of a table in another catalog stands in the session catalog.
    database = first.database if first.catalog == SESSION_CATALOG else "default"
    name = _free_name(database, _view_name(draft, [name for name, _ in keys]), taken)
    query = _select(draft, aliases, columns, len(keys))
    return RewritableView(name, tuple(each for each, _ in columns), types, query, Namespace(database), bases)


def _column_type(column: exp.Column, draft: Draft, tables: Tables) -> str:
    relation = draft.relations.get(column.table)
    return "" if relation is None or relation.table is None else _type(tables, relation.table, column.name)


def _aliases(draft: Draft) -> dict[str, str]:
    """Aliases by relation; no alias if there is only one."""
    if len(draft.relations) == 1:
        return dict.fromkeys(draft.relations, "")
    names: set[str] = set()
    tables = {key: each.table.table for key, each in draft.relations.items() if each.table is not None}
    return {key: _unique(table, names) for key, table in tables.items()}


def _select(draft: Draft, aliases: Mapping[str, str], columns: Sequence[tuple[str, exp.Expr]], keys: int) -> str:
    def written(node: exp.Expr) -> str:
        return printed(mapped(node, change))

    def change(node: exp.Expr) -> exp.Expr | None:
        if not isinstance(node, exp.Column) or node.table not in aliases:
            return None
        alias = aliases[node.table]
        return exp.Column(this=identifier(node.name), table=identifier(alias) if alias else None)

    texts = [written(value) for _, value in columns]
    items = [
        text if isinstance(value, exp.Column) and value.name == name else f"{text} AS {printed(identifier(name))}"
        for text, (name, value) in zip(texts, columns, strict=True)
    ]
    groups = ", ".join(texts[:keys]) if draft.groups else ""
    text = f"SELECT {', '.join(items)} FROM {_from(draft, aliases, written)}"
    return f"{text} GROUP BY {groups}" if groups else text


def _from(draft: Draft, aliases: Mapping[str, str], written: Callable[[exp.Expr], str]) -> str:
    left = list(draft.joins.values())
    seen: set[str] = set()
    text = ""
    for key in _order(draft):
        relation = draft.relations[key]
        assert relation.table is not None
        seen.add(key)
        table = name_as_sql(relation.table)
        table = f"{table} AS {printed(identifier(aliases[key]))}" if aliases[key] else table
        if not text:
            text = table
            continue
        outer = relation.on
        own = [each for each in left if _relations_in(each) <= seen] if outer is None else list(outer)
        left = [each for each in left if not any(each is one for one in own)]
        kind = ("INNER JOIN" if own else "CROSS JOIN") if outer is None else "LEFT JOIN"
        conditions = " AND ".join(map(written, own))
        text += f" {kind} {table}{f' ON {conditions}' if own else ''}"
    return text + (f" WHERE {' AND '.join(map(written, left))}" if left else "")


def _order(draft: Draft) -> list[str]:
    """The relations so that each is joined with one before it, if possible; as they were if there is an outer join."""
    left = list(draft.relations)
    if any(each.on is not None for each in draft.relations.values()):
        return left
    found: list[str] = []
    while left:
        seen = set(found)
        joined = (
            key for each in draft.joins.values() for key in _relations_in(each) - seen if _relations_in(each) & seen
        )
        reachable = set(joined)
        key = next((key for key in left if key in reachable), left[0])
        left.remove(key)
        found.append(key)
    return found


def _relations_in(node: exp.Expr) -> set[str]:
    return {column.table for column in node.find_all(exp.Column)}


# --- names ---------------------------------------------------------------------------------------------


def _unique(name: str, taken: set[str]) -> str:
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    taken.add(found)
    return found


def _words_of(node: exp.Expr) -> str:
    return "_".join(dict.fromkeys("_".join(_WORD.findall(each.name)) for each in node.find_all(exp.Column)))


def _key_name(key: exp.Expr, draft: Draft, taken: set[str]) -> str:
    if isinstance(key, exp.Column):
        relation = draft.relations[key.table]
        name = key.name if key.name not in taken or relation.table is None else f"{relation.table.table}_{key.name}"
        return _unique(name, taken)
    name, arguments = call_of(key)
    unit = arguments[0].name.lower() if name == "date_trunc" else name
    return _unique(f"{_words_of(key)}_{unit}" if unit else _words_of(key), taken)


def _measure_name(measure: exp.Expr, taken: set[str]) -> str:
    call = measure.this if isinstance(measure, exp.Filter) else measure
    name = "row_count" if form(call) == COUNT_OF_ROWS else f"{call_of(call)[0]}_{_words_of(call)}"
    return _unique(name[:NAME_CHARACTERS_MAX], taken)


def _view_name(draft: Draft, keys: Sequence[str]) -> str:
    tables = [each.table.table for each in draft.relations.values() if each.table is not None]
    if not draft.groups:
        return "_with_".join(tables)[:NAME_CHARACTERS_MAX]
    name = f"{tables[0]}_by_{keys[0]}" if keys else f"{tables[0]}_totals"
    for key in keys[1:]:
        name = longer if len(longer := f"{name}_{key}") <= NAME_CHARACTERS_MAX else name
    return name


def _free_name(database: str, name: str, taken: Collection[TableName]) -> TableName:
    plain = re.sub(r"\W", "_", name.lower(), flags=re.ASCII).rstrip("_")
    found, number = TableName(database, plain), 1
    while found in taken:
        number += 1
        found = TableName(database, f"{plain}_{number}")
    return found
