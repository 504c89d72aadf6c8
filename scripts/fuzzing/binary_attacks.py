"""Attacks over the binary transport, with SASL and without."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from raw_session import decoded, login
from TCLIService import ttypes

from fuzzing import peer
from fuzzing.actors import ANSWER_SECONDS, GREETINGS, PATIENCE_SECONDS, Attacker
from fuzzing.mutation import mutated, pieces, reordered
from fuzzing.peer import BinaryPeer, query


class BinaryAttacker(Attacker[BinaryPeer]):
    name = "wrong session"

    def ways(self) -> Sequence[Callable[[BinaryPeer], Awaitable[None]]]:
        return (
            self._replay,
            self._replay,
            self._dialogue,
            self._dialogue,
            self._dialogue,
            self._all_at_once,
            self._greet,
            self._long_statement,
            self._read_nothing,
        )

    async def connect(self) -> BinaryPeer:
        return await BinaryPeer.connect(self._stage.port, framed=self._random.random() < 0.8)

    async def _dialogue(self, client: BinaryPeer) -> None:
        """A session with open handles, in which some messages are malformed."""
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
            self._check_answer(reply)
            if b"ExecuteStatement" in message[:40]:
                # The reply may be a late one to another call.
                with contextlib.suppress(AssertionError):
                    operation = getattr(decoded(reply), "operationHandle", None) or operation

    async def _all_at_once(self, client: BinaryPeer) -> None:
        """Messages that are right, but sent ahead, merged into frames, in another order, more than once."""
        no_session = ttypes.TSessionHandle(ttypes.THandleIdentifier(b"g" * 16, b"s" * 16))
        messages = [peer.open_session("mallory"), *(self._message(no_session, None) for _ in range(8))]
        messages = reordered(messages, self._random)
        stream = b"".join(messages)
        frames = map(client.on_the_wire, pieces(stream, self._random))
        await self._send(client, (login("mallory") if client.framed else b"") + b"".join(frames))
        await self._read_a_little(client)

    async def _greet(self, client: BinaryPeer) -> None:
        """Speaks another protocol."""
        random = self._random
        await self._send(client, random.choice((*GREETINGS, random.randbytes(random.randrange(1, 500)))))
        await self._read_a_little(client)

    async def _long_statement(self, client: BinaryPeer) -> None:
        """Sends a statement at or above the limit; sometimes it is truncated."""
        await client.log_in("mallory")
        session = ttypes.TSessionHandle(ttypes.THandleIdentifier(b"g" * 16, b"s" * 16))
        text = "SELECT '" + "x" * self._random.choice((1 << 16, 1 << 20, 3 << 20)) + "'"
        data = client.on_the_wire(peer.execute(session, text))
        if self._random.random() < 0.3:
            data = data[: self._random.randrange(len(data))]
        await self._send(client, data)
        await self._read_a_little(client)

    async def _read_nothing(self, client: BinaryPeer) -> None:
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
