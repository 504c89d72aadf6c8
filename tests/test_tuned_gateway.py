"""What tests change in a gateway by name exists: a test that needs a Spark would show that only after minutes."""

from __future__ import annotations

import re

import pytest
from processes import ROOT
from tuned_gateway import find

_NAME = re.compile(r'"(gateway(?:\.[a-z_]+)+\.(?:[A-Z][a-z]\w*\.[a-z_]+|[A-Z_]+))"')
NAMES = sorted({name for file in (ROOT / "tests").rglob("*.py") for name in _NAME.findall(file.read_text("utf-8"))})


@pytest.mark.parametrize("name", NAMES)
def test_it_exists(name: str) -> None:
    find(name)


def test_parameters_and_constants_are_found() -> None:
    assert any(name.rpartition(".")[2].isupper() for name in NAMES)
    assert any(not name.rpartition(".")[2].isupper() for name in NAMES)


@pytest.mark.parametrize("name", ["server.NOTHING", "assembly.refreshes.Nobody.x", "assembly.refreshes.Tasks.nothing"])
def test_what_does_not_exist(name: str) -> None:
    with pytest.raises(AttributeError):
        find(f"gateway.{name}")
