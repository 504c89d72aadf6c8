"""What a view must have to answer a query block: its tables and joins, keys and measures.

Columns of filters become keys, so that no literal of a filter is in the view. Keys are columns and truncated times
rather than the expressions of one query, because other expressions can be computed from these.

Tests: `test_advice`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from sqlglot import exp

from sql.names import TableName
from sql.query.aggregates import MERGED_BY_ITSELF, REPETITIONS_IGNORED
from sql.rewriting.blocks import Block, BlockRelation, aggregates_in
from sql.rewriting.expression_types import is_exact, type_of_value
from sql.rewriting.forms import COUNT_OF_ROWS, as_case, call_of, form, holes_in, literal_text, mapped, results_of
from sql.rewriting.shape import FORMATS, UNITS
from sql.rewriting.times import core, determined_by, is_whole, moment_of

ColumnType = Callable[[TableName, str], str]
"""The type of a table's column, in upper case; empty if it is not known."""
_FINE = frozenset({"TIMESTAMP", "TIMESTAMP_NTZ", "FLOAT", "DOUBLE"})
"""Types of columns of which nearly every row has another value: they are not keys."""
_ATOMIC_TIMES = frozenset({"TIMESTAMP", "TIMESTAMP_NTZ"})
_NO_KEYS = ("ARRAY", "MAP", "STRUCT", "VARIANT", "")
_DISTINCT = frozenset({"count", "sum", "avg", "min", "max"})
_BOUNDS: dict[type[exp.Expr], bool] = {exp.GTE: False, exp.LT: False, exp.GT: True, exp.LTE: True}
"""Comparisons with the begin of a unit of time that truncated times can answer; true: with the time on the right."""
DAY, HOUR = "DAY", "HOUR"


class NotAdvised(Exception):
    """No view is suggested for a block; the reason is for people."""


@dataclass(slots=True)
class Draft:
    """A view to be. The columns in its expressions are resolved, as those of blocks."""

    relations: dict[str, BlockRelation]
    joins: dict[str, exp.Expr]
    """By their forms, the conditions of inner joins."""
    keys: dict[str, exp.Expr] = field(default_factory=dict)
    """By their forms. Without groups: the columns."""
    times: dict[str, tuple[str, exp.Expr]] = field(default_factory=dict)
    """By the form of a time, the unit to which a key truncates it."""
    measures: dict[str, exp.Expr] = field(default_factory=dict)
    counted: set[str] = field(default_factory=set)
    """The forms of keys whose distinct values are counted: often there are very many."""
    groups: bool = True
    is_exact: bool = False
    """Whether it answers only queries of its own groups, because a measure cannot be added up."""

    @property
    def source(self) -> tuple[object, ...]:
        """Drafts of one source read the same rows."""
        left = {(key, tuple(map(form, each.on))) for key, each in self.relations.items() if each.on is not None}
        return frozenset(self.relations), frozenset(self.joins), frozenset(left), self.groups

    @property
    def all_keys(self) -> Iterator[exp.Expr]:
        yield from self.keys.values()
        for unit, time in self.times.values():
            yield exp.Anonymous(this="date_trunc", expressions=[exp.Literal.string(unit), time])

    @property
    def needed(self) -> list[exp.Expr]:
        """The measures that cannot be computed from the keys."""
        return [each for each in self.measures.values() if not self._is_of_keys(each)]

    def _is_of_keys(self, measure: exp.Expr) -> bool:
        name, arguments = call_of(measure)
        return name in REPETITIONS_IGNORED and len(arguments) == 1 and form(arguments[0]) in self.keys

    @property
    def key_forms(self) -> frozenset[str]:
        return frozenset(self.keys) | frozenset(self.times)

    def includes(self, other: Draft) -> bool:
        """Whether all of its groups and measures can be computed from this one's."""
        return self.key_forms >= other.key_forms and self.measures.keys() >= other.measures.keys()

    def new_counted(self, other: Draft) -> set[str]:
        """Its keys whose distinct values are counted, and that are not keys of the other."""
        return self.counted - other.keys.keys()

    def joined(self, other: Draft) -> Draft:
        """A view of the same source that serves both."""
        times = {**self.times, **other.times}
        for time, (unit, _) in self.times.items():
            if unit == HOUR:
                times[time] = self.times[time]
        return Draft(
            self.relations,
            self.joins,
            {**self.keys, **other.keys},
            times,
            {**self.measures, **other.measures},
            (self.counted & other.counted) | self.new_counted(other) | other.new_counted(self),
            self.groups,
            self.is_exact,
        )


def drafted(block: Block, type_of: ColumnType) -> Draft:
    """The view for a block. Raises NotAdvised."""
    for key, relation in block.relations.items():
        if relation.table is None:
            raise NotAdvised("it reads a derived table with groups")
        if "#" in key:
            raise NotAdvised(f"it reads {relation.table} twice")
        if any(True for each in relation.on or () for _ in each.find_all(exp.Literal)):
            raise NotAdvised("the condition of an outer join has literals")
    if block.sets is not None or any(each.find(exp.Query) for each in _expressions(block)):
        raise NotAdvised("it has ROLLUP, CUBE, GROUPING SETS or a query within an expression")
    joins = {form(each): each for each in block.conjuncts if _is_join(each)}
    draft = Draft(dict(block.relations), joins)
    reader = _DraftReader(block, draft, type_of)
    if block.keys is None and not block.is_distinct:
        reader.rows()
    else:
        reader.groups()
    return draft


def _expressions(block: Block) -> Iterator[exp.Expr]:
    yield from (*block.conjuncts, *block.having, *(output.value for output in block.outputs))


def _is_join(condition: exp.Expr) -> bool:
    if not isinstance(condition, exp.EQ):
        return False
    left, right = condition.this, condition.expression
    return isinstance(left, exp.Column) and isinstance(right, exp.Column) and left.table != right.table


class _DraftReader:
    """Reads one block."""

    def __init__(self, block: Block, draft: Draft, type_of: ColumnType) -> None:
        self._block = block
        self._draft = draft
        self._type_of = type_of
        self._filters = [each for each in block.conjuncts if not _is_join(each)]

    def rows(self) -> None:
        """Single rows of a join: all columns that the query uses."""
        block = self._block
        if len(block.relations) < 2:
            raise NotAdvised("it reads single rows of one table")
        self._draft.groups = False
        order = [each for each in block.order if not isinstance(each, exp.Literal)]
        for node in (*(output.value for output in block.outputs), *self._filters, *order):
            for column in node.find_all(exp.Column):
                if column.table:
                    self._draft.keys.setdefault(form(column), column)

    def groups(self) -> None:
        block = self._block
        found = [each for node in self._computed() for each in aggregates_in(node)]
        if any(self._needs_own_groups(each) for each in found):
            self._exactly(found)
            return
        keys = block.keys if block.keys is not None else [output.value for output in block.outputs]
        for node in (*keys, *self._filters):
            self._value(node)
        self._measure_rows()
        for each in found:
            self._aggregate(each)

    def _computed(self) -> Iterable[exp.Expr]:
        return (*(output.value for output in self._block.outputs), *self._block.having, *self._block.order)

    # --- queries whose measures cannot be added up

    def _needs_own_groups(self, node: exp.Expr) -> bool:
        call = node.this if isinstance(node, exp.Filter) else node
        name, arguments = call_of(call)
        if name in ("count", "count_if") or name in MERGED_BY_ITSELF:
            return len(arguments) != 1
        if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
            return name not in _DISTINCT
        if name not in ("sum", "avg") or len(arguments) != 1:
            return True
        return not all(is_exact(self._type(each)) for each in _summed(arguments[0]))

    def _exactly(self, found: Iterable[exp.Expr]) -> None:
        """Its own groups and measures; filters can only be on its keys."""
        self._draft.is_exact = True
        for key in self._block.keys or ():
            if not _is_fixed(key):
                raise NotAdvised("its groups depend on literals")
            self._draft.keys[form(key)] = _plain(key)
        self._measure_rows()
        for each in found:
            self._measure(each)

    # --- keys

    def _type(self, node: exp.Expr) -> str:
        return type_of_value(node, self._column_type)

    def _column_type(self, column: exp.Column) -> str:
        relation = self._block.relations.get(column.table)
        return "" if relation is None or relation.table is None else self._type_of(relation.table, column.name)

    def _value(self, node: exp.Expr) -> None:
        """Makes keys from which the expression can be computed."""
        if isinstance(node, exp.Column):
            self._column(node)
        elif node.find(exp.Column) is not None and not (self._time(node) or self._bound(node)):
            fine = any(self._column_type(each) in _FINE for each in node.find_all(exp.Column))
            if not fine:
                for child in node.iter_expressions():
                    self._value(child)
            else:
                self._parts(node)

    def _parts(self, node: exp.Expr) -> None:
        """The parts of an expression over columns that are not keys themselves; the expression if these are none."""
        draft = self._draft
        keys, times = dict(draft.keys), dict(draft.times)
        try:
            for child in node.iter_expressions():
                self._value(child)
        except NotAdvised:
            if not (_is_fixed(node) and call_of(node)[0]):
                raise
            draft.keys, draft.times = keys, times
            draft.keys[form(node)] = _plain(node)

    def _column(self, column: exp.Column) -> None:
        type_ = self._column_type(column)
        if not column.table:
            return
        if type_ in _FINE or type_.startswith(_NO_KEYS[:-1]) or not type_:
            raise NotAdvised(f"nearly every row has another {column.name}, which is {type_ or 'of unknown type'}")
        self._draft.keys.setdefault(form(column), column)

    def _time(self, node: exp.Expr) -> bool:
        """Whether the expression is a function of a truncated time, which is a key then."""
        if (unit := determined_by(node)) is None:
            return False
        time = core(node)
        if self._fine_time(time):
            self._truncated(time, HOUR if unit == "hour" else DAY)
            return True
        return False

    def _fine_time(self, time: exp.Expr) -> bool:
        columns = list(time.find_all(exp.Column))
        fine = any(self._column_type(each) in _ATOMIC_TIMES for each in columns)
        return fine and time.find(exp.Literal) is None

    def _truncated(self, time: exp.Expr, unit: str) -> None:
        known = self._draft.times.get(form(time))
        if known is None or known[0] == DAY:
            self._draft.times[form(time)] = unit, _plain(time)

    def _bound(self, node: exp.Expr) -> bool:
        """Whether the condition says that a time is not before, or before, the begin of a unit."""
        flipped = _BOUNDS.get(type(node))
        if flipped is None:
            return False
        time, constant = (node.expression, node.this) if flipped else (node.this, node.expression)
        if determined_by(time) is not None:
            return self._time(time)
        if not self._fine_time(time) or (moment := moment_of(constant)) is None:
            return False
        for word, unit in (("day", DAY), ("hour", HOUR)):
            if is_whole(moment, word):
                self._truncated(time, unit)
                return True
        return False

    # --- measures

    def _measure_rows(self) -> None:
        rows = exp.Anonymous(this="count", expressions=[exp.Star()])
        self._draft.measures.setdefault(COUNT_OF_ROWS, rows)

    def _measure(self, node: exp.Expr) -> None:
        if not _is_fixed(node):
            raise NotAdvised("an aggregate depends on literals")
        self._draft.measures.setdefault(form(node), _plain(node))

    def _aggregate(self, node: exp.Expr) -> None:
        call = node
        if isinstance(node, exp.Filter):
            call = node.this
            self._value(node.expression.this)
        name, arguments = call_of(call)
        (argument,) = arguments
        if isinstance(argument, exp.Distinct):
            before = set(self._draft.keys)
            for each in argument.expressions:
                self._value(each)
            self._draft.counted |= self._draft.keys.keys() - before
        elif name == "count_if":
            self._value(argument)
        elif name == "count":
            for each in self._results(argument):
                self._count(each)
        elif name == "sum":
            for each in self._results(argument):
                self._sum(each)
        elif name == "avg":
            self._sum(argument)
            self._count(argument)
        else:
            self._measure(exp.Anonymous(this=name, expressions=[argument]))

    def _results(self, argument: exp.Expr) -> list[exp.Expr]:
        """What is counted or summed; the conditions of a CASE become keys."""
        case = as_case(argument)
        if case is None:
            return [argument]
        if case.this is not None:
            self._value(case.this)
        for branch in case.args["ifs"]:
            self._value(branch.this)
        return results_of(case)

    def _count(self, counted: exp.Expr) -> None:
        if not isinstance(counted, exp.Star | exp.Literal | exp.Null):
            self._measure(exp.Anonymous(this="count", expressions=[counted]))

    def _sum(self, summed: exp.Expr) -> None:
        if not isinstance(summed, exp.Literal | exp.Null):
            self._measure(exp.Anonymous(this="sum", expressions=[summed]))


def _summed(argument: exp.Expr) -> list[exp.Expr]:
    case = as_case(argument)
    found = [argument] if case is None else results_of(case)
    return [each for each in found if not isinstance(each, exp.Null)]


def _is_fixed(node: exp.Expr) -> bool:
    """Whether its literals may be part of a view: numbers, and the strings that formats and units are."""
    allowed: set[int] = set()
    for call in node.find_all(exp.Anonymous):
        name, arguments = call_of(call)
        if name in FORMATS or name in UNITS:
            allowed |= {id(each) for each in arguments if not holes_in(each)}
    return all(id(each) in allowed or literal_text(each)[-1] not in "'\"" for each in node.find_all(exp.Literal))


def _plain(node: exp.Expr) -> exp.Expr:
    """The expression with numbers in the place of its holes."""

    def change(each: exp.Expr) -> exp.Expr | None:
        return exp.Literal.number(literal_text(each)) if isinstance(each, exp.Literal) and holes_in(each) else None

    return mapped(node, change)
