"""Parses CREATE MATERIALIZED VIEW. The clauses may come in any order, because each database has a different order.

Each clause has a function in `_CLAUSES`, chosen by the clause's first words. Clauses of different databases with the
same meaning share a subject. A statement may have one clause per subject.

Tests: `test_parser`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from sql.grammar import layout_clauses, property_list, refresh, security
from sql.grammar.cursor import SYNTAX, Grammar, SyntaxProblem
from sql.lexed import Cursor, Lexed
from sql.scan import QUOTES, Lexeme
from sql.statement import (
    CreateClauses,
    CreateMaterializedView,
    ListedColumn,
    Pairs,
    Refreshing,
)


@dataclass(slots=True)
class _Parsed:
    """The clauses parsed so far; None: not given yet."""

    comment: str | None = None
    properties: Pairs = ()
    build: str | None = None
    """The clause that decided whether the view is built at once."""
    anew: bool = False
    clauses: CreateClauses = field(default=CreateClauses())
    words_of: dict[str, str] = field(default_factory=dict)
    """By subject, the first words of its clause."""

    def add_property(self, grammar: Grammar, name: str, value: str, place: int) -> None:
        if name in dict(self.properties):
            raise grammar.refusal(f"the property {name} is given twice", place, SYNTAX)
        checked = property_list.check(grammar, name, value, free=True, place=place)
        self.properties += ((name, checked),)

    def set_once(self, grammar: Grammar, subject: str, words: str, place: int) -> None:
        """Records that the clause beginning with `words` sets `subject`, which may be set once."""
        if (before := self.words_of.get(subject)) == words:
            raise _at(grammar, place).problem(f"{words} only once")
        if before is not None:
            raise _at(grammar, place).problem(f"one clause for the {subject}, which {before} already sets")
        self.words_of[subject] = words


def _at(grammar: Grammar, place: int) -> Grammar:
    return Grammar(grammar.lexed, grammar.lexed.place_of(place))


_Clause = Callable[[Grammar, _Parsed], None]


def create(grammar: Grammar, *, or_replace: bool) -> CreateMaterializedView:
    """Parses what follows CREATE [OR REPLACE] MATERIALIZED VIEW."""
    if_not_exists = grammar.sees("IF", "NOT", "EXISTS")
    if if_not_exists and or_replace:
        raise grammar.problem("the view's name: OR REPLACE and IF NOT EXISTS exclude each other")
    grammar.accept("IF", "NOT", "EXISTS")
    name = grammar.expect_name("the view's name", before=("AS",))
    columns = _columns(grammar) if grammar.accept("(") else ()
    parsed = _Parsed()
    while _clause(grammar, parsed):
        pass
    if not grammar.accept("AS"):
        raise grammar.problem("a clause (such as COMMENT, REFRESH, PARTITION BY or TBLPROPERTIES) or AS")
    query = _query(grammar, parsed)
    return CreateMaterializedView(
        name=name,
        query=query,
        columns=columns,
        comment=parsed.comment,
        properties=parsed.properties,
        or_replace=or_replace,
        if_not_exists=if_not_exists,
        clauses=parsed.clauses,
        anew=parsed.anew,
    )


def _columns(grammar: Grammar) -> tuple[ListedColumn, ...]:
    columns: list[ListedColumn] = []
    while True:
        name = grammar.expect_identifier("a column's name")
        comment = grammar.expect_string("a string after COMMENT") if grammar.accept("COMMENT") else None
        columns.append(ListedColumn(name, comment))
        if not grammar.accept(","):
            break
    if not grammar.accept(")"):
        raise grammar.problem("COMMENT, a comma or ) in the column list")
    return tuple(columns)


def _clause(grammar: Grammar, parsed: _Parsed) -> bool:
    """Parses the next clause; False if there is none."""
    place = grammar.position
    if (found := refresh.property_clause(grammar)) is not None:
        parsed.add_property(grammar, *found, place)
        return True
    for words, subject, clause in _CLAUSES:
        if grammar.accept(*words):
            parsed.set_once(grammar, subject, " ".join(words).removesuffix(" ("), place)
            clause(grammar, parsed)
            return True
    for words, advice in _REFUSED:
        if grammar.sees(*words):
            raise grammar.refusal(f"{' '.join(words)} is not supported: {advice}", sqlstate=SYNTAX)
    return False


def _query(grammar: Grammar, parsed: _Parsed) -> str:
    """The text of the definition, without the comments before and after it.

    It does not include PostgreSQL's WITH [NO] DATA at the end of the statement.
    """
    if not (grammar.sees("(") or grammar.at_query()):
        raise grammar.problem("a query after AS (SELECT, WITH, FROM, VALUES, TABLE or a parenthesis)")
    start = grammar.position
    tail: deque[tuple[Lexeme, int]] = deque(maxlen=_TAIL_LENGTH)
    depth = 0
    semicolon = False
    for piece in grammar.lexed.pieces[grammar.place :]:
        if piece.kind == "symbol" and piece.text == ";":
            semicolon = True
            continue
        if semicolon:
            raise grammar.refusal("expected the end of the statement after the semicolon", piece.start, SYNTAX)
        if piece.kind == "symbol" and piece.text in QUOTES:
            raise grammar.refusal(f"the quote {piece.text} is not closed", piece.start, SYNTAX)
        depth += {"(": 1, ")": -1}.get(piece.text, 0)
        tail.append((piece, depth))
    return grammar.text[start : _query_end(grammar, parsed, list(tail))]


_TAIL_LENGTH = 7
"""Enough lexemes to recognize WITH [NO] DATA at the end, even if it is given twice."""


def _query_end(grammar: Grammar, parsed: _Parsed, tail: list[tuple[Lexeme, int]]) -> int:
    """The end of the query. `tail`: the last lexemes, each with the number of parentheses open after it."""
    words = [piece.text.upper() if piece.kind == "word" and depth == 0 else "" for piece, depth in tail]
    for ending in (["WITH", "NO", "DATA"], ["WITH", "DATA"]):
        if len(words) > len(ending) and words[-len(ending) :] == ending:
            place = tail[-len(ending)][0].start
            parsed.set_once(grammar, "data", " ".join(ending), place)
            _set_build(grammar, parsed, " ".join(ending), place)
            rest = tail[: -len(ending)]
            return _query_end(grammar, parsed, rest)
    return tail[-1][0].end


# --- building and refreshing -------------------------------------------------------------------------


def _build(grammar: Grammar, parsed: _Parsed) -> None:
    word = grammar.expect_any("IMMEDIATE", "DEFERRED", "COMPLETE", after="BUILD")
    parsed.anew = word == "COMPLETE"
    _set_build(grammar, parsed, f"BUILD {word}", grammar.position)


def _set_build(grammar: Grammar, parsed: _Parsed, words: str, place: int) -> None:
    deferred = words.endswith((" DEFERRED", " NO DATA"))
    if parsed.build is not None and deferred != parsed.clauses.deferred:
        raise grammar.refusal(f"{parsed.build} and {words} contradict each other", place, SYNTAX)
    parsed.build = words
    parsed.clauses = replace(parsed.clauses, deferred=deferred)


def _with_data(grammar: Grammar, parsed: _Parsed) -> None:
    _set_build(grammar, parsed, "WITH DATA", grammar.position)


def _with_no_data(grammar: Grammar, parsed: _Parsed) -> None:
    _set_build(grammar, parsed, "WITH NO DATA", grammar.position)


def _refresh(grammar: Grammar, parsed: _Parsed) -> None:
    place = grammar.position
    if (word := grammar.accept_any("IMMEDIATE", "DEFERRED")) is not None:  # StarRocks' words for BUILD
        _set_build(grammar, parsed, f"REFRESH {word}", place)
        if not (grammar.sees("ASYNC") or grammar.sees("MANUAL")):
            return
    found = refresh.refreshing(grammar)
    if found.trigger is not None:
        parsed.set_once(grammar, "trigger", "REFRESH", place)
    _merge(parsed, found)


def _schedule(grammar: Grammar, parsed: _Parsed) -> None:
    _merge(parsed, refresh.schedule(grammar))


def _trigger_on_update(grammar: Grammar, parsed: _Parsed) -> None:
    _merge(parsed, refresh.on_update(grammar))


def _target_lag(grammar: Grammar, parsed: _Parsed) -> None:
    _merge(parsed, refresh.target_lag(grammar))


def _merge(parsed: _Parsed, found: Refreshing) -> None:
    merged = parsed.clauses.refreshing.with_trigger_of(found)
    parsed.clauses = replace(parsed.clauses, refreshing=merged)


# --- layout ---------------------------------------------------------------------------------------------


def _set(field_name: str, read: Callable[[Grammar], object]) -> _Clause:
    """A clause that sets one field of Clauses."""

    def clause(grammar: Grammar, parsed: _Parsed) -> None:
        changes: dict[str, Any] = {field_name: read(grammar)}
        parsed.clauses = replace(parsed.clauses, **changes)

    return clause


def _location(grammar: Grammar) -> str:
    place = grammar.position
    location = grammar.expect_string("a directory as a string after LOCATION")
    if not location.strip():
        raise grammar.refusal("the LOCATION is empty: name a directory", place)
    return location


def _key(grammar: Grammar, parsed: _Parsed) -> None:
    parsed.clauses = replace(parsed.clauses, keys=grammar.bracketed("KEY"))


def _duplicate_key(grammar: Grammar, parsed: _Parsed) -> None:
    parsed.clauses = replace(parsed.clauses, keys=grammar.bracketed("KEY"), duplicate=True)


# --- comment and properties ----------------------------------------------------------------------------


def _comment(grammar: Grammar, parsed: _Parsed) -> None:
    parsed.comment = grammar.expect_string("a string after COMMENT")


def _tablespace(grammar: Grammar, parsed: _Parsed) -> None:
    place = grammar.position
    parsed.add_property(grammar, "tablespace", grammar.expect_identifier("a name after TABLESPACE"), place)


def _table_properties(grammar: Grammar, parsed: _Parsed) -> None:
    parsed.properties += property_list.pairs(grammar, free=True, taken=parsed.properties)


def _known_properties(grammar: Grammar, parsed: _Parsed) -> None:
    """PROPERTIES or OPTIONS, which take known names only."""
    place = grammar.position
    _add_known(grammar, parsed, property_list.pairs(grammar, free=False, taken=parsed.properties), place)


def _with(grammar: Grammar, parsed: _Parsed) -> None:
    """Trino's and PostgreSQL's WITH (…), after its opening parenthesis; a name without a value is true."""
    place = grammar.position
    given = property_list.pairs(grammar, free=False, taken=parsed.properties, bare=True, opened=True)
    _add_known(grammar, parsed, given, place)


def _add_known(grammar: Grammar, parsed: _Parsed, given: Pairs, place: int) -> None:
    """Adds the properties; those that other databases write as a clause become that clause."""
    for name, value in given:
        if name in _CLAUSE_PROPERTIES:
            _CLAUSE_PROPERTIES[name](grammar, parsed, value, place)
        else:
            parsed.properties += ((name, value),)


def _format_property(grammar: Grammar, parsed: _Parsed, value: str, place: int) -> None:
    parsed.set_once(grammar, "file format", "format", place)
    parsed.clauses = replace(parsed.clauses, file_format=value.lower())


def _location_property(grammar: Grammar, parsed: _Parsed, value: str, place: int) -> None:
    parsed.set_once(grammar, "location", "location", place)
    parsed.clauses = replace(parsed.clauses, location=value)


def _comment_property(grammar: Grammar, parsed: _Parsed, value: str, place: int) -> None:
    parsed.set_once(grammar, "comment", "description", place)
    parsed.comment = value


def _partitioning_property(grammar: Grammar, parsed: _Parsed, value: str, place: int) -> None:
    """Trino's partitioning = ARRAY['month(d)']."""
    parsed.set_once(grammar, "partitioning", "partitioning", place)
    array = Cursor(Lexed(value.removeprefix("[")))
    array.accept("ARRAY", "[")
    written = [array.string()]
    while array.accept(","):
        written.append(array.string())
    if None in written or not array.accept("]"):
        raise grammar.refusal("write the columns as partitioning = ARRAY['column', 'month(column)']", place)
    inner = Grammar(Lexed(f"({', '.join(filter(None, written))})"))
    try:
        found = layout_clauses.partition(inner)
        inner.expect_end()
    except SyntaxProblem:
        listed = ", ".join(f"'{each}'" for each in written)
        raise grammar.refusal(f"valid partitioning: a column or month(column); found {listed}", place) from None
    parsed.clauses = replace(parsed.clauses, partitioning=found)


_CLAUSE_PROPERTIES: dict[str, Callable[[Grammar, _Parsed, str, int], None]] = {
    "format": _format_property,
    "location": _location_property,
    "description": _comment_property,
    "partitioning": _partitioning_property,
    "partitioned_by": _partitioning_property,
}
"""Properties of Trino and BigQuery that are clauses in other families, and become those here."""

_CLAUSES: tuple[tuple[tuple[str, ...], str, _Clause], ...] = (
    (("COMMENT",), "comment", _comment),
    (("BUILD",), "build", _build),
    (("WITH", "DATA"), "data", _with_data),
    (("WITH", "NO", "DATA"), "data", _with_no_data),
    (("REFRESH",), "refreshing", _refresh),
    (("SCHEDULE",), "trigger", _schedule),
    (("TRIGGER", "ON", "UPDATE"), "trigger", _trigger_on_update),
    (("TARGET", "LAG"), "trigger", _target_lag),
    (("TARGET_LAG",), "trigger", _target_lag),
    (("PARTITION", "BY"), "partitioning", _set("partitioning", layout_clauses.followed_partition)),
    (("PARTITIONED", "BY"), "partitioning", _set("partitioning", layout_clauses.partition)),
    (("PARTITIONED", "ON"), "partitioning", _set("partitioning", layout_clauses.partition)),
    (("DISTRIBUTED", "BY"), "distribution", _set("distribution", layout_clauses.distributed_by)),
    (("CLUSTERED", "BY"), "distribution", _set("distribution", layout_clauses.clustered_by)),
    (("CLUSTERED", "ON"), "clustering", _set("clustering", layout_clauses.clustered_on)),
    (("DISTRIBUTED", "ON"), "clustering", _set("clustering", layout_clauses.distributed_on)),
    (("CLUSTER", "BY"), "clustering", _set("clustering", layout_clauses.cluster_by)),
    (("ORDER", "BY"), "clustering", _set("clustering", layout_clauses.cluster_by)),
    (("USING",), "file format", _set("file_format", lambda grammar: layout_clauses.file_format(grammar, "USING"))),
    (
        ("STORED", "AS"),
        "file format",
        _set("file_format", lambda grammar: layout_clauses.file_format(grammar, "STORED AS")),
    ),
    (("LOCATION",), "location", _set("location", _location)),
    (("SECURITY",), "security", _set("security", security.security)),
    (("IMMUTABLE", "WHERE"), "immutable rows", _set("immutable", Grammar.expect_condition)),
    (("KEY",), "keys", _key),
    (("DUPLICATE", "KEY"), "keys", _duplicate_key),
    (("TABLESPACE",), "tablespace", _tablespace),
    (("TBLPROPERTIES",), "TBLPROPERTIES", _table_properties),
    (("PROPERTIES",), "PROPERTIES", _known_properties),
    (("OPTIONS",), "OPTIONS", _known_properties),
    (("WITH", "("), "WITH", _with),
)
"""The clauses of CREATE: first words, subject and parser."""

_REFUSED: tuple[tuple[tuple[str, ...], str], ...] = (
    (("ROW", "FORMAT"), "the stored files are Parquet or ORC (USING)"),
    (("STORED", "BY"), "the stored files are Parquet or ORC (USING)"),
    (("WITH", "SERDEPROPERTIES"), "the stored files are Parquet or ORC (USING)"),
    (("NEVER", "REFRESH"), "use REFRESH ON MANUAL"),
    (("ON", "PREBUILT", "TABLE"), "a view stores its rows itself; use BUILD DEFERRED to build it later"),
    (("FOR", "UPDATE"), "a view's rows come from its definition only"),
    (("WITH", "PRIMARY"), "a refresh needs no key"),
    (("WITH", "ROWID"), "a refresh needs no key"),
    (("AT", "MOST"), "write AT MOST EVERY directly behind ON COMMIT, TRIGGER ON UPDATE or TARGET LAG '10 minutes'"),
    (("START",), "use REFRESH ON SCHEDULE EVERY n HOUR STARTS '2030-01-31 04:00:00'"),
    (("NEXT",), "use REFRESH ON SCHEDULE EVERY n HOUR"),
    (("WITH", "ROW", "FILTER"), "put the condition into the definition"),
    (("UNIQUE",), "Spark has no keys; DUPLICATE KEY is accepted"),
)
"""Clauses of other databases that are not supported, and what to use instead."""
