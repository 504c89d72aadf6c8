"""Starts and watches the process that keeps tables in memory, and makes its calls without blocking the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import itertools
import json
import logging
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gateway import children, loops
from gateway.errors import FreshgateError
from gateway.memory.frames import HEADER, LOADS_AT_ONCE, FrameKind, described, frame
from gateway.mv.ports import KeptRows, LoadedTable, MemoryAnswer, MemoryUnavailable
from sql.memory.columns import ColumnFacts, MemoryColumn

log = logging.getLogger(__name__)

T = TypeVar("T")

START_SECONDS = 30.0
"""How long the process may take to start."""
STOP_SECONDS = 5.0
"""How long an interrupted call may take to end. Then the process hangs, and is replaced."""
STEADY_SECONDS = 60.0
"""A process that has lived as long was sound: the next one is started at once."""
WAITING_MAX = 1_000
"""The most queries that wait for a thread. Spark answers those beyond it."""
WAIT_SECONDS = 1.0
"""How long a query waits for a thread before Spark answers it: hundreds of usual ones take a second."""
PARTS_AHEAD = 2
"""The parts of a load that are under way to the process."""
PART_SECONDS = 60.0
"""How long the process may take for a part of a load, and to end one."""
READ_BYTES = 1 << 20


@dataclass(slots=True)
class MemoryCounters:
    """What the engine has done since the gateway's start."""

    queries: int = 0
    """Answered ones."""
    loads: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    """Queries and loads without success, by the reason of MemoryUnavailable."""
    answered_bytes: int = 0
    losses: int = 0
    """Processes that ended without being asked to."""
    tables: dict[str, LoadedTable] = field(default_factory=dict)
    """What is in memory now."""

    @property
    def table_bytes(self) -> int:
        return sum(each.bytes for each in self.tables.values())


class MemoryEngine:
    """Keeps tables in the memory of a process, and answers queries of them. Implements `mv.ports.RowEngine`.

    If the process ends, all tables are lost and another one is started.
    """

    def __init__(self, memory_bytes: int, threads: int, on_lost: Callable[[], None] = lambda: None) -> None:
        """`memory_bytes`: for tables and queries together. `threads`: how many queries run at once, and on how many
        processors. `on_lost` is called when a process has ended, and nothing is in memory any more; loads may begin."""
        self.counters = MemoryCounters()
        self._memory_bytes = memory_bytes
        self._threads = threads
        self._on_lost = on_lost
        self._process: _EngineLink | None = None
        self._ready = asyncio.Event()
        self._loads = asyncio.Semaphore(LOADS_AT_ONCE)
        self._supervisor = loops.Loop("supervision of the engine for views in memory", self._supervise)
        self._back_off = loops.BackOff("the engine for views in memory does not run", 1.0, 60.0)

    @property
    def pid(self) -> int | None:
        """Process id of the serving child; None while there is none."""
        return self._process.pid if self._process is not None else None

    async def start(self) -> None:
        """Starts the process, within the event loop. Raises MemoryUnavailable, and FreshgateError if DuckDB is not
        installed; nothing is left running then."""
        if importlib.util.find_spec("duckdb") is None:
            raise FreshgateError("Views in memory need DuckDB. Install freshgate[memory].")
        self._meet(await self._launched())
        self._supervisor.start()

    async def stop(self) -> None:
        """Ends the process, and all calls."""
        await self._supervisor.stop()
        if (process := self._leave()) is not None:
            await process.end()

    # --- tables ---------------------------------------------------------------------------------------------

    async def load(
        self,
        table: str,
        columns: Sequence[MemoryColumn],
        parts: AsyncGenerator[bytes, None],
        *,
        kept: KeptRows | None = None,
    ) -> LoadedTable:
        """As in `mv.ports.RowEngine`. At most LOADS_AT_ONCE loads run at once; the others wait, also for a process that
        is starting."""
        asked = {
            "table": table,
            "columns": [(each.name, each.type) for each in columns],
            "kept": None if kept is None else {"table": kept.table, "without": kept.without},
        }
        async with contextlib.aclosing(parts), self._loads:
            with self._failures_counted():
                process = await self._started()
                answer = await process.loaded(asked, parts)
        facts = {name: ColumnFacts(**each) for name, each in answer["facts"].items()}
        loaded = LoadedTable(tuple(columns), answer["rows"], answer["bytes"], facts)
        if process is self._process:
            self.counters.tables[table] = loaded
        self.counters.loads += 1
        return loaded

    async def drop(self, table: str) -> None:
        """As in `mv.ports.RowEngine`."""
        process = self._serving()
        with self._failures_counted():
            await process.finished(FrameKind.DROP, {"table": table}, PART_SECONDS)
        self.counters.tables.pop(table, None)

    # --- queries --------------------------------------------------------------------------------------------

    async def run(
        self,
        text: str,
        columns: Sequence[MemoryColumn],
        rows_max: int,
        bytes_max: int,
        seconds: float,
    ) -> MemoryAnswer:
        """As in `mv.ports.RowEngine`."""
        with self._failures_counted():
            process = self._serving()
            if process.queries >= self._threads + WAITING_MAX:
                raise MemoryUnavailable("busy", f"{process.queries} queries run or wait")
            asked = {
                "text": text,
                "types": [each.type for each in columns],
                "rows_max": rows_max,
                "bytes_max": bytes_max,
            }
            answer, pages = await process.finished(FrameKind.RUN, asked, seconds)
        self.counters.queries += 1
        self.counters.answered_bytes += sum(map(len, pages))
        return MemoryAnswer(tuple(pages), answer["rows"])

    # --- the process ----------------------------------------------------------------------------------------

    def _serving(self) -> _EngineLink:
        if self._process is None:
            raise MemoryUnavailable("lost", "the engine is starting")
        return self._process

    async def _started(self) -> _EngineLink:
        """The process, also if it is starting."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_SECONDS):
                await self._ready.wait()
        return self._serving()

    @contextlib.contextmanager
    def _failures_counted(self) -> Iterator[None]:
        try:
            yield
        except MemoryUnavailable as error:
            self.counters.failures[error.reason] += 1
            raise

    async def _supervise(self) -> None:
        """One turn: waits for the process's end, and starts another."""
        if (process := self._process) is not None:
            began = time.monotonic()
            await process.ended.wait()
            self._leave()
            await process.end()
            self.counters.losses += 1
            log.error("the engine for views in memory ended with code %s; starting another", process.code)
            self._on_lost()
            if time.monotonic() - began > STEADY_SECONDS:
                self._back_off.reset()
            else:
                await self._back_off.pause()
        try:
            self._meet(await self._launched())
        except MemoryUnavailable as error:
            self._back_off.note(error)
            await self._back_off.pause()

    def _meet(self, process: _EngineLink) -> None:
        self._process = process
        self._ready.set()

    def _leave(self) -> _EngineLink | None:
        process, self._process = self._process, None
        self._ready.clear()
        self.counters.tables.clear()
        return process

    async def _launched(self) -> _EngineLink:
        here, there = socket.socketpair()
        try:
            # In a thread, because forking copies the gateway's page tables.
            child = await asyncio.to_thread(_start, there, self._memory_bytes, self._threads)
            reader, writer = await asyncio.open_connection(sock=here, limit=READ_BYTES)
        except OSError as error:
            here.close()
            raise MemoryUnavailable("lost", f"no process: {error}") from error
        finally:
            there.close()
        process = _EngineLink(child, reader, writer)
        try:
            async with asyncio.timeout(START_SECONDS):
                await process.ready()
        except (TimeoutError, MemoryUnavailable) as error:
            await process.end()
            raise MemoryUnavailable("lost", f"the process ended with code {process.code}") from error
        except BaseException:  # Also on cancellation: no process may be left behind.
            await process.end()
            raise
        return process


def _start(channel: socket.socket, memory_bytes: int, threads: int) -> subprocess.Popen[bytes]:
    module = f"{children.PACKAGE}.memory.engine_process"
    return subprocess.Popen(
        [sys.executable, "-m", module, str(channel.fileno()), str(memory_bytes), str(threads)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=children.environment(),
        pass_fds=[channel.fileno()],
        # A Ctrl-C in the terminal is for the gateway; the child ends with it.
        start_new_session=True,
    )


class _PendingCall:
    """A call that has no answer yet."""

    def __init__(self) -> None:
        self.pages: list[bytes] = []
        self.ahead = 0
        """Parts that the process has not yet taken."""
        self.taken = False
        """Whether the process has taken a part, or has begun the query."""
        self.moved = asyncio.Event()
        """A part has been taken, or the call has ended."""
        self.outcome: dict[str, Any] | MemoryUnavailable | None = None
        self.left = False
        """Nobody waits for the answer."""

    def receive(self, kind: FrameKind, content: bytes) -> None:
        match kind:
            case FrameKind.PAGE:
                if not self.left:
                    self.pages.append(content)
            case FrameKind.TAKEN:
                self.ahead -= 1
                self.taken = True
                self.moved.set()
            case FrameKind.DONE:
                self.end(json.loads(content))
            case FrameKind.FAILED:
                self.end(MemoryUnavailable(**json.loads(content)))

    def end(self, outcome: dict[str, Any] | MemoryUnavailable) -> None:
        self.outcome = outcome
        self.moved.set()

    async def finish(self) -> dict[str, Any]:
        """Waits for the answer. Raises MemoryUnavailable."""
        while self.outcome is None:
            self.moved.clear()
            await self.moved.wait()
        if isinstance(self.outcome, MemoryUnavailable):
            raise self.outcome
        return self.outcome

    async def begin(self) -> None:
        """Waits until the query runs. Raises MemoryUnavailable if others take too long."""
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while not self.taken and self.outcome is None:
                    self.moved.clear()
                    await self.moved.wait()
        except TimeoutError:
            raise MemoryUnavailable("busy", f"it waited for others for {WAIT_SECONDS:g} seconds") from None

    async def room(self) -> None:
        """Waits until the process can take another part. Raises MemoryUnavailable if the call has failed."""
        while self.ahead >= PARTS_AHEAD and self.outcome is None:
            self.moved.clear()
            await self.moved.wait()
        if self.outcome is not None:
            await self.finish()
        self.ahead += 1


class _EngineLink:
    """A process, and its calls under way."""

    def __init__(
        self, child: subprocess.Popen[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.ended = asyncio.Event()
        """It answers nothing any more."""
        self.queries = 0
        """Those that run or wait, also if nobody waits for their answers."""
        self._child = child
        self._reader = reader
        self._writer = writer
        self._numbers = itertools.count(1)
        self._pending: dict[int, _PendingCall] = {}
        self._endings = loops.BackgroundTasks("ending a call in memory")
        self._reading: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def code(self) -> int | None:
        """The exit code, once it has ended."""
        return self._child.returncode

    async def ready(self) -> None:
        """Waits for the start. Raises MemoryUnavailable."""
        try:
            _, _, kind = HEADER.unpack(await self._reader.readexactly(HEADER.size))
        except (EOFError, OSError) as error:
            raise MemoryUnavailable("lost", "it has ended") from error
        assert kind == FrameKind.READY
        self._reading = asyncio.create_task(self._read(), name="answers from memory")

    async def end(self) -> None:
        """Kills the process: it has nothing to lose."""
        self._lose()
        self._child.kill()
        await asyncio.to_thread(self._child.wait)
        if self._reading is not None:
            self._reading.cancel()

    def _lose(self) -> None:
        self.ended.set()
        self._writer.transport.abort()
        for pending in self._pending.values():
            pending.end(MemoryUnavailable("lost", "the engine has ended"))

    async def finished(
        self, kind: FrameKind, asked: Mapping[str, Any], seconds: float
    ) -> tuple[dict[str, Any], list[bytes]]:
        """Makes a call; its answer, and the pages before it. Raises MemoryUnavailable."""
        async with self._call(kind, asked) as (_, pending):
            if kind == FrameKind.RUN:
                await pending.begin()
            try:
                async with asyncio.timeout(seconds):
                    return await pending.finish(), pending.pages
            except TimeoutError:
                raise MemoryUnavailable("time", f"no answer in {seconds:g} seconds") from None

    async def loaded(self, asked: Mapping[str, Any], parts: AsyncIterator[bytes]) -> dict[str, Any]:
        """Makes the call of a load. Raises MemoryUnavailable, and what `parts` raises."""
        async with self._call(FrameKind.LOAD, asked) as (number, pending):
            giving = asyncio.ensure_future(self._give_all(number, pending, parts))
            answered = asyncio.ensure_future(pending.finish())
            try:
                # The source may be silent for long: an answer before its end is a failure.
                await asyncio.wait({giving, answered}, return_when=asyncio.FIRST_COMPLETED)
                if not answered.done():
                    giving.result()
                return await _in_time(answered)
            finally:
                giving.cancel()
                answered.cancel()
                await asyncio.wait({giving, answered})

    async def _give_all(self, number: int, pending: _PendingCall, parts: AsyncIterator[bytes]) -> None:
        async for part in parts:
            await _in_time(self._give(pending, frame(number, FrameKind.PART, part)))
        self._writer.write(frame(number, FrameKind.LAST))

    async def _give(self, pending: _PendingCall, data: bytes) -> None:
        await pending.room()
        self._writer.write(data)
        with contextlib.suppress(OSError):  # The call ends with the process.
            await self._writer.drain()

    @contextlib.asynccontextmanager
    async def _call(self, kind: FrameKind, asked: Mapping[str, Any]) -> AsyncIterator[tuple[int, _PendingCall]]:
        """A call under way: its number, and what has come of it. If the caller leaves it before its end, it is stopped,
        and the process ended if it does not stop."""
        if self.ended.is_set():
            raise MemoryUnavailable("lost", "the engine has ended")
        number, pending = next(self._numbers), _PendingCall()
        self._pending[number] = pending
        self.queries += kind == FrameKind.RUN
        self._writer.write(described(number, kind, asked))
        try:
            yield number, pending
        finally:
            if pending.outcome is None:
                pending.left = True
                self._writer.write(frame(number, FrameKind.STOP_CALL))
                stopping = self._endings.begin(self._stopped(number, pending, kind))
                if kind == FrameKind.LOAD:
                    # The table must not change after the caller has been told that it does not.
                    await asyncio.shield(stopping)
            else:
                self._forget(number, kind)

    async def _stopped(self, number: int, pending: _PendingCall, kind: FrameKind) -> None:
        """Waits for the end of a call that has been told to stop."""
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await pending.finish()
        except TimeoutError:
            log.error("the engine for views in memory does not end a call; it is replaced")
            self._lose()
        except MemoryUnavailable:
            pass
        finally:
            self._forget(number, kind)

    def _forget(self, number: int, kind: FrameKind) -> None:
        del self._pending[number]
        self.queries -= kind == FrameKind.RUN

    async def _read(self) -> None:
        """Passes answers to their calls until the process ends."""
        try:
            while True:
                length, number, kind = HEADER.unpack(await self._reader.readexactly(HEADER.size))
                content = await self._reader.readexactly(length)
                if (pending := self._pending.get(number)) is not None:
                    pending.receive(FrameKind(kind), content)
        except (EOFError, OSError):
            self._lose()


async def _in_time(step: Awaitable[T]) -> T:
    """A step of a load. Raises MemoryUnavailable if the process takes too long for it."""
    try:
        async with asyncio.timeout(PART_SECONDS):
            return await step
    except TimeoutError:
        raise MemoryUnavailable("time", f"no answer to a part of a load in {PART_SECONDS:g} seconds") from None
