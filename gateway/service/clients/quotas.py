"""Counts sessions and statements by the rules of `limits.rules`, and lets statements wait for their turn.

Tests: `test_quotas`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from gateway import loops
from gateway.access_list import Principal
from gateway.errors import LimitReached
from gateway.limit_rules import QUEUE, SESSIONS, STATEMENTS, UNLIMITED, Bound, LimitRules

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""How often Spark is asked whether statements have ended whose clients do not ask, while others wait for them."""


@dataclass(frozen=True, slots=True)
class Use:
    """How much of a number is used. `waiting`: statements that wait for it."""

    bound: Bound
    what: str
    used: int
    waiting: int
    refused: int

    @property
    def is_full(self) -> bool:
        return self.used >= self.bound.most


class Quotas:
    """The numbers of all who are named by a rule."""

    def __init__(self, rules: LimitRules | None = None) -> None:
        self.rules = rules if rules is not None else LimitRules()
        self.sessions: Counter[Bound] = Counter()
        self.refused: Counter[tuple[str, Bound]] = Counter()
        """Sessions and statements since the start, by what was limited."""
        self.turns = StatementTurns(self.rules, self.refused)

    def check_session(self, who: Principal, peer: str) -> list[Bound]:
        """The numbers that a new session counts in. Raises LimitReached."""
        bounds = self.rules.bounds(SESSIONS, who, peer)
        for bound in bounds:
            if self.sessions[bound] >= bound.most:
                self.refused[SESSIONS, bound] += 1
                raise LimitReached(
                    f"{bound.shown} has {self.sessions[bound]} open sessions, and the rule '{bound.rule.text}' of "
                    f"limits.rules allows no more. Close some."
                )
        return bounds

    def uses(self) -> Iterator[Use]:
        """All numbers that are used or were exceeded."""
        known = dict.fromkeys([*self.sessions, *(each for what, each in self.refused if what == SESSIONS)])
        for bound in known:
            yield Use(bound, SESSIONS, self.sessions[bound], 0, self.refused[SESSIONS, bound])
        yield from self.turns.uses()


class StatementTurn:
    """A statement's place among those that its user, groups and address may run at a time."""

    def __init__(self, turns: StatementTurns, bounds: Sequence[Bound], ask: Callable[[], Awaitable[None]]) -> None:
        self.bounds = bounds
        self.ask = ask
        """Determines whether the statement has ended at Spark."""
        self._turns = turns
        self._granted = asyncio.Event()

    @property
    def why(self) -> str:
        """What it waits for, for the client."""
        return self._turns.why(self)

    @property
    def waits(self) -> bool:
        return not self._granted.is_set()

    def grant(self) -> None:
        self._granted.set()

    async def wait(self) -> None:
        """Returns when the statement may run."""
        await self._granted.wait()

    def end(self) -> None:
        """The statement has ended, or is given up. Further calls do nothing."""
        self._turns.ended(self)


class StatementTurns:
    """The statements that run, and those that wait, in the order in which they came."""

    def __init__(
        self, rules: LimitRules, refused: Counter[tuple[str, Bound]], look_seconds: float = LOOK_SECONDS
    ) -> None:
        self._rules = rules
        self._refused = refused
        self._look_seconds = look_seconds
        self.active = rules.limits(STATEMENTS)
        """Whether there is a rule about statements."""
        self._running: dict[StatementTurn, None] = {}
        self._waiting: dict[StatementTurn, None] = {}
        self._used: Counter[Bound] = Counter()
        self._queued: Counter[Bound] = Counter()
        self._looks = loops.Loop("look for ended statements", self._look)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def uses(self) -> Iterator[Use]:
        known = dict.fromkeys(
            [*self._used, *self._queued, *(each for what, each in self._refused if what == STATEMENTS)]
        )
        for bound in known:
            yield Use(bound, STATEMENTS, self._used[bound], self._queued[bound], self._refused[STATEMENTS, bound])

    def enter(self, who: Principal, peer: str, ask: Callable[[], Awaitable[None]]) -> StatementTurn | None:
        """The turn of a statement, which the caller ends; None if no rule is about this user. Raises LimitReached."""
        bounds = self._rules.bounds(STATEMENTS, who, peer)
        if not bounds:
            return None
        turn = StatementTurn(self, bounds, ask)
        self._waiting[turn] = None
        self._queued.update(bounds)
        self._grant()
        if turn.waits:
            self._check_queue(turn)
            self._looks.start()
        return turn

    def _check_queue(self, turn: StatementTurn) -> None:
        """Raises LimitReached if too many wait before this one."""
        for bound in self._full(turn.bounds):
            queue, before = bound.rule.limit(QUEUE), self._queued[bound] - 1
            if before >= (UNLIMITED if queue is None else queue):
                turn.end()
                self._refused[STATEMENTS, bound] += 1
                raise LimitReached(
                    f"{bound.shown} has {self._used[bound]} running statements and {before} that wait, and the rule "
                    f"'{bound.rule.text}' of limits.rules allows no more. Try again when some have ended."
                )

    def why(self, turn: StatementTurn) -> str:
        """For the client: what the statement waits for."""
        full = (*self._full(turn.bounds), *turn.bounds)[0]
        return (
            f"Waiting for one of {full.most} statements that {full.shown} may run at a time (limits.rules: "
            f"{full.rule.text})"
        )

    def ended(self, turn: StatementTurn) -> None:
        if turn in self._waiting:
            del self._waiting[turn]
            _subtract(self._queued, turn.bounds)
        elif turn in self._running:
            del self._running[turn]
            _subtract(self._used, turn.bounds)
        else:
            return
        self._grant()

    def _full(self, bounds: Iterable[Bound]) -> list[Bound]:
        return [bound for bound in bounds if self._used[bound] >= bound.most]

    def _run(self, turn: StatementTurn) -> None:
        self._running[turn] = None
        self._used.update(turn.bounds)
        turn.grant()

    def _grant(self) -> None:
        """Lets those run for whom there is room now, in their order. Who waits for one number keeps nobody from
        another one."""
        for turn in list(self._waiting):
            if not self._full(turn.bounds):
                del self._waiting[turn]
                _subtract(self._queued, turn.bounds)
                self._run(turn)

    async def _look(self) -> bool:
        """Clients need not ask whether their statements have ended. Returns whether nothing waits any more."""
        await asyncio.sleep(self._look_seconds)
        wanted = {bound for turn in self._waiting for bound in turn.bounds}
        for turn in [turn for turn in self._running if not wanted.isdisjoint(turn.bounds)]:
            await turn.ask()
        return not self._waiting


def _subtract(counted: Counter[Bound], bounds: Iterable[Bound]) -> None:
    for bound in bounds:
        counted[bound] -= 1
        if not counted[bound]:
            del counted[bound]
