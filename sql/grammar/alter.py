"""ALTER MATERIALIZED VIEW: one function per change that may follow the view's name.

Tests: `test_parser`.
"""

from __future__ import annotations

from collections.abc import Callable

from sql.grammar import property_list, refresh, security, view_properties
from sql.grammar.cursor import SYNTAX, Grammar
from sql.names import Parts
from sql.statement import (
    AlterMaterializedView,
    Change,
    DropSchedule,
    Method,
    RefreshMaterializedView,
    Rename,
    ReplaceWith,
    SetComment,
    SetImmutable,
    SetOwner,
    SetProperties,
    SetRefreshing,
    SetSecurity,
    SwapMaterializedViews,
    UnsetProperties,
)


def alter(grammar: Grammar) -> AlterMaterializedView | RefreshMaterializedView:
    """Parses what follows ALTER MATERIALIZED VIEW; Hive's REBUILD is a refresh."""
    if_exists = grammar.accept("IF", "EXISTS")
    name = grammar.expect_name("the view's name")
    if grammar.accept("REBUILD"):
        grammar.expect_end()
        return RefreshMaterializedView(name, Method.COMPLETE)
    change = _change(grammar)
    grammar.expect_end()
    return AlterMaterializedView(name, change, if_exists)


def swap(grammar: Grammar) -> SwapMaterializedViews:
    """Parses what follows ALTER MATERIALIZED VIEWS: SWAP (a WITH b, c WITH d)."""
    grammar.expect("SWAP")
    grammar.expect("(")
    pairs = [_pair(grammar)]
    while grammar.accept(","):
        pairs.append(_pair(grammar))
    if not grammar.accept(")"):
        raise grammar.problem("a comma or ) after a pair of views")
    grammar.expect_end()
    return SwapMaterializedViews(tuple(pairs))


def _pair(grammar: Grammar) -> tuple[Parts, Parts]:
    name = grammar.expect_name("a view's name", before=("WITH",))
    if not grammar.accept("WITH"):
        raise grammar.problem("WITH and the view that takes this one's place")
    return name, grammar.expect_name("the view's name after WITH")


def _change(grammar: Grammar) -> Change:
    place = grammar.position
    if (found := refresh.property_clause(grammar)) is not None:
        return _one_property(grammar, found, place)
    for words, change in _CHANGES:
        if grammar.accept(*words):
            return change(grammar)
    for words, advice in _REFUSED:
        if grammar.sees(*words):
            raise grammar.refusal(f"{' '.join(words)} is not supported: {advice}", sqlstate=SYNTAX)
    raise grammar.problem("RENAME, SET, UNSET, REFRESH, REPLACE WITH, REBUILD, OWNER TO or another change")


def _one_property(grammar: Grammar, found: tuple[str, str], place: int) -> SetProperties:
    name, value = found
    return SetProperties(((name, property_list.check(grammar, name, value, free=True, place=place)),))


def _rename(grammar: Grammar) -> Rename:
    if grammar.sees("COLUMN") and not (grammar.peek(1) is None or grammar.sees("COLUMN", ";")):
        raise grammar.refusal(
            "RENAME COLUMN is not supported: a view's columns come from its definition; use CREATE OR REPLACE",
            sqlstate=SYNTAX,
        )
    if grammar.sees("TO") and grammar.sees_identifier(1):
        grammar.expect("TO")
    return Rename(grammar.expect_name("the view's new name"))


def _set(grammar: Grammar) -> Change:
    """Parses what follows SET: (…), TBLPROPERTIES (…), OWNER, SECURITY and others."""
    place = grammar.position
    if (found := refresh.property_clause(grammar)) is not None:
        return _one_property(grammar, found, place)
    if refresh.accept_lag(grammar):
        return _target_lag(grammar)
    if grammar.accept("OWNER"):
        grammar.accept("TO")
        return _owner(grammar)
    if grammar.accept("IMMUTABLE", "WHERE"):
        return SetImmutable(grammar.expect_condition())
    if grammar.accept("SECURITY"):
        return SetSecurity(security.security(grammar))
    if grammar.accept("AUTHORIZATION"):
        if grammar.sees("ROLE") and grammar.sees_identifier(1):
            raise grammar.problem("a user (a role cannot own a view)")
        if grammar.sees("USER") and grammar.sees_identifier(1):
            grammar.expect("USER")
        return _owner(grammar)
    if grammar.accept("TBLPROPERTIES"):
        return SetProperties(property_list.pairs(grammar, free=True))
    if grammar.accept("PROPERTIES") and not grammar.sees("("):
        return _known_properties(grammar, place, property_list.unbracketed(grammar))
    grammar.accept("OPTIONS")
    if not grammar.sees("("):
        raise grammar.problem(
            "(properties), TBLPROPERTIES, OWNER, SECURITY, IMMUTABLE, WHEN STALE, GRACE PERIOD or IN MEMORY after SET"
        )
    return _known_properties(grammar, place, property_list.pairs(grammar, free=False, bare=True))


def _known_properties(grammar: Grammar, place: int, pairs: tuple[tuple[str, str], ...]) -> Change:
    """BigQuery's description is the comment. Other properties that are clauses of CREATE cannot be changed here."""
    if len(pairs) == 1 and pairs[0][0] == "description":
        return SetComment(pairs[0][1])
    for name, _ in pairs:
        if name == "description":
            raise grammar.refusal("the description must be set alone: use a separate statement for it", place)
        if view_properties.is_clause(name):
            raise grammar.refusal(f"the {name} cannot be altered: use CREATE OR REPLACE to change it", place)
    return SetProperties(pairs)


def _unset(grammar: Grammar) -> Change:
    if grammar.accept("IMMUTABLE"):
        return SetImmutable(None)
    if grammar.accept("IN", "MEMORY"):
        return UnsetProperties((view_properties.IN_MEMORY,), if_exists=True)
    grammar.accept_any("TBLPROPERTIES", "PROPERTIES")
    if_exists = grammar.accept("IF", "EXISTS")
    return UnsetProperties(property_list.keys(grammar), if_exists)


def _reset(grammar: Grammar) -> UnsetProperties:
    return UnsetProperties(property_list.keys(grammar), if_exists=True)


def _refresh(grammar: Grammar) -> SetRefreshing:
    return SetRefreshing(refresh.refreshing(grammar))


def _schedule(grammar: Grammar) -> SetRefreshing:
    return SetRefreshing(refresh.schedule(grammar))


def _on_update(grammar: Grammar) -> SetRefreshing:
    return SetRefreshing(refresh.on_update(grammar))


def _target_lag(grammar: Grammar) -> SetRefreshing:
    return SetRefreshing(refresh.target_lag(grammar))


def _replace(grammar: Grammar) -> ReplaceWith:
    other = grammar.expect_name("the other view's name", before=("PROPERTIES",))
    swap = True
    if grammar.accept("PROPERTIES"):
        place = grammar.position
        for name, value in property_list.pairs(grammar, free=True, checked=False):
            if name != "swap":
                raise grammar.refusal(f"illegal key:{name}; REPLACE WITH takes only swap", place)
            if value.lower() not in ("true", "false"):
                raise grammar.refusal(f"valid swap: true or false; found '{value}'", place)
            swap = value.lower() == "true"
    return ReplaceWith(other, swap)


def _swap(grammar: Grammar) -> ReplaceWith:
    return ReplaceWith(grammar.expect_name("the other view's name"))


_USER_FUNCTIONS = ("CURRENT_USER", "CURRENT_ROLE", "SESSION_USER")


def _owner(grammar: Grammar) -> SetOwner:
    if any(grammar.sees(word) for word in _USER_FUNCTIONS):
        raise grammar.problem("the name of a user")
    place = grammar.position
    owner = grammar.string()
    if owner is None:
        owner = grammar.expect_identifier("a user's name")
    if not owner:
        raise grammar.refusal("the owner is empty: name a user", place)
    return SetOwner(owner)


def _comment(grammar: Grammar) -> SetComment:
    return SetComment(grammar.expect_string("a string after COMMENT"))


_CHANGES: tuple[tuple[tuple[str, ...], Callable[[Grammar], Change]], ...] = (
    (("RENAME",), _rename),
    (("SET",), _set),
    (("UNSET",), _unset),
    (("RESET",), _reset),
    (("REFRESH",), _refresh),
    (("REPLACE", "WITH", "MATERIALIZED", "VIEW"), _replace),
    (("SWAP", "WITH"), _swap),
    (("OWNER", "TO"), _owner),
    (("COMMENT",), _comment),
    (("ADD", "SCHEDULE"), _schedule),
    (("ALTER", "SCHEDULE"), _schedule),
    (("ADD", "TRIGGER", "ON", "UPDATE"), _on_update),
    (("ALTER", "TRIGGER", "ON", "UPDATE"), _on_update),
    (("DROP", "SCHEDULE"), lambda _: DropSchedule()),
    (("DROP", "IMMUTABLE"), lambda _: SetImmutable(None)),
    (("TARGET", "LAG"), _target_lag),
    (("TARGET_LAG",), _target_lag),
)
_REFUSED: tuple[tuple[tuple[str, ...], str], ...] = (
    (("COMPILE",), "use REFRESH MATERIALIZED VIEW; Spark checks the definition each time it runs"),
    (("ACTIVE",), "use REFRESH MATERIALIZED VIEW once the base table exists again"),
    (("INACTIVE",), "use REFRESH ON MANUAL to stop refreshes"),
    (("ADD", "COLUMN"), "a view's columns come from its definition; use CREATE OR REPLACE"),
    (("DROP", "COLUMN"), "a view's columns come from its definition; use CREATE OR REPLACE"),
    (("CLUSTER",), "the layout cannot be altered; use CREATE OR REPLACE"),
)
"""Changes of other databases that are not supported, and what to use instead."""


# --- changes by Spark's ALTER TABLE, ALTER VIEW and COMMENT ON ---------------------------------------------


def change_of_table(grammar: Grammar) -> Change | None:
    """The change in Spark's ALTER TABLE | VIEW, with unchecked properties; None if the gateway does not execute it."""
    if grammar.accept("RENAME", "TO"):
        return Rename(grammar.expect_name("the new name"))
    if grammar.accept("SET", "TBLPROPERTIES"):
        return SetProperties(property_list.pairs(grammar, free=True, checked=False))
    if grammar.accept("UNSET", "TBLPROPERTIES"):
        if_exists = grammar.accept("IF", "EXISTS")
        return UnsetProperties(property_list.keys(grammar, checked=False), if_exists)
    if grammar.accept("SET", "OWNER"):
        grammar.accept("TO")
        return _owner(grammar)
    return None


def comment_is(grammar: Grammar, name: Parts) -> AlterMaterializedView:
    """Parses what follows the name in COMMENT ON … name: IS and a string or NULL."""
    grammar.expect("IS")
    comment = None if grammar.accept("NULL") else grammar.expect_string("a string or NULL after IS")
    grammar.expect_end()
    return AlterMaterializedView(name, SetComment(comment))
