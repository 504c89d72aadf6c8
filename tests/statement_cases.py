"""Loads the .sql case files: a statement that ends with a semicolon, then a line `--> expected`."""

from __future__ import annotations

from pathlib import Path

from sql.grammar.view_properties import _MEANING, _SESSION_PREFIX, check_name


def load(name: str) -> list[tuple[str, str]]:
    """The (statement, expected) pairs of a file; `name` is its path relative to tests/sql."""
    pairs: list[tuple[str, str]] = []
    lines: list[str] = []
    for line in (Path(__file__).parent / "sql" / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("-->"):
            pairs.append(("\n".join(lines).removesuffix(";"), line[3:].strip()))
            lines = []
        elif lines or (line and not line.startswith("-- ")):
            lines.append(line)
    return pairs


def is_user_property(name: str) -> bool:
    """Whether TBLPROPERTIES takes a property of this name with any value, and the gateway gives it no meaning."""
    try:
        check_name(name, free=True)
    except ValueError:
        return False
    return name not in _MEANING and not name.startswith(_SESSION_PREFIX)
