"""Every way that a statement can go (`Way`), and everything that it does besides (`Effect`).

These are values: `router` decides them, `underway` applies the effects. A statement that is refused goes no way:
deciding it raises FreshgateError.

Tests: `test_router`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

from gateway.mv.freshness.ledger import TablesWritten
from gateway.mv.freshness.pending import ViewsEndangered
from gateway.mv.rewriting.partly_stale import Mixture
from gateway.mv.rewriting.usage import Usage, WhyMissed
from gateway.mv.rewriting.verdicts import ProvedAnswer, ShapeKey
from gateway.mv.versions.readers import Read
from gateway.service.clients.audit import NOTHING, Mentions
from gateway.service.clients.setting_rules import SettingRules
from gateway.service.clients.temporary_views import TemporaryViewLeaves, TemporaryViews, UncertainChange, Underlying
from gateway.service.routing.facts import Facts, ViewsRead
from sql.mentioned import Mentioned
from sql.names import Namespace, TableName
from sql.statement import Command
from sql.texts.rewrite import Splice
from sql.understood import Understood
from sql.words import Words

# --- what a statement does -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class TablesRedefined:
    """It may change the columns of these tables."""

    tables: frozenset[TableName]


@dataclass(frozen=True, slots=True, eq=False)
class MeaningsChanged:
    """It may change what these names mean, or what users may see of them: proofs of how views answer queries on them no
    longer hold."""

    named: Mentioned


@dataclass(frozen=True, slots=True, eq=False)
class SparkViewsChanged:
    """It may create, change or drop Spark views or functions in these databases, or the databases. `lists`: also the
    lists of views, so that a statement on one of the databases must know whether this one has ended."""

    databases: frozenset[str]
    lists: bool


@dataclass(frozen=True, slots=True, eq=False)
class RightsChanged:
    """It may change what users may see: no result is answered from memory until it has ended."""


@dataclass(frozen=True, slots=True, eq=False)
class MeaningsMove:
    """It may change what names mean in its session, or a setting that the gateway uses: the session's next statement
    waits for its outcome."""

    moves: bool = False
    """Whether it may change the current database or catalog."""
    words: Words = frozenset()
    """Its identifiers, if it moves."""
    use: str = ""
    """Its text, if that begins with USE."""


@dataclass(frozen=True, slots=True, eq=False)
class TemporaryViewsChanged:
    """It creates or drops temporary views or functions."""

    among: TemporaryViews
    change: UncertainChange


@dataclass(frozen=True, slots=True, eq=False)
class TemporaryViewsDoubted:
    """It may create temporary views or functions with these folded names; an empty name stands for any."""

    among: TemporaryViews
    names: frozenset[str]
    reads: Underlying


@dataclass(frozen=True, slots=True, eq=False)
class SettingsChanged:
    """It may change settings of its session. `constant`: to values that are in its text."""

    text: str
    constant: bool


@dataclass(frozen=True, slots=True, eq=False)
class OwnSettingsChanged:
    """It gives settings of the gateway's these values, if it succeeds."""

    values: Mapping[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class RowsCollectedInParts:
    """It may have Spark compute the session's rows only when they are fetched."""


@dataclass(frozen=True, slots=True, eq=False)
class VersionsHeld:
    """It keeps versions of views from being dropped, from its decision until its rows can no longer be fetched."""

    read: Read


@dataclass(frozen=True, slots=True, eq=False)
class QueryAnswered:
    """A text on a view answers the query: if that succeeds, the answer may be compared with the query's own."""

    hit: Hit
    query: str
    words: Words


@dataclass(frozen=True, slots=True, eq=False)
class QueryMissed:
    """No view that takes part answers the query."""

    reason: WhyMissed
    usage: Usage
    timed: bool = True
    """False: its time would contain that of a refresh."""


@dataclass(frozen=True, slots=True, eq=False)
class QueryUnanswered:
    """No view answers the query, for which views may be suggested."""

    text: str
    namespace: Namespace
    user: str


Effect = (
    TablesWritten
    | TablesRedefined
    | MeaningsChanged
    | SparkViewsChanged
    | ViewsEndangered
    | RightsChanged
    | MeaningsMove
    | TemporaryViewsChanged
    | TemporaryViewsDoubted
    | TemporaryViewLeaves
    | SettingsChanged
    | OwnSettingsChanged
    | RowsCollectedInParts
    | VersionsHeld
    | QueryAnswered
    | QueryMissed
    | QueryUnanswered
)


# --- ways ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RepeatableRead:
    """What decides the rows of a read, apart from its session's settings."""

    text: str
    namespace: Namespace
    versions: tuple[tuple[str, str, int], ...]
    """The materialized views that it reads, in order: id, name and version; then the base tables, whose rows are in
    memory. It reads nothing else. (Two views may exchange their names, and both keep their versions.)"""
    changes: int
    """How many statements its session had sent that may change what names mean, when this was determined."""
    reads_tables: bool = False
    """Whether it reads base tables, too."""

    @property
    def views(self) -> frozenset[str]:
        return frozenset(view for view, _, _ in self.versions)


@dataclass(frozen=True, slots=True)
class Send:
    """Spark gets the statement."""

    text: str | None = None
    """In place of the client's; None: the client's own."""
    effects: tuple[Effect, ...] = ()
    mentions: Mentions = NOTHING
    runs_others: bool = False
    """Whether the text may run other statements. If such a text fails, part of it may have been executed."""
    source: RepeatableRead | str = "it reads no materialized view"
    """What its answer depends on, if on nothing else; otherwise why that is not known."""
    notes: tuple[str, ...] = ()
    """What the operation's log tells the client first."""

    @property
    def repeatable(self) -> RepeatableRead | None:
        """What its answer depends on, if it may be answered from memory."""
        return None if isinstance(self.source, str) else self.source


class UnknownTables(str):
    """Why it is not known what an answer depends on: base tables, which are not in memory."""

    __slots__ = ("tables", "versions")
    tables: frozenset[TableName]
    versions: tuple[tuple[str, str, int], ...]
    """Of the materialized views, as in RepeatableRead."""

    @classmethod
    def of(cls, reason: str, tables: frozenset[TableName], versions: tuple[tuple[str, str, int], ...]) -> Self:
        made = cls(reason)
        made.tables, made.versions = tables, versions
        return made


UNCHANGED = Send()
"""Spark gets the client's own text, which does nothing that the gateway must know."""


@dataclass(frozen=True, slots=True)
class RefreshFirst:
    """Spark gets the statement once the views that it reads are fresh: `reads.Reads.prepare` makes the Send."""

    facts: Facts
    read: ViewsRead
    send: Send
    """As far as known."""
    splices: Sequence[Splice]
    """What has changed in its text so far."""
    transaction: int | None
    """The epoch of the transaction, which sees one version of each view; None if there is none."""
    moved: int
    """How often the session's names had moved when the statement was checked."""
    guessed: bool
    """Whether it is composed and Spark does not tell what it reads."""
    foreign: frozenset[str] = frozenset()
    """The views whose definitions would read other rows in this session."""
    withheld: Mapping[str, str] = field(default_factory=dict)
    """The views whose stored rows its user is not shown, by id, each with the reason."""

    @property
    def unpinned(self) -> ViewsRead:
        """The views that must be fresh: in a transaction, those that it has not used before."""
        known = self.facts.session.transaction.pins.keys() if self.transaction is not None else frozenset()
        return replace(self.read, direct=self.read.direct - known)


@dataclass(frozen=True, slots=True)
class Hit:
    """A text that answers a query from a view."""

    key: ShapeKey
    answer: ProvedAnswer
    text: str
    """It reads the view by its name."""
    usage: Usage
    mixture: Mixture | None = None
    """If only some of the view's partitions are stale: these are computed anew."""
    mixed: str = ""
    """The text for Spark in that case."""


@dataclass(frozen=True, slots=True)
class FromView:
    """Spark gets a text on a view that the client did not name. If it fails before its first row, the client's own text
    goes instead (`router.Router.own_text`)."""

    send: Send
    hit: Hit
    query: Understood
    """The client's own."""


@dataclass(frozen=True, slots=True)
class ListDatabases:
    """SHOW DATABASES without the storage database."""

    text: str


@dataclass(frozen=True, slots=True)
class ListSettings:
    """SET without the settings that the rules hide."""

    text: str
    rules: SettingRules


@dataclass(frozen=True, slots=True)
class ListNames:
    """SHOW TABLES or SHOW VIEWS whose client reads the first column."""

    text: str


@dataclass(frozen=True, slots=True)
class Own:
    """The gateway executes it (`router.Router.execute`)."""

    statement: Command | ListDatabases | ListSettings | ListNames


Sent = Send | RefreshFirst | FromView
Way = Sent | Own


def sent(way: Sent) -> Send:
    """What Spark gets."""
    return way if isinstance(way, Send) else way.send


W = TypeVar("W", bound=Sent)


def doing(way: W, *effects: Effect) -> W:
    """The same way with these effects as well."""
    return changed(way, effects=(*sent(way).effects, *effects))


def changed(way: W, **changes: Any) -> W:
    """The same way with other values of the fields of `Send`."""
    if isinstance(way, Send):
        return replace(way, **changes)
    return replace(way, send=replace(way.send, **changes))
