"""The outcomes of routing: a statement goes to Spark at once or later, or the gateway executes it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from gateway.errors import FreshgateError
from gateway.mv.refresh.progress import Report
from gateway.service.clients import aftermath
from gateway.service.clients.audit import NOTHING, Mentions
from gateway.service.clients.unseen import Unseen
from gateway.service.operations.operation import End, Result
from sql.names import Namespace


@dataclass(frozen=True, slots=True)
class Source:
    """What decides the rows of a read, apart from its session's settings."""

    text: str
    namespace: Namespace
    versions: tuple[tuple[str, str, int], ...]
    """The materialized views that it reads, in order: id, name and version. It reads nothing else. (Two views may
    exchange their names, and both keep their versions.)"""
    changes: int
    """How many statements its session had sent that may change what names mean, when this was found out."""

    @property
    def views(self) -> frozenset[str]:
        return frozenset(view for view, _, _ in self.versions)


@dataclass(slots=True, eq=False)
class Route:
    """The statement goes to Spark, with `text` in place of its own unless that is None.

    `on_send` is called when the statement is sent to Spark, `on_end` when it has ended, `on_close` when its rows can no
    longer be fetched. Each action runs once.
    """

    text: str | None = None
    ends: list[Callable[[End], None]] = field(default_factory=list)
    closes: list[Callable[[], None]] = field(default_factory=list)
    sends: list[Callable[[], None]] = field(default_factory=list)
    mentions: Mentions = NOTHING
    runs_others: bool = False
    """Whether the text may run other statements. If such a text fails, part of it may have been executed."""
    unseen: Unseen | None = None
    """Set if other statements need to know when it has ended."""
    stands_in: bool = False
    """Whether `text` answers the client's from a materialized view that the client did not name."""
    took: Callable[[float], None] | None = None
    """Receives the seconds from now until its success is known."""
    check: Callable[[], None] | None = None
    """Called after a wait, just before it is sent. Raises NotAllowed if what allowed it no longer holds."""
    source: Source | None = None
    """Set when it is about to be sent, if its answer depends on nothing else."""
    notes: tuple[str, ...] = ()
    """What the operation's log tells the client first."""
    late: aftermath.Late = aftermath.soon
    """Calls back when a statement whose end was not seen can no longer take effect."""

    def on_send(self) -> None:
        actions, self.sends = self.sends, []
        for action in actions:
            action()

    def on_end(self, end: End) -> None:
        actions, self.ends = self.ends, []
        for action in actions:
            action(end)

    def on_close(self) -> None:
        actions, self.closes = self.closes, []
        for action in actions:
            action()

    def abandon(self, end: End = End.UNKNOWN) -> None:
        """The end of the statement will not be observed. FAILED: it was never sent to Spark."""
        self.on_end(end)
        self.on_close()


async def at_once(_: Report) -> None:
    """There is nothing to wait for."""


def always() -> bool:
    """For an answer that is right whatever has happened since."""
    return True


@dataclass(frozen=True, slots=True)
class Waiting:
    """The statement takes the route `then` after `wait`, which refreshes stale views."""

    then: Route
    wait: Callable[[Report], Awaitable[None]]
    instead: Callable[[FreshgateError], Awaitable[Waiting]] | None = None
    """The way of the client's own text, if another text stands in for it and fails before its first row. Called with
    the error, at most once."""
    holds: Callable[[], bool] = always
    """Whether the answer of the text that stands in is still right when it has ended."""


@dataclass(frozen=True, slots=True)
class Own:
    """The gateway executes it."""

    work: Callable[[Report], Awaitable[Result]]
