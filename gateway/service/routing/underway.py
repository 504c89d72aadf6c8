"""Statements that are under way: applies what they do (`ways.Effect`) when they are sent, end, and are closed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gateway.loops import BackgroundTasks
from gateway.mv.catalog.confirmation import Confirmation
from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.ledger import TablesWritten
from gateway.mv.freshness.pending import ViewsEndangered
from gateway.mv.observation.schemas import Schemas
from gateway.mv.rewriting.unanswered import Unanswered
from gateway.mv.versions.readers import Readers
from gateway.service.clients import own_settings
from gateway.service.clients.pending_statement import PendingStatement
from gateway.service.clients.session import Session
from gateway.service.clients.temporary_views import TemporaryViewLeaves
from gateway.service.operations.operation import End, ForwardedOperation
from gateway.service.results.store import ResultStore
from gateway.service.routing.rewrites import Rewrites
from gateway.service.routing.scope import ViewScope
from gateway.service.routing.ways import (
    UNCHANGED,
    Effect,
    MeaningsChanged,
    MeaningsMove,
    OwnSettingsChanged,
    QueryAnswered,
    QueryMissed,
    QueryUnanswered,
    RightsChanged,
    RowsCollectedInParts,
    Send,
    SettingsChanged,
    SparkViewsChanged,
    TablesRedefined,
    TemporaryViewsChanged,
    TemporaryViewsDoubted,
    VersionsHeld,
)
from sql.mentioned import Mentioned

_ANYTHING = Mentioned(frozenset(), anything=True)


class Effects:
    """Where the effects of statements take place."""

    def __init__(
        self,
        catalog: Catalog,
        schemas: Schemas,
        confirmation: Confirmation,
        scope: ViewScope,
        rewrites: Rewrites,
        readers: Readers,
        results: ResultStore,
        unanswered: Unanswered,
    ) -> None:
        self.catalog = catalog
        self.schemas = schemas
        self.confirmation = confirmation
        self.scope = scope
        self.rewrites = rewrites
        self.readers = readers
        self.results = results
        self.unanswered = unanswered
        self.forgetting: list[Callable[[Mentioned], None]] = []
        """Who else has learned something that a statement may have changed: what these names mean, or, if it may name
        anything, rights."""
        self.outcomes = BackgroundTasks("waiting for the outcome of a statement")

    def begin(self, session: Session, send: Send) -> Underway:
        """The statement is decided. From now on the caller must tell what becomes of it."""
        return Underway(self, session, send)

    @property
    def remembers(self) -> bool:
        """Whether anything that is learned from one read serves later ones, besides rewriting."""
        return self.results.active or bool(self.forgetting)

    def forget(self, named: Mentioned) -> None:
        self.rewrites.forget(named)
        for each in self.forgetting:
            each(named)

    def drop(self, session: Session, effects: Iterable[Effect]) -> None:
        """A decision is not followed: gives back what it holds already."""
        for effect in effects:
            match effect:
                case TemporaryViewLeaves():
                    session.temporary.leaving.discard(effect)
                case VersionsHeld(read):
                    self.readers.release(read)


class Underway:
    """One statement, from its decision until its rows can no longer be fetched. Each event counts once."""

    __slots__ = ("_began", "_closed", "_ended", "_sent", "_session", "_to", "send", "statement")

    def __init__(self, to: Effects, session: Session, send: Send) -> None:
        self.send = send
        self.statement: PendingStatement | None = None
        """Set if other statements need to know when it has ended."""
        self._to = to
        self._session = session
        self._began = time.monotonic()
        self._sent = self._ended = self._closed = False
        for effect in send.effects:
            if (begin := _BEGUN.get(type(effect))) is not None:
                begin(self, effect)

    @property
    def matters(self) -> bool:
        """Whether its end changes what others may read or mean."""
        return any(type(effect) not in _COUNTED for effect in self.send.effects)

    # --- events ------------------------------------------------------------------------------------

    def departs(self, send: Send) -> None:
        """It is about to be sent after a wait, which may have added effects that hold something."""
        self.send = send

    def sent(self, *, synchronous: bool = False) -> None:
        """Spark gets it now."""
        self._sent = True
        if self.statement is not None:
            self.statement.sent(synchronous=synchronous)
        for effect in self.send.effects:
            if (send := _SENT.get(type(effect))) is not None:
                send(self, effect)

    def started(self, operation: ForwardedOperation) -> None:
        """Spark runs it as this operation, which tells its end and its close."""
        if self.statement is not None:
            self.statement.started(operation)
        if self.send.effects:
            operation.underway, operation.runs_others = self, self.send.runs_others
            operation.outcome_matters = self.matters

    def ended(self, end: End) -> None:
        if self._ended:
            return
        self._ended = True
        if self.statement is not None:
            self.statement.end(end)
        effects = self.send.effects
        for effect in effects:
            if (finish := _ENDED.get(type(effect))) is not None:
                finish(self, effect, end)
        if end is End.UNKNOWN and self.statement is not None:
            self._to.outcomes.begin(self._outlive(self.statement, effects))
        # Its texts may be long, and its rows may be fetched for hours.
        held = tuple([effect for effect in effects if isinstance(effect, VersionsHeld)])
        self.send = Send(effects=held) if held else UNCHANGED

    async def _outlive(self, statement: PendingStatement, effects: Iterable[Effect]) -> None:
        """Spark may still carry out a statement of unknown outcome: what it does stays pending until then."""
        await statement.outlive()
        for effect in effects:
            if (finish := _ENDED_LATE.get(type(effect))) is not None:
                finish(self, effect)

    def closed(self) -> None:
        """Its rows can no longer be fetched."""
        if self._closed:
            return
        self._closed = True
        for effect in self.send.effects:
            if isinstance(effect, VersionsHeld):
                self._to.readers.release(effect.read)

    def abandon(self, end: End = End.UNKNOWN) -> None:
        """The end of the statement will not be observed. FAILED: it was never sent to Spark."""
        self.ended(end)
        self.closed()

    # --- writes ------------------------------------------------------------------------------------

    def _begin_write(self, write: TablesWritten) -> None:
        self._to.catalog.writes.begin(write, self._watched())

    def _send_write(self, write: TablesWritten) -> None:
        if write.tables:
            self._to.catalog.writes.send(write)

    def _end_write_late(self, write: TablesWritten) -> None:
        self._to.catalog.writes.end(write)

    def _end_write(self, write: TablesWritten, end: End) -> None:
        writes = self._to.catalog.writes
        if end is End.REFUSED:
            writes.forget(write)
        elif end is End.UNKNOWN:
            writes.lose(write)
        else:
            writes.end(write)

    def _watched(self) -> PendingStatement:
        if self.statement is None:
            self.statement = PendingStatement(self._session)
        return self.statement

    # --- what all sessions share -------------------------------------------------------------------

    def _redefine(self, effect: TablesRedefined, _: End | None = None) -> None:
        self._to.schemas.forget(effect.tables)
        # Also by ADD COLUMNS, which keeps all rows: a base table in memory has other columns then.
        self._to.catalog.news.touched.tell(effect.tables)

    def _forget_meanings(self, effect: MeaningsChanged, _: End | None = None) -> None:
        self._to.schemas.forget_named(effect.named)
        self._to.forget(effect.named)

    def _watch_lists(self, effect: SparkViewsChanged) -> None:
        if effect.lists:
            self._watched()

    def _begin_lists(self, effect: SparkViewsChanged) -> None:
        if effect.lists and self.statement is not None:
            self._to.scope.begin_change(self.statement, effect.databases)

    def _end_lists(self, effect: SparkViewsChanged, _: End) -> None:
        self._to.scope.end_change(self.statement, effect.databases)

    def _watch_danger(self, _: ViewsEndangered) -> None:
        self._watched()

    def _endanger(self, effect: ViewsEndangered) -> None:
        self._to.confirmation.begin(effect)

    def _end_danger(self, effect: ViewsEndangered, end: End) -> None:
        if self._sent:
            self._to.confirmation.end(effect, surely=end is not End.UNKNOWN)

    def _end_danger_late(self, effect: ViewsEndangered) -> None:
        self._to.confirmation.end(effect)

    def _suspend_results(self, effect: RightsChanged) -> None:
        self._to.results.suspend(effect)
        self._to.forget(_ANYTHING)

    def _resume_results(self, effect: RightsChanged, _: End) -> None:
        self._to.results.resume(effect)
        self._to.forget(_ANYTHING)

    def _planned(self, effect: VersionsHeld, _: End) -> None:
        if effect.read.views:
            self._to.readers.planned(effect.read)

    # --- queries -----------------------------------------------------------------------------------

    def _use(self, effect: QueryAnswered) -> None:
        effect.hit.usage.used(effect.hit.answer.names)

    def _answered(self, effect: QueryAnswered, end: End) -> None:
        if end is End.SUCCEEDED and self._to.rewrites.still_holds(effect.hit):
            effect.hit.usage.took(time.monotonic() - self._began)
            self._to.rewrites.succeeded(self._session, effect.words, effect.query, effect.hit)

    def _miss(self, effect: QueryMissed) -> None:
        effect.usage.missed(effect.reason)

    def _missed(self, effect: QueryMissed, end: End) -> None:
        if end is End.SUCCEEDED and effect.timed:
            effect.usage.own.add(time.monotonic() - self._began)

    def _unanswered(self, effect: QueryUnanswered, end: End) -> None:
        if end is End.SUCCEEDED:
            seconds = time.monotonic() - self._began
            self._to.unanswered.took(effect.text, effect.namespace, effect.user, seconds)

    # --- its session -------------------------------------------------------------------------------

    def _may_move(self, effect: MeaningsMove) -> None:
        statement = self._watched()
        if effect.moves:
            statement.moves, statement.words, statement.used = True, effect.words, effect.use

    def _watch_session(self, _: MeaningsMove) -> None:
        self._session.watch(self._watched())

    def _end_session_watch(self, _: MeaningsMove, end: End) -> None:
        self._session.ended(self._watched(), end)

    def _begin_temporary(self, effect: TemporaryViewsChanged) -> None:
        effect.among.begin(effect.change)

    def _end_temporary(self, effect: TemporaryViewsChanged, end: End) -> None:
        effect.among.end(effect.change, end)

    def _doubt_temporary(self, effect: TemporaryViewsDoubted) -> None:
        for name in effect.names:
            effect.among.may_make(name, effect.reads)

    def _begin_leaving(self, effect: TemporaryViewLeaves) -> None:
        self._session.temporary.leaving.add(effect)

    def _end_leaving(self, effect: TemporaryViewLeaves, end: End) -> None:
        if end is not End.UNKNOWN:
            self._end_leaving_late(effect)

    def _end_leaving_late(self, effect: TemporaryViewLeaves) -> None:
        self._session.temporary.leaving.discard(effect)

    def _collect_in_parts(self, _: RowsCollectedInParts) -> None:
        self._session.collects_in_parts = True

    def _note_settings(self, effect: SettingsChanged) -> None:
        self._session.settings.note(effect.text, constant=effect.constant, change=effect)

    def _end_settings(self, effect: SettingsChanged, end: End) -> None:
        self._session.settings.ended(effect, certainly=end is End.SUCCEEDED)

    def _set_own(self, effect: OwnSettingsChanged, end: End) -> None:
        if end is End.SUCCEEDED:
            own_settings.apply(self._session, effect.values)


_COUNTED = frozenset({QueryMissed, QueryUnanswered})
"""Effects for whose sake Spark is not asked whether the statement has ended."""
# What each effect does when it is decided, when the statement is sent, when it has ended, and when Spark can no longer
# carry out a statement of unknown outcome.
_BEGUN: Mapping[type[Effect], Callable[[Underway, Any], None]] = {
    TablesWritten: Underway._begin_write,
    SparkViewsChanged: Underway._watch_lists,
    ViewsEndangered: Underway._watch_danger,
    MeaningsMove: Underway._may_move,
    TemporaryViewLeaves: Underway._begin_leaving,
    RowsCollectedInParts: Underway._collect_in_parts,
    QueryAnswered: Underway._use,
    QueryMissed: Underway._miss,
}
_SENT: Mapping[type[Effect], Callable[[Underway, Any], None]] = {
    TablesWritten: Underway._send_write,
    TablesRedefined: Underway._redefine,
    MeaningsChanged: Underway._forget_meanings,
    SparkViewsChanged: Underway._begin_lists,
    ViewsEndangered: Underway._endanger,
    RightsChanged: Underway._suspend_results,
    MeaningsMove: Underway._watch_session,
    TemporaryViewsChanged: Underway._begin_temporary,
    TemporaryViewsDoubted: Underway._doubt_temporary,
    SettingsChanged: Underway._note_settings,
}
_ENDED: Mapping[type[Effect], Callable[[Underway, Any, End], None]] = {
    TablesWritten: Underway._end_write,
    TablesRedefined: Underway._redefine,
    MeaningsChanged: Underway._forget_meanings,
    SparkViewsChanged: Underway._end_lists,
    ViewsEndangered: Underway._end_danger,
    RightsChanged: Underway._resume_results,
    VersionsHeld: Underway._planned,
    QueryAnswered: Underway._answered,
    QueryMissed: Underway._missed,
    QueryUnanswered: Underway._unanswered,
    MeaningsMove: Underway._end_session_watch,
    TemporaryViewsChanged: Underway._end_temporary,
    TemporaryViewLeaves: Underway._end_leaving,
    SettingsChanged: Underway._end_settings,
    OwnSettingsChanged: Underway._set_own,
}
_ENDED_LATE: Mapping[type[Effect], Callable[[Underway, Any], None]] = {
    TablesWritten: Underway._end_write_late,
    ViewsEndangered: Underway._end_danger_late,
    TemporaryViewLeaves: Underway._end_leaving_late,
}
