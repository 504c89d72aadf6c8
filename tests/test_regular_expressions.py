"""Tests that every regular expression takes linear time, because texts come from clients and from Spark, and matches
the same on every Python from 3.11.0 on.

Each pattern of a module is applied to long repetitions of its own parts. It fails if a text of four times the length
takes many times as long.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import signal
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from types import ModuleType
from typing import Any

import pytest

import gateway
import sql

CHARACTERS = 2_000
"""The length of a text; longer if it repeats something long."""
REPETITIONS = 120
UNITS_MAX = 10
"""The maximum number of different repeated texts per pattern."""
SECONDS_A_CHARACTER = 1e-6
"""A text that takes longer is measured closely. Linear searches take a tenth of it, up to a half on a busy machine."""
TIMES = 4
RATIO_MAX = 9.0
"""The ratio between the times of a text and of one that is TIMES as long: 4 if linear, 16 if quadratic."""
DEADLINE_SECONDS = 0.3
ELSEWHERE = ("sqlalchemy.superset",)
"""What runs within another program, which is not installed here."""
SEARCHING = frozenset({"search", "finditer", "findall", "sub", "subn", "split"})
CALLS = SEARCHING | {"match", "fullmatch"}

Work = Callable[[str], object]


class TooSlow(Exception):
    pass


# --- the patterns and how they are used --------------------------------------------------------------------


def _modules() -> Iterator[ModuleType]:
    for package in (gateway, sql):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith(("__main__", *ELSEWHERE)):
                yield importlib.import_module(found.name)


@cache
def _patterns() -> dict[str, tuple[re.Pattern[str], frozenset[str]]]:
    """Each pattern by name, with the methods that are called on it; by default `search`."""
    modules = list(_modules())
    called: dict[str, set[str]] = defaultdict(set)
    for module in modules:
        for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in CALLS:
                name = node.value.id if isinstance(node.value, ast.Name) else getattr(node.value, "attr", "")
                called[f"{module.__name__}.{name}"].add(node.attr)
    return {
        f"{module.__name__}.{name}": (value, frozenset(called[f"{module.__name__}.{name}"] or {"search"}))
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, re.Pattern) and isinstance(value.pattern, str)
    }


def _works(pattern: re.Pattern[str], methods: Iterable[str]) -> list[tuple[Work, bool]]:
    """The operations on a text, each with whether the pattern may match anywhere in the text."""
    found: list[tuple[Work, bool]] = [(getattr(pattern, each), False) for each in methods if each not in SEARCHING]
    if not SEARCHING.isdisjoint(methods):
        found.append((lambda text: deque(pattern.finditer(text), 0), True))
    return found


# --- what to repeat ----------------------------------------------------------------------------------------

_REPEATS = frozenset({codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT})
_OF_CATEGORY = {
    codes.CATEGORY_DIGIT: "1",
    codes.CATEGORY_WORD: "a_",
    codes.CATEGORY_SPACE: " \n",
    codes.CATEGORY_NOT_SPACE: "x",
    codes.CATEGORY_NOT_WORD: " -",
    codes.CATEGORY_NOT_DIGIT: "x",
}
_PLAIN = "x \n-1"


def _samples(node: tuple[Any, Any]) -> list[str]:
    """Texts that one node of a parsed pattern matches; at least one."""
    kind, value = node
    if kind is codes.LITERAL:
        return [chr(value)]
    if kind is codes.IN:
        return _of_set(value)
    if kind in {codes.ANY, codes.NOT_LITERAL}:
        return ["x", "\n"]
    if kind is codes.BRANCH:
        return [text for branch in value[1] for text in _of_sequence(branch)[:2]]
    if kind in _REPEATS:
        return [text * max(1, value[0]) for text in _of_sequence(value[2])]
    inner = _inner(node)
    return _of_sequence(inner[0]) if inner and kind is not codes.ASSERT_NOT else [""]


def _of_set(items: Sequence[tuple[Any, Any]]) -> list[str]:
    if items[0][0] is codes.NEGATE:
        listed = re.compile("[" + re.escape("".join(_of_set(items[1:]))) + "]")
        return [sign for sign in _PLAIN if not listed.match(sign)][:2]
    found = ""
    for kind, value in items:
        found += _OF_CATEGORY[value] if kind is codes.CATEGORY else chr(value[0] if kind is codes.RANGE else value)
    return list(found)[:4]


def _of_sequence(nodes: Iterable[tuple[Any, Any]]) -> list[str]:
    texts = [""]
    for node in nodes:
        found = _samples(node)
        wanted = max(len(texts), min(len(found), 3))
        texts = [texts[min(place, len(texts) - 1)] + found[min(place, len(found) - 1)] for place in range(wanted)]
    return texts


def _inner(node: tuple[Any, Any]) -> list[Any]:
    kind, value = node
    if kind is codes.BRANCH:
        return list(value[1])
    if kind is codes.SUBPATTERN:
        return [value[3]]
    if kind is codes.ATOMIC_GROUP:
        return [value]
    if kind in _REPEATS:
        return [value[2]]
    return [value[1]] if kind in {codes.ASSERT, codes.ASSERT_NOT} else []


def _shortest(node: tuple[Any, Any]) -> str:
    if node[0] in _REPEATS and node[1][0] == 0:
        return ""
    if node[0] is codes.BRANCH:
        return min(("".join(map(_shortest, branch)) for branch in node[1][1]), key=len)
    return _samples(node)[0] if node[0] not in {codes.ASSERT, codes.ASSERT_NOT} else ""


def _units(pattern: re.Pattern[str]) -> list[str]:
    """The texts to repeat: the repeated parts of the pattern, what precedes them, and single characters of both."""
    found: dict[str, None] = {}

    def walk(nodes: Iterable[tuple[Any, Any]]) -> None:
        before = shortest = ""
        for node in nodes:
            if node[0] in _REPEATS and node[1][1] > REPETITIONS:
                found.update(dict.fromkeys(filter(None, [shortest, before, *_of_sequence(node[1][2])])))
            for inner in _inner(node):
                walk(inner)
            before += _samples(node)[0]
            shortest += _shortest(node)
            if node[0] is codes.SUBPATTERN and any(each[0] in _REPEATS for each in node[1][3]):
                found.setdefault(shortest)

    walk(parser.parse(pattern.pattern, pattern.flags))
    signs = dict.fromkeys("".join(found))
    return list(dict.fromkeys([*list(found)[:UNITS_MAX], *list(signs)[: UNITS_MAX // 2]]))


def _texts(units: Sequence[str], *, anywhere: bool) -> Iterator[Callable[[int], str]]:
    """Hostile texts as functions of the number of repetitions."""
    for one in units:
        for other in units:
            yield lambda times, one=one, other=other: (one + other) * times  # type: ignore[misc]
            if not anywhere or one == other:
                yield lambda times, one=one, other=other: one + other * times + "\0"  # type: ignore[misc]


# --- what Pythons before 3.11.5 match wrongly ---------------------------------------------------------------

_STILL = frozenset({codes.LITERAL, codes.NOT_LITERAL, codes.ANY, codes.IN, codes.AT, codes.GROUPREF})
"""Nodes that do not move the engine's place in the text when they, or those behind them, fail."""


def late_failures(nodes: Iterable[tuple[Any, Any]]) -> Iterator[Any]:
    """Possessive repetitions whose body can fail behind its beginning. Pythons before 3.11.5 (Debian 12 has 3.11.2)
    then continue where the body failed, and not where it began: `(?:a(?!b))*+` takes the `a` of `ab`."""
    for node in nodes:
        if node[0] is codes.POSSESSIVE_REPEAT and _fails_late(node[1][2]):
            yield node
        for inner in _inner(node):
            yield from late_failures(inner)


def _fails_late(nodes: Iterable[tuple[Any, Any]], *, read: bool = False, moved: bool = False) -> bool:
    nodes = list(nodes)
    for place, node in enumerate(nodes):
        kind, value = node
        rest = nodes[place + 1 :]
        if kind in {codes.SUBPATTERN, codes.ATOMIC_GROUP}:
            return _fails_late([*_inner(node)[0], *rest], read=read, moved=moved)
        if kind is codes.BRANCH and not read:
            return any(_fails_late([*branch, *rest], moved=moved) for branch in value[1])
        if _can_fail(node) and (moved or (read and kind not in _STILL)):
            return True
        reads = kind not in {codes.ASSERT, codes.ASSERT_NOT, codes.AT}
        moved = moved or (kind not in _STILL and (read or reads))
        read = read or reads
    return False


def _can_fail(node: tuple[Any, Any]) -> bool:
    kind, value = node
    if kind in _REPEATS:
        return value[0] > 0 and any(map(_can_fail, value[2]))
    if kind is codes.BRANCH:
        return all(any(map(_can_fail, branch)) for branch in value[1])
    if kind in {codes.SUBPATTERN, codes.ATOMIC_GROUP}:
        return any(map(_can_fail, _inner(node)[0]))
    return True


def test_no_pattern_matches_otherwise_on_older_pythons() -> None:
    found = [
        name for name, (each, _) in _patterns().items() if any(late_failures(parser.parse(each.pattern, each.flags)))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("expression", "late"),
    [
        (r"(?:ab?c)++", True),
        (r"(?:a(?!b))*+", True),
        (r"\w++(?:\s*+\.\s*+\w++)*+", True),
        (r"(?:[^*/]|\*(?!/)|/(?!\*))*+", True),
        (r"(?:\(([^()]*+)\))?+", True),
        (r"(?:ab?c)+", False),
        (r"`(?:[^`]|``)*+`", False),
        (r"(?:(?:\\.|'')[^']*+)*+", False),
    ],
)
def test_a_repetition_that_fails_late_is_found(expression: str, late: bool) -> None:
    assert any(late_failures(parser.parse(expression))) == late


# --- measuring ---------------------------------------------------------------------------------------------


@contextmanager
def _deadline() -> Iterator[None]:
    """Raises TooSlow after too much CPU time. The regular expression engine checks for signals."""

    def over(*_: object) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, DEADLINE_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _seconds(work: Work, text: str) -> float:
    began = time.thread_time()
    work(text)
    return time.thread_time() - began


def _is_superlinear(work: Work, text: Callable[[int], str]) -> bool:
    unit = max(1, len(text(2)) - len(text(1)))
    times = max(CHARACTERS // unit, REPETITIONS)
    short, long = text(times), text(times * TIMES)
    try:
        with _deadline():
            if _seconds(work, short) < SECONDS_A_CHARACTER * len(short):
                return False
            before = min(_seconds(work, short) for _ in range(3))
            return min(_seconds(work, long) for _ in range(3)) > RATIO_MAX * before
    except TooSlow:
        return True


def slow_texts(pattern: re.Pattern[str], methods: Iterable[str]) -> list[str]:
    """For each use of a pattern, the first hostile text that takes more than linear time, if there is one."""
    found = []
    for work, anywhere in _works(pattern, methods):
        texts = _texts(_units(pattern), anywhere=anywhere)
        slow = next((text for text in texts if _is_superlinear(work, text)), None)
        if slow is not None:
            found.append(slow(3))
    return found


def test_every_pattern_takes_linear_time() -> None:
    slow = {name: texts for name, (pattern, used) in _patterns().items() if (texts := slow_texts(pattern, used))}
    assert slow == {}


@pytest.mark.parametrize(
    ("expression", "method"),
    [
        (r"(?m)^[\s:+|-]*Sample ", "search"),
        (r"\w*__[0-9a-f]{8}\b", "findall"),
        (r"\[[A-Z]+\] .*?SQLSTATE: ", "search"),
        (r"'(?:[^'\\]|\\.)*+(?:'|\Z)", "findall"),
        (r"([A-Za-z][A-Za-z0-9+.-]*):///+", "sub"),
        (r"(?:a+)+b", "match"),
        (r"(?:\w|__)*;", "fullmatch"),
    ],
)
def test_a_slow_expression_is_found(expression: str, method: str) -> None:
    """These are former expressions of the gateway, and well-known examples."""
    assert slow_texts(re.compile(expression, re.DOTALL), [method])


@pytest.mark.parametrize(
    ("expression", "method"),
    [(r"(?m)^[ :+|-]*Sample ", "search"), (r"'(?:[^'\\]|\\.?)*+(?:'|\Z)", "findall"), (r"(?:\w++)*+;", "match")],
)
def test_a_linear_expression_is_not_reported(expression: str, method: str) -> None:
    assert not slow_texts(re.compile(expression, re.DOTALL), [method])
