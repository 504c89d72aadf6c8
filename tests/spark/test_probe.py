"""Tests that a Spark that hangs is detected. A real Spark cannot be made to hang at a given call."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
from TCLIService import TCLIService, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TMessageType
from thrift.transport.TTransport import TMemoryBuffer

from gateway.errors import UpstreamLost
from gateway.spark import probe
from gateway.spark.client import EndpointSource, SessionPool
from gateway.spark.probe import ask
from gateway.wire.endpoint import Endpoint
from gateway.wire.frame import frame
from gateway.wire.sasl import COMPLETE, negotiation

DEADLINE_SECONDS = 60.0
PROBE_SECONDS = 0.5


def opened() -> bytes:
    """Returns the reply to the first call, an OpenSession."""
    handle = ttypes.TSessionHandle(ttypes.THandleIdentifier(b"g" * 16, b"s" * 16))
    reply = ttypes.TOpenSessionResp(ttypes.TStatus(0), 5, handle, {})
    memory = TMemoryBuffer()
    protocol = TBinaryProtocol(memory)
    protocol.writeMessageBegin("OpenSession", TMessageType.REPLY, 1)
    TCLIService.OpenSession_result(reply).write(protocol)
    protocol.writeMessageEnd()
    return frame(memory.getvalue())


class Hanging(EndpointSource):
    """A Thrift server that opens sessions but answers no statement."""

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


@pytest.mark.parametrize("stopped", [False, True], ids=["timeout", "the gateway stops"])
def test_a_probe_that_hangs_logs_no_unhandled_exception(stopped: bool) -> None:
    complaints: list[dict[str, Any]] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        spark = Hanging()
        async with asyncio.timeout(DEADLINE_SECONDS):
            pool = SessionPool(spark, "service", 1)
            asking = asyncio.create_task(ask(pool, DEADLINE_SECONDS if stopped else PROBE_SECONDS))
            await spark.asked.wait()
            if stopped:
                asking.cancel()
            with pytest.raises(asyncio.CancelledError if stopped else TimeoutError):
                await asking
            # The session is closed, not returned to the pool.
            await spark.left.wait()
            await pool.close()
        spark.close()

    asyncio.run(scenario())
    # A task reports an unretrieved exception when it is garbage-collected.
    gc.collect()
    assert complaints == []


class _Logins:
    """A Spark with a clock of its own, whose logins end as `outcomes` says."""

    def __init__(self, *outcomes: object) -> None:
        self.pid: int | None = 1
        self.now = 0.0
        self.given_up: list[float] = []
        self._outcomes = list(outcomes)

    async def log_in(self) -> None:
        outcome = self._outcomes.pop(0)
        if outcome == "replaced":
            self.pid = (self.pid or 0) + 1
            raise UpstreamLost("its connection broke")
        if isinstance(outcome, float):
            self.now += outcome
            raise TimeoutError
        if isinstance(outcome, Exception):
            raise outcome

    def give_up(self, reason: str) -> None:
        self.given_up.append(self.now)

    async def look(self, times: int, seconds: float = 40.0) -> None:
        watch = probe.LoginWatch(self.log_in, self, seconds, clock=lambda: self.now)
        for _ in range(times):
            await watch.check()
            self.now += probe.INTERVAL_SECONDS


async def test_a_spark_whose_logins_hang_is_given_up_within_a_minute() -> None:
    spark = _Logins(*[10.0] * 3)
    await spark.look(3)
    assert spark.given_up == [40.0]


async def test_a_spark_that_refuses_connections_is_given_up() -> None:
    spark = _Logins(*[UpstreamLost("nobody listens")] * 12)
    await spark.look(12)
    assert spark.given_up == [40.0]


async def test_one_successful_login_resets_the_count_of_failures() -> None:
    spark = _Logins(10.0, 10.0, None, 10.0, 10.0)
    await spark.look(5)
    assert spark.given_up == []


async def test_one_long_pause_does_not_count_as_a_hang() -> None:
    """If the machine slept or Java collected garbage, few logins have failed."""
    spark = _Logins(600.0, 10.0, None)
    await spark.look(3)
    assert spark.given_up == []


async def test_failures_of_one_process_do_not_count_against_its_successor() -> None:
    spark = _Logins(10.0, 10.0, "replaced", 10.0, 10.0)
    await spark.look(5)
    assert spark.given_up == []


async def test_a_spark_that_is_starting_is_not_probed() -> None:
    spark = _Logins()
    spark.pid = None
    await spark.look(3)
    assert spark.given_up == []
