"""The actors: honest clients, whose every answer is checked, and attackers, which do what they like."""

from __future__ import annotations

import asyncio
import errno
import itertools
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any, Generic, TypeVar

from raw_session import decoded, encoded
from TCLIService import ttypes

from fuzzing import peer
from fuzzing.mutation import mutated, pieces
from fuzzing.peer import COOKIE, BinaryPeer, HttpPeer, Peer, query
from fuzzing.stage import Stage
from gateway.wire.frame import WireError

ANSWER_SECONDS = 60.0
"""An honest client that waits longer reports a hang."""
PATIENCE_SECONDS = 0.3
"""How long an attacker waits: there need not be an answer."""
END_SECONDS = 10.0
"""How long the gateway may take to close a connection after its client has closed its own end."""
DIALOGUE_SECONDS = 120.0
"""Longest attack."""
HONEST = "honest"
ROWS_MAX = 1000
ALIKE = 0.9
"""Share of pages with the same length as the previous one."""
_tokens = itertools.count()

GREETINGS = (
    b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"SSH-2.0-OpenSSH_9.6\r\n",
    b"\0" * 64,
    b"\xff" * 64,
)

P = TypeVar("P", bound=Peer)


class Wrong(Exception):
    """The answer does not match the request."""


class Honest(ABC, Generic[P]):
    """Opens sessions, runs queries, and compares every byte of the answers that can be predicted."""

    name = ""
    """The name of its answers in the counts."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self._stage = stage
        self._random = Random(seed)
        self._client: P

    @abstractmethod
    async def connect(self) -> P:
        """Opens a connection."""

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
        self._client = await self.connect()
        try:
            await self._client.log_in(user)
            session = (await self.ask(peer.open_session(user, self._random.choice((5, 9))))).sessionHandle
            for _ in range(self._random.randrange(1, 6)):
                await self._query(session, f"{user}-{next(_tokens)}")
            closed = await self.ask(peer.close_session(session))
            _same(closed.status.statusCode, 0)
        finally:
            await self._client.close()

    async def ask(self, message: bytes) -> Any:
        """Returns the response to a call."""
        return decoded(await self._client.exchange(message))

    async def _query(self, session: Any, token: str) -> None:
        count = self._random.randrange(ROWS_MAX)
        begun = await self.ask(peer.execute(session, query(token, count), self._random.random() < 0.5))
        _same(begun.status.statusCode, 0)
        operation = begun.operationHandle
        # The gateway answers many polls in a row in another way than a few.
        for _ in range(self._random.choice((1, 2, 3, 100))):
            while True:
                status = await self.ask(peer.about("GetOperationStatus", operation))
                _same(status.status.statusCode, 0)
                if status.operationState not in (0, 1, 7):
                    break
            _same(status.operationState, 2)
        columns = (await self.ask(peer.about("GetResultSetMetadata", operation))).schema.columns
        _same([column.columnName for column in columns], ["token", "number"])
        numbers: list[int] = []
        alike = self._random.randrange(1, ROWS_MAX)
        while True:
            # Pages of equal length are read ahead; then the page may not be asked for.
            size = alike if self._random.random() < ALIKE else self._random.randrange(1, ROWS_MAX)
            page = (await self.ask(peer.fetch(operation, size))).results
            tokens, found = (column.stringVal.values for column in page.columns)
            _same(set(tokens) - {token}, set())
            if not found:
                break
            numbers += map(int, found)
        _same(sorted(numbers), list(range(count)))
        _same((await self.ask(peer.about("CloseOperation", operation))).status.statusCode, 0)
        self._stage.counts[self.name] += 1


class HonestOverBinary(Honest[BinaryPeer]):
    name = "right answer"

    async def connect(self) -> BinaryPeer:
        return await BinaryPeer.connect(self._stage.port, framed=self._random.random() < 0.7)


class HonestOverHttp(Honest[HttpPeer]):
    """Continues its session over another connection now and then, and after the gateway has closed one."""

    name = "right answer over HTTP"

    async def connect(self) -> HttpPeer:
        return await HttpPeer.connect(self._stage.http_port, self._random)

    async def ask(self, message: bytes) -> Any:
        if self._client.ended or self._random.random() < 0.03:
            await self._client.close()
            before, self._client = self._client, await self.connect()
            self._client.login, self._client.cookie = before.login, before.cookie
        response = await super().ask(message)
        self._stage.cookies.add(self._client.cookie.removeprefix(b"Cookie: "))
        return response


def _same(found: object, expected: object) -> None:
    if found != expected:
        raise Wrong(f"{found!r} instead of {expected!r}"[:300])


class Attacker(ABC, Generic[P]):
    """Attacks the gateway. It must never get an answer to an honest client."""

    name = ""
    """The name of its sessions in the counts."""

    def __init__(self, stage: Stage, seed: int, recorded: Sequence[bytes]) -> None:
        self._stage = stage
        self._random = Random(seed)
        self._recorded = recorded
        self._stop = asyncio.Event()

    @abstractmethod
    def ways(self) -> Sequence[Callable[[P], Awaitable[None]]]:
        """The attacks; more likely ones are repeated. The counts use their names."""

    @abstractmethod
    async def connect(self) -> P:
        """Opens a connection."""

    async def run(self, stop: asyncio.Event) -> None:
        self._stop = stop
        ways = self.ways()
        while not stop.is_set():
            way = self._random.choice(ways)
            name = way.__name__.strip("_").replace("_", " ")
            try:
                async with asyncio.timeout(DIALOGUE_SECONDS) as deadline:
                    await self._attack(way)
            except (ConnectionError, asyncio.IncompleteReadError, TimeoutError):
                if deadline.expired():
                    self._stage.report(f"an attack, {name}, does not end within {DIALOGUE_SECONDS:g} s")
                self._stage.counts["connection closed by the gateway"] += 1
            except WireError:
                # An earlier malformed request may be answered late, or in part.
                self._stage.counts["answer out of step"] += 1
            except OSError as error:
                if error.errno == errno.ENOTCONN:  # The gateway closed it between two steps.
                    continue
                self._stage.report(f"no connection for an attack: {error!r}")
                await asyncio.sleep(0.5)
            except Exception as error:
                self._stage.report(f"an attack, {name}: {error!r}")
            self._stage.counts[f"{self.name}: {name}"] += 1

    async def _attack(self, way: Callable[[P], Awaitable[None]]) -> None:
        client = await self.connect()
        try:
            await way(client)
            end = self._random.random()
            if end < 0.3:
                await self._half_close(client)
            elif end < 0.6:
                await client.reset()
        finally:
            await client.close()

    async def _replay(self, client: P) -> None:
        """Sends a mutated recording of a real client."""
        data = mutated(self._random.choice(self._recorded), self._random, self._recorded, self._random.randrange(1, 6))
        await self._send(client, data)
        await self._read_a_little(client)

    async def _half_close(self, client: Peer) -> None:
        """Closes the client's end: the gateway must then close the connection, whatever it was doing."""
        client.end()
        try:
            async with asyncio.timeout(END_SECONDS):
                await self._read_on(client)
        except TimeoutError:
            self._stage.report(f"a connection stays open {END_SECONDS:g} s after its client has sent its end")

    async def _read_on(self, client: Peer) -> None:
        """Reads to the end of the connection."""
        while data := await client.reader.read(peer.READ_BYTES):
            self._check_answer(data)

    async def _read_a_little(self, client: Peer) -> bytes:
        try:
            async with asyncio.timeout(self._random.random() * PATIENCE_SECONDS):
                data = await client.reader.read(peer.READ_BYTES)
        except TimeoutError:
            return b""
        self._check_answer(data)
        return data

    def _check_answer(self, data: bytes) -> None:
        if HONEST.encode() in data or not self._stage.cookies.isdisjoint(COOKIE.findall(data)):
            self._stage.report(f"an answer to an honest client went to an attacker: {data[:200]!r}")

    async def _send(self, client: Peer, data: bytes) -> None:
        for piece in pieces(data, self._random):
            client.send(piece)
            await asyncio.sleep(0 if self._random.random() < 0.8 else self._random.random() * 0.02)
        await client.writer.drain()

    def _message(self, session: Any, operation: Any) -> bytes:
        """A random call; calls about operations use a handle that does not exist if there is none."""
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
