"""Decides whether a statement that may change materialized views may go to Spark, and which views to watch then.

Changes of views that are recognized are refused (`protection`). An unqualified name may be that of a temporary view,
which belongs to its session; the gateway assumes this only if Spark confirms it. Statements that may be misunderstood
are watched by `mv.catalog.confirmation`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator

from gateway.errors import NotAllowed, StatementFailed
from gateway.mv.catalog.confirmation import Confirmation
from gateway.mv.catalog.directories import Directories
from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.pending import ViewsEndangered
from gateway.mv.ports import SqlSession
from gateway.service.clients.context import ORIGIN
from gateway.service.clients.session import Session
from gateway.service.clients.temporary_views import TemporaryViewLeaves
from gateway.service.routing.facts import Facts
from gateway.service.routing.first_words import may_write_after_all
from gateway.service.routing.long_texts import APART_CHARACTERS, LongTexts
from gateway.service.routing.protection import Protection
from gateway.service.routing.ways import Effect, MeaningsMove, RefreshFirst
from gateway.service.routing.written_out import UnknownText, written_out
from sql.names import Namespace, Parts, TableName
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


class Gatekeeper:
    """Checks statements; raises NotAllowed."""

    def __init__(
        self,
        catalog: Catalog,
        directories: Directories,
        confirmation: Confirmation,
        guarded: Callable[[], bool] = lambda: False,
    ) -> None:
        """`guarded`: whether Spark itself refuses changes of what the gateway stores."""
        self._catalog = catalog
        self._confirmation = confirmation
        self._guarded = guarded
        self.texts = LongTexts()
        self.protection = Protection(catalog, directories)

    def may_hide(self, known: Understood) -> bool:
        """Whether a statement that writes may do more than its words show: through a path, or through names that a text
        within the text spells with escapes. A cheap check."""
        if "\\" in known.text and not known.look.words.isdisjoint(RUNNING):
            return True
        return known.may_write_to_path

    # --- temporary views ---------------------------------------------------------------------------

    async def claim(self, session: Session, name: Parts, namespace: Namespace) -> TemporaryViewLeaves | None:
        """Claims that a statement that changes `name` changes a temporary view, although the name could mean a
        materialized view. The claim holds from now on.

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
        claim = TemporaryViewLeaves(name)
        session.temporary.leaving.add(claim)
        return claim

    def effects(self, facts: Facts) -> Iterator[Effect]:
        """Until it has ended, the statement may drop or rename temporary views; materialized views that it may change
        although it was allowed are watched."""
        if facts.claim is not None or (not self._catalog.idle and self._may_drop(facts)):
            yield MeaningsMove()
            yield facts.claim or TemporaryViewLeaves()
        if facts.writes and not self._catalog.idle and (views := self._endangered(facts)):
            yield _danger(facts, views)

    def _may_drop(self, facts: Facts) -> bool:
        statement, look = facts.statement, facts.look
        if statement.exact:
            return look.keyword in CHANGING and statement.drops_database is False
        return facts.writes and not look.words.isdisjoint(RUNNING | CHANGING)

    # --- checks ------------------------------------------------------------------------------------

    async def written_out(self, session: Session, known: Understood) -> Understood:
        """The statement to send: without what is put together when it runs, if it may write. Raises NotAllowed,
        LimitReached, and StatementFailed if Spark cannot evaluate a part of it."""
        if self._catalog.idle or not known.puts_together or not may_write_after_all(known):
            return known
        try:
            found = await written_out(session, known, self.texts)
        except UnknownText:
            if self._guarded():
                return known
            raise
        namespace = await session.resolve_namespace()
        for text in found.runs:
            run = Understood(text, ours=False)
            await self.texts.read(run)
            await self.protection.check(Facts.of(session, namespace, run))
        if found.text == known.text:
            return known
        written = Understood(found.text, ours=False)
        await self.texts.read(written)
        return written

    def check_again(self, first: RefreshFirst) -> None:
        """Before a statement is sent that has waited: its names must mean what they meant when it was checked."""
        facts = first.facts
        if facts.writes and not self._catalog.idle and facts.session.moved != first.moved:
            raise NotAllowed(
                "While the statement waited for a refresh, another statement of this session may have changed the "
                "current database. Run it again.",
                sqlstate="55006",
            )

    # --- what is watched ---------------------------------------------------------------------------

    def must_confirm(self, views: Iterable[str]) -> bool:
        """Whether a read of these views, or of those below them, must wait for `confirm`."""
        return self._confirmation.must_confirm(self._below(views)) if self._confirmation.active else False

    async def confirm(self, views: Iterable[str]) -> None:
        """Returns when these views are as they were published. Raises the error that prevents this from being known."""
        if self._confirmation.active:
            await self._confirmation.confirm(self._below(views))

    def _below(self, views: Iterable[str]) -> frozenset[str]:
        return frozenset[str]().union(*map(self._catalog.reads, views))

    def _endangered(self, facts: Facts) -> list[str]:
        """The ids of the views that the statement may change if it was misunderstood."""
        words, text = facts.look.words, facts.known.text
        views = self._catalog.views()
        runs = not facts.statement.exact and not words.isdisjoint(RUNNING)
        if not runs:
            return [] if words.isdisjoint(REPLACING) else [view.id for view in views if view.name.table in words]
        long = len(text) > APART_CHARACTERS or len(text) * len(views) > LOOKED_FOR_MAX
        if long or facts.known.composes:
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


def _danger(facts: Facts, views: Iterable[str]) -> ViewsEndangered:
    words, session, number = facts.look.words, facts.session, ORIGIN.get().statement
    dresses = not facts.statement.exact or "tblproperties" in words
    by = session.user, session.handle.public_id, number, facts.known.shown
    return ViewsEndangered(frozenset(views), *by, words, dresses)
