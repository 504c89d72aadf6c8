"""Asks Spark, with EXPLAIN, which materialized views a statement reads if its text does not show that.

The rows of each view are in a storage table named by the view's id, so the id is in every plan that reads the view.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Set

from gateway.errors import FreshgateError
from gateway.mv.ports import SqlSession
from gateway.service.clients.session import Session
from gateway.service.routing.long_texts import LongTexts
from sql.understood import TooMuch, Understood

log = logging.getLogger(__name__)

EXPLAIN_SECONDS = 60.0
"""The time limit for Spark to plan a statement. Planning takes as long again when the statement is run."""
CHARACTERS_MAX = 16_000
_QUERIES = frozenset({"select", "values", "table"})
_QUERIES_OR_WRITES = frozenset({"with", "from", "map", "reduce"})
"""First words of statements that may be queries or writes."""
_WRITES = frozenset({"insert", "merge", "update", "delete"})
_PLANNED = _QUERIES | _QUERIES_OR_WRITES | _WRITES | {"create", "replace", "cache"}
"""First words of statements that EXPLAIN plans without running them."""
_ID = re.compile(r"__([0-9a-f]{8})\b")
"""The end of a view's id."""
_PLAN = "== Analyzed Logical Plan =="


async def views_in_plan(
    session: Session, known: Understood, text: str, ids: Set[str], texts: LongTexts
) -> frozenset[str] | None:
    """The views among `ids` that the statement reads; None if Spark cannot be asked or does not tell. `text`: the text
    that is sent to Spark in place of the statement's."""
    if session.pending or len(text) > CHARACTERS_MAX:
        # The meaning of names could change between EXPLAIN and the statement.
        return None
    try:
        async with asyncio.timeout(EXPLAIN_SECONDS):
            sql = await session.sql()
            planned = await _planned(sql, known, text, texts)
            if not planned:
                return None if planned is None else frozenset()
            ((plan,),) = (await sql.run(f"EXPLAIN EXTENDED {planned}")).rows
    except (FreshgateError, TooMuch, TimeoutError, ValueError) as error:
        log.info("Spark does not tell what a statement would read: %s", str(error) or "no answer in time")
        return None
    if session.pending or _PLAN not in plan:
        return None
    return _mentioned(plan, ids)


def _mentioned(plan: str, ids: Set[str]) -> frozenset[str]:
    ends = frozenset(_ID.findall(plan))
    return frozenset(each for each in ids if each.rpartition("__")[2] in ends and each in plan)


async def _planned(sql: SqlSession, known: Understood, text: str, texts: LongTexts) -> str | None:
    """The text to EXPLAIN; None if EXPLAIN would run it or cannot plan it (a script), "" if it reads nothing."""
    if known.look.keyword in _PLANNED:
        return text
    if known.look.keyword != "execute" or (found := known.runs) is None:
        return None
    return await _immediate(sql, found.expression, known.text[found.using :] if found.arguments else "", texts)


async def _evaluated(sql: SqlSession, expression: str) -> str:
    ((inner,),) = (await sql.run(f"SELECT ({expression})")).rows
    return str(inner)


async def _immediate(sql: SqlSession, expression: str, using: str, texts: LongTexts) -> str | None:
    """The same for EXECUTE IMMEDIATE. To explain it, Spark would run its text unless that is a query."""
    inner = await _evaluated(sql, expression)
    known = Understood(inner, ours=False)
    await texts.read(known)
    found, look = known.sparks, known.look
    if found.exact and not (found.touches_rows and (found.reads or found.calls)):
        return ""
    reads_only = look.keyword in _QUERIES or (look.keyword in _QUERIES_OR_WRITES and look.words.isdisjoint(_WRITES))
    if not using:
        return inner if reads_only or look.keyword in _PLANNED else None
    if not reads_only:
        return None
    return f"EXECUTE IMMEDIATE {expression} {using}"  # without INTO
