"""Whoever changes a module finds its tests by a name: of the file, or in the module's docstring."""

from __future__ import annotations

import ast
import re
from collections.abc import Set
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LARGE_LINES = 150
"""A smaller module may be tested with those that use it."""
TESTS = {path.stem for path in (ROOT / "tests").rglob("test_*.py")}


def untested(name: str, source: str, tests: Set[str]) -> str | None:
    """What is missing of a module with this file name; None if nothing is."""
    named = re.findall(r"`(test_\w+)`", ast.get_docstring(ast.parse(source)) or "")
    if gone := [each for each in named if each not in tests]:
        return f"{name} names {', '.join(gone)}"
    large = source.count("\n") > LARGE_LINES
    return f"{name} names no tests" if large and not named and f"test_{name}" not in tests else None


def test_the_tests_of_every_large_module_are_named() -> None:
    paths = [path for package in ("gateway", "sql") for path in sorted((ROOT / package).rglob("*.py"))]
    found = [untested(path.stem, path.read_text(encoding="utf-8"), TESTS) for path in paths]
    assert [each for each in found if each is not None] == []


@pytest.mark.parametrize(
    ("source", "tests", "expected"),
    [
        ("\n" * 200, {"test_other"}, "m names no tests"),
        ("\n" * 200, {"test_m"}, None),
        ("\n" * 100, {"test_other"}, None),
        ('"""M.\n\nTests: `test_other`.\n"""' + "\n" * 200, {"test_other"}, None),
        ('"""M.\n\nTests: `test_gone`.\n"""', {"test_m"}, "m names test_gone"),
    ],
)
def test_a_module_without_named_tests_is_found(source: str, tests: set[str], expected: str | None) -> None:
    assert untested("m", source, tests) == expected
