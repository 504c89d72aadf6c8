"""Runs `freshgate` with other values of constants: the first argument is a JSON object, the others are the
program to run, as for Python: `-m gateway` or a file.

Keys are names in the module that uses the constant, `gateway.server.SURVEY_SECONDS`, or a parameter of a class there,
`gateway.assembly.KeptLimits.wait_seconds`.
"""

from __future__ import annotations

import json
import runpy
import sys
from functools import partial
from importlib import import_module
from typing import Any


def _set(name: str, value: Any) -> None:
    place, _, last = name.rpartition(".")
    outer, _, inner = place.rpartition(".")
    if inner[:1].isupper():
        module = import_module(outer)
        setattr(module, inner, partial(getattr(module, inner), **{last: value}))
    else:
        module = import_module(place)
        assert hasattr(module, last), f"{place} has no constant {last}"
        setattr(module, last, value)


for each, wanted in json.loads(sys.argv.pop(1)).items():
    _set(each, wanted)
sys.argv.pop(0)
if sys.argv[0] == "-m":
    sys.argv.pop(0)
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
else:
    runpy.run_path(sys.argv[0], run_name="__main__")
