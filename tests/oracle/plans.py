"""Spark's own parser: what a text reads, writes and changes according to Spark's plan.

It runs in the JVM that the tests have anyway, without a Spark session, and takes about a millisecond per text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jpype
from clients import start_jvm

_SOURCE = Path(__file__).with_name("PlanReader.java")
_FIELD, _LINE, _TEXT = "\1", "\2", "\3"
APART = frozenset({_FIELD, _LINE, _TEXT, "\4"})
"""Characters that separate fields, and so may not occur in a text."""

DEFINED = "v."
"""The prefix of variables that have a value; the value is the rest of the name."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Spark's settings that change the meaning of a text."""

    escaped: bool = False
    """spark.sql.parser.escapedStringLiterals: a backslash in a string is literal."""
    quoted: bool = False
    """spark.sql.ansi.doubleQuotedIdentifiers."""
    cased: bool = False
    """spark.sql.caseSensitive."""

    @property
    def bits(self) -> str:
        """The settings in the form of `PlanReader`."""
        return str(self.escaped + 2 * self.quoted + 4 * self.cased)


class Note(NamedTuple):
    """A name in a plan, with the kind of its node, and the command that it belongs to ("" for a query)."""

    kind: str
    owner: str
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    root: str
    """The class of the plan, or of the error if Spark refuses the text."""
    accepted: bool
    notes: tuple[Note, ...] = ()


@cache
def _reader() -> Any:
    start_jvm()
    compiler = jpype.JClass("org.codehaus.janino.SimpleCompiler")()
    compiler.cook(_SOURCE.read_text(encoding="utf-8"))
    return jpype.JClass(compiler.getClassLoader().loadClass("PlanReader"))()


def read(texts: Sequence[str], settings: Settings | Sequence[Settings]) -> list[Plan]:
    """Spark's plans of the texts, each with its own settings or all with the same ones, in a single call of the JVM."""
    bits = settings.bits * len(texts) if isinstance(settings, Settings) else "".join(each.bits for each in settings)
    return [_plan(encoded) for encoded in str(_reader().read(_TEXT.join(texts), bits)).split(_TEXT)]


class Piece(NamedTuple):
    """A token of Spark's lexer: its name in the grammar, its first character, and the one after it."""

    kind: str
    start: int
    end: int


def lexed(texts: Sequence[str]) -> list[list[Piece]]:
    """The tokens of each text, without blanks and comments."""
    found = str(_reader().lex(_TEXT.join(texts))).split(_TEXT)
    return [[_piece(line) for line in encoded.split(_LINE)[:-1]] for encoded in found]


def _piece(line: str) -> Piece:
    kind, start, last = line.split(_FIELD)
    return Piece(kind, int(start), int(last) + 1)


def value_of(variable: str) -> str | None:
    """The value that Spark substitutes for ${variable}; None if the variable is undefined, so that nothing remains."""
    return variable[len(DEFINED) :] if variable.startswith(DEFINED) else None


def shown(text: str) -> str:
    """The printed plan, with the settings of the last `read`."""
    return str(_reader().show(text))


@cache
def built_in() -> frozenset[str]:
    """The names of Spark's built-in functions."""
    start_jvm()
    analysis = "org.apache.spark.sql.catalyst.analysis"
    names: set[str] = set()
    for registry in ("FunctionRegistry", "TableFunctionRegistry"):
        listed = jpype.JClass(f"{analysis}.{registry}").builtin().listFunction().iterator()
        while listed.hasNext():
            names.add(str(listed.next().funcName()).lower())
    return frozenset(names)


def _plan(encoded: str) -> Plan:
    root, *lines = encoded.split(_LINE)
    if root.startswith("-"):
        return Plan(root[1:], accepted=False)
    return Plan(root, True, tuple(map(_note, lines)))


def _note(line: str) -> Note:
    kind, owner, *parts = line.split(_FIELD)
    return Note(kind, owner, tuple(parts))
