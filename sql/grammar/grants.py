"""GRANT, REVOKE and SHOW GRANTS of the right to refresh a materialized view.

Spark has no such statements: it refuses each that begins with GRANT, REVOKE or SHOW GRANT, unless a plugin takes them.
So the words that name REFRESH or MATERIALIZED VIEW are the gateway's, and whatever grants other rights is Spark's.

Tests: `test_parser`.
"""

from __future__ import annotations

from sql.grammar.cursor import NOT_SUPPORTED, SYNTAX, Grammar, SyntaxProblem
from sql.names import Parts
from sql.statement import AlterMaterializedView, Grantee, GranteeKind, SetRefreshers, ShowGrants

NAME_CHARACTERS_MAX = 256
_PUBLIC = "PUBLIC"
_TABLE = "TABLE", "VIEW"
_AFTER_NAME = ".", "TO", "FROM"
_KINDS = {"USER": GranteeKind.USER, "GROUP": GranteeKind.GROUP, "ROLE": GranteeKind.GROUP}


def change(grammar: Grammar, *, granted: bool) -> AlterMaterializedView | None:
    """Parses what follows GRANT or REVOKE; None if it concerns neither REFRESH nor a materialized view."""
    if grammar.sees("GRANT", "OPTION", "FOR", "REFRESH"):
        raise _no_option(grammar)
    if not grammar.accept("REFRESH"):
        _refuse_others(grammar)
        return None
    if grammar.sees(","):
        raise grammar.problem("REFRESH without other rights, which only Spark can grant")
    grammar.expect("ON")
    name = _view(grammar)
    grammar.expect("TO" if granted else "FROM")
    grantees = [_grantee(grammar)]
    while grammar.accept(","):
        grantees.append(_grantee(grammar))
    if grammar.sees("WITH", "GRANT"):
        raise _no_option(grammar)
    grammar.expect_end()
    return AlterMaterializedView(name, SetRefreshers(tuple(dict.fromkeys(grantees)), granted))


def _refuse_others(grammar: Grammar) -> None:
    """Raises SyntaxProblem for other rights to a materialized view."""
    while (piece := grammar.peek()) is not None:
        if grammar.sees("ON", "MATERIALIZED", "VIEW") and grammar.sees_identifier(3):
            raise grammar.refusal(
                "the gateway grants REFRESH only; to Spark, which decides about other rights, the view is a table: "
                "write ON TABLE",
                sqlstate=NOT_SUPPORTED,
            )
        if piece.text.upper() in ("TO", "FROM"):
            break
        grammar.take()


def _no_option(grammar: Grammar) -> SyntaxProblem:
    return grammar.refusal(
        "GRANT OPTION is not supported: a view's owner and the administrators grant the right to refresh it",
        sqlstate=NOT_SUPPORTED,
    )


def show(grammar: Grammar, *, hive: bool) -> ShowGrants | None:
    """Parses what follows SHOW GRANTS or SHOW GRANT; None if it does not say MATERIALIZED VIEW."""
    grantee = None if grammar.sees("ON") else _grantee(grammar)
    if not grammar.accept("ON", "MATERIALIZED", "VIEW"):
        return None
    return ShowGrants(_last_name(grammar), grantee, hive)


def show_about(grammar: Grammar, *, hive: bool) -> ShowGrants | None:
    """The same where the name alone tells that it is a materialized view's."""
    grantee = None if grammar.sees("ON") else _grantee(grammar)
    grammar.expect("ON")
    if grammar.sees_identifier(1):
        grammar.accept_any(*_TABLE)
    return ShowGrants(_last_name(grammar), grantee, hive)


def _last_name(grammar: Grammar) -> Parts:
    name = grammar.expect_name("the view's name")
    grammar.expect_end()
    return name


def _view(grammar: Grammar) -> Parts:
    """A view's name, with or without what it is. A view may be called TABLE."""
    if grammar.sees("MATERIALIZED", "VIEW") and grammar.sees_identifier(2):
        grammar.expect("MATERIALIZED", "VIEW")
    elif not any(grammar.sees(word, after) for word in _TABLE for after in _AFTER_NAME):
        grammar.accept_any(*_TABLE)
    return grammar.expect_name("MATERIALIZED VIEW and the view's name")


def _grantee(grammar: Grammar) -> Grantee:
    """A user if neither GROUP nor ROLE precedes the name."""
    following = grammar.peek(1)
    word = None
    if grammar.sees_identifier(1) or (following is not None and following.kind == "string"):
        word = grammar.accept_any(*_KINDS)
    if word != "USER" and grammar.accept(_PUBLIC):
        return Grantee(GranteeKind.PUBLIC)
    place, name = grammar.position, grammar.string()
    if name is None:
        name = grammar.expect_identifier("USER, GROUP or ROLE and a name, or PUBLIC")
    if not 1 <= len(name) <= NAME_CHARACTERS_MAX:
        raise grammar.refusal(f"expected a name of 1 to {NAME_CHARACTERS_MAX} characters", place, SYNTAX)
    return Grantee(_KINDS.get(word or "", GranteeKind.USER), name)
