"""Finding out whether a statement has ended whose client does not ask."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

from gateway.errors import UpstreamLost
from gateway.service.clients.unseen import Unseen
from gateway.service.operations.operation import ForwardedOperation, new_handle
from gateway.wire import message, reply


class Broken:
    """A connection to Spark that breaks when it is asked about a statement."""

    async def forward(self, payload: bytes) -> bytes:
        head = message.peek(payload)
        if head.name == "GetOperationStatus":
            raise UpstreamLost("The connection broke.")
        return reply.unknown_method(head.name, head.seqid)


@contextlib.asynccontextmanager
async def spare() -> AsyncIterator[Any]:
    yield Broken()


async def test_a_failed_question_says_nothing() -> None:
    statement = Unseen(cast(Any, spare))
    statement.started(ForwardedOperation(new_handle()))
    assert not await statement.look()
    assert not statement.known
