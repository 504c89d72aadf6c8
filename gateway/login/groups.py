"""Finds the groups of users: in a file, in the directory, or as a company's own verifier says.

Tests: `test_groups`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway.login.threads import LoginThreads
from gateway.login.verifier import NO_GROUPS, Unavailable

log = logging.getLogger(__name__)

USERS_MAX = 20_000
"""Users whose groups are kept; above this, those that were asked for first are dropped."""
ANSWER_SECONDS = 5.0
"""How long an OpenSession waits for a source."""
STALE_SECONDS = 3600.0
"""How long groups still count if their source does not answer."""
DOWN_SECONDS = 10.0
"""How long a source that did not answer is not asked again, so that not every session waits for it."""


class GroupSource(Protocol):
    """Knows the groups of users by their names alone. Its methods block, and are called from several threads."""

    @property
    def name(self) -> str:
        """For the log."""
        ...

    @property
    def is_cheap(self) -> bool:
        """Whether it is asked each time, so that changes take effect at once."""
        ...

    def groups_of(self, user: str) -> frozenset[str]:
        """Empty for a user whom it does not know. Raises Unavailable."""
        ...


class UserGroups:
    """The groups that all sources know of a user, kept for `keep_seconds`.

    A source that does not answer holds nobody: what it last said counts for an hour, and then the user is in none of
    its groups.
    """

    def __init__(
        self,
        sources: Sequence[GroupSource] = (),
        keep_seconds: float = 0.0,
        answer_seconds: float = ANSWER_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sources = [_Source(each, keep_seconds, answer_seconds, clock) for each in sources]

    @property
    def has_sources(self) -> bool:
        return bool(self._sources)

    async def of(self, user: str) -> frozenset[str]:
        """The user's groups as far as the sources know them at the moment."""
        found = await asyncio.gather(*(source.of(user) for source in self._sources))
        return frozenset[str]().union(*found)


@dataclass(frozen=True, slots=True)
class _Said:
    groups: frozenset[str]
    at: float


class _Source:
    """One source, with its threads and what it has said."""

    def __init__(
        self, source: GroupSource, keep_seconds: float, answer_seconds: float, clock: Callable[[], float]
    ) -> None:
        self._source = source
        self._keep_seconds = 0.0 if source.is_cheap else keep_seconds
        self._threads = LoginThreads(answer_seconds=answer_seconds)
        self._clock = clock
        self._kept: OrderedDict[str, _Said] = OrderedDict()
        self._asked: dict[str, asyncio.Task[frozenset[str]]] = {}
        self._down_until = float("-inf")

    async def of(self, user: str) -> frozenset[str]:
        kept, now = self._kept.get(user), self._clock()
        if kept is not None and now < kept.at + self._keep_seconds:
            return kept.groups
        if now < self._down_until:
            return self._last(kept)
        # Many sessions of one user may be opened at the same time.
        asked = self._asked.get(user)
        if asked is None:
            asked = self._asked[user] = asyncio.create_task(self._ask(user))
            asked.add_done_callback(lambda _: self._asked.pop(user, None))
        return await asyncio.shield(asked)

    async def _ask(self, user: str) -> frozenset[str]:
        try:
            groups = await self._threads.run(lambda: self._source.groups_of(user))
        except Exception as error:  # A company's own verifier may raise anything.
            if not isinstance(error, Unavailable):
                log.exception("the source of groups %s failed", self._source.name)
            self._down_until = self._clock() + DOWN_SECONDS
            log.warning("the groups of %r are not known from %s: %s", user, self._source.name, error)
            return self._last(self._kept.get(user))
        self._down_until = float("-inf")
        self._kept.pop(user, None)
        self._kept[user] = _Said(groups, self._clock())
        if len(self._kept) > USERS_MAX:
            self._kept.popitem(last=False)
        return groups

    def _last(self, kept: _Said | None) -> frozenset[str]:
        """What the source last said, if that is not too long ago."""
        return kept.groups if kept is not None and self._clock() < kept.at + STALE_SECONDS else NO_GROUPS


NO_SOURCES = UserGroups()
