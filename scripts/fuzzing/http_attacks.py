"""Attacks over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from message_stream import HttpReply
from raw_session import decoded
from TCLIService import ttypes

from fuzzing import http_mutation, peer
from fuzzing.actors import ANSWER_SECONDS, END_SECONDS, GREETINGS, PATIENCE_SECONDS, Attacker
from fuzzing.mutation import mutated, reordered
from fuzzing.peer import HttpPeer, query
from fuzzing.stage import FORGED, LOGIN_SECONDS, STALL_SECONDS

USER = "mallory"
TWO_LINES = f"mallory\r\n{FORGED}"
LET_GO_SECONDS = max(LOGIN_SECONDS, 2 * STALL_SECONDS) + 15.0
"""How long the gateway may keep a client that has begun a request and does not complete it."""
DRIP_SECONDS = 0.3
STATUS = b"HTTP/1.1 "
NO_SESSION = ttypes.TSessionHandle(ttypes.THandleIdentifier(b"g" * 16, b"s" * 16))
_names = itertools.count()


class HttpAttacker(Attacker[HttpPeer]):
    name = "wrong HTTP session"

    def ways(self) -> Sequence[Callable[[HttpPeer], Awaitable[None]]]:
        return (
            self._replay,
            self._replay,
            self._dialogue,
            self._dialogue,
            self._dialogue,
            self._wrong_head,
            self._wrong_chunks,
            self._all_at_once,
            self._hide,
            self._hide,
            self._share,
            self._share,
            self._greet,
            self._long,
            self._read_nothing,
        )

    async def connect(self) -> HttpPeer:
        client = await HttpPeer.connect(self._stage.http_port, self._random)
        await client.log_in(USER if self._random.random() < 0.8 else TWO_LINES)
        return client

    async def _open(self, client: HttpPeer, user: str = USER) -> Any:
        async with asyncio.timeout(ANSWER_SECONDS):
            return decoded(await client.exchange(peer.open_session(user))).sessionHandle

    def _call(self) -> bytes:
        return self._message(NO_SESSION, None)

    # --- ways --------------------------------------------------------------------------------------------

    async def _dialogue(self, client: HttpPeer) -> None:
        """A session with open handles, in which some requests are malformed: their HTTP, or their content."""
        session = await self._open(client)
        operation: Any = None
        for _ in range(self._random.randrange(1, 12)):
            message = self._message(session, operation)
            data, is_wrong = self._maybe_wrong(client, message)
            await self._send(client, data)
            if is_wrong:
                await self._read_a_little(client)
                if self._random.random() < 0.5:
                    return
                continue
            async with asyncio.timeout(PATIENCE_SECONDS):
                answer = await client.answer()
            self._check_answer(answer.body)
            if answer.status == 200 and b"ExecuteStatement" in message[:40]:
                # The answer may be a late one to another call.
                with contextlib.suppress(AssertionError):
                    operation = getattr(decoded(answer.body), "operationHandle", None) or operation
            if client.ended:
                return

    def _maybe_wrong(self, client: HttpPeer, message: bytes) -> tuple[bytes, bool]:
        random = self._random
        way = random.random()
        if way < 0.5:
            return client.on_the_wire(message), False
        if way < 0.7:
            return client.on_the_wire(mutated(message, random, self._recorded)), True
        if way < 0.85:
            return http_mutation.wrong_head(client.on_the_wire(message), random), True
        return mutated(client.on_the_wire(message), random, self._recorded), True

    async def _wrong_head(self, client: HttpPeer) -> None:
        """Malforms request lines and headers."""
        times = self._random.randrange(1, 5)
        await self._send(client, http_mutation.wrong_head(client.on_the_wire(self._call()), self._random, times))
        await self._read_a_little(client)

    async def _wrong_chunks(self, client: HttpPeer) -> None:
        """Malforms sizes, ends and trailers of chunks."""
        await self._send(client, http_mutation.wrong_chunks(self._call(), [client.login], self._random))
        await self._read_a_little(client)

    async def _all_at_once(self, client: HttpPeer) -> None:
        """Sends valid requests ahead, in another order, repeated, and more than are accepted."""
        messages = [peer.open_session(USER), *(self._call() for _ in range(self._random.choice((8, 8, 8, 100))))]
        requests = [client.on_the_wire(each) for each in reordered(messages, self._random)]
        if self._random.random() < 0.3:
            place = self._random.randrange(len(requests))
            requests[place] = http_mutation.wrong_head(requests[place], self._random)
        await self._send(client, b"".join(requests))
        await self._read_a_little(client)

    async def _hide(self, client: HttpPeer) -> None:
        """Hides a request after one whose end is ambiguous; it must not be answered."""
        if self._random.random() < 0.7:
            await self._open(client)
            if client.ended:
                return
        hidden = http_mutation.post(peer.open_session(USER), client.login)
        await self._send(client, http_mutation.ambiguous(hidden, self._call(), [client.login], self._random))
        said = bytearray()
        try:
            async with asyncio.timeout(END_SECONDS):
                while data := await client.reader.read(peer.READ_BYTES):
                    said += data
        except ConnectionError:
            pass
        except TimeoutError:
            self._stage.report(f"a connection stays open after a request that may be two: {bytes(said[:200])!r}")
        self._check_answer(bytes(said))
        if said.count(STATUS) > 1:
            self._stage.report(f"a hidden request was answered: {bytes(said[:300])!r}")

    async def _share(self, client: HttpPeer) -> None:
        """Sends requests of two users over one connection, as a proxy does: each answer must go to its sender."""
        user = f"carol-{next(_names)}"
        names = http_mutation.basic(user)

        async def ask(who: bytes, *messages: bytes) -> list[HttpReply]:
            for each in messages:
                client.send(http_mutation.post(each, who))
            async with asyncio.timeout(ANSWER_SECONDS):
                return [await client.answer() for _ in messages]

        (opened,) = await ask(names, peer.open_session(user))
        session = decoded(opened.body).sessionHandle
        (begun,) = await ask(names, peer.execute(session, query(user, 3)))
        operation = decoded(begun.body).operationHandle
        rows = peer.fetch(operation, 100, 4)
        for _ in range(self._random.randrange(1, 6)):
            wrong = [rows, peer.execute(session, query(USER, 3)), peer.about("CloseOperation", operation)]
            wrong += [peer.close_session(session), self._call(), mutated(rows, self._random)]
            for answer in await ask(client.login, *self._random.sample(wrong, self._random.randrange(1, 3))):
                if user.encode() in answer.body:
                    self._stage.report(f"a user got another user's answer: {answer.body[:200]!r}")
                if client.ended:
                    return
            for answer in await ask(names, rows, rows):
                page = decoded(answer.body)
                if page.status.statusCode != 0 or page.results.columns[0].stringVal.values != [user] * 3:
                    self._stage.report(f"a user on a shared connection got a wrong answer: {answer.body[:200]!r}")
        await ask(names, peer.close_session(session))

    async def _greet(self, client: HttpPeer) -> None:
        """Speaks another protocol."""
        random = self._random
        binary = peer.open_session(USER)
        await self._send(client, random.choice((*GREETINGS, binary, random.randbytes(random.randrange(1, 500)))))
        await self._read_a_little(client)

    async def _long(self, client: HttpPeer) -> None:
        """Sends heads and bodies at or above their limits; sometimes they are truncated."""
        if self._random.random() < 0.5:
            await self._open(client)
        text = "SELECT '" + "x" * self._random.choice((1 << 16, 1 << 20, 3 << 20)) + "'"
        data = client.on_the_wire(peer.execute(NO_SESSION, text))
        data = self._random.choice((data, data, *http_mutation.LONG))
        if self._random.random() < 0.3:
            data = data[: self._random.randrange(len(data))]
        await self._send(client, data)
        await self._read_a_little(client)

    async def _read_nothing(self, client: HttpPeer) -> None:
        """Asks for many large pages, and reads none of them."""
        session = await self._open(client)
        async with asyncio.timeout(ANSWER_SECONDS):
            begun = decoded(await client.exchange(peer.execute(session, query(USER * 50, 2000))))
        if begun.operationHandle is None:
            return
        for _ in range(20):
            client.send(http_mutation.post(peer.fetch(begun.operationHandle, 2000, 4), client.login))
        await asyncio.sleep(self._random.random() * PATIENCE_SECONDS)


class SlowHttpAttacker(HttpAttacker):
    """Only begins requests slowly, because each attempt takes some seconds."""

    def ways(self) -> Sequence[Callable[[HttpPeer], Awaitable[None]]]:
        return (self._slow,)

    async def _slow(self, client: HttpPeer) -> None:
        """Begins a request and stops, or drips: the gateway must disconnect it."""
        if self._random.random() < 0.5:
            await self._open(client)
            if client.ended:
                return
        data = client.on_the_wire(self._call())
        data = data[: self._random.randrange(1, len(data))]
        at = len(data) if self._random.random() < 0.5 else self._random.randrange(len(data))
        client.send(data[:at])
        loop = asyncio.get_running_loop()
        deadline = loop.time() + LET_GO_SECONDS
        while not self._stop.is_set():
            if loop.time() > deadline:
                self._stage.report(f"a client that does not complete its request is kept for {LET_GO_SECONDS:g} s")
                return
            client.send(data[at : at + 1])
            at += 1
            try:
                async with asyncio.timeout(DRIP_SECONDS):
                    if not (said := await client.reader.read(peer.READ_BYTES)):
                        self._stage.counts["slow client let go"] += 1
                        return
            except TimeoutError:
                continue
            self._check_answer(said)
