"""Recognizes statements after which a user may no longer see a result that is kept."""

from __future__ import annotations

from sql.lexed import Cursor
from sql.reading.explained import query_start
from sql.statement import Forwarded
from sql.understood import Understood

_HARMLESS = frozenset(
    {
        "select",
        "values",
        "table",
        "show",
        "describe",
        "desc",
        "list",
        "help",
        "use",
        "cache",
        "uncache",
        "refresh",
        "clear",
        "analyze",
        "reset",
        "declare",
        "insert",
        "merge",
        "update",
        "delete",
        "load",
        "truncate",
        "with",
        "from",
        "map",
        "reduce",
        "add",
        "msck",
        "repair",
        "copy",
        "vacuum",
        "optimize",
        "restore",
        "call",
        "start",
        "commit",
        "rollback",
        "",
    }
)
"""First words of statements that change no rights, whatever follows."""
_BY_WORDS = frozenset({"create", "drop", "alter", "replace", "comment", "set", "explain", "begin"})
"""First words of statements that change rights only with one of the words below."""
_WORDS = frozenset(
    {
        "grant",
        "revoke",
        "deny",
        "role",
        "roles",
        "owner",
        "user",
        "users",
        "group",
        "groups",
        "policy",
        "policies",
        "mask",
        "masking",
        "filter",
        "immediate",
    }
)


_EXPLAINED = frozenset({"select", "values", "table", "with", "from", "insert"})
"""First words of what EXPLAIN does not execute."""
_TEXT_CHARACTERS_MAX = 100_000
"""In longer texts, a word counts wherever it is."""
_KINDS = ("TABLE", "VIEW", "FUNCTION", "DATABASE", "SCHEMA", "NAMESPACE")
"""What can be created without a change of rights."""
_BEFORE_KIND = (("OR", "REPLACE"), ("GLOBAL",), ("TEMPORARY",), ("TEMP",), ("EXTERNAL",))


def may_change_rights(known: Understood) -> bool:
    """Whether the statement may change what users see: GRANT, REVOKE and DENY, roles, owners, policies, whatever runs
    a text that is composed at run time, and all statements that Spark itself does not have. The statement's text must
    have been read without an error."""
    look = known.look
    if look.keyword in _HARMLESS:
        return False
    if look.keyword not in _BY_WORDS:
        return True
    # GROUP BY is in many queries; CREATE GROUP has no BY.
    words = _WORDS - {"group"} if "by" in look.words else _WORDS
    return not look.words.isdisjoint(words) and not _only_names(known)


def _only_names(known: Understood) -> bool:
    """Whether the words only name something, or stand in a query: certainly in what this reads, no clause of it."""
    if len(known.text) > _TEXT_CHARACTERS_MAX or not isinstance(known.statement, Forwarded):
        return False
    if known.look.keyword == "explain":
        start = query_start(known.lexed)
        explained = "" if start is None else Understood(known.text[start:], ours=False).look.keyword
        return explained in _EXPLAINED
    if known.look.keyword not in {"create", "alter"} or not known.sparks.exact:
        return False
    cursor = Cursor(known.lexed, 1)
    if known.look.keyword == "alter":
        return cursor.accept("VIEW") and cursor.name() is not None and cursor.sees("AS") and _queries(cursor)
    for words in _BEFORE_KIND:
        cursor.accept(*words)
    kind = cursor.accept_any(*_KINDS)
    cursor.accept("IF", "NOT", "EXISTS")
    return kind is not None and cursor.name() is not None and _WORDS.isdisjoint(_clauses(cursor, kind))


def _queries(cursor: Cursor) -> bool:
    return cursor.accept("AS") and cursor.at_query()


def _clauses(cursor: Cursor, kind: str) -> set[str]:
    """The words before the query, or before the body of a function, in lower case: without names of columns,
    arguments and properties, each of which is the first word after a bracket or a comma in brackets."""
    body = Cursor(cursor.lexed, cursor.place)
    body.skip_brackets()
    end = body.find_query()
    found, depth, named = set[str](), 0, False
    while (
        (piece := cursor.peek()) is not None
        and cursor.place != end
        and not (kind == "FUNCTION" and cursor.sees("RETURN"))
    ):
        depth += {"(": 1, ")": -1}.get(piece.text, 0)
        if piece.kind == "word" and not named:
            found.add(piece.text.lower())
        named = piece.text == "(" or (depth > 0 and piece.text == ",")
        cursor.take()
    return found
