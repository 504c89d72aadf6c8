"""Loads the .sql case files: a statement that ends with a semicolon, then a line `--> expected`."""

from __future__ import annotations

from pathlib import Path

from sql.grammar.view_properties import _MEANING, _SESSION_PREFIX


def load(name: str) -> list[tuple[str, str]]:
    """The (statement, expected) pairs of a file; `name` is its path relative to this folder."""
    pairs: list[tuple[str, str]] = []
    lines: list[str] = []
    for line in (Path(__file__).parent / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("-->"):
            pairs.append(("\n".join(lines).removesuffix(";"), line[3:].strip()))
            lines = []
        elif lines or (line and not line.startswith("-- ")):
            lines.append(line)
    return pairs


def is_kept_only(name: str) -> bool:
    """Whether the property of a view is stored and shown, but has no effect."""
    return name not in _MEANING and not name.startswith(_SESSION_PREFIX)
