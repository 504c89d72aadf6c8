"""Reads of selected versions: in transactions, and with VERSION AS OF or TIMESTAMP AS OF.

The query of the version's rows replaces the view's name in the statement. This is impossible for a view that is read
through a Spark view, so such a read is refused.

Tests: `test_time_travel`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from gateway.errors import FreshgateError, NotAllowed, NotFresh, StatementFailed
from gateway.mv.catalog.index import Catalog
from gateway.mv.concurrency import gathered
from gateway.mv.model.contents import NEVER_BUILT
from gateway.mv.model.view import MaterializedView, Version
from gateway.mv.observation.inspection import Inspector
from gateway.mv.versions.kept import VersionLookup
from gateway.mv.versions.readers import Readers
from gateway.service.clients.session import Session
from gateway.service.clients.transaction import Pin, Transaction
from gateway.service.clients.visibility import StoredRows
from gateway.service.routing.facts import Facts, ViewsRead
from gateway.service.routing.long_texts import LongTexts
from gateway.service.routing.stale_reads import INLINED_IN
from gateway.service.routing.ways import VersionsHeld
from sql.grammar.cursor import NOT_SUPPORTED
from sql.names import Namespace, TableName, quote
from sql.reading import time_travel
from sql.reading.time_travel import Travel
from sql.statement import Reference
from sql.texts import public_view, rewrite
from sql.understood import Understood

TRAVELS_MAX = 100
"""The maximum number of versions that a statement may name."""
REPLACED_IN = INLINED_IN | {"explain"}
"""First words of statements in which a query can replace a name."""


@dataclass(frozen=True, slots=True)
class TimeTravel:
    """The earlier versions that a statement reads."""

    known: Understood
    """The statement with blanks in place of the clauses."""
    travels: Mapping[int, tuple[Travel, MaterializedView, Version]]
    """By the end of the name."""
    held: VersionsHeld
    """Keeps the versions."""

    def splices(self) -> list[rewrite.Splice]:
        """The splices that replace the mentions by the versions. Raises NotAllowed if that is not possible."""
        statement, around = self.known.sparks, self.known.places
        if statement.creates_view is not None:
            raise NotAllowed(
                "A view, permanent or temporary, cannot read a version of a materialized view, because the version is "
                "dropped when nobody reads it any more. Keep its rows with CREATE TABLE ... AS SELECT.",
                sqlstate=NOT_SUPPORTED,
            )
        mentions = {reference.end: reference for reference in statement.reads}
        found = []
        for end, (travel, view, version) in self.travels.items():
            mention = mentions.get(end)
            if mention is None or not statement.exact or around.disturb(view.name):
                raise NotAllowed(
                    f"The version of {view.name} cannot be read in this statement. Read it in a subquery, "
                    f"(SELECT * FROM {view.name} VERSION AS OF {version.number}) AS v, and qualify columns by v.",
                    sqlstate=NOT_SUPPORTED,
                )
            whole = Reference(mention.parts, mention.start, travel.end, mention.aliased)
            found += _replacements(around, [whole], view, version)
        return found

    @property
    def ids(self) -> frozenset[str]:
        """The ids of the views."""
        return frozenset(view.id for _, view, _ in self.travels.values())

    @property
    def views(self) -> frozenset[TableName]:
        return frozenset(view.name for _, view, _ in self.travels.values())

    def rest(self) -> Understood:
        """The statement with only the mentions that are ordinary reads."""
        reads = self.known.sparks.reads
        return self.known.with_reads(tuple(each for each in reads if each.end not in self.travels))


class VersionReads:
    """Chooses versions and keeps them while they are read."""

    def __init__(
        self, catalog: Catalog, versions: VersionLookup, readers: Readers, inspector: Inspector, stored: StoredRows
    ) -> None:
        self._catalog = catalog
        self._inspector = inspector
        self._versions = versions
        self._readers = readers
        self._stored = stored

    # --- VERSION AS OF, TIMESTAMP AS OF ------------------------------------------------------------

    def _travelled(self, known: Understood, namespace: Namespace) -> list[tuple[Travel, MaterializedView]]:
        """The views of which the statement names versions."""
        named = ((each, self._catalog.named(TableName.resolve(each.parts, namespace))) for each in known.travels)
        return [(travel, view) for travel, view in named if view is not None]

    async def time_travel(
        self, known: Understood, namespace: Namespace, session: Session, texts: LongTexts
    ) -> TimeTravel | None:
        """The earlier versions of views that a statement names; None if there are none. Clauses of tables are kept.

        Raises NoSuchVersion, NotFresh for a version whose stored rows were changed, NotAllowed if Spark shows the user
        other rows of the view than are stored, or Spark's error for an expression that is not a time.
        """
        found = self._travelled(known, namespace)
        await self._inspector.read_drafted([view.id for _, view in found])
        found = self._travelled(known, namespace)
        if not found:
            return None
        (_, view), *_ = found
        if len(found) > TRAVELS_MAX:
            raise NotAllowed(f"The statement names more than {TRAVELS_MAX} versions. Use fewer.", "54001")
        if (keyword := known.look.keyword) not in REPLACED_IN:
            raise NotAllowed(f"{view.name} cannot be read as of a version in a {keyword.upper()}.", NOT_SUPPORTED)
        moments = {
            travel.start: await _milliseconds(travel.moment, view, session, texts)
            for travel, view in found
            if travel.version is None
        }
        await self._stored.check(session, {view.id for _, view in found})
        # No await from here on: the janitor must not drop a version between `at` and `begin`.
        travels = {
            travel.name_end: (
                travel,
                view,
                self._versions.at(view, moments[travel.start])
                if travel.version is None
                else self._versions.numbered(view, travel.version),
            )
            for travel, view in found
        }
        for _, view, version in travels.values():
            _check_reader(view, version)
        read = self._readers.begin(versions=[(view.id, version.number) for _, view, version in travels.values()])
        try:
            await gathered(self._inspector.check_version(view, version) for _, view, version in travels.values())
        except BaseException:  # Also on cancellation.
            self._readers.release(read)
            raise
        rest = time_travel.blanked(known.lexed, [travel for travel, _ in found])
        return TimeTravel(Understood(rest, look=known.look), travels, VersionsHeld(read))

    # --- transactions ------------------------------------------------------------------------------

    def begin(self, transaction: Transaction, *, everything: bool) -> None:
        """Begins a transaction. `everything`: it sees the current version of every view."""
        transaction.begin()
        if everything:
            self._pin(transaction, (view for view in self._catalog.views() if view.complete))

    def check(self, transaction: Transaction, facts: Facts, read: ViewsRead) -> None:
        """Raises NotAllowed if a read in a transaction cannot be given the versions that the transaction sees."""
        for view_id in sorted(read.all):
            if (entry := self._catalog.find(view_id)) is None:
                continue
            view, reason = entry.view, None
            if transaction.names.get(view.name, view_id) != view_id:
                reason = "its name belongs to another view since the transaction began"
            elif view_id not in read.direct or not facts.statement.exact:
                reason = "it is read through a view, or by a name that is built at run time"
            elif facts.known.look.keyword not in REPLACED_IN or facts.known.places.disturb(view.name):
                reason = "a query cannot replace its name in this statement"
            if reason is not None:
                raise NotAllowed(
                    f"The materialized view {view.name} cannot be read in this way in a transaction, or with "
                    f"freshgate.snapshot=session: {reason}. Name {view.name} directly, with an alias for its columns, "
                    f"or end the transaction first.",
                    sqlstate=NOT_SUPPORTED,
                )

    def due(self, session: Session, read: ViewsRead) -> bool:
        """Whether `look` would have to ask Spark, or would raise."""
        if not self._stored.are_known(session, read.direct):
            return True
        return any(self._inspector.version_due(*pinned) for pinned in self._pinned(session.transaction, read))

    async def look(self, session: Session, read: ViewsRead) -> None:
        """Looks at the stored rows of the transaction's versions. Raises NotFresh if they were changed, and NotAllowed
        if Spark shows the session's user others."""
        await self._stored.check(session, read.direct)
        await gathered(self._inspector.check_version(*pinned) for pinned in self._pinned(session.transaction, read))

    def _pinned(self, transaction: Transaction, read: ViewsRead) -> list[tuple[MaterializedView, Version]]:
        return [
            (entry.view, pin.version)
            for view_id in sorted(read.direct)
            if (pin := transaction.pins.get(view_id)) is not None and (entry := self._catalog.find(view_id)) is not None
        ]

    def depart(
        self, transaction: Transaction, epoch: int, facts: Facts, read: ViewsRead
    ) -> tuple[list[rewrite.Splice], VersionsHeld]:
        """Returns the splices that replace the views by the transaction's versions, and what keeps these. Views that
        the transaction uses for the first time are all pinned at the same moment. `epoch`: the transaction's when the
        statement arrived."""
        if transaction.epoch != epoch:
            raise FreshgateError(
                "The transaction of this statement ended while the statement waited. Run it again.", "25000"
            )
        views = [self._catalog.entry(view_id).view for view_id in sorted(read.direct)]
        self._pin(transaction, views)
        hold = self._readers.begin(versions=[(view.id, transaction.pins[view.id].version.number) for view in views])
        around = facts.known.places
        splices = [
            splice
            for view in views
            for splice in _replacements(around, facts.mentions(view.name), view, transaction.pins[view.id].version)
        ]
        return splices, VersionsHeld(hold)

    def _pin(self, transaction: Transaction, views: Iterable[MaterializedView]) -> None:
        for view in views:
            if view.id in transaction.pins:
                continue
            if not view.complete:
                raise NotFresh(
                    f"The materialized view {view.name} is not built. Run REFRESH MATERIALIZED VIEW {view.name}."
                )
            read = self._readers.begin(versions=[(view.id, view.current.number)])
            transaction.names[view.name] = view.id
            transaction.pins[view.id] = Pin(view.current, partial(self._readers.release, read))


def _check_reader(view: MaterializedView, version: Version) -> None:
    """Raises NotAllowed if the rows of the version were read with another user's rights than the view has now."""
    if version.number != NEVER_BUILT and version.read_as != view.refreshed_as:
        raise NotAllowed(
            f"Version {version.number} of the materialized view {view.name} is not shown any more: its rows were read "
            f"in the name of {version.read_as or 'the gateway'}, before the view was altered. Read a later version.",
            sqlstate="42501",
        )


async def _milliseconds(expression: str, view: MaterializedView, session: Session, texts: LongTexts) -> int:
    """The time in milliseconds since the epoch, as evaluated in the client's session."""
    moment = Understood(expression, ours=False)
    await texts.read(moment)
    if "select" in moment.look.words:
        # Spark refuses subqueries here, too, and the gateway would not know what they read.
        raise FreshgateError(f"TIMESTAMP AS OF for the materialized view {view.name} cannot be a query.", "42601")
    try:
        ((found,),) = (
            await (await session.sql()).run(f"SELECT unix_millis(CAST(({expression}) AS TIMESTAMP_LTZ))")
        ).rows
    except StatementFailed as error:
        raise FreshgateError(
            f"TIMESTAMP AS OF for the materialized view {view.name} needs a time.", error.sqlstate, str(error)
        ) from error
    if found is None:
        raise FreshgateError(f"TIMESTAMP AS OF for the materialized view {view.name} is NULL. Give a time.", "22004")
    return int(found)


def _replacements(
    around: rewrite.Places, mentions: Sequence[Reference], view: MaterializedView, version: Version
) -> list[rewrite.Splice]:
    query = f"({public_view.shown_rows(view.storage, view.columns, version.shown, view.layout)})"
    return [
        splice
        for mention in mentions
        for splice in rewrite.replacement(around, mention, query, quote(mention.parts[-1]))
    ]
