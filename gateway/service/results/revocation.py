"""Recognizes statements after which a user may no longer see a result that is kept."""

from __future__ import annotations

from sql.statement import Glance

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


def may_change_rights(look: Glance) -> bool:
    """Whether the statement may change what users see: GRANT, REVOKE and DENY, roles, owners, policies, whatever runs
    a text that is composed at run time, and all statements that Spark itself does not have."""
    if look.keyword in _HARMLESS:
        return False
    # GROUP BY is in many queries; CREATE GROUP has no BY.
    words = _WORDS - {"group"} if "by" in look.words else _WORDS
    return look.keyword not in _BY_WORDS or not look.words.isdisjoint(words)
