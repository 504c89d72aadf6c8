"""Tests the limit on the memory for incomplete requests of all clients together."""

from __future__ import annotations

from dataclasses import replace

from proxy.peers import LIMITS, gateway, until
from wire import calls

from gateway.proxy.half_read import FREE_BYTES, HalfRead
from gateway.proxy.traffic import Traffic
from gateway.wire.frame import frame


def test_above_the_limit_only_large_requests_are_refused() -> None:
    traffic = Traffic()
    small, large, other = (HalfRead(traffic, 1_000_000) for _ in range(3))
    assert small.has_room(FREE_BYTES, partial=True, begun=True)
    assert large.has_room(900_000, partial=True, begun=True)
    assert not other.has_room(100_000, partial=True, begun=True)
    other.release()
    assert small.has_room(0, partial=True, begun=False)
    assert large.has_room(10_000, partial=True, begun=False)
    assert traffic.half_read == FREE_BYTES + 910_000
    # The request is complete; the remaining bytes belong to the next one.
    assert large.has_room(20, partial=True, begun=True)
    assert small.has_room(10, partial=False, begun=True)
    assert traffic.half_read == 20
    large.release()
    assert traffic.half_read == 0


async def test_above_the_limit_a_client_with_a_large_incomplete_request_is_closed() -> None:
    async with gateway(limits=replace(LIMITS, half_read_bytes_max=500_000, request_bytes_max=1 << 24)) as gate:
        first, second = await gate.client(), await gate.client()
        half = frame(calls.execute("x" * 2_000_000))[:300_000]
        first.writer.write(half)
        await until(lambda: gate.traffic.half_read >= 300_000)
        second.writer.write(half)
        await second.closed()
        await until(lambda: gate.traffic.half_read < 400_000)
        assert not first.reader.at_eof()
