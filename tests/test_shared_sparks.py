"""Tests that the modules that share a Spark are run by one process."""

from __future__ import annotations

import ast
from pathlib import Path

from processes import ROOT
from schedule import FIXTURES, SHARING


def test_modules_that_share_a_spark_are_run_by_one_process() -> None:
    """Each other process would start a Spark of its own."""
    found = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for fixture in sorted(_requested(path) & FIXTURES.keys()):
            found[str(path.relative_to(ROOT))] = FIXTURES[fixture]
    assert found.keys() > {"tests/end_to_end/test_lake_increments.py"}
    assert {file: what for file, what in found.items() if SHARING.get(file) != what} == {}


def _requested(module: Path) -> set[str]:
    """The names of the parameters of a module's tests and fixtures, if one of FIXTURES may be among them."""
    text = module.read_text(encoding="utf-8")
    if not any(fixture in text for fixture in FIXTURES):
        return set()
    functions = (each for each in ast.parse(text).body if isinstance(each, ast.FunctionDef))
    return {parameter.arg for function in functions for parameter in function.args.args}
