"""The process that keeps tables in memory, and answers queries of them with DuckDB.

It is started with a connected socket, over which frames (`gateway.memory.frames`) go both ways, and ends at the end of
its input, whatever it is doing: its memory belongs to its parent. Nothing is written to disk: the database is in
memory, without a directory for temporary files, and the engine can open no file except the pipe through which a load
feeds it.

The thread that reads the frames never waits for a call. Queries run in a pool of threads, changes of tables in
others.

Tests: `test_memory_engine`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import queue
import resource
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import duckdb

from gateway.memory.frames import HEADER, LOADS_AT_ONCE, FrameKind, described, frame
from gateway.memory.page_encoding import PageFormat
from gateway.wire.columnar import ColumnarPage
from gateway.wire.frame import WireError
from sql.memory.columns import MemoryColumn
from sql.memory.engine_types import DECIMAL_DIGITS_MAX, decimal_digits, engine_type, identifier
from sql.memory.row_lines import FACTS, facts_query, rows_query, width

PAGE_ROWS = 4_096
"""Rows of a page: two of the engine's vectors, a few milliseconds for whoever takes it apart."""
PIPE_BYTES = 1 << 20
_F_SETPIPE_SZ = 1031
OTHER_BYTES = 1 << 30
"""What the interpreter, threads and the reader of lines may take besides the engine's limit."""
KILLED_FIRST = 500
"""Added to the process's badness if the machine runs out of memory: nothing is lost with it but speed."""
EXACT = Context(prec=2 * DECIMAL_DIGITS_MAX)


class _CallFailed(Exception):
    """A call fails for a reason of its own."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class _Call:
    """A call under way."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.problem: _CallFailed | None = None
        """Why it must not go on."""
        self.cursor: duckdb.DuckDBPyConnection | None = None
        self.parts: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        """Of a load. None is the end."""
        self.work: Future[None] | None = None

    def fail(self, problem: _CallFailed) -> None:
        """Interrupts the engine, if it works for this call."""
        self.problem = self.problem or problem
        self.parts.put(None)
        if (cursor := self.cursor) is not None:
            cursor.interrupt()

    def check(self) -> None:
        """Raises _CallFailed if the call must not go on."""
        if self.problem is not None:
            raise self.problem

    @contextlib.contextmanager
    def on(self, database: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection of its own."""
        cursor = database.cursor()
        self.cursor = cursor
        try:
            self.check()
            yield cursor
        finally:
            self.cursor = None
            cursor.close()


class _Pipe:
    """A pipe through which loads feed the engine, one after the other.

    It is made before the engine may open nothing else, because the engine resolves the paths that it may open.
    """

    def __init__(self) -> None:
        self._source, target = os.pipe()
        self.path = f"/dev/fd/{self._source}"
        with contextlib.suppress(OSError):  # More than the user's processes may have in all.
            fcntl.fcntl(target, _F_SETPIPE_SZ, PIPE_BYTES)
        os.close(target)

    def writer(self) -> int:
        """A descriptor to write to, while there is none."""
        return os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)

    def drain(self) -> None:
        """Takes what the engine has not taken, until the writer is closed."""
        while os.read(self._source, PIPE_BYTES):
            pass


class EngineProcess:
    """Answers calls from a socket."""

    def __init__(self, channel: socket.socket, memory_bytes: int, threads: int) -> None:
        self._channel = channel
        self._writing = threading.Lock()
        self._calls: dict[int, _Call] = {}
        pipes = [_Pipe() for _ in range(LOADS_AT_ONCE)]
        self._database = opened(memory_bytes, threads, [pipe.path for pipe in pipes])
        self._queries = ThreadPoolExecutor(threads, "query")
        self._changes = ThreadPoolExecutor(1, "change")
        self._loads = ThreadPoolExecutor(LOADS_AT_ONCE, "load")
        self._pipes: queue.SimpleQueue[_Pipe] = queue.SimpleQueue()
        for pipe in pipes:
            self._pipes.put(pipe)

    def serve(self) -> None:
        """Reads frames until the end of the input."""
        self._send(frame(0, FrameKind.READY))
        with self._channel.makefile("rb") as source:
            while len(header := source.read(HEADER.size)) == HEADER.size:
                length, number, kind = HEADER.unpack(header)
                self._receive(number, FrameKind(kind), source.read(length))

    def _receive(self, number: int, kind: FrameKind, content: bytes) -> None:
        call = self._calls.get(number)
        match kind:
            case FrameKind.RUN:
                self._begin(self._queries, number, self._run, content)
            case FrameKind.LOAD:
                self._begin(self._loads, number, self._load, content)
            case FrameKind.DROP:
                self._begin(self._changes, number, self._drop, content)
            case FrameKind.PART if call is not None:
                call.parts.put(content)
            case FrameKind.LAST if call is not None:
                call.parts.put(None)
            case FrameKind.STOP_CALL if call is not None:
                self._stop(call)

    def _begin(
        self,
        pool: ThreadPoolExecutor,
        number: int,
        work: Callable[[_Call, dict[str, Any]], dict[str, Any]],
        content: bytes,
    ) -> None:
        call = self._calls[number] = _Call(number)
        call.work = pool.submit(self._answer, call, work, content)

    def _stop(self, call: _Call) -> None:
        """Ends a call: at once if it has not begun, because those before it may take long."""
        stopped = _CallFailed("stopped", "by the gateway")
        if call.work is not None and call.work.cancel():
            self._end(call, FrameKind.FAILED, _said(stopped))
        else:
            call.fail(stopped)

    def _answer(self, call: _Call, work: Callable[[_Call, dict[str, Any]], dict[str, Any]], content: bytes) -> None:
        try:
            kind, answer = FrameKind.DONE, work(call, json.loads(content))
        except BaseException as error:  # Whatever it is: the gateway waits for an answer.
            kind, answer = FrameKind.FAILED, _said(call.problem or error)
        self._end(call, kind, answer)

    def _end(self, call: _Call, kind: FrameKind, answer: dict[str, Any]) -> None:
        del self._calls[call.number]
        self._send(described(call.number, kind, answer))

    def _send(self, data: bytes) -> None:
        with self._writing:
            self._channel.sendall(data)

    # --- queries --------------------------------------------------------------------------------------------

    def _run(self, call: _Call, asked: dict[str, Any]) -> dict[str, Any]:
        (statement,) = duckdb.extract_statements(asked["text"])
        if statement.type != duckdb.StatementType.SELECT:
            raise _CallFailed("failed", "not a query")
        types = asked["types"]
        try:
            encoding = PageFormat(types)
        except ValueError as error:
            raise _CallFailed("type", str(error)) from None
        rows_max, bytes_max = asked["rows_max"], asked["bytes_max"]
        self._send(frame(call.number, FrameKind.TAKEN))
        with call.on(self._database) as cursor:
            cursor.execute(statement)
            _check(types, cursor)
            rows, size, first = 0, 0, True
            while (found := cursor.fetchmany(PAGE_ROWS)) or first:
                page, first = encoding.page(rows, found), False
                rows, size = rows + len(found), size + len(page)
                if rows > rows_max:
                    raise _CallFailed("rows", f"more than {rows_max}")
                if size > bytes_max:
                    raise _CallFailed("bytes", f"more than {bytes_max}")
                call.check()
                self._send(frame(call.number, FrameKind.PAGE, page))
        return {"rows": rows}

    # --- tables ---------------------------------------------------------------------------------------------

    def _drop(self, call: _Call, asked: dict[str, Any]) -> dict[str, Any]:
        with call.on(self._database) as cursor:
            cursor.execute(f"DROP TABLE IF EXISTS {identifier(asked['table'])}")
        return {}

    def _load(self, call: _Call, asked: dict[str, Any]) -> dict[str, Any]:
        table, columns = asked["table"], [MemoryColumn(*each) for each in asked["columns"]]
        pipe = self._pipes.get()
        try:
            with call.on(self._database) as cursor:
                feeding = threading.Thread(target=self._feed, args=(call, pipe.writer()), name="feed")
                feeding.start()
                try:
                    return _filled(call, cursor, table, columns, rows_query(columns, pipe.path), asked["kept"])
                finally:
                    call.parts.put(None)
                    pipe.drain()
                    feeding.join()
        finally:
            self._pipes.put(pipe)

    def _feed(self, call: _Call, target: int) -> None:
        """Writes the lines of all parts into the pipe, and closes it."""
        with open(target, "wb", buffering=0) as pipe:
            while (part := call.parts.get()) is not None:
                try:
                    rest = memoryview(lines(part))
                    while rest:
                        rest = rest[pipe.write(rest) :]
                except WireError as error:
                    call.fail(_CallFailed("failed", f"a page that is none: {error}"))
                    return
                self._send(frame(call.number, FrameKind.TAKEN))


def opened(memory_bytes: int, threads: int, paths: list[str]) -> duckdb.DuckDBPyConnection:
    """An empty database that stays in memory, loads no extension, and opens nothing but these paths."""
    database = duckdb.connect(
        ":memory:",
        config={
            "threads": str(threads),
            "memory_limit": f"{memory_bytes}B",
            "temp_directory": "",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            "allow_persistent_secrets": "false",
            "python_enable_replacements": "false",
        },
    )
    database.execute(f"SET allowed_paths = {paths}")
    database.execute("SET GLOBAL TimeZone = 'UTC'")
    database.execute("SET enable_external_access = false")
    database.execute("SET lock_configuration = true")
    return database


def lines(page: bytes) -> bytes:
    """The lines in a page of Spark's with one column of texts. Raises WireError if it is none."""
    texts = ColumnarPage(page).texts(0)
    return b"\n".join((*texts, b"")) if texts else b""


def _filled(
    call: _Call,
    cursor: duckdb.DuckDBPyConnection,
    table: str,
    columns: list[MemoryColumn],
    rows: str,
    kept: dict[str, str] | None,
) -> dict[str, Any]:
    """Replaces a table by the rows of a query, and those of another table (`mv.ports.KeptRows`); what `LoadedTable`
    says of it."""
    begun = f"CREATE OR REPLACE TABLE {identifier(table)} AS"
    cursor.begin()
    try:
        if kept is not None:
            where = f" WHERE NOT ({kept['without']})" if kept["without"] else ""
            cursor.execute(f"{begun} SELECT * FROM {identifier(kept['table'])}{where}")
            call.check()
            begun = f"INSERT INTO {identifier(table)}"
        cursor.execute(f"{begun} {rows}")
        call.check()
        found = cursor.execute(facts_query(columns, table)).fetchone()
        assert found is not None
        answer = _described(columns, found)
        call.check()
        cursor.commit()
    except BaseException:  # Also on an interrupt: readers must never see a part of the rows.
        with contextlib.suppress(duckdb.Error):
            cursor.rollback()
        raise
    return answer


def _described(columns: list[MemoryColumn], found: tuple[Any, ...]) -> dict[str, Any]:
    rows, facts, size = found[0], {}, 0
    for number, column in enumerate(columns):
        nulls, nan, negative, wide, replaced, low, high, texts = found[1 + FACTS * number :][:FACTS]
        if replaced:
            # Spark puts this character in the place of what is not UTF-8, so the value is unknown.
            raise _CallFailed("text", f"the column {column.name} has the character U+FFFD")
        facts[column.name] = {
            "has_nulls": bool(nulls),
            "has_nan": bool(nan),
            "has_negative_zero": bool(negative),
            "is_ascii": column.type == "string" and not wide,
            "minimum": _whole(column, low),
            "maximum": _whole(column, high),
        }
        size += rows * width(column) + int(texts or 0)
    return {"rows": rows, "bytes": size, "facts": facts}


def _whole(column: MemoryColumn, value: int | Decimal | None) -> int | None:
    if value is None or (digits := decimal_digits(column.type)) is None:
        return None if value is None else int(value)
    return int(Decimal(value).scaleb(digits[1], EXACT))


def _check(types: list[str], cursor: duckdb.DuckDBPyConnection) -> None:
    """Raises _CallFailed if the answer has other types than Spark's."""
    found = [str(column[1]) for column in cursor.description or ()]
    if found != (wanted := [engine_type(each) for each in types]):
        raise _CallFailed("failed", f"the columns are {found}, not {wanted}")


def _said(error: BaseException) -> dict[str, Any]:
    """What the gateway is told of an error: the fields of MemoryUnavailable."""
    reason, detail = "failed", str(error)
    match error:
        case _CallFailed():
            reason = error.reason
        case duckdb.OutOfMemoryException() | MemoryError():
            reason = "memory"
        case duckdb.InterruptException():
            reason = "stopped"
        case duckdb.Error():
            pass
        case _:
            detail = repr(error)
    return {"reason": reason, "detail": detail}


def main() -> None:
    """Arguments: the descriptor of the socket, the bytes of memory, and the number of threads."""
    descriptor, memory_bytes, threads = map(int, sys.argv[1:])
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(KILLED_FIRST), encoding="ascii")
    with contextlib.suppress(ValueError, OSError):  # A lower limit may be set already.
        most = 2 * memory_bytes + OTHER_BYTES
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    try:
        EngineProcess(socket.socket(fileno=descriptor), memory_bytes, threads).serve()
    finally:
        os._exit(0)  # Threads may be in the engine for long.


if __name__ == "__main__":
    main()
