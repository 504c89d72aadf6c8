"""Parses statements other than queries and DML by their first words: what they read, write and change.

sqlglot does not parse many of these, so each kind has a small reader here. A reader returns None if the text does not
follow Spark's grammar; then every name in the text counts as read and written.

Tests: `test_lineage`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from sql.lexed import Cursor, Lexed
from sql.names import Parts
from sql.reading import immediate
from sql.reading.lineage import expression, guess, mention, parsed, without_rows
from sql.scan import folded, skip_blank
from sql.statement import Forwarded

UNCHANGING = frozenset(
    [
        *("select", "values", "table", "show", "describe", "desc", "explain", "list", "help"),
        *("use", "set", "reset", "declare", "refresh", "uncache", "clear", "add", "grant", "revoke"),
    ]
)
"""First words of statements that change no table, database or function. (EXPLAIN may run another statement.)"""
TARGETED = frozenset(
    [
        *("insert", "merge", "update", "delete", "with", "from", "map", "reduce", "load", "truncate", "copy"),
        *("create", "replace", "alter", "drop", "comment", "cache", "msck", "repair", "vacuum", "optimize", "restore"),
    ]
)
"""First words of statements for which `Forwarded` names everything that they change, if it is exact."""

_Reader = Callable[[Cursor], Forwarded | None]

_UNTOUCHED = Forwarded(touches_rows=False)


def forwarded(lexed: Lexed, keyword: str) -> Forwarded:
    """What a statement for Spark reads and changes; `keyword` is its first word, folded. Never raises."""
    reader = _READERS.get(keyword)
    if reader is None:
        if keyword in _QUERIES:
            return parsed(lexed)
        return guess(lexed, f"unknown statement: {keyword[:40]}")
    cursor = Cursor(lexed)
    if cursor.accept(keyword.upper()) and (found := reader(cursor)) is not None:
        if "${" in lexed.text and _may_mean_more(found, keyword, lexed.text):
            return guess(lexed, "${ in the text")
        return _one_statement(found, cursor)
    return guess(lexed, f"unknown form of {keyword.upper()}")


def _may_mean_more(found: Forwarded, keyword: str, text: str) -> bool:
    """Whether the values of variables may change what the statement reads or changes. A variable before the first word
    may end its comment."""
    if found.touches_rows or found.creates_view or found.changes_function or found.alters_database:
        return True
    return keyword in _OPEN_HEADS or text.find("${") < skip_blank(text)


_OPEN_HEADS = frozenset({"set", "declare"})
"""First words of statements that do more if certain words follow: SET CATALOG, SET VAR x = (query)."""
_QUERIES = frozenset({"select", "with", "from", "values", "table", "map", "reduce", "update", "delete", "merge"})


def _one_statement(found: Forwarded, cursor: Cursor) -> Forwarded:
    """`found`, unless a second statement follows. Spark refuses such a text, but a script may contain it."""
    if not found.exact or ";" not in cursor.text.rstrip("; \t\r\n"):
        return found
    while (piece := cursor.peek()) is not None:
        cursor.take()
        if piece.text == ";" and cursor.peek() is not None and not cursor.sees(";"):
            return guess(cursor.lexed, "not one statement")
    return found


def _written(*names: Parts | None) -> Forwarded | None:
    return None if None in names else Forwarded(writes=tuple(name for name in names if name is not None))


def _name(cursor: Cursor) -> Parts | None:
    """The dotted name that comes next; None if none does, or if IDENTIFIER(…) builds it at run time."""
    name = cursor.name()
    return None if name is not None and name[-1].upper() == "IDENTIFIER" and cursor.sees("(") else name


def _body(cursor: Cursor) -> Forwarded:
    """The result for the query after the head; an empty result if there is none."""
    place = cursor.find_query()
    return Forwarded() if place is None else parsed(cursor.lexed, place)


def _with_body(cursor: Cursor, name: Parts, **changes: object) -> Forwarded:
    """The result for the query after the head, with `name` written."""
    found = _body(cursor)
    writes = (name, *(written for written in found.writes if written != name))
    return replace(found, writes=writes, touches_rows=True, **changes)  # type: ignore[arg-type]


# --- statements that only show something -------------------------------------------------------------


def _explain(cursor: Cursor) -> Forwarded:
    while cursor.accept_any("EXPLAIN", "EXTENDED", "CODEGEN", "COST", "FORMATTED", "LOGICAL"):
        pass
    piece = cursor.peek()
    if piece is None:
        return _UNTOUCHED
    keyword = folded(piece.text)
    if keyword == "(" or keyword in _QUERIES:
        return without_rows(parsed(cursor.lexed, cursor.place))
    inner = forwarded(cursor.lexed.behind(cursor.place), keyword)
    # To explain EXECUTE IMMEDIATE, Spark runs its text. A variable may contain these words.
    runs = keyword == "execute" or ("${" in cursor.text and keyword not in _READERS)
    return inner if runs else without_rows(inner)


def _show_description(cursor: Cursor) -> Forwarded:
    """DESCRIBE of a query reads no rows but names relations; otherwise it reads nothing."""
    cursor.accept("QUERY")
    if cursor.at_query() and not cursor.sees("TABLE"):
        return without_rows(parsed(cursor.lexed, cursor.place))
    return _UNTOUCHED


def _nothing(cursor: Cursor) -> Forwarded:
    """The rest is not parsed (SHOW, ADD JAR /path, GRANT …); no rows are read or changed."""
    while cursor.take() is not None:
        pass
    return _UNTOUCHED


def _comment(cursor: Cursor) -> Forwarded | None:
    if not cursor.accept("ON"):
        return None
    if cursor.accept_any("DATABASE", "SCHEMA", "NAMESPACE"):
        return _changed_database(cursor)
    name = _name(cursor) if cursor.accept_any("TABLE", "VIEW", "COLUMN") else None
    return None if name is None else Forwarded(writes=(name,), keeps_rows=True, touches_rows=False)


def _changed_database(cursor: Cursor) -> Forwarded | None:
    """The database whose name comes next is created or changed, but keeps its tables."""
    changed = mention(cursor.lexed, cursor.place)
    return None if changed is None else Forwarded(alters_database=changed.parts, touches_rows=False)


# --- the session -------------------------------------------------------------------------------------


def _use(cursor: Cursor) -> Forwarded | None:
    """None for IDENTIFIER(...), which may call functions."""
    cursor.accept_any("DATABASE", "SCHEMA", "NAMESPACE")
    if cursor.sees("IDENTIFIER", "("):
        return None
    return replace(_nothing(cursor), changes_namespace=True)


def _set(cursor: Cursor) -> Forwarded | None:
    if cursor.accept("CATALOG"):
        return _use(cursor)
    if cursor.accept_any("VAR", "VARIABLE"):
        return _assigned(cursor)
    # This setting is the current catalog until USE or SET CATALOG.
    changes = "defaultcatalog" in cursor.text[cursor.position :].lower()
    return replace(_nothing(cursor), changes_namespace=changes)


def _reset(cursor: Cursor) -> Forwarded:
    return replace(_nothing(cursor), changes_namespace=True)


def _assigned(cursor: Cursor) -> Forwarded | None:
    """SET VAR x = expression; DECLARE … DEFAULT expression: a scalar subquery reads rows."""
    while (piece := cursor.peek()) is not None:
        cursor.take()
        if piece.text == "=" or (piece.kind == "word" and piece.text.upper() == "DEFAULT"):
            if cursor.peek() is None:
                return None
            return expression(cursor.lexed, cursor.place)
    return _UNTOUCHED


def _cache(cursor: Cursor) -> Forwarded | None:
    """CACHE TABLE x AS query creates a temporary view x; without a query it reads x."""
    cursor.accept("LAZY")
    if not cursor.accept("TABLE"):
        return None
    source = _reading(cursor)
    if (name := _name(cursor)) is None:
        return None
    if cursor.accept("OPTIONS"):
        cursor.skip_brackets()
    if cursor.sees("AS") or cursor.sees("(") or cursor.at_query():
        cursor.accept("AS")
        found = parsed(cursor.lexed, cursor.place)
        return replace(found, creates_view=name, temporary=True, writes=(name, *found.writes), touches_rows=True)
    return source


def _analyze(cursor: Cursor) -> Forwarded | None:
    """Statistics are computed from the rows, which do not change."""
    if not cursor.accept("TABLE"):
        named = cursor.accept_any("TABLES") and not (cursor.accept_any("IN", "FROM") and cursor.sees("IDENTIFIER", "("))
        return _nothing(cursor) if named else None
    found = _reading(cursor)
    _nothing(cursor)
    return found


def _reading(cursor: Cursor) -> Forwarded | None:
    """Reads the relation whose name comes next, without consuming it."""
    chain = mention(cursor.lexed, cursor.place)
    return None if chain is None else Forwarded(reads=(chain,))


# --- tables and views --------------------------------------------------------------------------------


def _create(cursor: Cursor) -> Forwarded | None:
    replaces = cursor.accept("OR", "REPLACE")
    shared = cursor.accept("GLOBAL")
    temporary = cursor.accept_any("TEMPORARY", "TEMP") is not None
    # CREATE TEMPORARY TABLE t USING … makes a temporary view.
    if cursor.accept("VIEW") or (temporary and cursor.accept("TABLE")):
        found = _create_view(cursor, temporary)
        return replace(found, shared=True) if found is not None and shared else found
    if cursor.accept("FUNCTION"):
        return _create_function(cursor, temporary)
    if cursor.accept_any("DATABASE", "SCHEMA", "NAMESPACE"):
        cursor.accept("IF", "NOT", "EXISTS")
        return _changed_database(cursor)
    if cursor.accept("ROLE"):
        return _nothing(cursor)
    if cursor.accept("EXTERNAL", "TABLE") or cursor.accept("TABLE"):
        return _create_table(cursor, replaces=replaces)
    return None


def _create_table(cursor: Cursor, *, replaces: bool) -> Forwarded | None:
    cursor.accept("IF", "NOT", "EXISTS")
    name = _name(cursor)
    if name is None:
        return None
    if cursor.accept("SHALLOW", "CLONE") or cursor.accept("DEEP", "CLONE") or cursor.accept("CLONE"):
        source = _reading(cursor)
        placed = _PLACES.search(cursor.text, cursor.position) is not None
        return None if source is None else replace(source, writes=(name,), writes_files=placed)
    if _lists_columns(cursor):
        columns = cursor.place
        cursor.skip_brackets()
        if any(piece.text.lower() == "select" for piece in cursor.lexed.pieces[columns : cursor.place]):
            return None  # A column's default may hold a query.
    head, options = cursor.position, Cursor(cursor.lexed, cursor.place)
    found = _with_body(cursor, name)
    called = _calls_in_options(options, cursor.place)
    if called is None:
        return None
    found = replace(found, calls=(*called, *found.calls))
    # (The query after the head may contain "location", too, which only causes a superfluous check.)
    fills = replaces or bool(found.reads) or cursor.peek() is not None
    return replace(found, writes_files=fills and _PLACES.search(cursor.text, head) is not None)


def _calls_in_options(cursor: Cursor, end: int) -> tuple[Parts, ...] | None:
    """The functions that the values of OPTIONS call, perhaps more; None if the values may read a relation. `end`: the
    place of the query."""
    while cursor.place < end:
        if cursor.sees("OPTIONS", "("):
            start = cursor.position
            cursor.take()
            cursor.skip_brackets()
            inside = cursor.text[start : cursor.position].partition("(")[2]
            return _calls_in_rows(inside) if "(" in inside else ()
        cursor.take()
    return ()


_PLACES = re.compile(r"\b(?:location|path)\b", re.IGNORECASE)
"""Words in a table's head that set the location of its files, which may be that of another table."""


def _lists_columns(cursor: Cursor) -> bool:
    """Whether `(name type …, …)` comes next. A query in brackets may begin with the same words: (TABLE s), (FROM s, t).

    If both are possible, as for (TABLE date), it is a column to Spark.
    """
    if not cursor.brackets_hold_query():
        return cursor.sees("(")
    columns: list[list[str]] = [[]]
    depth = place = 0
    while (piece := cursor.peek(place)) is not None:
        if piece.text in ("(", "<"):
            depth += 1
        elif piece.text == ")" or (piece.text == ">" and depth > 1):
            depth -= 1
            if depth == 0:
                return all(map(_is_column, columns))
        elif depth == 1 and piece.text == ",":
            columns.append([])
        elif depth == 1:
            columns[-1].append(piece.text.lower())
        place += 1
    return False


def _is_column(words: list[str]) -> bool:
    """Whether the words are a name, a type and what may follow it. They do not include the words in brackets."""
    return words[1:2] != [] and words[1] in _TYPES and words[2:3] in _AFTER_TYPE and _OF_QUERY.isdisjoint(words[3:])


_TYPES = frozenset(
    [
        *("boolean", "tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long", "float", "real"),
        *("double", "decimal", "dec", "numeric", "date", "time", "timestamp", "timestamp_ntz", "timestamp_ltz"),
        *("interval", "string", "char", "character", "varchar", "binary", "void", "variant", "array", "map", "struct"),
        *("geometry", "geography"),
    ]
)
_AFTER_TYPE = [
    [],
    *(["not"], ["default"], ["generated"], ["comment"], ["collate"], ["without"]),
    *(["year"], ["month"], ["day"], ["hour"], ["minute"], ["second"]),
    *(["constraint"], ["primary"], ["unique"], ["references"], ["check"]),
]
"""What may follow a column's type in CREATE TABLE; some may be an alias as well: FROM date day SELECT."""
_OF_QUERY = frozenset({"select", "from", "join", "using", "union", "except", "intersect", "minus", "|"})


def _create_view(cursor: Cursor, temporary: bool) -> Forwarded | None:
    """The query is stored, not run. A replaced view may be read by a materialized view, so it counts as written."""
    cursor.accept("IF", "NOT", "EXISTS")
    name = _name(cursor)
    cursor.skip_brackets()
    return None if name is None else _with_body(cursor, name, creates_view=name, temporary=temporary)


def _create_function(cursor: Cursor, temporary: bool) -> Forwarded | None:
    """The body of a SQL function may contain queries anywhere; other functions (`AS 'class'`) have none."""
    cursor.accept("IF", "NOT", "EXISTS")
    name = _name(cursor)
    if name is None:
        return None
    while cursor.peek() is not None and not cursor.sees("RETURN"):
        if cursor.sees("("):
            cursor.skip_brackets()
        else:
            cursor.take()
    found = _UNTOUCHED
    if cursor.accept("RETURN"):
        found = parsed(cursor.lexed, cursor.place) if cursor.at_query() else expression(cursor.lexed, cursor.place)
    return replace(
        found,
        creates_view=name,
        creates_function=True,
        changes_function=None if temporary else name,
        temporary=temporary,
        touches_rows=False,
    )


def _replace_table(cursor: Cursor) -> Forwarded | None:
    return _create_table(cursor, replaces=True) if cursor.accept("TABLE") else None


def _alter(cursor: Cursor) -> Forwarded | None:
    if cursor.accept_any("DATABASE", "SCHEMA", "NAMESPACE"):
        return _changed_database(cursor)
    kind = cursor.accept_any("TABLE", "VIEW")
    name = _name(cursor) if kind else None
    if name is None:
        return None
    if kind == "VIEW" and (cursor.sees("AS") or cursor.sees("(") or cursor.at_query()):
        return _with_body(cursor, name, creates_view=name)
    if cursor.accept("RENAME", "TO"):
        renamed = _name(cursor)
        # An unqualified new name is in the database of the old one.
        return _written(name, name[:-1] + renamed if renamed is not None and len(renamed) == 1 else renamed)
    return Forwarded(writes=(name,), keeps_rows=cursor.sees("ADD", "COLUMN") or cursor.sees("ADD", "COLUMNS"))


def _drop(cursor: Cursor) -> Forwarded | None:
    kind = cursor.accept_any("TABLE", "VIEW", "DATABASE", "SCHEMA", "NAMESPACE")
    if kind is None:
        temporary = cursor.accept_any("TEMPORARY", "TEMP")
        if cursor.accept("FUNCTION"):
            return _drop_function(cursor, temporary is not None)
        return _nothing(cursor) if cursor.accept_any("VARIABLE", "VIEW") else None
    cursor.accept("IF", "EXISTS")
    name = _name(cursor)
    if name is None:
        return None
    return Forwarded(writes=(name,), drops=name, drops_database=kind not in ("TABLE", "VIEW"))


def _drop_function(cursor: Cursor, temporary: bool) -> Forwarded | None:
    cursor.accept("IF", "EXISTS")
    name = _name(cursor)
    return None if name is None else replace(_UNTOUCHED, changes_function=None if temporary else name)


def _table_after(*words: str) -> _Reader:
    """A reader for statements that change the table whose name follows one of `words` (`""`: comes next)."""

    def reader(cursor: Cursor) -> Forwarded | None:
        for word in words:
            if not word or cursor.accept(*word.split()):
                return _written(_name(cursor))
        return None

    return reader


def _insert(cursor: Cursor) -> Forwarded | None:
    """The head is parsed here, because sqlglot does not know all of Spark's forms and is slow for many VALUES."""
    overwrites = cursor.accept_any("INTO", "OVERWRITE") == "OVERWRITE"
    if overwrites and (cursor.sees("DIRECTORY") or cursor.sees("LOCAL", "DIRECTORY")):
        return replace(_body(cursor), writes=(), writes_files=True)
    cursor.accept("TABLE")
    if (name := _name(cursor)) is None:
        return None
    if cursor.sees("REPLACE") or cursor.peek() is None:
        return parsed(cursor.lexed)
    if cursor.accept("PARTITION"):
        cursor.skip_brackets()
    cursor.accept("IF", "NOT", "EXISTS")
    cursor.accept("BY", "NAME")
    if not cursor.brackets_hold_query():
        cursor.skip_brackets()
    if cursor.sees("VALUES"):
        calls = _calls_in_rows(cursor.text[cursor.position + len("VALUES") :])
        if calls is not None:
            return Forwarded(writes=(name,), calls=calls)
    if not (cursor.at_query() or cursor.sees("(")):
        return parsed(cursor.lexed)
    found = parsed(cursor.lexed, cursor.place)
    return replace(found, writes=(name, *found.writes), touches_rows=True)


_WORD = re.compile(r"\w+")
_READING = frozenset({"select", "from", "join", "table", "with", "map", "reduce", "identifier"})
"""Without these words, no expression or pipe step reads a relation or names a function at run time."""
_BEFORE_BRACKET = re.compile(r"\(\s*+(\w++|[`\"])")
"""Matched backwards, because brackets are rarer than words: a function's name, or the end of a quoted name."""


def _calls_in_rows(rows: str) -> tuple[Parts, ...] | None:
    """The functions that VALUES calls, perhaps more; None if its rows may read a relation."""
    words = _WORD.findall(folded(rows))
    if not _READING.isdisjoint(words):
        return None
    if "--" in rows or "/*" in rows:  # A comment may stand before a bracket.
        if "`" in rows or '"' in rows:
            return None
        return tuple((word,) for word in dict.fromkeys(words))
    called = dict.fromkeys(_BEFORE_BRACKET.findall(rows[::-1]))
    return None if "`" in called or '"' in called else tuple((word[::-1],) for word in called)


def _load(cursor: Cursor) -> Forwarded | None:
    """The files are moved from any directory; LOCAL files are copied."""
    if not cursor.accept("DATA"):
        return None
    moves = cursor.accept("LOCAL") is False
    while cursor.peek() is not None:
        if cursor.accept("INTO", "TABLE"):
            found = _written(_name(cursor))
            return None if found is None else replace(found, writes_files=moves)
        cursor.take()
    return None


def _call(cursor: Cursor) -> Forwarded:
    """A procedure may remove files by path (Iceberg's remove_orphan_files)."""
    return replace(_run_time(cursor), writes_files="/" in cursor.text)


def _run_time(cursor: Cursor) -> Forwarded:
    """EXECUTE IMMEDIATE and scripts: what they do is known only at run time."""
    found = guess(cursor.lexed, "runs what is known only at run time")
    return replace(found, writes=()) if immediate.first_word(cursor.lexed) in _KEEPING else found


_KEEPING = frozenset({"select", "values", "table", "show", "describe", "desc", "refresh", "analyze", "list"})
"""First words of statements that write to no table."""


_READERS: dict[str, _Reader] = {
    "explain": _explain,
    "describe": _show_description,
    "desc": _show_description,
    "show": _nothing,
    "use": _use,
    "set": _set,
    "reset": _reset,
    "declare": _assigned,
    "cache": _cache,
    "uncache": _nothing,
    "clear": _nothing,
    "refresh": _nothing,
    "analyze": _analyze,
    "add": _nothing,
    "list": _nothing,
    "comment": _comment,
    "grant": _nothing,
    "revoke": _nothing,
    "insert": _insert,
    "create": _create,
    "replace": _replace_table,
    "alter": _alter,
    "drop": _drop,
    "truncate": _table_after("TABLE"),
    "msck": _table_after("REPAIR TABLE", "TABLE"),
    "repair": _table_after("TABLE"),
    "load": _load,
    "copy": _table_after("INTO"),
    "vacuum": _table_after(""),
    "optimize": _table_after(""),
    "restore": _table_after("TABLE", ""),
    "call": _call,
    "execute": _run_time,
    "begin": _run_time,
}
