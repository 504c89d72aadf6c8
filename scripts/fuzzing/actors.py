"""Who acts: honest clients, whose every answer is checked, and wrong ones, which do what they like."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any

from raw_session import decoded, encoded, login
from TCLIService import ttypes

from fuzzing import peer
from fuzzing.mutation import mutated, pieces, reordered
from fuzzing.peer import Peer, query
from fuzzing.stage import Stage
from gateway.wire.frame import WireError

ANSWER_SECONDS = 60.0
"""An honest client that waits longer has found a hang."""
PATIENCE_SECONDS = 0.3
"""Of a wrong one: there need not be an answer."""
END_SECONDS = 10.0
"""Within which the gateway must close a connection whose client has sent its end."""
HONEST = "honest"
ROWS_MAX = 1000
_tokens = itertools.count()

GREETINGS = (
    b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"SSH-2.0-OpenSSH_9.6\r\n",
    b"\0" * 64,
    b"\xff" * 64,
)


class Wrong(Exception):
    """An answer that is not the one to the question."""


class Honest:
    """Opens sessions, runs queries, and compares every byte of the answers that it can know."""

    name = "right answer"

    def __init__(self, stage: Stage, seed: int) -> None:
        self._stage = stage
        self._random = Random(seed)

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    await self._session()
            except Exception as error:
                self._stage.report(f"an honest client: {error!r}")
                await asyncio.sleep(0.1)

    async def _session(self) -> None:
        user = f"{HONEST}-{next(_tokens)}"
        client = await Peer.connect(self._stage.port, framed=self._random.random() < 0.7)
        try:
            await client.log_in(user)
            opened = decoded(await client.exchange(peer.open_session(user, self._random.choice((5, 9)))))
            session = opened.sessionHandle
            for _ in range(self._random.randrange(1, 6)):
                await self._query(client, session, f"{user}-{next(_tokens)}")
            closed = decoded(await client.exchange(peer.close_session(session)))
            _same(closed.status.statusCode, 0)
        finally:
            await client.close()

    async def _query(self, client: Peer, session: Any, token: str) -> None:
        count = self._random.randrange(ROWS_MAX)
        run_async = self._random.random() < 0.5
        begun = decoded(await client.exchange(peer.execute(session, query(token, count), run_async)))
        _same(begun.status.statusCode, 0)
        operation = begun.operationHandle
        for _ in range(self._random.randrange(1, 4)):
            while True:
                status = decoded(await client.exchange(peer.about("GetOperationStatus", operation)))
                _same(status.status.statusCode, 0)
                if status.operationState not in (0, 1, 7):
                    break
            _same(status.operationState, 2)
        columns = decoded(await client.exchange(peer.about("GetResultSetMetadata", operation))).schema.columns
        _same([column.columnName for column in columns], ["token", "number"])
        numbers: list[int] = []
        while True:
            page = decoded(await client.exchange(peer.fetch(operation, self._random.randrange(1, ROWS_MAX)))).results
            tokens, found = (column.stringVal.values for column in page.columns)
            _same(set(tokens) - {token}, set())
            if not found:
                break
            numbers += map(int, found)
        _same(sorted(numbers), list(range(count)))
        _same(decoded(await client.exchange(peer.about("CloseOperation", operation))).status.statusCode, 0)
        self._stage.counts[self.name] += 1


def _same(found: object, expected: object) -> None:
    if found != expected:
        raise Wrong(f"{found!r} instead of {expected!r}"[:300])


class Attacker:
    """Sends wrong sessions; whatever comes back, it must not be of an honest client."""

    def __init__(self, stage: Stage, seed: int, recorded: Sequence[bytes]) -> None:
        self._stage = stage
        self._random = Random(seed)
        self._recorded = recorded
        self._ways: list[Callable[[Peer], Awaitable[None]]] = [
            self._replay,
            self._replay,
            self._dialogue,
            self._dialogue,
            self._dialogue,
            self._all_at_once,
            self._greet,
            self._long_statement,
            self._read_nothing,
        ]

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            way = self._random.choice(self._ways)
            name = way.__name__.strip("_").replace("_", " ")
            try:
                await self._attack(way)
            except (ConnectionError, asyncio.IncompleteReadError, TimeoutError):
                self._stage.counts["connection closed by the gateway"] += 1
            except WireError:
                # What was asked wrongly before may be answered late, or by halves.
                self._stage.counts["answer out of step"] += 1
            except OSError as error:
                if error.errno == errno.ENOTCONN:  # It was closed between two of our steps.
                    continue
                self._stage.report(f"no connection for an attack: {error!r}")
                await asyncio.sleep(0.5)
            except Exception as error:
                self._stage.report(f"an attack, {name}: {error!r}")
            self._stage.counts[f"wrong session: {name}"] += 1

    async def _attack(self, way: Callable[[Peer], Awaitable[None]]) -> None:
        client = await Peer.connect(self._stage.port, framed=self._random.random() < 0.8)
        try:
            await way(client)
            end = self._random.random()
            if end < 0.3:
                await self._half_close(client)
            elif end < 0.6:
                await client.reset()
        finally:
            await client.close()

    async def _half_close(self, client: Peer) -> None:
        """The gateway must close then, whatever it was doing."""
        client.end()
        try:
            async with asyncio.timeout(END_SECONDS):
                await self._read_on(client)
        except TimeoutError:
            self._stage.report(f"a connection stays open {END_SECONDS:g} s after its client has sent its end")

    async def _read_on(self, client: Peer) -> None:
        """Reads to the end of the connection."""
        while data := await client.reader.read(peer.READ_BYTES):
            self._look(data)

    async def _read_a_little(self, client: Peer) -> bytes:
        try:
            async with asyncio.timeout(self._random.random() * PATIENCE_SECONDS):
                data = await client.reader.read(peer.READ_BYTES)
        except TimeoutError:
            return b""
        self._look(data)
        return data

    def _look(self, data: bytes) -> None:
        if HONEST.encode() in data:
            self._stage.report(f"an answer to an honest client went to a wrong one: {data[:200]!r}")

    async def _send(self, client: Peer, data: bytes) -> None:
        for piece in pieces(data, self._random):
            client.send(piece)
            await asyncio.sleep(0 if self._random.random() < 0.8 else self._random.random() * 0.02)
        await client.writer.drain()

    # --- ways --------------------------------------------------------------------------------------------

    async def _replay(self, client: Peer) -> None:
        """A recorded session of a real client, damaged."""
        data = mutated(self._random.choice(self._recorded), self._random, self._recorded, self._random.randrange(1, 6))
        await self._send(client, data)
        await self._read_a_little(client)

    async def _dialogue(self, client: Peer) -> None:
        """A session with handles that are open, in which some messages are wrong."""
        await client.log_in("mallory")
        client.send(client.on_the_wire(peer.open_session("mallory", self._random.randrange(10))))
        async with asyncio.timeout(ANSWER_SECONDS):
            session = decoded(await client.reply()).sessionHandle
        operation: Any = None
        for _ in range(self._random.randrange(1, 12)):
            message = self._message(session, operation)
            is_wrong = self._random.random() < 0.5
            if is_wrong:
                message = mutated(message, self._random, self._recorded)
            data = client.on_the_wire(message)
            if self._random.random() < 0.15:
                data = mutated(data, self._random, self._recorded)
                is_wrong = True
            await self._send(client, data)
            if is_wrong:
                await self._read_a_little(client)
                if self._random.random() < 0.5:
                    return
                continue
            async with asyncio.timeout(PATIENCE_SECONDS):
                reply = await client.reply()
            self._look(reply)
            if b"ExecuteStatement" in message[:40]:
                # The reply may be a late one to another call.
                with contextlib.suppress(AssertionError):
                    operation = getattr(decoded(reply), "operationHandle", None) or operation

    def _message(self, session: Any, operation: Any) -> bytes:
        """Any call; those about operations take one that does not exist where there is none."""
        random = self._random
        if operation is None:
            operation = ttypes.TOperationHandle(ttypes.THandleIdentifier(random.randbytes(16), b"s" * 16), 0, True)
        calls: list[Callable[[], bytes]] = [
            lambda: peer.execute(session, query("mallory", random.randrange(ROWS_MAX)), random.random() < 0.5),
            lambda: peer.execute(session, "SHOW MATERIALIZED VIEWS", random.random() < 0.5),
            lambda: peer.execute(session, random.choice(STATEMENTS), random.random() < 0.5),
            lambda: peer.about("GetOperationStatus", operation),
            lambda: peer.about("GetResultSetMetadata", operation),
            lambda: peer.about("CancelOperation", operation),
            lambda: peer.about("CloseOperation", operation),
            lambda: peer.fetch(operation, random.choice((0, -1, 1, 1000, 1 << 40)), random.choice((0, 1, 4, 77))),
            lambda: encoded("GetInfo", ttypes.TGetInfoReq(session, random.randrange(120))),
            lambda: encoded("GetTables", ttypes.TGetTablesReq(session, None, "*", "%", ["TABLE", "VIEW"])),
            lambda: encoded("GetPrimaryKeys", ttypes.TGetPrimaryKeysReq(session, None, None, "t")),
            lambda: encoded("GetLog", ttypes.TGetLogReq(operation)),
            lambda: peer.open_session("mallory"),
            lambda: peer.close_session(session),
        ]
        return random.choice(calls)()

    async def _all_at_once(self, client: Peer) -> None:
        """Messages that are right, but sent ahead, merged into frames, in another order, more than once."""
        no_session = ttypes.TSessionHandle(ttypes.THandleIdentifier(b"g" * 16, b"s" * 16))
        messages = [peer.open_session("mallory"), *(self._message(no_session, None) for _ in range(8))]
        messages = reordered(messages, self._random)
        stream = b"".join(messages)
        frames = map(client.on_the_wire, pieces(stream, self._random))
        await self._send(client, (login("mallory") if client.framed else b"") + b"".join(frames))
        await self._read_a_little(client)

    async def _greet(self, client: Peer) -> None:
        """Another protocol."""
        random = self._random
        await self._send(client, random.choice((*GREETINGS, random.randbytes(random.randrange(1, 500)))))
        await self._read_a_little(client)

    async def _long_statement(self, client: Peer) -> None:
        """At the limit or beyond it; sometimes it breaks off."""
        await client.log_in("mallory")
        session = ttypes.TSessionHandle(ttypes.THandleIdentifier(b"g" * 16, b"s" * 16))
        text = "SELECT '" + "x" * self._random.choice((1 << 16, 1 << 20, 3 << 20)) + "'"
        data = client.on_the_wire(peer.execute(session, text))
        if self._random.random() < 0.3:
            data = data[: self._random.randrange(len(data))]
        await self._send(client, data)
        await self._read_a_little(client)

    async def _read_nothing(self, client: Peer) -> None:
        """Asks for many large pages, and reads none of them."""
        await client.log_in("mallory")
        async with asyncio.timeout(ANSWER_SECONDS):
            session = decoded(await client.exchange(peer.open_session("mallory"))).sessionHandle
            begun = decoded(await client.exchange(peer.execute(session, query("mallory" * 50, 2000))))
        if begun.operationHandle is None:
            return
        for _ in range(20):
            client.send(client.on_the_wire(peer.fetch(begun.operationHandle, 2000, 4)))
        await asyncio.sleep(self._random.random() * PATIENCE_SECONDS)


STATEMENTS = (
    "",
    ";",
    "CREATE MATERIALIZED VIEW",
    "CREATE MATERIALIZED VIEW m AS SELECT 1 AS a",
    "REFRESH MATERIALIZED VIEW nothing",
    "SELECT * FROM mv_infos()",
    "SELECT '" + "(" * 3000,
    "select \x00 \ud83d".encode("utf-8", "replace").decode(),
    "BEGIN",
    "USE nowhere",
)
