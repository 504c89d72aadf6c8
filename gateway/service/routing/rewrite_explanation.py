"""EXPLAIN REWRITE: what each view is to a query, and why.

Tests: `test_answered_queries_seen`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator
from dataclasses import dataclass

from gateway.mv.model.view import MaterializedView
from gateway.mv.rewriting.usage import WhyMissed
from gateway.mv.rewriting.verdicts import Considered, Verdict
from gateway.service.clients.session import Session
from gateway.service.clients.visibility import may_describe
from gateway.service.operations.operation import Result
from gateway.service.routing.rewrites import CHARACTERS_MAX, FIRST_WORDS, Rewrites
from gateway.wire.rowset import ResultColumn
from sql.definition.bases import bases
from sql.names import TableName
from sql.rewriting.shape import Shape, shape_of
from sql.statement import ExplainRewrite
from sql.texts.indentation import indented
from sql.understood import Understood

COLUMNS = (
    ResultColumn("view", comment="Materialized view; NULL if none takes part that reads a table of the query"),
    ResultColumn("verdict", comment="MEMORY, CHOSEN, SPARK, USABLE, STALE, NOT PROVED, REJECTED or CONSIDERING"),
    ResultColumn("reason"),
    ResultColumn("text", comment="The query on the view, or of its rows in memory; NULL if there is none"),
)
CONSIDERED_SECONDS = 30.0
"""How long the statement waits until the shape has been considered."""
_ORDER = list(Verdict)
_ABLE = (Verdict.CHOSEN, Verdict.USABLE)
"""Of fresh views, and of views of which a few partitions are stale."""
_HINDRANCES = {
    WhyMissed.LENGTH: f"the query has more than {CHARACTERS_MAX:,} characters",
    WhyMissed.SESSION: "the query mentions a temporary view or function of the session, or another statement of the "
    "session that may change what names and settings mean has not ended",
}


@dataclass(frozen=True, slots=True)
class ExplainedRow:
    """A row of the answer."""

    view: str
    """The views that it is about."""
    verdict: Verdict
    reason: str
    text: str | None = None


Foresee = Callable[[Session, str], Awaitable[ExplainedRow | None]]
"""Determines whether a query that reads views would be answered from rows in memory; None: nothing is to be said."""


async def explain(rewrites: Rewrites, foresee: Foresee | None, statement: ExplainRewrite, session: Session) -> Result:
    """A row for each view that takes part, reads a table of the query, and may be described by the user, and one that
    tells whether the views that the query reads then answer it from memory; the one that would answer the query comes
    first."""
    rows = await _of_views(rewrites, statement.query, session)
    if foresee is not None and (row := await foresee(session, statement.query)) is not None:
        rows.append(row)
    if not rows:
        return Result(COLUMNS, [(None, Verdict.REJECTED, _why_none(rewrites), None)])
    return await _shown(rows)


async def _of_views(rewrites: Rewrites, query: str, session: Session) -> list[ExplainedRow]:
    namespace = await session.resolve_namespace()
    named = await asyncio.to_thread(bases, query, namespace)
    # Reasons quote definitions.
    sharing = [each for each in await rewrites.sharing(named.relations) if await may_describe(each[0], session)]
    if not sharing:
        return []
    views = {view.name for view, _ in sharing}
    names = list(map(str, views))
    known = Understood(query)
    if (reason := _obstacle(rewrites, session, known)) is not None:
        return [ExplainedRow(view, Verdict.REJECTED, reason) for view in names]
    shape = shape_of(query)
    found = await rewrites.learn(session, namespace, shape, known.look.words, CONSIDERED_SECONDS)
    if found is None:
        reason = f"no outcome within {CONSIDERED_SECONDS:g} s; ask again"
        return [ExplainedRow(view, Verdict.CONSIDERING, reason) for view in names]
    if isinstance(found, str):
        return [ExplainedRow(view, Verdict.NOT_PROVED, found) for view in names]
    rows = {row.view: row for row in await _considered(rewrites, found, shape, views)}
    rows |= {row.view: row for row in _not_compared(sharing) if row.view not in rows}
    return list(rows.values())


def _why_none(rewrites: Rewrites) -> str:
    if rewrites.active:
        return "no materialized view that takes part in rewriting reads a table of the query"
    return "no materialized view takes part in rewriting: ALTER MATERIALIZED VIEW … ENABLE QUERY REWRITE lets one"


def _obstacle(rewrites: Rewrites, session: Session, known: Understood) -> str | None:
    """Why no view can answer the query in this session."""
    if known.look.keyword not in FIRST_WORDS or known.look.keyword == "explain":
        return "it is not a query"
    if (reason := rewrites.off(session)) is not None:
        return reason
    hindrance = rewrites.hindrance(session, known.look.words, known.text)
    return None if hindrance is None else _HINDRANCES[hindrance]


async def _considered(
    rewrites: Rewrites, found: Considered, shape: Shape, views: Collection[TableName]
) -> list[ExplainedRow]:
    """What is known of these views."""
    rows = list[ExplainedRow]()
    standings = [await rewrites.standing(answer, shape) for answer in found.answers]
    able = [place for wanted in _ABLE for place, (verdict, _) in enumerate(standings) if verdict is wanted]
    for place, (answer, (verdict, reason)) in enumerate(zip(found.answers, standings, strict=True)):
        if place in able[:1]:
            verdict = Verdict.CHOSEN
        elif place in able:
            why = "has fewer bytes" if verdict is standings[able[0]][0] else "is fresh"
            best = found.answers[able[0]]
            why = "reads fewer base tables" if best.replaces(answer) else why
            verdict, reason = Verdict.USABLE, f"it would give the same rows, but {best.named} {why}"
        if all(each.name in views for each in answer.views):
            rows.append(ExplainedRow(answer.named, verdict, reason, answer.template.fill(shape.literals)))
    for refusal in found.refusals:
        text = None if refusal.template is None else refusal.template.fill(shape.literals)
        if all(each in views for each in refusal.views):
            rows.append(ExplainedRow(refusal.named, refusal.verdict, refusal.reason, text))
    return rows


def _not_compared(sharing: list[tuple[MaterializedView, list[TableName]]]) -> Iterator[ExplainedRow]:
    for view, others in sharing:
        names = ", ".join(map(str, others))
        reason = (
            f"the view reads {names}, which the query does not name" if others else "Spark cannot describe the view"
        )
        yield ExplainedRow(str(view.name), Verdict.REJECTED, reason)


async def _shown(rows: list[ExplainedRow]) -> Result:
    """The rows in the order of their verdicts."""
    rows.sort(key=lambda row: _ORDER.index(row.verdict))
    shown = [
        (
            row.view,
            row.verdict,
            row.reason,
            None if row.text is None else await asyncio.to_thread(indented, row.text),
        )
        for row in rows
    ]
    return Result(COLUMNS, shown)
