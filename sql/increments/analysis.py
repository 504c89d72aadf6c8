"""Analyses a view's definition for refreshes by rows. What is not understood is refused.

Tests: `test_increment_definitions`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sql.definition.determinism import METADATA, MOMENTS, WITHOUT_PARENTHESES, nondeterministic
from sql.definition.functions import FUNCTIONS, GENERATORS, NO_FUNCTIONS
from sql.increments.expansion import SparkView, Views, expanded
from sql.increments.grouping import Grouping, GroupingReader, Item, check_group, item_of
from sql.increments.layers import Layers, has_windows, layers_of
from sql.increments.outline import Branch, Groups, Kind, Outline, StoredKey
from sql.increments.reasons import NotIncremental, Reason
from sql.increments.scopes import FromScope, Place, RelationReader
from sql.increments.states import States, Types, label, questions, subtractable, value_text
from sql.increments.templates import Aggregate, Key, KeyHole, Template, TemplateReader
from sql.increments.unwrapping import unwrapped, without_order
from sql.increments.vocabulary import CHANGING, NOW_WITHOUT_ARGUMENTS, TIMES
from sql.increments.written import Edit, Span, Written, refuse
from sql.names import Namespace, TableName, quote
from sql.query.trees import is_star, other_part
from sql.scan import string_value

__all__ = ["Kind", "Outline", "OutlineDraft", "Place", "analyse"]
_NO_VIEWS: Mapping[TableName, SparkView] = {}
RESERVED = "freshgate_"
"""How the names of hidden columns begin."""
_MOMENT = re.compile(rf"\s*(?:{'|'.join(sorted(MOMENTS))})(?:\s.*)?", re.IGNORECASE | re.DOTALL)
_SCALAR = re.compile(
    r"boolean|tinyint|smallint|int|bigint|float|double|decimal\(\d+, ?\d+\)|string|binary|date|timestamp|timestamp_ntz"
    r"|time\(\d\)|interval [a-z]+(?: to [a-z]+)?|(?:var)?char\(\d+\)"
)
_EXPRESSIONS = (
    *(exp.Func, exp.Binary, exp.Unary, exp.Predicate, exp.Condition, exp.Interval, exp.IntervalSpan, exp.Var),
    *(exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.Bracket, exp.Slice, exp.Dot),
    *(exp.DataType, exp.DataTypeParam, exp.Tuple, exp.Alias, exp.Star, exp.If, exp.Case, exp.Lambda, exp.Between),
    *(exp.PropertyEQ, exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.Distinct, exp.Any, exp.All, exp.TimeUnit),
    *(exp.ColumnDef, exp.Collate, exp.Escape, exp.In, exp.Exists, exp.WithinGroup, exp.JSONPath, exp.JSONPathPart),
)
_STRUCTURE = (
    *(exp.Select, exp.Union, exp.Subquery, exp.From, exp.Values, exp.Join, exp.Where, exp.Group, exp.Having, exp.Order),
    *(exp.Ordered, exp.Table, exp.TableAlias, exp.Lateral, exp.Rollup, exp.Cube, exp.GroupingSets),
    *(exp.Window, exp.WindowSpec),
)
_STRANGE = (exp.Parameter, exp.Placeholder, exp.SessionParameter, exp.Pivot, exp.TableSample, exp.Hint)


@dataclass(frozen=True, slots=True)
class GroupsDraft:
    """A grouped SELECT whose types are not known yet."""

    body: Span
    grouping: Grouping | None
    items: tuple[Template, ...]
    having: Template | None
    origins: tuple[tuple[int, str] | None, ...] = ()
    """Of the keys, as `StoredKey.origin`."""

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        templates = (*self.items, *((self.having,) if self.having is not None else ()))
        found = (piece for template in templates for piece in template if isinstance(piece, Aggregate))
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class OutlineDraft:
    """A definition of the right form, whose types may still forbid it."""

    _written: Written
    _places: tuple[Place, ...]
    _columns: tuple[str, ...]
    _branches: tuple[Branch, ...]
    _groups: GroupsDraft | None
    _distinct: tuple[int, int] | None
    _layers: Layers | None = None
    _origins: tuple[tuple[int, str] | None, ...] = ()

    @property
    def _plain(self) -> Outline:
        """The rows, before they are grouped."""
        outline = Outline(Kind.ROWS, self._places, self._written.text, self._columns, self._branches)
        return replace(outline, origins=self._origins)

    @property
    def computes(self) -> bool:
        """Whether anything is computed of a group's keys and aggregates, which have lost what they were columns of."""
        if self._groups is None:
            return False
        holes = [sum(not isinstance(piece, str) for piece in item) for item in self._groups.items]
        return self._groups.having is not None or any(
            hole and len(item) > 1 for hole, item in zip(holes, self._groups.items, strict=True)
        )

    def _texts(self) -> list[str]:
        """The expressions whose types are needed."""
        if self._layers is not None:
            return [value_text(key.text) for key in self._layers.keys]
        if self._groups is None:
            return []
        grouping = self._groups.grouping
        keys = [value_text(key.text) for key in grouping.keys] if grouping is not None else []
        return list(dict.fromkeys([*keys, *(text for each in self._groups.aggregates for text in questions(each))]))

    def typing(self) -> str | None:
        """A query whose types must be told, by column; None if nothing is needed."""
        body_span = self._groups.body if self._groups is not None else self._layers.body if self._layers else None
        if body_span is not None:
            texts = self._texts()
            listed = ", ".join(f"{text} AS {quote(label(number))}" for number, text in enumerate(texts))
            body = self._edited(body_span)
            return f"SELECT {listed} {body} LIMIT 0" if texts else None
        if self._distinct is None and len(self._branches) == 1:
            return None
        edits = [place.edit(None) for place in self._places]
        if self._distinct is not None:
            edits.append(Edit(*self._distinct, ""))
        queries = [self._branch_text(branch, edits) for branch in self._branches]
        if len(queries) > 1:
            queries.append(" UNION ALL ".join(f"({query})" for query in queries))
        width = len(self._columns)
        parts = []
        for number, query in enumerate(queries):
            names = ", ".join(quote(label(number * width + column)) for column in range(width))
            parts.append(f"({query}) AS `freshgate_b{number}`({names})")
        return f"SELECT * FROM {' CROSS JOIN '.join(parts)} LIMIT 0"

    def _branch_text(self, branch: Branch, edits: Sequence[Edit]) -> str:
        return self._plain.spliced(branch.start, branch.end, edits)

    def _edited(self, span: Span) -> str:
        return self._written.edited(span, [place.edit(None) for place in self._places])

    def typed(self, types: Mapping[str, str], *, ansi: bool) -> Outline:
        """Raises NotIncremental."""
        if self._layers is not None:
            return self._layered(self._layers, Types(self._texts(), types, ansi))
        if self._groups is not None:
            return self._grouped(self._groups, Types(self._texts(), types, ansi))
        width = len(self._columns)
        if self._distinct is not None:
            for number, column in enumerate(self._columns):
                _check_key(column, types[label(number)])
            return self._distinct_outline(self._distinct)
        if len(self._branches) == 1:
            return self._plain
        told = [types[label(number)] for number in range((len(self._branches) + 1) * width)]
        whole = tuple(told[-width:])
        branches = tuple(
            branch if tuple(told[number * width : (number + 1) * width]) == whole else replace(branch, casts=whole)
            for number, branch in enumerate(self._branches)
        )
        return replace(self._plain, branches=branches)

    def _layered(self, layers: Layers, types: Types) -> Outline:
        for key in layers.keys:
            _check_key(key.text, types.of(value_text(key.text)))
        body = _offsets(self._written, layers.body)
        where = self._condition(layers.body)
        groups = Groups(body, layers.keys, "", False, (), None, (), {}, {}, condition=where, layers=layers.edits)
        return replace(self._plain, kind=Kind.GROUPS, groups=groups)

    def _distinct_outline(self, distinct: tuple[int, int]) -> Outline:
        keys = tuple(StoredKey(quote(column), column, False) for column in self._columns)
        grouping = ", ".join(key.text for key in keys)
        items: tuple[Template, ...] = tuple((KeyHole(number),) for number in range(len(keys)))
        states = States(Types([], {}, True), True).all()
        groups = Groups((0, 0), keys, grouping, False, items, None, states, {}, {}, distinct)
        return replace(self._plain, kind=Kind.GROUPS, groups=groups, subtracts=True)

    def _grouped(self, draft: GroupsDraft, types: Types) -> Outline:
        grouping = draft.grouping
        for key in grouping.keys if grouping is not None else ():
            _check_key(key.text, types.of(value_text(key.text)))
        aggregates = draft.aggregates
        subtracts = all(subtractable(each, types) for each in aggregates)
        states = States(types, subtracts)
        try:
            own = {each: states.add(each) for each in aggregates}
        except NotIncremental as reason:
            whole = replace(self._plain, kind=Kind.GROUPS, groups=self._groups_of(draft))
            if not whole.regroups:
                raise reason from None
            return whole
        visible: dict[str, int] = {}
        columns: dict[int, str] = {}
        if draft.having is None:
            for column, item in zip(self._columns, draft.items, strict=True):
                state = own[item[0]] if len(item) == 1 and isinstance(item[0], Aggregate) else None
                if state is not None and state.number >= 0 and state.number not in columns:
                    visible[column], columns[state.number] = state.number, column
        stored = tuple(replace(each, column=columns.get(each.number, each.column)) for each in states.all())
        groups = replace(self._groups_of(draft), states=stored, visible=visible, finals=states.finals)
        return replace(self._plain, kind=Kind.GROUPS, groups=groups, subtracts=subtracts)

    def _groups_of(self, draft: GroupsDraft) -> Groups:
        """The groups without states."""
        keys, grouping = tuple(self._stored_keys(draft)), draft.grouping
        body = _offsets(self._written, draft.body)
        text = grouping.text if grouping is not None else ""
        sets = grouping is not None and not grouping.plain
        where = self._condition(draft.body)
        return Groups(body, keys, text, sets, draft.items, draft.having, (), {}, {}, condition=where)

    def _condition(self, body: Span) -> int | None:
        written = self._written
        place = next((place for place in written.outer(body) if written.word(place) == "where"), None)
        return None if place is None else written.pieces[place + 1].start

    def _stored_keys(self, draft: GroupsDraft) -> Iterator[StoredKey]:
        for number, key in enumerate(draft.grouping.keys if draft.grouping is not None else ()):
            shown = (
                column
                for column, item in zip(self._columns, draft.items, strict=True)
                if item == (KeyHole(number),) and draft.having is None
            )
            column = next(shown, None)
            yield StoredKey(key.text, column or f"freshgate_k{number}", column is None, draft.origins[number])


def _check_key(name: str, kind: str) -> None:
    if not _SCALAR.fullmatch(kind.lower()):
        raise refuse(f"it groups by {name}, whose type is {kind.lower()}")


# --- analysis ------------------------------------------------------------------------------------------


def analyse(
    query: str,
    namespace: Namespace,
    columns: Mapping[TableName, Sequence[str]],
    view_columns: Sequence[str],
    *,
    named: bool,
    views: Views = _NO_VIEWS,
) -> OutlineDraft:
    """The definition's form. `columns`: of each base table, in order. `named`: whether the view has a column list of
    its own. `views`: the Spark views that it reads, also through others. Raises NotIncremental."""
    known = {name.lower() for listed in columns.values() for name in listed}
    written = unwrapped(expanded(Written(query), namespace, views), view_columns, known)
    _check_names(view_columns)
    _check_nodes(written)
    reader = RelationReader(written, namespace, columns)
    parts = _branches(written)
    first, top = parts[0]
    layers = layers_of(written, first, top, view_columns, reader) if len(parts) == 1 else None
    scopes = [reader.select(select, number) for number, (select, _) in enumerate(parts)] if layers is None else []
    _check_calls(written, reader)
    _check_columns(written, reader)
    groups, distinct = None, None
    if layers is not None:
        for select in layers.selects:
            _check_expressions(select)
        _check_items(first, layers.names, view_columns, named=named)
    else:
        groups, distinct = _grouping(written, parts, scopes, view_columns)
        for (select, _), scope in zip(parts, scopes, strict=True):
            _check_items(select, reader.outputs(select, scope), view_columns, named=named)
            scope.note_direct()
        if groups is None and any(True for _ in written.aggregates()):
            raise refuse("it has an aggregate in a subquery", Reason.AGGREGATE_NOT_ON_TOP)
    branches = tuple(Branch(*_offsets(written, span)) for _, span in parts)
    places = reader.finish()
    _check_tables(written, places)
    if not places:
        raise refuse("it reads no table")
    origins = _origins(first, scopes[0]) if len(scopes) == 1 and groups is None else ()
    return OutlineDraft(written, places, tuple(view_columns), branches, groups, distinct, layers, origins)


def _origins(select: exp.Select, scope: FromScope) -> tuple[tuple[int, str] | None, ...]:
    """The columns of tables that the items are; empty if there is a star."""
    if any(is_star(item) for item in select.expressions):
        return ()
    items = [item.unalias() for item in select.expressions]
    columns = [[part.name for part in item.parts] if isinstance(item, exp.Column) else [] for item in items]
    return tuple(scope.origin((scope.canonical(parts),)) if parts else None for parts in columns)


def _grouping(
    written: Written,
    parts: Sequence[tuple[exp.Select, Span]],
    scopes: Sequence[FromScope],
    view_columns: Sequence[str],
) -> tuple[GroupsDraft | None, tuple[int, int] | None]:
    """The groups, or the offsets of DISTINCT."""
    if has_windows(written):
        raise refuse("it has a window below UNION ALL")
    grouped = [_is_grouped(written, select, span) for select, span in parts]
    select, span = parts[0]
    if len(parts) > 1:
        if any(grouped) or any(each.args.get("distinct") for each, _ in parts):
            raise refuse("it has an aggregate below UNION ALL", Reason.AGGREGATE_NOT_ON_TOP)
    elif select.args.get("distinct"):
        place = written.clauses(span, select).distinct
        if place is None:
            raise refuse("DISTINCT is not understood")
        return None, (written.pieces[place].start, written.pieces[place].end)
    elif grouped[0]:
        return _groups(written, select, span, scopes[0], view_columns), None
    return None, None


def _offsets(written: Written, span: Span) -> tuple[int, int]:
    return written.pieces[span.start].start, written.pieces[span.end - 1].end


def _check_names(view_columns: Sequence[str]) -> None:
    folded = [column.lower() for column in view_columns]
    if reserved := next((column for column in folded if column.startswith(RESERVED)), None):
        raise refuse(f"a column is called {reserved}")
    if len(set(folded)) != len(folded):
        raise refuse("two columns have the same name")


def _check_nodes(written: Written) -> None:
    for node in written.tree.walk():
        if isinstance(node, exp.SetOperation) and not isinstance(node, exp.Union):
            raise refuse(f"it has {type(node).__name__.upper()}")
        if isinstance(node, _STRANGE) or not isinstance(node, _EXPRESSIONS + _STRUCTURE):
            raise refuse(f"it has {_name_of(node)}")
        if isinstance(node, exp.Star) and not _is_listed(node):
            raise refuse("it has a star within an expression")
        if isinstance(node, exp.Anonymous) and isinstance(node.this, exp.Expr):
            raise refuse("a call is not understood")


def _is_listed(star: exp.Star) -> bool:
    """Whether the star is an item of SELECT, or that of count(*)."""
    holder = star.parent
    if isinstance(holder, exp.Column):
        return isinstance(holder.parent, exp.Select)
    return isinstance(holder, exp.Select) or (isinstance(holder, exp.Count) and not holder.expressions)


def _name_of(node: exp.Expr) -> str:
    return "VALUES" if isinstance(node, exp.Values) else type(node).__name__.upper()


def _check_calls(written: Written, reader: RelationReader) -> None:
    """Only Spark's own functions, whose value depends on nothing but the row."""
    named = {
        written.place(alias.this)
        for alias in written.tree.find_all(exp.TableAlias)
        if alias.args.get("columns") and alias.this is not None
    }
    for name, place in written.calls():
        qualified = written.symbol(place - 1) == "."
        keyword = name in NO_FUNCTIONS and written.word(place) != "" and not qualified
        if place in named or keyword:
            continue
        if qualified or name not in FUNCTIONS:
            raise refuse(f"it calls the function {name}, which is not Spark's own", Reason.FUNCTION_NOT_MERGEABLE)
        none = written.partner[place + 1] == place + 2
        if name in CHANGING or (name in NOW_WITHOUT_ARGUMENTS and none):
            raise refuse(name, Reason.NOT_DETERMINISTIC)
        if name in TIMES:
            raise refuse(f"it has {name}")
    for place, piece in enumerate(written.pieces):
        word = written.word(place)
        if piece.text.strip("`").lower() == METADATA:
            raise refuse(METADATA, Reason.NOT_DETERMINISTIC)
        if word in WITHOUT_PARENTHESES and written.symbol(place - 1) != "." and not _is_column(word, reader):
            raise refuse(word, Reason.NOT_DETERMINISTIC)
        if piece.kind == "string" and _MOMENT.fullmatch(string_value(piece.text)):
            raise refuse(f"the string {piece.text}", Reason.NOT_DETERMINISTIC)
    if found := nondeterministic(written.text, ""):
        raise refuse(min(found), Reason.NOT_DETERMINISTIC)


def _is_column(word: str, reader: RelationReader) -> bool:
    """Whether each table has a column of that name, so that the word means it everywhere."""
    return all(word in map(str.lower, mention.columns) for mention in reader.mentions)


def _check_columns(written: Written, reader: RelationReader) -> None:
    """Names of columns that include a database would not be found in a query that stands for the table."""
    for column in written.tree.find_all(exp.Column):
        parts = [part.name.lower() for part in column.parts]
        for mention in reader.mentions:
            full = [mention.table.database, mention.table.table]
            if mention.alias and len(parts) > 2 and full in (parts[:2], parts[1:3]):
                raise refuse(f"a column is qualified with its database: {'.'.join(parts)}")


def _check_tables(written: Written, places: Sequence[Place]) -> None:
    """Each relation of the tree must be a place."""
    known = {place.start for place in places}
    for table in written.tree.find_all(exp.Table):
        start = written.pieces[written.place(table.parts[0])].start
        if start not in known:
            raise refuse(f"the relation {table.name} is not understood")


def _check_items(select: exp.Select, outputs: Sequence[str], view_columns: Sequence[str], *, named: bool) -> None:
    """As many items as columns; a star must mean those of the view."""
    _check_expressions(select)
    starred = any(is_star(item) for item in select.expressions)
    if starred and named:
        raise refuse("it has a star that is not frozen")
    if len(outputs) != len(view_columns):
        raise refuse("its items are not those of the view")
    if starred and any(name.lower() != column.lower() for name, column in zip(outputs, view_columns, strict=True)):
        raise refuse("its star means other columns than when the view was created")


def _check_expressions(select: exp.Select) -> None:
    for item in select.expressions:
        if item.find(exp.Query) is not None:
            raise refuse("it has a scalar subquery")
        if isinstance(item, exp.Aliases) or _is_generator(item):
            raise refuse("it has a generator in SELECT")


def _is_generator(item: exp.Expr) -> bool:
    return any(
        (call.name if isinstance(call, exp.Anonymous) else call.sql_name()).lower() in GENERATORS
        or isinstance(call, exp.UDTF | exp.Explode | exp.Posexplode | exp.Inline)
        for call in item.find_all(exp.Func)
    )


# --- branches ------------------------------------------------------------------------------------------


def _branches(written: Written) -> list[tuple[exp.Select, Span]]:
    """The SELECTs that UNION ALL joins, each with its pieces."""
    top = without_order(written)
    if (order := written.tree.args.get("order")) is not None:
        order.pop()
    selects = list(_selects(written.tree, top=True))
    spans = list(_split(written, top))
    if len(selects) != len(spans):
        raise refuse("its SELECTs are not understood")
    return list(zip(selects, spans, strict=True))


def _selects(node: exp.Expr, *, top: bool = False) -> Iterator[exp.Select]:
    if isinstance(node, exp.Union):
        if strange := other_part(node, "this", "expression", "with_", "distinct", "order"):
            raise refuse(f"UNION has {strange.upper().strip('_')}")
        if node.args.get("distinct") or (not top and (node.args.get("with_") or node.args.get("order"))):
            raise refuse("it has UNION without ALL" if node.args.get("distinct") else "UNION is not understood")
        yield from _selects(node.this)
        yield from _selects(node.expression)
    elif isinstance(node, exp.Subquery):
        if other_part(node, "this"):
            raise refuse("a query in brackets has further clauses")
        yield from _selects(node.this)
    elif isinstance(node, exp.Select):
        if not top and node.args.get("order"):
            raise refuse("it has ORDER BY in a branch")
        yield node
    else:
        raise refuse(f"it has {type(node).__name__.upper()}")


def _split(written: Written, span: Span) -> Iterator[Span]:
    """The SELECTs in the pieces, which UNION ALL joins."""
    while written.symbol(span.start) == "(" and written.partner[span.start] == span.end - 1:
        span = Span(span.start + 1, span.end - 1)
    unions = [place for place in written.outer(span) if written.word(place) == "union"]
    if not unions:
        yield span
        return
    start = span.start
    for place in unions:
        if written.word(place + 1) != "all":
            raise refuse("it has UNION without ALL")
        yield from _split(written, Span(start, place))
        start = place + 2
    yield from _split(written, Span(start, span.end))


# --- groups --------------------------------------------------------------------------------------------


def _is_grouped(written: Written, select: exp.Select, span: Span) -> bool:
    if select.args.get("group") or select.args.get("having"):
        return True
    items = written.clauses(span, select).items
    return any(_at_level(written, each, place) for each in items for place in written.aggregates() if each.holds(place))


def _at_level(written: Written, item: Span, place: int) -> bool:
    """Whether the item has no subquery, which is refused later."""
    return not any(written.word(each) == "select" for each in range(item.start, item.end)) and item.holds(place)


def _groups(
    written: Written, select: exp.Select, span: Span, scope: FromScope, view_columns: Sequence[str]
) -> GroupsDraft:
    if any(is_star(item) for item in select.expressions):
        raise refuse("it has a star over groups")
    clauses = written.clauses(span, select)
    items = [item_of(written, each, node) for each, node in zip(clauses.items, select.expressions, strict=True)]
    reader = TemplateReader(written, scope, select)
    grouping = None
    if clauses.group is not None:
        check_group(written, clauses.group, select.args["group"])
        grouper = GroupingReader(written, reader, [(item.span, item.alias) for item in items])
        grouping = grouper.read(clauses.group, select.args["group"])
    keys = grouping.keys if grouping is not None else ()
    templates = tuple(reader.template(item.span, keys, {}) for item in items)
    having = None
    if clauses.having is not None:
        node = select.args["having"]
        if node.find(exp.Query) is not None:
            raise refuse("it has a subquery in HAVING")
        aliases = _aliases(items, templates)
        _check_having(written, clauses.having, keys, aliases, scope, reader)
        having = reader.template(clauses.having, keys, aliases)
    if grouping is None and not any(isinstance(piece, Aggregate) for each in templates for piece in each):
        raise refuse("it has HAVING without groups")
    if missed := set(written.aggregates()) - reader.seen:
        name = written.word(min(missed))
        raise refuse(f"it has {name} in a subquery", Reason.AGGREGATE_NOT_ON_TOP)
    if len(items) != len(view_columns):
        raise refuse("its items are not those of the view")
    return GroupsDraft(clauses.body, grouping, templates, having, tuple(scope.origin(key.words) for key in keys))


def _aliases(items: Sequence[Item], templates: Sequence[Template]) -> dict[str, Template]:
    """What the aliases mean; those that two items have mean nothing."""
    names = [item.alias.lower() for item in items]
    return {name: each for name, each in zip(names, templates, strict=True) if name and names.count(name) == 1}


def _check_having(
    written: Written,
    span: Span,
    keys: Sequence[Key],
    aliases: Mapping[str, Template],
    scope: FromScope,
    reader: TemplateReader,
) -> None:
    """A name that is an item's alias and a column too means the column within an aggregate and if it is a key,
    otherwise the item. (Spark: ColumnResolutionHelper.resolveColWithAgg.)"""
    for place in range(span.start, span.end):
        column = written.columns.get(place)
        if column is None or len(column.parts) != 1 or column.name.lower() not in aliases or reader.is_within(place):
            continue
        meant = scope.canonical([column.name])
        if meant is None or any(key.words == (meant,) for key in keys):
            continue
        if any(meant in key.words for key in keys):
            raise refuse(f"the name {column.name} in HAVING may mean an item or a column")
