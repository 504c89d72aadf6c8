"""Statements that are under way: applies what they do (`ways.Effect`) when they are sent, end, and are closed."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.mv.catalog.guard import Guard
from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.ledger import TablesWritten
from gateway.mv.freshness.pending import ViewsEndangered
from gateway.mv.observation.schemas import Schemas
from gateway.mv.versions.readers import Readers
from gateway.service.clients import aftermath, own_settings
from gateway.service.clients.session import Session
from gateway.service.clients.unseen import Unseen
from gateway.service.operations.operation import End, ForwardedOperation
from gateway.service.results.store import ResultStore
from gateway.service.routing.rewrites import Rewrites
from gateway.service.routing.scope import Scope
from gateway.service.routing.ways import (
    Effect,
    MeaningsChanged,
    MeaningsMove,
    OwnSettingsChanged,
    QueryAnswered,
    RightsChanged,
    RowsCollectedInParts,
    Send,
    SettingsChanged,
    SparkViewsChanged,
    TablesRedefined,
    TemporaryViewLeaves,
    TemporaryViewsChanged,
    TemporaryViewsSuspected,
    VersionsHeld,
)
from sql.mentioned import Mentioned


class Effects:
    """Where the effects of statements take place."""

    def __init__(
        self,
        catalog: Catalog,
        schemas: Schemas,
        guard: Guard,
        scope: Scope,
        rewrites: Rewrites,
        readers: Readers,
        results: ResultStore,
    ) -> None:
        self.catalog = catalog
        self.schemas = schemas
        self.guard = guard
        self.scope = scope
        self.rewrites = rewrites
        self.readers = readers
        self.results = results

    def begin(self, session: Session, send: Send) -> Underway:
        """The statement is decided. From now on the caller must tell what becomes of it."""
        return Underway(self, session, send)

    def drop(self, session: Session, effects: Iterable[Effect]) -> None:
        """A decision is not followed: gives back what it holds already."""
        for effect in effects:
            match effect:
                case TemporaryViewLeaves():
                    session.temporary.leaving.discard(effect)
                case VersionsHeld(read):
                    self.readers.release(read)

    def forget_meanings(self, named: Mentioned) -> None:
        self.schemas.forget_named(named)
        self.rewrites.forget(named)


class Underway:
    """One statement, from its decision until its rows can no longer be fetched. Each event counts once."""

    __slots__ = ("_closed", "_ended", "_late", "_sent", "_session", "_to", "send", "unseen")

    def __init__(self, to: Effects, session: Session, send: Send) -> None:
        self.send = send
        self.unseen: Unseen | None = None
        """Set if other statements need to know when it has ended."""
        self._to = to
        self._session = session
        self._late: aftermath.Late = aftermath.soon
        self._sent = self._ended = self._closed = False
        for effect in send.effects:
            self._begin(effect)

    # --- events ------------------------------------------------------------------------------------

    def departs(self, send: Send) -> None:
        """It is about to be sent after a wait, which may have added effects that hold something."""
        self.send = send

    def sent(self, late: aftermath.Late = aftermath.soon) -> None:
        """Spark gets it now. `late` calls back when a statement whose end was not seen can no longer take effect."""
        self._late, self._sent = late, True
        for effect in self.send.effects:
            self._send(effect)

    def started(self, operation: ForwardedOperation) -> None:
        """Spark runs it as this operation, which tells its end and its close."""
        if self.unseen is not None:
            self.unseen.started(operation)
        if self.send.effects:
            operation.underway, operation.runs_others = self, self.send.runs_others

    def ended(self, end: End) -> None:
        if self._ended:
            return
        self._ended = True
        if self.unseen is not None:
            self.unseen.end(end)
        effects = self.send.effects
        for effect in effects:
            self._end(effect, end)
        # Its texts may be long, and its rows may be fetched for hours.
        self.send = Send(effects=tuple(effect for effect in effects if isinstance(effect, VersionsHeld)))

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

    # --- effects -----------------------------------------------------------------------------------

    def _begin(self, effect: Effect) -> None:
        match effect:
            case TablesWritten():
                self._to.catalog.writes.begin(effect, self._watched())
            case SparkViewsChanged(_, lists=True):
                self._watched()
            case MeaningsMove(moves, words, use):
                unseen = self._watched()
                if moves:
                    unseen.moves, unseen.words, unseen.used = True, words, use
            case TemporaryViewLeaves():
                self._session.temporary.leaving.add(effect)
            case RowsCollectedInParts():
                self._session.collects_in_parts = True

    def _watched(self) -> Unseen:
        if self.unseen is None:
            self.unseen = Unseen(self._session.spare)
        return self.unseen

    def _send(self, effect: Effect) -> None:
        to, session = self._to, self._session
        match effect:
            case TablesWritten():
                to.catalog.writes.send(effect)
            case TablesRedefined(tables):
                to.schemas.forget(tables)
            case MeaningsChanged(named):
                to.forget_meanings(named)
            case SparkViewsChanged(databases, lists=True) if self.unseen is not None:
                to.scope.begin_change(self.unseen, databases)
            case ViewsEndangered():
                to.guard.begin(effect)
            case RightsChanged():
                to.results.suspend(effect)
            case _:
                self._send_in(session, effect)

    def _send_in(self, session: Session, effect: Effect) -> None:
        """What concerns only the session."""
        match effect:
            case MeaningsMove() if self.unseen is not None:
                session.watch(self.unseen)
            case TemporaryViewsChanged(among, change):
                among.begin(change)
            case TemporaryViewsSuspected(among, names, reads):
                for name in names:
                    among.suspect(name, reads)
            case SettingsChanged(text, constant):
                session.settings.note(text, constant=constant, change=effect)

    def _end(self, effect: Effect, end: End) -> None:
        to, session = self._to, self._session
        match effect:
            case TablesWritten():
                self._end_write(effect, end)
            case TablesRedefined(tables):
                to.schemas.forget(tables)
            case MeaningsChanged(named):
                to.forget_meanings(named)
            case SparkViewsChanged(databases, _):
                to.scope.end_change(self.unseen, databases)
            case ViewsEndangered() if self._sent:
                self._end_danger(effect, end)
            case RightsChanged():
                to.results.resume(effect)
            case VersionsHeld(read) if read.views:
                to.readers.planned(read)
            case QueryAnswered(hit, query, words) if end is End.SUCCEEDED:
                to.rewrites.succeeded(session, words, query, hit)
            case _:
                self._end_in(session, effect, end)

    def _end_in(self, session: Session, effect: Effect, end: End) -> None:
        match effect:
            case MeaningsMove() if self.unseen is not None:
                session.ended(self.unseen, end)
            case TemporaryViewsChanged(among, change):
                among.end(change, end)
            case TemporaryViewLeaves() if end is End.UNKNOWN:
                self._late(lambda: session.temporary.leaving.discard(effect))
            case TemporaryViewLeaves():
                session.temporary.leaving.discard(effect)
            case SettingsChanged():
                session.settings.ended(effect, certainly=end is End.SUCCEEDED)
            case OwnSettingsChanged(values) if end is End.SUCCEEDED:
                own_settings.apply(session, values)

    def _end_write(self, write: TablesWritten, end: End) -> None:
        writes = self._to.catalog.writes
        if end is End.REFUSED:
            writes.forget(write)
        elif end is End.UNKNOWN:
            writes.lose(write)
            self._late(lambda: writes.end(write))
        else:
            writes.end(write)

    def _end_danger(self, effect: ViewsEndangered, end: End) -> None:
        guard = self._to.guard
        guard.end(effect, surely=end is not End.UNKNOWN)
        if end is End.UNKNOWN:
            self._late(lambda: guard.end(effect))
