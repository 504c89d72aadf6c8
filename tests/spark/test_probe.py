"""A look at Spark that hangs. The real one cannot be made to be silent at a given call."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
from TCLIService import TCLIService, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TMessageType
from thrift.transport.TTransport import TMemoryBuffer

from gateway.spark.client import SessionPool
from gateway.spark.probe import ask
from gateway.wire.endpoint import Endpoint
from gateway.wire.frame import frame
from gateway.wire.sasl import COMPLETE, negotiation

DEADLINE_SECONDS = 60.0
LOOK_SECONDS = 0.5


def opened() -> bytes:
    """The reply to the first call, an OpenSession."""
    handle = ttypes.TSessionHandle(ttypes.THandleIdentifier(b"g" * 16, b"s" * 16))
    reply = ttypes.TOpenSessionResp(ttypes.TStatus(0), 5, handle, {})
    memory = TMemoryBuffer()
    protocol = TBinaryProtocol(memory)
    protocol.writeMessageBegin("OpenSession", TMessageType.REPLY, 1)
    TCLIService.OpenSession_result(reply).write(protocol)
    protocol.writeMessageEnd()
    return frame(memory.getvalue())


class Hanging:
    """A Thrift server that opens sessions, and answers no statement."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.left = asyncio.Event()
        self._server: asyncio.Server | None = None

    async def endpoint(self) -> Endpoint:
        """Implements `client.EndpointSource`."""
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return Endpoint("127.0.0.1", self._server.sockets[0].getsockname()[1])

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in (negotiation(COMPLETE), opened()):
            await reader.read(10_000)
            writer.write(answer)
        await reader.read(10_000)
        self.asked.set()
        while await reader.read(10_000):
            pass
        self.left.set()
        writer.close()

    def close(self) -> None:
        if self._server is not None:
            self._server.close()


@pytest.mark.parametrize("stopped", [False, True], ids=["too late", "the gateway stops"])
def test_a_spark_that_hangs_leaves_nothing_in_the_log(stopped: bool) -> None:
    complaints: list[dict[str, Any]] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        spark = Hanging()
        async with asyncio.timeout(DEADLINE_SECONDS):
            pool = SessionPool(spark, "service", 1)
            look = asyncio.create_task(ask(pool, DEADLINE_SECONDS if stopped else LOOK_SECONDS))
            await spark.asked.wait()
            if stopped:
                look.cancel()
            with pytest.raises(asyncio.CancelledError if stopped else TimeoutError):
                await look
            # The session is not lent again.
            await spark.left.wait()
            await pool.close()
        spark.close()

    asyncio.run(scenario())
    # A task complains when it is collected.
    gc.collect()
    assert complaints == []
