"""Answers quickly repeated requests without sleeping between them.

A client that asks once per row sends its next request some microseconds after each answer. Putting a process to sleep
and waking it takes longer than that, on a virtual machine several times as long. So the gateway polls for the next
request for a moment before the event loop waits for it; network drivers call this busy polling.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
from time import perf_counter

from gateway.proxy.traffic import Traffic

POLL_SECONDS = 100e-6
"""How long to poll. A virtual machine takes less to wake a client up."""
SERIES_SECONDS = 1e-3
"""Longest series of polls without a turn of the event loop: too short to be noticed by other clients."""
RESTS_AFTER_TRAFFIC = 16
"""Answers without polling after other traffic was seen."""
RESTS_MAX = 64
"""Most answers without polling after polls that found nothing, which then cost two hundredths of a processor at
most."""
_READ_BYTES = 64 * 1024


class BusyPoll:
    """Polls one client's socket, which a transport owns. Only the transport can read data sent over TLS."""

    __slots__ = (
        "_bytes_seen",
        "_file",
        "_loop",
        "_poll",
        "_poll_seconds",
        "_rest",
        "_rests",
        "_series_end",
        "_traffic",
        "_transport",
    )

    def __init__(self, transport: asyncio.Transport, traffic: Traffic, poll_seconds: float = POLL_SECONDS) -> None:
        client: socket.socket = transport.get_extra_info("socket")
        self._file = client.fileno()
        self._poll: select.poll | None = None
        if transport.get_extra_info("sslcontext") is not None:
            self._poll = select.poll()
            self._poll.register(self._file, select.POLLIN)
        self._loop = asyncio.get_running_loop()
        self._transport = transport
        self._traffic = traffic
        self._poll_seconds = poll_seconds
        self._bytes_seen = 0  # Bytes received from any client when the last answer was given.
        self._series_end = 0.0  # When the series of polls must end (`perf_counter`); 0 before the first.
        self._rest = 0  # Next answers to give without polling.
        self._rests = 1

    def exchange(self, answer: bytes, asked: int) -> bytes:
        """Sends the answer to a request of `asked` bytes. Returns what the client sends next, if it comes at once.

        Polls only while no other client sends anything and Spark sends no reply, because polling blocks the event loop.
        """
        heard = self._traffic.from_clients + self._traffic.from_spark
        alone, self._bytes_seen = heard == self._bytes_seen + asked, heard
        if not alone:
            self._rest = max(self._rest, RESTS_AFTER_TRAFFIC)
        if self._rest or self._transport.get_write_buffer_size():
            self._rest = max(self._rest - 1, 0)
            self._transport.write(answer)
            return b""
        if self._poll is not None:
            self._transport.write(answer)
            self._loop.call_soon(self._linger, self._poll)  # After an answer that the transport still holds.
            return b""
        try:
            sent = os.write(self._file, answer)
        except OSError:  # The socket is full, or the client has gone: the transport handles both.
            sent = 0
        if sent < len(answer):
            self._transport.write(answer[sent:])
            return b""
        return self._poll_socket()

    def _poll_socket(self) -> bytes:
        began = perf_counter()
        until = began + self._poll_seconds
        self._series_end = self._series_end or began + SERIES_SECONDS
        while True:
            try:
                data = os.read(self._file, _READ_BYTES)
            except BlockingIOError:
                if perf_counter() < until:
                    continue
                self._record_miss()
                return b""
            except OSError:  # The connection is lost; the transport notices too.
                return b""
            self._rests = 1
            if perf_counter() >= self._series_end:
                self._series_end, self._rest = 0.0, 1
            return data  # Empty at the end of the stream, which the transport sees as well.

    def _linger(self, poll: select.poll) -> None:
        """Waits until the transport has something to read, which it then reads without a sleep."""
        if self._traffic.from_clients + self._traffic.from_spark != self._bytes_seen:
            return  # It has already read the next request, or another client's.
        until = perf_counter() + self._poll_seconds
        while not poll.poll(0):
            if self._transport.is_closing() or perf_counter() >= until:
                self._record_miss()
                return
        self._rests = 1

    def _record_miss(self) -> None:
        self._series_end = 0.0
        self._rest = self._rests = min(self._rests * 2, RESTS_MAX)
