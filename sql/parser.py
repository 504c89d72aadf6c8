"""The grammar of the statements that the gateway executes itself.

A clause is one small function in `_CLAUSES`; its first words choose it. Nothing that Spark accepts begins like one of
these statements (checked on Spark 3.5 and 4.1), so a text is ours by its first words alone, and from then on every
deviation is an error that names what was expected and where.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sql.names import SESSION_CATALOG
from sql.scan import QUOTES, Cursor, Lexeme, identifier, lexemes, skip_blank
from sql.statement import (
    Column,
    Command,
    CreateMaterializedView,
    DropMaterializedView,
    Parts,
    RefreshMaterializedView,
    ShowMaterializedViews,
)


class SyntaxProblem(Exception):
    """A statement of ours that does not follow its grammar; `position` is a character offset in the text."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.message = message
        self.position = position


class _Grammar(Cursor):
    """A cursor that insists."""

    def problem(self, expected: str) -> SyntaxProblem:
        piece = self.peek()
        position = self.position
        found = "the end of the statement" if piece is None else piece.text
        if len(found) > 40:
            found = found[:40] + "…"
        line = self.text.count("\n", 0, position) + 1
        column = position - self.text.rfind("\n", 0, position)
        return SyntaxProblem(f"expected {expected}, found {found} (line {line}, column {column})", position)

    def expect(self, *words: str) -> None:
        if not self.accept(*words):
            raise self.problem(" ".join(words))

    def expect_name(self, what: str, *, before: tuple[str, ...] = ()) -> Parts:
        """A dotted name. A bare word of `before` is the next clause, so the name has been forgotten."""
        if any(self.sees(word) for word in before) and not self._dot_follows():
            raise self.problem(what)
        name = self.name()
        if name is None or not name[-1]:
            raise self.problem(what)
        if self.text[: self.position].rstrip().endswith("."):
            raise self.problem("a name after the dot")
        return name

    def _dot_follows(self) -> bool:
        after = self.peek(1)
        return after is not None and after.text == "."

    def expect_string(self, what: str) -> str:
        value = self.string()
        if value is None:
            raise self.problem(what)
        return value

    def expect_end(self) -> None:
        while self.accept(";"):
            pass
        if self.peek() is not None:
            raise self.problem("the end of the statement")


# --- CREATE MATERIALIZED VIEW ------------------------------------------------------------------------


@dataclass(slots=True)
class _Clauses:
    """What the clauses between the column list and AS have said so far."""

    comment: str | None = None
    properties: tuple[tuple[str, str], ...] = ()


def _comment(grammar: _Grammar, clauses: _Clauses) -> None:
    clauses.comment = grammar.expect_string("a string after COMMENT")


def _table_properties(grammar: _Grammar, clauses: _Clauses) -> None:
    """As Spark's: keys are strings or dotted words, `=` may be left out, a key stands once."""
    grammar.expect("(")
    pairs: dict[str, str] = {}
    while True:
        place = grammar.problem("a property key that is not there yet")
        key = grammar.string() or ".".join(grammar.name() or ())
        if not key:
            raise grammar.problem("a property key")
        if key in pairs:
            raise SyntaxProblem(f"the property {key} is given twice; {place.message}", place.position)
        grammar.accept("=")
        pairs[key] = _property_value(grammar)
        if not grammar.accept(","):
            break
    grammar.expect(")")
    clauses.properties = tuple(pairs.items())


def _property_value(grammar: _Grammar) -> str:
    """A string, a number or a boolean; numbers as they are written."""
    if (value := grammar.string()) is not None:
        return value
    start = grammar.position
    grammar.accept_any("-", "+")
    piece = grammar.take()
    if (
        piece is None
        or piece.kind != "word"
        or not (piece.text[0].isdecimal() or piece.text.upper() in ("TRUE", "FALSE"))
    ):
        raise SyntaxProblem("expected a string, a number, TRUE or FALSE as the property's value", start)
    end = piece.end
    if grammar.accept(".") and (fraction := grammar.take()) is not None:
        end = fraction.end
    return grammar.text[start:end]


_CLAUSES: dict[tuple[str, ...], Callable[[_Grammar, _Clauses], None]] = {
    ("COMMENT",): _comment,
    ("TBLPROPERTIES",): _table_properties,
}
"""The clauses of CREATE, by their first words: in any order, each at most once."""


def _create(grammar: _Grammar, *, or_replace: bool) -> Command:
    if_not_exists = grammar.sees("IF", "NOT", "EXISTS")
    if if_not_exists and or_replace:
        raise grammar.problem("the view's name: OR REPLACE and IF NOT EXISTS exclude each other")
    grammar.accept("IF", "NOT", "EXISTS")
    name = grammar.expect_name("the view's name", before=("AS",))
    columns = _columns(grammar) if grammar.accept("(") else ()
    clauses = _Clauses()
    seen: set[tuple[str, ...]] = set()
    while (words := next((words for words in _CLAUSES if grammar.sees(*words)), None)) is not None:
        if words in seen:
            raise grammar.problem(f"{' '.join(words)} only once")
        seen.add(words)
        grammar.expect(*words)
        _CLAUSES[words](grammar, clauses)
    if not grammar.accept("AS"):
        raise grammar.problem(f"{', '.join(' '.join(words) for words in _CLAUSES if words not in seen)} or AS")
    return CreateMaterializedView(
        name=name,
        query=_query(grammar),
        columns=columns,
        comment=clauses.comment,
        properties=clauses.properties,
        or_replace=or_replace,
        if_not_exists=if_not_exists,
    )


def _columns(grammar: _Grammar) -> tuple[Column, ...]:
    columns: list[Column] = []
    while True:
        piece = grammar.peek()
        if piece is None or piece.kind not in ("word", "quoted"):
            raise grammar.problem("a column's name")
        grammar.take()
        comment = grammar.expect_string("a string after COMMENT") if grammar.accept("COMMENT") else None
        columns.append(Column(identifier(piece), comment))
        if not grammar.accept(","):
            break
    if not grammar.accept(")"):
        raise grammar.problem("COMMENT, a comma or ) in the column list")
    return tuple(columns)


def _query(grammar: _Grammar) -> str:
    """The definition as it stands, from its first character to its last; comments around it left out."""
    if not (grammar.sees("(") or grammar.at_query()):
        raise grammar.problem("a query after AS (SELECT, WITH, FROM, VALUES, TABLE or a bracket)")
    start = end = grammar.position
    semicolon: Lexeme | None = None
    for piece in lexemes(grammar.text, start):
        if piece.kind == "symbol" and piece.text == ";":
            semicolon = semicolon or piece
        elif semicolon is not None:
            raise SyntaxProblem("expected the end of the statement after the semicolon", piece.start)
        elif piece.kind == "symbol" and piece.text in QUOTES:
            raise SyntaxProblem(f"the quote {piece.text} is not closed", piece.start)
        else:
            end = piece.end
    return grammar.text[start:end]


# --- the other statements ----------------------------------------------------------------------------


def _drop(grammar: _Grammar) -> Command:
    if_exists = grammar.accept("IF", "EXISTS")
    name = grammar.expect_name("the view's name")
    grammar.expect_end()
    return DropMaterializedView(name, if_exists)


def _refresh(grammar: _Grammar) -> Command:
    name = grammar.expect_name("the view's name")
    grammar.expect_end()
    return RefreshMaterializedView(name)


def _call(grammar: _Grammar) -> Command:
    """BigQuery's procedure. Its argument names a project first, which Spark has not: the last two parts count."""
    grammar.expect("(")
    place = grammar.position
    argument = _Grammar(grammar.expect_string("the view's name as a string"))
    parts = argument.name()
    if parts is None or argument.peek() is not None:
        raise SyntaxProblem("expected 'project.dataset.view' or 'dataset.view' in the string", place)
    grammar.expect(")")
    grammar.expect_end()
    # BigQuery lets one pair of back quotes hold the whole path.
    path = tuple(step for part in parts for step in part.split("."))
    return RefreshMaterializedView(path[-2:])


def _show(grammar: _Grammar) -> Command:
    database = None
    if grammar.accept_any("IN", "FROM"):
        name = grammar.expect_name("a database", before=("LIKE",))
        if len(name) > 1 and (len(name) > 2 or name[0].lower() != SESSION_CATALOG):
            raise grammar.problem("a database of Spark's own catalog")
        database = name[-1]
    liked = grammar.accept("LIKE")
    pattern = grammar.string()
    if liked and pattern is None:
        raise grammar.problem("a pattern as a string after LIKE")
    grammar.expect_end()
    return ShowMaterializedViews(database, pattern)


_STATEMENTS: tuple[tuple[tuple[str, ...], Callable[[_Grammar], Command]], ...] = (
    (("CREATE", "MATERIALIZED", "VIEW"), lambda grammar: _create(grammar, or_replace=False)),
    (("CREATE", "OR", "REPLACE", "MATERIALIZED", "VIEW"), lambda grammar: _create(grammar, or_replace=True)),
    (("DROP", "MATERIALIZED", "VIEW"), _drop),
    (("REFRESH", "MATERIALIZED", "VIEW"), _refresh),
    (("SHOW", "MATERIALIZED", "VIEWS"), _show),
)


def parse(text: str) -> Command | None:
    """The statement of ours that `text` is; None if its first words are nobody's of ours.

    Raises SyntaxProblem where the first words are ours and the rest does not follow.
    """
    grammar = _Grammar(text, skip_blank(text))
    for words, statement in _STATEMENTS:
        if grammar.accept(*words):
            return statement(grammar)
    if grammar.accept("CALL"):
        procedure = grammar.name()
        if procedure is not None and tuple(part.lower() for part in procedure) == _PROCEDURE:
            return _call(grammar)
    return None


_PROCEDURE = ("bq", "refresh_materialized_view")
