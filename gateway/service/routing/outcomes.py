"""What becomes of a statement: it goes to Spark, goes there later, or is the gateway's own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from gateway.mv.refresh.progress import Report
from gateway.service.clients.audit import NOTHING, Mentions
from gateway.service.clients.unseen import Unseen
from gateway.service.operations.operation import End, Result


@dataclass(slots=True, eq=False)
class Route:
    """To Spark; `text` replaces the statement's where it is not None.

    `on_send` is called when the statement goes to Spark, `on_end` when it has ended, `on_close` when its rows cannot be
    fetched any more. Each action runs once.
    """

    text: str | None = None
    ends: list[Callable[[End], None]] = field(default_factory=list)
    closes: list[Callable[[], None]] = field(default_factory=list)
    sends: list[Callable[[], None]] = field(default_factory=list)
    mentions: Mentions = NOTHING
    runs_others: bool = False
    """The text may run other statements, so that a part may have been done where it fails."""
    unseen: Unseen | None = None
    """Where others must know of its end."""

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
        """Nobody will hear more of the statement. FAILED: it never went to Spark."""
        self.on_end(end)
        self.on_close()


@dataclass(frozen=True, slots=True)
class Waiting:
    """To Spark, by the route `then`, once `wait` has returned: it makes stale views fresh."""

    then: Route
    wait: Callable[[Report], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Own:
    """The gateway executes it."""

    work: Callable[[Report], Awaitable[Result]]
