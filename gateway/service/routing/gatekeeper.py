"""Decides whether a statement that may change materialized views may go to Spark, and which views to watch then.

Changes of views that are recognized are refused (`protection`). An unqualified name may be that of a temporary view,
which belongs to its session; the gateway assumes this only if Spark confirms it. Statements that may be misunderstood
are watched by `mv.catalog.guard`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from gateway.errors import NotAllowed, StatementFailed
from gateway.mv.catalog.directories import Directories
from gateway.mv.catalog.guard import Guard
from gateway.mv.catalog.index import Catalog
from gateway.mv.catalog.watches import Suspect, Watch
from gateway.mv.ports import SqlSession
from gateway.service.clients.context import ORIGIN
from gateway.service.clients.session import Session
from gateway.service.operations.operation import End
from gateway.service.routing.first_words import may_write_after_all
from gateway.service.routing.long_texts import APART_CHARACTERS, LongTexts
from gateway.service.routing.outcomes import Route
from gateway.service.routing.protection import Protection
from gateway.service.routing.scope import watch
from gateway.service.routing.written_out import Untold, written_out
from sql.names import Namespace, TableName
from sql.reading import paths
from sql.statement import Parts
from sql.texts import maintenance
from sql.understood import Understood

CHANGING = frozenset({"drop", "alter"})
REPLACING = CHANGING | {"replace"}
RUNNING = frozenset({"immediate", "begin"})
"""Words of statements that run other statements."""
LOOKED_FOR_MAX = 20_000_000
"""The maximum of characters times views; searching for each name then takes a few milliseconds."""
_BETWEEN = re.compile(r"""[\s\\'"`|]+""")
"""What may separate the letters of a word in a text that is built from strings."""


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """A statement that drops or alters a temporary view. The name is empty if it is unknown."""

    name: Parts


@dataclass(frozen=True, slots=True)
class Subject:
    """A statement that is about to be sent. `writes`: it may write."""

    session: Session
    namespace: Namespace
    known: Understood
    writes: bool
    temporary: Parts | None = None
    """The name of a temporary view that it changes, if this is certain."""


class Gatekeeper:
    """Checks statements; raises NotAllowed."""

    def __init__(
        self, catalog: Catalog, directories: Directories, guard: Guard, guarded: Callable[[], bool] = lambda: False
    ) -> None:
        """`guarded`: whether Spark itself refuses changes of what the gateway stores."""
        self._catalog = catalog
        self._guard = guard
        self._guarded = guarded
        self.texts = LongTexts()
        self._protection = Protection(catalog, directories)

    def may_hide(self, known: Understood) -> bool:
        """Whether a statement that writes may do more than its words show: through a path, or through names that a text
        within the text spells with escapes. A cheap check."""
        if "\\" in known.text and not known.look.words.isdisjoint(RUNNING):
            return True
        return known.may_write_to_path

    # --- temporary views ---------------------------------------------------------------------------

    async def claim(self, session: Session, name: Parts, namespace: Namespace) -> Claim | None:
        """Claims that a statement that changes `name` changes a temporary view, although the name could mean a
        materialized view. The caller must `note` or discard the claim.

        Spark prefers a temporary view. It is asked whether it has one with this name just before the statement is sent,
        and no other statement of the session may drop it in between.
        """
        if len(name) != 1 or self._catalog.named(TableName.resolve(name, namespace)) is None:
            return None
        if session.temporary.leaving:
            await session.settle()
        if not await takes_temporary(await session.sql(), name[0]):
            return None
        if session.temporary.leaving:
            raise NotAllowed(
                f"{name[0]} is a temporary view and a materialized view. Another statement of this session may drop "
                f"the temporary view and has not ended; this statement could then change the materialized view. Run it "
                f"again when the other statement has ended.",
                sqlstate="55006",
            )
        claim = Claim(name)
        session.temporary.leaving.add(claim)
        return claim

    def note(self, subject: Subject, claim: Claim | None, route: Route) -> None:
        """Until it has ended, the statement may drop or rename temporary views."""
        session = subject.session
        if claim is None:
            if self._catalog.idle or not self._may_drop(subject):
                return
            claim = Claim(())
            session.temporary.leaving.add(claim)
        watch(route, session)
        route.ends.append(partial(_dropped, route, session, claim))

    def _may_drop(self, subject: Subject) -> bool:
        statement, look = subject.known.sparks, subject.known.look
        if statement.exact:
            return look.keyword in CHANGING and statement.drops_database is False
        return subject.writes and not look.words.isdisjoint(RUNNING | CHANGING)

    # --- checks ------------------------------------------------------------------------------------

    async def written_out(self, session: Session, known: Understood) -> Understood:
        """The statement to send: without what is put together when it runs, if it may write. Raises NotAllowed,
        LimitReached, and StatementFailed if Spark cannot evaluate a part of it."""
        if self._catalog.idle or not known.puts_together or not may_write_after_all(known):
            return known
        try:
            found = await written_out(session, known, self.texts)
        except Untold:
            if self._guarded():
                return known
            raise
        namespace = await session.resolve_namespace()
        for text in found.runs:
            run = Understood(text, ours=False)
            await self.texts.read(run)
            await self.check(Subject(session, namespace, run, may_write_after_all(run)))
        if found.text == known.text:
            return known
        written = Understood(found.text, ours=False)
        await self.texts.read(written)
        return written

    async def check(self, subject: Subject) -> None:
        """Checks that the statement, as far as it is understood, changes no materialized view and no storage."""
        known, session = subject.known, subject.session
        statement = known.sparks
        adrift = session.namespace_uncertain
        names = [parts for parts in statement.writes if parts != subject.temporary]
        self._protection.check(known, names, subject.namespace, adrift=adrift, writes=subject.writes)
        if self._catalog.idle or not subject.writes:
            return
        if not statement.exact:
            await self._protection.check_within(known, subject.namespace, adrift=adrift)
        await self._protection.check_paths(known.paths, names)

    def keep(self, subject: Subject, route: Route) -> None:
        """If the statement waits before it is sent, its names must then mean what they meant when it was checked."""
        if subject.writes and not self._catalog.idle:
            route.check = partial(_unmoved, subject.session, subject.session.moved)

    async def check_location(self, location: str) -> None:
        """Checks the location of a materialized view that is to be created. Several views may have one location: each
        stores its files in a directory of its own below it."""
        await self._protection.check_paths(paths.Paths(loose={location}), ())

    # --- what is watched ---------------------------------------------------------------------------

    def watch(self, subject: Subject, route: Route) -> None:
        """Starts to watch, when the statement is sent, the views that it may change although it was allowed."""
        if self._catalog.idle or not subject.writes or not (views := self._endangered(subject)):
            return
        known, session = subject.known, subject.session
        words, number = known.look.words, ORIGIN.get().statement
        dresses = not known.sparks.exact or "tblproperties" in words
        suspect = Suspect(session.user, session.handle.public_id, number, known.shown, words, dresses)
        route.sends.append(lambda: self._begin(suspect, views, route))

    def _begin(self, suspect: Suspect, views: Iterable[str], route: Route) -> None:
        route.ends.append(partial(self._ended, route, self._guard.begin(suspect, views)))

    def _ended(self, route: Route, watch: Watch, end: End) -> None:
        self._guard.end(watch, surely=end is not End.UNKNOWN)
        if end is End.UNKNOWN:
            route.late(partial(self._guard.end, watch))

    def watches(self, views: Iterable[str]) -> bool:
        """Whether a read of these views, or of those below them, must wait for `confirm`."""
        return self._guard.watches(self._below(views)) if self._guard.active else False

    async def confirm(self, views: Iterable[str]) -> None:
        """Returns when these views are as they were published. Raises the error that prevents this from being known."""
        if self._guard.active:
            await self._guard.confirm(self._below(views))

    def _below(self, views: Iterable[str]) -> frozenset[str]:
        return frozenset[str]().union(*map(self._catalog.reads, views))

    def _endangered(self, subject: Subject) -> list[str]:
        """The ids of the views that the statement may change if it was misunderstood."""
        words, text = subject.known.look.words, subject.known.text
        views = self._catalog.views()
        runs = not subject.known.sparks.exact and not words.isdisjoint(RUNNING)
        if not runs:
            return [] if words.isdisjoint(REPLACING) else [view.id for view in views if view.name.table in words]
        long = len(text) > APART_CHARACTERS or len(text) * len(views) > LOOKED_FOR_MAX
        if long or subject.known.composes:
            return [view.id for view in views]
        joined = _BETWEEN.sub("", text.upper().lower())
        if not any(word in joined for word in REPLACING):
            return []
        return [view.id for view in views if view.name.table in joined]


async def takes_temporary(session: SqlSession, name: str) -> bool:
    """Whether an unqualified name means a temporary view to Spark, asked in the session itself."""
    try:
        answer = await session.run(maintenance.describe_bare(name))
        return maintenance.is_of_session(json.loads(answer.rows[0][0]))
    except (StatementFailed, ValueError, LookupError):
        return False


def _unmoved(session: Session, moved: int) -> None:
    if session.moved != moved:
        raise NotAllowed(
            "While the statement waited for a refresh, another statement of this session may have changed the current "
            "database. Run it again.",
            sqlstate="55006",
        )


def _dropped(route: Route, session: Session, claim: Claim, end: End) -> None:
    if end is End.UNKNOWN:
        route.late(partial(session.temporary.leaving.discard, claim))
    else:
        session.temporary.leaving.discard(claim)
