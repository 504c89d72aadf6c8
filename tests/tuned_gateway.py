"""Runs `freshgate` with other values of constants: the first argument is a JSON object, the others are the
program to run, as for Python: `-m gateway` or a file.

Keys are names in the module that uses the constant, `gateway.server.SURVEY_SECONDS`, or a parameter of a class there,
`gateway.assembly.views.KeptLimits.wait_seconds`.
"""

from __future__ import annotations

import json
import runpy
import sys
from functools import partial
from importlib import import_module
from inspect import signature
from typing import Any


def find(name: str) -> tuple[Any, str, str]:
    """The module, and the name in it: of a constant, or of a class and of one of its parameters. Raises AttributeError
    if there is none."""
    place, _, last = name.rpartition(".")
    outer, _, inner = place.rpartition(".")
    if not inner[:1].isupper():
        module = import_module(place)
        getattr(module, last)
        return module, last, ""
    module = import_module(outer)
    if last not in signature(getattr(module, inner)).parameters:
        raise AttributeError(f"{place} has no parameter {last}")
    return module, inner, last


def _set(name: str, value: Any) -> None:
    module, found, parameter = find(name)
    setattr(module, found, partial(getattr(module, found), **{parameter: value}) if parameter else value)


def _run() -> None:
    for each, wanted in json.loads(sys.argv.pop(1)).items():
        _set(each, wanted)
    sys.argv.pop(0)
    if sys.argv[0] == "-m":
        sys.argv.pop(0)
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    _run()
