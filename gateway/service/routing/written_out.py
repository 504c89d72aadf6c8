"""Writes out what a statement that may write puts together when it runs: variables, the names of IDENTIFIER clauses,
the text of EXECUTE IMMEDIATE.

Spark evaluates them in the statement's session, and the statement with their values is what is checked and sent. So
nothing that happens between the question and the statement can give it another target: no other statement of the
session, no clock. Scripts have variables without values, of which only the text tells something (`sql.composed`).

Tests: `test_composed_targets`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gateway.errors import LimitReached, NotAllowed, StatementFailed
from gateway.loops import in_thread
from gateway.mv.ports import SqlSession
from gateway.service.clients.session import Session
from gateway.service.routing.first_words import may_write_after_all
from gateway.service.routing.long_texts import VERY_LONG_CHARACTERS, LongTexts
from sql.names import quote
from sql.reading import identifier_clause
from sql.reading.immediate import Argument, Immediate, filled
from sql.understood import Understood

ASKING_SECONDS = 60.0
"""The time limit for Spark to evaluate what a statement puts together."""
CLAUSES_MAX = 64
"""The maximum number of IDENTIFIER clauses of a statement that may write."""
DEPTH_MAX = 4
"""The maximum nesting of EXECUTE IMMEDIATE."""
VARIABLES_MAX = 40
"""The maximum number of variables of a statement that may write. Spark stops at 40 nested values."""
TEXT_MAX = 1 << 20
"""Nested values could grow without end."""
UNDEFINED = "<undefined>"
SUBSTITUTES = "spark.sql.variable.substitute"
_BEFORE_NAME = r"(?:(?:hivevar|hiveconf|spark|sparkconf):|(?!\w+:[^\s}]))"
_VARIABLE = re.compile(rf"\$\{{(?:{_BEFORE_NAME}(\S[^\s}}]*+)\}}|{_BEFORE_NAME}[^\s}}]*+(?=\s|\Z)|)", re.ASCII)
"""A variable as in Spark; `${env:HOME}` and `${system:...}` are not its settings. One without a name matches, too, but
has no value: searching for the end again from each beginning would take quadratic time."""
_OUTSIDE = re.compile(r"\$\{((?:env|system):[\w.-]++)\}", re.ASCII)
"""A variable of Spark's process."""


class UnknownText(NotAllowed):
    """It cannot be told what a statement changes."""


@dataclass(frozen=True, slots=True)
class WrittenOut:
    """`runs`: the texts that it runs, or that stand for what it changes."""

    text: str
    runs: Sequence[str] = ()


async def written_out(session: Session, known: Understood, texts: LongTexts) -> WrittenOut:
    """The statement without anything that is put together when it runs. Raises UnknownText and LimitReached, and
    StatementFailed if Spark cannot evaluate a part."""
    writer = _WritingOut(session, texts)
    try:
        async with asyncio.timeout(ASKING_SECONDS):
            text, _ = await writer.written(known, (), DEPTH_MAX)
    except TimeoutError:
        raise _unknown("what it puts together", f"Spark does not evaluate it within {ASKING_SECONDS:g} s") from None
    return WrittenOut(text, tuple(dict.fromkeys(writer.runs)))


@dataclass(slots=True)
class _WritingOut:
    session: Session
    texts: LongTexts
    runs: list[str] = field(default_factory=list)

    async def written(self, known: Understood, arguments: Sequence[Argument], depth: int) -> tuple[str, frozenset[int]]:
        """The text, and the numbers of the arguments for `?` that it no longer uses."""
        if not depth:
            raise _unknown("EXECUTE IMMEDIATE", "it is nested too deeply")
        if "${" in known.text:
            known = await self._read(await self._with_values(known.text))
        if known.look.keyword == "begin":
            if unknown := known.composed.unknown:
                raise _unknown(unknown, "its value is known only when the script runs")
            self.runs += known.composed.texts
        elif (found := known.runs) is not None:
            return await self._immediate(known, found, arguments, depth), frozenset()
        elif may_write_after_all(known) and not all(clause.literal for clause in known.identifier_clauses):
            return await self._named(known, arguments)
        return known.text, frozenset()

    async def _immediate(self, known: Understood, found: Immediate, arguments: Sequence[Argument], depth: int) -> str:
        text, own = known.text, found.arguments
        if arguments and "?" in text:
            raise _unknown("EXECUTE IMMEDIATE", "its text is an argument of another one")
        (value,) = await self._values([_filled_in(found.expression, arguments)])
        if not isinstance(value, str):
            return f"{text[: found.start]}{'CAST(NULL AS STRING)' if value is None else repr(value)}{text[found.end :]}"
        given = [Argument(_filled_in(each.expression, arguments), each.name, each.text) for each in own]
        inner, dropped = await self.written(await self._read(value), given, depth - 1)
        self.runs.append(inner)
        if inner == value and found.literal:
            return text
        kept = [each.text for number, each in enumerate(own) if number not in dropped]
        using = f" USING {', '.join(kept)}" if kept else ""
        into = text[found.end : found.using].rstrip()
        return f"{text[: found.start]}{await self._literal(inner)}{into}{using}"

    async def _named(self, known: Understood, arguments: Sequence[Argument]) -> tuple[str, frozenset[int]]:
        clauses = known.identifier_clauses
        if len(clauses) > CLAUSES_MAX:
            raise _unknown(f"{len(clauses)} IDENTIFIER clauses", f"at most {CLAUSES_MAX} are evaluated")
        expressions, dropped = list[str](), frozenset[int]()
        for clause in clauses:
            first = sum(piece.text == "?" for piece in known.lexed.until(clause.start))
            expression, used = (
                filled(clause.expression, first, arguments) if arguments else (clause.expression, dropped)
            )
            expressions.append(expression)
            dropped |= used
        names = []
        for clause, value in zip(clauses, await self._values(expressions), strict=True):
            name = identifier_clause.name(value) if isinstance(value, str) else None
            if name is None:
                raise _unknown(f"IDENTIFIER({clause.expression[:200]})", "its value is not a name")
            names.append(name)
        return identifier_clause.named(known.text, clauses, names), dropped

    # --- asking Spark --------------------------------------------------------------------------------

    async def _values(self, expressions: Sequence[str]) -> Sequence[object]:
        """The values of expressions in the session."""
        sql = await self.session.sql()
        rows = (await sql.run(f"SELECT {', '.join(f'({each})' for each in expressions)}")).rows
        if len(rows) != 1 or len(rows[0]) != len(expressions):
            raise _unknown(expressions[0][:200], "Spark does not tell its value")
        return rows[0]

    async def _literal(self, text: str) -> str:
        """An expression with this value. Literals with quotes depend on settings."""
        if not any(sign in text for sign in "'\\$"):
            return f"'{text}'"
        escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024")
        literal = f"'{escaped}'"
        (value,) = await self._values([literal])
        return literal if value == text else f"CAST(X'{text.encode('utf-8', 'replace').hex()}' AS STRING)"

    async def _with_values(self, text: str) -> str:
        """The text with the values of its variables. Raises LimitReached."""
        if len(text) > VERY_LONG_CHARACTERS:
            raise LimitReached(
                f"A statement with variables has at most {VERY_LONG_CHARACTERS} characters. Write their values out."
            )
        sql = await self.session.sql()
        for name in await in_thread(len(text), _outside, text):
            rows = (await sql.run(f"SELECT '${{{name}}}'")).rows
            if not rows:
                raise _unknown(f"${{{name}}}", "Spark does not tell its value")
            text = text.replace(f"${{{name}}}", str(rows[0][0]))
        found = await substituted(self.session, text)
        if found != text and await _setting(sql, SUBSTITUTES) == "false":
            self.runs.append(found)  # The setting may change before the statement is sent.
            return text
        if await in_thread(len(found), _variables, found):
            raise _unknown("its variables", f"it has more than {VARIABLES_MAX}")
        return found

    async def _read(self, text: str) -> Understood:
        known = Understood(text, ours=False)
        await self.texts.read(known)
        return known


def _filled_in(expression: str, arguments: Sequence[Argument]) -> str:
    return filled(expression, 0, arguments)[0] if arguments else expression


def _unknown(what: str, why: str) -> UnknownText:
    return UnknownText(
        f"The statement may change what {what} names, and {why}; it could be the rows of materialized views. Write the "
        f"name out."
    )


async def _setting(sql: SqlSession, name: str) -> str:
    """The value of a setting; empty if it has none."""
    try:
        rows = (await sql.run(f"SET {quote(name)}")).rows
    except StatementFailed:
        return ""
    value = str(rows[0][1]) if rows and len(rows[0]) > 1 else UNDEFINED
    return "" if value == UNDEFINED else value


async def substituted(session: Session, text: str) -> str:
    """The text after Spark's substitution of variables; those whose values are unknown remain. Raises LimitReached."""
    values: dict[str, str] = {}
    sql = await session.sql()
    for _ in range(VARIABLES_MAX):
        names = [name for name in await in_thread(len(text), _variables, text) if name not in values]
        for name in names[: VARIABLES_MAX - len(values)]:
            values[name] = await _setting(sql, name)
        before, text = text, await in_thread(len(text), _filled, text, values)
        if text == before:
            break
    return text


def _outside(text: str) -> list[str]:
    return list(dict.fromkeys(_OUTSIDE.findall(text)))


def _variables(text: str) -> list[str]:
    return list(dict.fromkeys(found[1] for found in _VARIABLE.finditer(text) if found[1]))


def _filled(text: str, values: Mapping[str, str]) -> str:
    """Replaces variables by their values. Raises LimitReached, because each of many values may have megabytes."""
    pieces, done, size = list[str](), 0, len(text)
    for found in _VARIABLE.finditer(text):
        if (value := values.get(found[1])) is not None:
            size += len(value)
            if size > TEXT_MAX:
                raise LimitReached(
                    f"With the values of its variables the statement has more than {TEXT_MAX} characters. Shorten them."
                )
            pieces += text[done : found.start()], value
            done = found.end()
    return "".join([*pieces, text[done:]])
