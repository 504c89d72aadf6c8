"""Tests that large input is processed in slices, one per turn of the event loop."""

from __future__ import annotations

import asyncio

from proxy.peers import LIMITS, echo_of, gateway
from wire import calls

from gateway.proxy.slices import SLICE_BYTES, Slices
from gateway.wire.frame import frame


async def test_slices_are_processed_in_order_one_per_turn() -> None:
    read: list[bytes] = []
    slices = Slices(asyncio.get_running_loop(), read.append)
    slices.feed(b"short")
    assert read == [b"short"]
    assert not slices
    data = bytes(range(256)) * (5 * SLICE_BYTES // 512)
    slices.feed(data)
    slices.feed(b"behind it")
    slices.feed(b"")
    assert slices
    turns = 0
    while slices:
        assert len(read) == turns + 2
        turns += 1
        await asyncio.sleep(0)
    assert b"".join(read) == b"short" + data + b"behind it"
    assert max(map(len, read)) == SLICE_BYTES


async def test_a_request_in_frames_of_one_byte_lets_other_tasks_run() -> None:
    request = calls.execute("SELECT 1 -- " + "x" * 100_000)
    async with gateway(limits=LIMITS) as gate:
        peer = await gate.client()
        turns = 0

        def turn() -> None:
            nonlocal turns
            turns += 1
            ticking.append(asyncio.get_running_loop().call_soon(turn))
            del ticking[:-1]

        ticking: list[asyncio.Handle] = []
        turn()
        peer.writer.write(b"".join(frame(request[at : at + 1]) for at in range(len(request))))
        assert await peer.message() == echo_of(request)
        ticking[0].cancel()
        assert turns > 5 * len(request) // SLICE_BYTES


async def test_unprocessed_slices_of_a_closed_connection_are_dropped() -> None:
    async with gateway(limits=LIMITS) as gate:
        peer = await gate.client()
        peer.writer.write(b"".join(frame(calls.execute("SELECT 1")) for _ in range(2_000)))
        await peer.writer.drain()
        peer.cut()
