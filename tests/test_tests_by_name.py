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


def doubles_of_spark(name: str, source: str) -> list[str]:
    """Classes whose names say that they stand for all of Spark, or are a world."""
    found = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef))
    return [f"{name}.{each.name}" for each in found if re.fullmatch(r"_?(\w*Spark|Spark\w*Server|World)", each.name)]


def test_there_is_one_world_and_one_fake_of_spark() -> None:
    """A double of a part of Spark says of which part; one that needs more derives from the fake."""
    paths = sorted((ROOT / "tests").rglob("*.py"))
    found = [double for path in paths for double in doubles_of_spark(path.stem, path.read_text(encoding="utf-8"))]
    assert set(found) == {"fake_spark.SparkServer", "fake_spark.FakeSpark", "spark.SimulatedSpark", "world.World"}


def test_another_double_is_found() -> None:
    source = "class FakeSpark: ...\nclass SparkResult: ...\nclass World: ...\nclass _Spark: ...\n"
    assert doubles_of_spark("m", source) == ["m.FakeSpark", "m.World", "m._Spark"]
