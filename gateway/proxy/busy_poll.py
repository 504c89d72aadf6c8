"""Answers that follow one another within microseconds, without a sleep between them.

A client that asks once per row sends its next request some microseconds after each answer. Putting a process to sleep
and waking it up takes longer than that, on a virtual machine several times as long. So the next request is looked for a
moment before the event loop is asked to wait for it: what network drivers call busy polling.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
from time import perf_counter

from gateway.proxy.traffic import Traffic

LOOK_SECONDS = 100e-6
"""Longer than a virtual machine takes to wake a client up."""
ROW_SECONDS = 1e-3
"""For looks in a row without a turn of the event loop: too short to be felt by others who come meanwhile."""
RESTS_BESIDE = 16
"""Answers without a look once somebody else was heard of."""
RESTS_MAX = 64
"""Answers without a look, once looks are in vain: they cost two hundredths of a processor at most."""
_READ_BYTES = 64 * 1024


class BusyPoll:
    """One client's socket, beside the transport that owns it. What comes over TLS only the transport can read."""

    __slots__ = (
        "_file",
        "_heard",
        "_look_seconds",
        "_loop",
        "_poll",
        "_rest",
        "_rests",
        "_row_end",
        "_traffic",
        "_transport",
    )

    def __init__(self, transport: asyncio.Transport, traffic: Traffic, look_seconds: float = LOOK_SECONDS) -> None:
        client: socket.socket = transport.get_extra_info("socket")
        self._file = client.fileno()
        self._poll: select.poll | None = None
        if transport.get_extra_info("sslcontext") is not None:
            self._poll = select.poll()
            self._poll.register(self._file, select.POLLIN)
        self._loop = asyncio.get_running_loop()
        self._transport = transport
        self._traffic = traffic
        self._look_seconds = look_seconds
        self._heard = 0  # Bytes that had come from anybody when the last answer was given.
        self._row_end = 0.0  # When looks in a row must end (`perf_counter`); 0 before the first one.
        self._rest = 0  # Answers to come without a look.
        self._rests = 1

    def exchange(self, answer: bytes, asked: int) -> bytes:
        """Sends the answer to a request of `asked` bytes. Returns what the client sends next, if that comes at once.

        It is looked for only while no other client is heard of, and no reply of Spark's to one, for the event loop
        stands still meanwhile.
        """
        heard = self._traffic.from_clients + self._traffic.from_spark
        alone, self._heard = heard == self._heard + asked, heard
        if not alone:
            self._rest = max(self._rest, RESTS_BESIDE)
        if self._rest or self._transport.get_write_buffer_size():
            self._rest = max(self._rest - 1, 0)
            self._transport.write(answer)
            return b""
        if self._poll is not None:
            self._transport.write(answer)
            self._loop.call_soon(self._linger, self._poll)  # Behind an answer that the transport still holds.
            return b""
        try:
            sent = os.write(self._file, answer)
        except OSError:  # Full, or the client has gone: both are the transport's to deal with.
            sent = 0
        if sent < len(answer):
            self._transport.write(answer[sent:])
            return b""
        return self._look()

    def _look(self) -> bytes:
        began = perf_counter()
        until = began + self._look_seconds
        self._row_end = self._row_end or began + ROW_SECONDS
        while True:
            try:
                data = os.read(self._file, _READ_BYTES)
            except BlockingIOError:
                if perf_counter() < until:
                    continue
                self._look_in_vain()
                return b""
            except OSError:  # Lost, as the transport finds, too.
                return b""
            self._rests = 1
            if perf_counter() >= self._row_end:
                self._row_end, self._rest = 0.0, 1
            return data  # Nothing at the end of all data, which the transport sees as well.

    def _linger(self, poll: select.poll) -> None:
        """Until there is something for the transport to read, which it then does without a sleep."""
        if self._traffic.from_clients + self._traffic.from_spark != self._heard:
            return  # It has read the next request already, or somebody else's.
        until = perf_counter() + self._look_seconds
        while not poll.poll(0):
            if self._transport.is_closing() or perf_counter() >= until:
                self._look_in_vain()
                return
        self._rests = 1

    def _look_in_vain(self) -> None:
        self._row_end = 0.0
        self._rest = self._rests = min(self._rests * 2, RESTS_MAX)
