"""A small Thrift server in place of Spark, with sessions, operations, and one kind of query.

It answers `SELECT '<token>' AS token, CAST(id AS STRING) AS number FROM range(<rows>)` as Spark does, so every reply
shows whose it is. Like Spark, it closes the connection on anything that it cannot read.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

from TCLIService import TCLIService, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TMessageType
from thrift.transport.TTransport import TMemoryBuffer

from fuzzing.mutation import mutated, pieces
from gateway.mv.refresh.habits import UNSET
from gateway.wire import message, reply
from gateway.wire.frame import WireError, frame
from gateway.wire.message import FETCH_FIRST, FETCH_PRIOR, Handle, peek
from gateway.wire.rowset import ResultColumn, row_set
from gateway.wire.sasl import COMPLETE, SaslServer, negotiation
from gateway.wire.scanner import MessageScanner

QUERY = re.compile(r"SELECT '([^']*)' AS token, CAST\(id AS STRING\) AS number FROM range\((\d{1,6})\)")
SETTING = re.compile(r"SET ([\w.]+)")
COLUMNS = (ResultColumn("token"), ResultColumn("number"))
SETTING_COLUMNS = (ResultColumn("key"), ResultColumn("value"))
NOT_FOUND = "42704"
GATEWAY = "freshgate"
"""The user of the gateway's own statements."""
MISLED = "misled"
"""The prefix of users whose replies are sometimes corrupted."""
WRONG = 0.2
"""Share of corrupted replies to these users."""
READ_BYTES = 1 << 16
PIECES = 0.1
"""Share of the replies that are sent in pieces."""

Rows = list[list[str]]


class Session:
    def __init__(self, protocol: int, user: str) -> None:
        self.protocol = protocol
        self.user = user
        self.calls: list[str] = []
        """The calls on its connection, to debug a session that was left."""
        self.operations: set[bytes] = set()


class Operation:
    def __init__(self, protocol: int, columns: tuple[ResultColumn, ...], rows: Rows) -> None:
        self.protocol = protocol
        self.columns = columns
        self.rows = rows
        self.start = self.position = 0


@dataclass
class _Line:
    """One connection: its user, received data, sessions and calls."""

    user: str
    ahead: bytearray
    opened: list[bytes]
    calls: list[str] = field(default_factory=list)


class Spark:
    """Serves from `start` to `stop`."""

    def __init__(self, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self._random = Random(seed)
        self._sessions: dict[bytes, Session] = {}
        self._operations: dict[bytes, Operation] = {}
        self._misled: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    def of_clients(self) -> list[str]:
        """Open sessions, without those of the gateway and of misled clients: the user, and the calls on their
        connection."""
        clients = [
            each for each in self._sessions.values() if each.user != GATEWAY and not each.user.startswith(MISLED)
        ]
        return [f"{session.user!r}: {', '.join(session.calls[-20:])}" for session in clients]

    @property
    def address(self) -> str:
        assert self._server is not None
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=2000)

    def hang_up(self) -> None:
        """Closes the connections of misled clients: some wait forever for the rest of a reply."""
        for writer in self._misled:
            writer.close()

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened: list[bytes] = []
        try:
            handshake = SaslServer(1 << 14)
            while (found := handshake.receive(await _some(reader))) is None:
                pass
            writer.write(negotiation(COMPLETE))
            if found.user.startswith(MISLED):
                self._misled.add(writer)
            await self._answer(reader, writer, _Line(found.user, bytearray(handshake.rest), opened))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        except WireError:
            self.counts["unreadable at Spark"] += 1
        finally:
            if opened:  # As in Spark, the newest session ends with the connection.
                self._close_session(opened[-1])
            self._misled.discard(writer)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: _Line) -> None:
        buffer = line.ahead
        scanner, request = MessageScanner(1 << 26), bytearray()
        while True:
            while len(buffer) < 4 or len(buffer) < 4 + int.from_bytes(buffer[:4], "big"):
                buffer += await _some(reader)
            size = int.from_bytes(buffer[:4], "big")
            piece = bytes(buffer[4 : 4 + size])
            del buffer[: 4 + size]
            end = scanner.feed(piece)
            request += piece
            if end is None:
                continue
            if end != len(piece):
                raise WireError("the gateway sent more than one request")
            await self._send(writer, self._written(self._reply(bytes(request), line), line))
            scanner, request = MessageScanner(1 << 26), bytearray()

    def _written(self, reply: bytes, line: _Line) -> bytes:
        random = self._random
        if not line.user.startswith(MISLED) or random.random() > WRONG:
            return frame(reply)
        self.counts["wrong replies of Spark"] += 1
        times = random.randrange(1, 4)
        return frame(mutated(reply, random, times=times)) if random.random() < 0.7 else mutated(frame(reply), random)

    async def _send(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        in_pieces = pieces(data, self._random) if self._random.random() < PIECES else [data]
        for piece in in_pieces:
            if writer.transport.is_closing():
                raise ConnectionResetError("the gateway has closed the connection")
            writer.write(piece)
            await asyncio.sleep(0)
        await writer.drain()

    # --- calls -------------------------------------------------------------------------------------------

    def _reply(self, request: bytes, line: _Line) -> bytes:
        head = peek(request)
        self.counts["requests at Spark"] += 1
        line.calls.append(head.name)
        if head.name == "OpenSession":
            call = message.open_session(request)
            handle = _new_handle()
            session_ = self._sessions[handle.guid] = Session(call.protocol, line.user)
            session_.calls = line.calls
            line.opened.append(handle.guid)
            return _opened(head.seqid, handle, call.protocol)
        handle_ = message.request_handle(request)
        if handle_ is None:
            raise WireError("a request without a handle")
        if head.name.encode() in message.OPERATION_METHODS:
            return self._operation_reply(head, request, handle_)
        session = self._sessions.get(handle_.guid)
        if session is None:
            return reply.error(head.name, head.seqid, "Invalid SessionHandle", "HY000")
        if head.name == "CloseSession":
            line.calls.append(f"(of {session.user!r})")
            self._close_session(handle_.guid)
            return reply.closed(head.name, head.seqid)
        if head.name == "ExecuteStatement":
            return self._execute(head.seqid, session, message.statement(request).statement)
        if head.name in message.METADATA_METHODS:
            rows = [[f"{head.name} {number}", str(number), "t", "TABLE"] for number in range(3)]
            columns = tuple(ResultColumn(name) for name in ("a", "b", "c", "d"))
            handle = self._begin(session, columns, rows)
            return _begun(head.name, head.seqid, handle)
        if head.name == "GetInfo":
            return reply.info(head.seqid, reply.InfoKind.TEXT, "Spark SQL")
        return reply.unknown_method(head.name, head.seqid)

    def _execute(self, seqid: int, session: Session, sql: str) -> bytes:
        if found := QUERY.fullmatch(sql.strip()):
            token, count = found[1], int(found[2])
            rows = [[token, str(number)] for number in range(count)]
            return reply.execute_ok(seqid, self._begin(session, COLUMNS, rows))
        if found := SETTING.fullmatch(sql.strip()):
            value = UNSET if "kyuubi" in found[1] else "false" if "thriftServer" in found[1] else "0"
            return reply.execute_ok(seqid, self._begin(session, SETTING_COLUMNS, [[found[1], value]]))
        if sql in ("SET", "SET -v"):
            return reply.execute_ok(seqid, self._begin(session, SETTING_COLUMNS, []))
        if sql == "SELECT version()":
            return reply.execute_ok(seqid, self._begin(session, COLUMNS[:1], [["4.1.4 revision"]]))
        if sql.startswith("SHOW DATABASES"):
            return reply.execute_ok(seqid, self._begin(session, COLUMNS[:1], [["default"]]))
        if sql.startswith("USE "):
            return reply.execute_ok(seqid, self._begin(session, COLUMNS[:1], []))
        return reply.error("ExecuteStatement", seqid, f"Not known here: {sql[:100]}", NOT_FOUND)

    def _begin(self, session: Session, columns: tuple[ResultColumn, ...], rows: Rows) -> Handle:
        handle = _new_handle()
        session.operations.add(handle.guid)
        self._operations[handle.guid] = Operation(session.protocol, columns, rows)
        return handle

    def _operation_reply(self, head: message.Head, request: bytes, handle: Handle) -> bytes:
        operation = self._operations.get(handle.guid)
        name, seqid = head.name, head.seqid
        if name in ("GetLog", "CloseImpalaOperation"):
            return reply.unknown_method(name, seqid)
        if operation is None:
            return reply.error(name, seqid, "Invalid OperationHandle", "HY000")
        if name == "GetOperationStatus":
            return reply.operation_status(seqid, 2)
        if name == "GetResultSetMetadata":
            return reply.result_metadata(seqid, operation.columns)
        if name == "FetchResults":
            return self._fetch(seqid, operation, message.fetch_call(request))
        if name == "CloseOperation":
            del self._operations[handle.guid]
        if name == "GetQueryId":
            return reply.unknown_method(name, seqid)
        return reply.closed(name, seqid)

    def _fetch(self, seqid: int, operation: Operation, call: message.FetchCall) -> bytes:
        if call.fetch_type == 1:
            return reply.fetch(seqid, row_set([ResultColumn("log")], [], operation.protocol))
        if call.orientation == FETCH_PRIOR:
            self.counts["ways back at Spark"] += 1
        begins = {FETCH_FIRST: 0, FETCH_PRIOR: operation.start - call.rows_max}
        start = operation.start = max(0, begins.get(call.orientation, operation.position))
        page = operation.rows[start : start + max(0, call.rows_max)]
        operation.position = start + len(page)
        return reply.fetch(seqid, row_set(operation.columns, page, operation.protocol, start))

    def _close_session(self, guid: bytes) -> None:
        session = self._sessions.pop(guid, None)
        for operation in session.operations if session is not None else ():
            self._operations.pop(operation, None)


async def _some(reader: asyncio.StreamReader) -> bytes:
    data = await reader.read(READ_BYTES)
    if not data:
        raise asyncio.IncompleteReadError(b"", None)
    return data


def _new_handle() -> Handle:
    return Handle(secrets.token_bytes(16), secrets.token_bytes(16))


def _identifier(handle: Handle) -> Any:
    return ttypes.THandleIdentifier(handle.guid, handle.secret)


def _opened(seqid: int, handle: Handle, protocol: int) -> bytes:
    session = ttypes.TSessionHandle(_identifier(handle))
    return _encoded("OpenSession", seqid, ttypes.TOpenSessionResp(ttypes.TStatus(0), protocol, session, {}))


def _begun(name: str, seqid: int, handle: Handle) -> bytes:
    operation = ttypes.TOperationHandle(_identifier(handle), ttypes.TOperationType.GET_TABLES, True)
    return _encoded(name, seqid, getattr(ttypes, f"T{name}Resp")(ttypes.TStatus(0), operation))


def _encoded(name: str, seqid: int, response: Any) -> bytes:
    protocol = TBinaryProtocol(TMemoryBuffer())
    protocol.writeMessageBegin(name, TMessageType.REPLY, seqid)
    getattr(TCLIService, f"{name}_result")(response).write(protocol)
    return bytes(protocol.trans.getvalue())
