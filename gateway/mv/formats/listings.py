"""Lists the files in directories, by statements in sessions with settings that make this cheap. No file is opened.

Listings that are wanted at the same time and are expected to find few files are one statement: those of the base tables
of a view, of its stored rows, and of other views that are due.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from gateway.errors import StatementFailed
from gateway.loops import in_thread
from gateway.mv.ports import ServiceSessions, SqlSession
from sql.texts import observation

PATH_NOT_FOUND = "42K03"
LOOK_SECONDS = 300.0
"""The longest observation of a table. Few run at the same time, so storage that does not answer would keep other views
waiting. A view does not count as fresh if the observation of one of its tables took longer."""
UNKNOWN_DIRECTORIES = 1000
"""An assumption if the number of directories to list is unknown."""
LOCATIONS_TOGETHER = 50
"""How many locations one statement lists."""
NAMED_MAX = 3
"""How many locations a reason names at most."""
FEW_FILES = 64
"""Up to this many files are listed by one task, one after the other: 50 ms each in a slow object store."""
JOIN_SECONDS = 0.002
"""For how long a listing waits for others. A statement that lists files takes fifty times as long."""


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a directory: a sum over their names, times and sizes, their number, and their bytes."""

    directory: str
    sum: str
    xor: int
    count: int
    bytes: int


@dataclass(slots=True, eq=False)
class _Wanted:
    """A listing that is wanted."""

    locations: Sequence[str]
    expected: int
    """How many files it will probably find."""
    found: asyncio.Future[list[Files]]


@dataclass(slots=True)
class _Batch:
    """Listings that are made by one statement."""

    wanted: list[_Wanted] = field(default_factory=list)
    task: asyncio.Task[None] | None = None

    @property
    def locations(self) -> list[str]:
        return list(dict.fromkeys(place for each in self.wanted for place in each.locations))

    @property
    def expected(self) -> int:
        return sum(each.expected for each in self.wanted)


class Listings:
    """Lists files for looks. Its sessions have LISTING_SETTINGS (`sql.texts.observation`) from the time when they are
    opened, and again when they are opened anew because the server had ended them."""

    def __init__(self, sessions: ServiceSessions, look_seconds: float = LOOK_SECONDS) -> None:
        self._sessions = sessions
        self.look_seconds = look_seconds
        self._tasks: WeakKeyDictionary[SqlSession, int] = WeakKeyDictionary()
        """With how many tasks a session lists, if not with LISTING_TASKS_MAX. One that was opened anew does so again,
        which only takes longer."""
        self._gathering: _Batch | None = None
        """Listings that will begin in a moment."""

    @contextlib.asynccontextmanager
    async def session(self) -> AsyncIterator[SqlSession]:
        """A session for listing. Raises TimeoutError if it is used for too long; waiting for a session does not
        count."""
        async with self._sessions.session() as session, asyncio.timeout(self.look_seconds):
            yield session

    async def prepare(self, session: SqlSession, directories: int) -> None:
        """Sets the number of tasks for listing so many directories in a session that was lent."""
        tasks = observation.listing_tasks(directories)
        listed_with = self._tasks.get(session, observation.LISTING_TASKS_MAX)
        if directories > observation.LISTED_AT_ONCE and listed_with != tasks:
            await session.run(observation.set_setting(observation.LISTING_TASKS, str(tasks)))
            self._tasks[session] = tasks

    async def files(
        self, locations: Sequence[str], expected: int | None = None, directories: int = UNKNOWN_DIRECTORIES
    ) -> list[Files]:
        """The files at and below the locations, which do not contain each other. A location that does not exist has
        none. `expected`: how many there will probably be; None if unknown. Raises what Spark raises, TimeoutError
        if it takes too long, and ValueError if Spark's answer cannot be read."""
        if not locations:
            return []
        if expected is None or expected > FEW_FILES or len(locations) > LOCATIONS_TOGETHER:
            return await self._alone(locations, directories, few=expected is not None and expected <= FEW_FILES)
        wanted = _Wanted(locations, expected, asyncio.get_running_loop().create_future())
        batch = self._join(wanted)
        try:
            return await wanted.found
        except asyncio.CancelledError:
            if batch.task is not None and all(each.found.done() for each in batch.wanted):
                batch.task.cancel()
                self._begin(batch)
            raise

    def _join(self, wanted: _Wanted) -> _Batch:
        batch = self._gathering
        if batch is None or not _fits(batch, wanted):
            batch = self._gathering = _Batch()
            batch.task = asyncio.create_task(self._run(batch), name="listing")
        batch.wanted.append(wanted)
        return batch

    async def _run(self, batch: _Batch) -> None:
        await asyncio.sleep(JOIN_SECONDS)
        self._begin(batch)
        try:
            found = await self._alone(batch.locations, 0, few=True)
        except StatementFailed as error:
            await self._each(batch, error)
        except asyncio.CancelledError:  # Nobody waits any longer, or the gateway stops.
            for each in batch.wanted:
                each.found.cancel()
            raise
        except Exception as error:
            for each in batch.wanted:
                _end(each, error)
        else:
            for each in batch.wanted:
                _end(each, [part for part in found if _is_below(part, each.locations)])

    def _begin(self, batch: _Batch) -> None:
        """From now on, no other listing joins the batch."""
        if self._gathering is batch:
            self._gathering = None

    async def _each(self, batch: _Batch, error: StatementFailed) -> None:
        """Lists each by itself after a failure: what one cannot list is not the fault of the others."""
        for each in batch.wanted:
            found: list[Files] | Exception = error
            if len(batch.wanted) > 1:
                try:
                    found = await self._alone(each.locations, 0, few=True)
                except Exception as reason:
                    found = reason
            _end(each, found)

    async def _alone(self, locations: Sequence[str], directories: int, *, few: bool) -> list[Files]:
        found: list[Files] = []
        async with self.session() as session:
            await self.prepare(session, directories)
            for start in range(0, len(locations), LOCATIONS_TOGETHER):
                found += await _list_files(session, locations[start : start + LOCATIONS_TOGETHER], few=few)
        return found


def _fits(batch: _Batch, wanted: _Wanted) -> bool:
    """Whether one statement can make these listings: files that it lists twice would cancel out in the sums."""
    if batch.expected + wanted.expected > FEW_FILES:
        return False
    known, new = set(batch.locations), set(wanted.locations)
    overlap = any(
        observation.is_within(one, other) or observation.is_within(other, one) for one in known for other in new - known
    )
    return len(known | new) <= LOCATIONS_TOGETHER and not overlap


def _end(wanted: _Wanted, found: list[Files] | Exception) -> None:
    if wanted.found.done():
        return
    if isinstance(found, Exception):
        wanted.found.set_exception(found)
    else:
        wanted.found.set_result(found)


def _is_below(part: Files, locations: Iterable[str]) -> bool:
    return any(observation.is_within(part.directory, location) for location in locations)


async def _list_files(session: SqlSession, locations: Sequence[str], *, few: bool) -> list[Files]:
    """A location that does not exist has no files, as in Spark's queries."""
    try:
        rows = (await session.run(observation.list_files(locations, few=few))).rows
    except StatementFailed as error:
        if error.sqlstate != PATH_NOT_FOUND:
            # Spark's message may not name the path that it cannot list.
            named = ", ".join(locations[:NAMED_MAX])
            raise StatementFailed(f"The files at {named} cannot be listed.", error.sqlstate, str(error)) from error
        if len(locations) == 1:
            return []
        return [part for location in locations for part in await _list_files(session, [location], few=few)]
    return await in_thread(len(rows), _files_of, rows, locations)


def _files_of(rows: Iterable[tuple[Any, ...]], locations: Sequence[str]) -> list[Files]:
    found = []
    for directory, *sums in rows:
        if not any(observation.is_within(directory, location) for location in locations):
            raise ValueError(f"Files of {', '.join(locations)} are listed as those of {directory}.")
        found.append(Files(directory, " ".join(map(str, sums)), int(sums[0]), sums[1], int(sums[2])))
    return found
