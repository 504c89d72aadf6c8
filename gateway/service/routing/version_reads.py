"""Reads of a version that need not be the current one: those of transactions, and VERSION | TIMESTAMP AS OF.

The view's name in the statement gives way to the query of the version's rows. What was written for a view that stands
behind one of Spark's own views cannot be reached so, and is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from gateway.errors import FreshgateError, NotAllowed, NotFresh, StatementFailed
from gateway.mv.catalog.index import Catalog
from gateway.mv.model.view import MaterializedView, Version
from gateway.mv.versions.kept import Versions
from gateway.mv.versions.readers import Read, Readers
from gateway.service.clients.session import Session
from gateway.service.clients.transaction import Pin, Transaction
from gateway.service.routing import stale_reads
from gateway.service.routing.long_texts import LongTexts
from sql.grammar.cursor import NOT_SUPPORTED
from sql.names import Namespace, TableName, quote
from sql.reading import time_travel
from sql.reading.time_travel import Travel
from sql.statement import Reference
from sql.texts import maintenance, rewrite
from sql.understood import Understood

TRAVELS_MAX = 100
"""Versions that one statement may name."""
REPLACED_IN = stale_reads.INLINED_IN | {"explain"}
"""First words of statements in which a query may stand in the place of a name."""


@dataclass(frozen=True, slots=True)
class Journey:
    """What a statement reads of earlier versions."""

    known: Understood
    """The statement without its clauses; everything else has kept its place."""
    travels: Mapping[int, tuple[Travel, MaterializedView, Version]]
    """By where the name ends."""
    read: Read
    """Holds the versions; must be released."""

    def splices(self) -> list[rewrite.Splice]:
        """What puts the versions in the place of the mentions. Raises NotAllowed where that is not possible."""
        statement, around = self.known.sparks, self.known.places
        if statement.creates_view is not None:
            raise NotAllowed(
                "A version of a materialized view cannot stand in a view, permanent or not: it goes when nobody reads "
                "it any more. Keep its rows with CREATE TABLE ... AS SELECT.",
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

    def rest(self) -> Understood:
        """The statement with the mentions that are ordinary reads."""
        reads = self.known.sparks.reads
        return self.known.with_reads(tuple(each for each in reads if each.end not in self.travels))


class VersionReads:
    """Chooses versions and holds them."""

    def __init__(self, catalog: Catalog, versions: Versions, readers: Readers) -> None:
        self._catalog = catalog
        self._versions = versions
        self._readers = readers

    # --- VERSION AS OF, TIMESTAMP AS OF ------------------------------------------------------------

    async def journey(
        self, known: Understood, namespace: Namespace, session: Session, texts: LongTexts
    ) -> Journey | None:
        """The earlier versions that a statement names; None where there is none. Tables' clauses stay theirs.

        Raises NoSuchVersion, and what Spark says of an expression that is no time.
        """
        found = [
            (travel, view)
            for travel in known.travels
            if (view := self._catalog.named(TableName.resolve(travel.parts, namespace))) is not None
        ]
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
        # From here on without a pause: what is found must be held before the janitor looks again.
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
        read = self._readers.begin(versions=[(view.id, version.number) for _, view, version in travels.values()])
        rest = time_travel.blanked(known.lexed, [travel for travel, _ in found])
        return Journey(Understood(rest, look=known.look), travels, read)

    def release(self, journey: Journey) -> None:
        """Nobody reads its versions any more."""
        self._readers.release(journey.read)

    # --- transactions ------------------------------------------------------------------------------

    def begin(self, transaction: Transaction, *, everything: bool) -> None:
        """Begins a transaction; `everything`: with the versions of now."""
        transaction.begin()
        if everything:
            self._pin(transaction, (view for view in self._catalog.views() if view.complete))

    def check(self, transaction: Transaction, place: stale_reads.Place, read: stale_reads.Read) -> None:
        """Raises NotAllowed where a read of a transaction cannot be given the versions that it has to see."""
        for view_id in sorted(read.all):
            if (entry := self._catalog.find(view_id)) is None:
                continue
            view, reason = entry.view, None
            if transaction.names.get(view.name, view_id) != view_id:
                reason = "another view has come under its name since the transaction began"
            elif view_id not in read.direct or not place.statement.exact:
                reason = "it is read through a view, or by a name that is put together at run time"
            elif place.known.look.keyword not in REPLACED_IN or place.known.places.disturb(view.name):
                reason = "this statement does not let a query stand in its place"
            if reason is not None:
                raise NotAllowed(
                    f"The materialized view {view.name} cannot be read so in a transaction, or with "
                    f"freshgate.snapshot=session: {reason}. Name {view.name} itself, with an alias for its columns, or "
                    f"end the transaction first.",
                    sqlstate=NOT_SUPPORTED,
                )

    def depart(
        self, transaction: Transaction, epoch: int, place: stale_reads.Place, read: stale_reads.Read
    ) -> tuple[list[rewrite.Splice], Read]:
        """`epoch`: the transaction's, when the statement came.

        The splices that show the transaction's versions of what the statement reads, and the hold on them, which
        must be released. All views that are used for the first time are pinned in one moment."""
        if transaction.epoch != epoch:
            raise FreshgateError(
                "The transaction that this statement belongs to ended while it waited. Run it again.", "25000"
            )
        views = [self._catalog.entry(view_id).view for view_id in sorted(read.direct)]
        self._pin(transaction, views)
        hold = self._readers.begin(versions=[(view.id, transaction.pins[view.id].version.number) for view in views])
        around = place.known.places
        splices = [
            splice
            for view in views
            for splice in _replacements(around, place.mentions(view.name), view, transaction.pins[view.id].version)
        ]
        return splices, hold

    def _pin(self, transaction: Transaction, views: Iterable[MaterializedView]) -> None:
        for view in views:
            if view.id in transaction.pins:
                continue
            if not view.complete:
                raise NotFresh(
                    f"The materialized view {view.name} is not built. REFRESH MATERIALIZED VIEW {view.name}."
                )
            read = self._readers.begin(versions=[(view.id, view.current.number)])
            transaction.names[view.name] = view.id
            transaction.pins[view.id] = Pin(view.current, partial(self._readers.release, read))


async def _milliseconds(expression: str, view: MaterializedView, session: Session, texts: LongTexts) -> int:
    """What a time is in milliseconds since the epoch, as the client's own session reads it."""
    moment = Understood(expression, ours=False)
    await texts.read(moment)
    if "select" in moment.look.words:
        # Spark takes none either, and what it reads would go past the gateway.
        raise FreshgateError(f"TIMESTAMP AS OF for the materialized view {view.name} takes no query.", "42601")
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
    query = f"({maintenance.shown_rows(view.storage, view.columns, version.shown, view.layout)})"
    return [
        splice
        for mention in mentions
        for splice in rewrite.replacement(around, mention, query, quote(mention.parts[-1]))
    ]
