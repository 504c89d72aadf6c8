"""Where the gateway touches the machine: its clocks and its random numbers, which follow the history instead.

Only in a process of the simulation's own: modules of the gateway are changed for good.
"""

from __future__ import annotations

import inspect
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from random import Random
from time import gmtime, struct_time
from types import FunctionType, ModuleType
from typing import Any

from world.loop import Loop

EPOCH = 1_750_000_000
"""The second at which every history begins."""


class Edges:
    """Clocks that show a loop's time, random numbers from a seed; `begin` says whose."""

    def __init__(self) -> None:
        self._loop = Loop(0.0)
        self._random = Random(0)

    def begin(self, loop: Loop, seed: int) -> None:
        self._loop = loop
        self._random = Random(seed)

    # --- in the place of `time`

    def monotonic(self) -> float:
        return self._loop.time()

    def clock_gettime(self, _: int) -> float:
        return self.monotonic()

    def time(self) -> float:
        return EPOCH + self._loop.now

    def time_ns(self) -> int:
        return EPOCH * 1_000_000_000 + int(self._loop.now * 1_000_000_000)

    def gmtime(self) -> struct_time:
        return gmtime(self.time())

    # --- in the place of `secrets`

    def token_bytes(self, size: int = 32) -> bytes:
        return self._random.randbytes(size)

    def token_hex(self, size: int = 32) -> str:
        return self._random.randbytes(size).hex()


class _Instead:
    """A module of Python's of which some functions are others."""

    def __init__(self, module: ModuleType, **others: Callable[..., Any]) -> None:
        self._module = module
        vars(self).update(others)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def install() -> Edges:
    """Has all modules of the gateway that are loaded use clocks and random numbers of a history."""
    edges = Edges()
    clock = _Instead(
        time,
        monotonic=edges.monotonic,
        clock_gettime=edges.clock_gettime,
        time=edges.time,
        time_ns=edges.time_ns,
        gmtime=edges.gmtime,
    )
    tokens = _Instead(secrets, token_bytes=edges.token_bytes, token_hex=edges.token_hex)
    for module in [each for name, each in sys.modules.items() if name.startswith("gateway.")]:
        for name, value in list(vars(module).items()):
            if value is time:
                setattr(module, name, clock)
            elif value is secrets:
                setattr(module, name, tokens)
        for function in _functions(module):
            # Clocks that were bound when the function was made.
            function.__defaults__ = _bound(function.__defaults__, edges)
            if function.__kwdefaults__:
                for name, value in function.__kwdefaults__.items():
                    if value is time.monotonic:
                        function.__kwdefaults__[name] = edges.monotonic
    return edges


def _bound(defaults: tuple[Any, ...] | None, edges: Edges) -> tuple[Any, ...] | None:
    return defaults and tuple(edges.monotonic if value is time.monotonic else value for value in defaults)


def _functions(module: ModuleType) -> Iterator[FunctionType]:
    for value in vars(module).values():
        if inspect.isfunction(value):
            yield value
        elif inspect.isclass(value) and value.__module__ == module.__name__:
            yield from (each for each in vars(value).values() if inspect.isfunction(each))
