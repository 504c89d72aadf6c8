"""A TCP proxy that records the traffic of each connection."""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import dataclass, field

CHUNK_BYTES = 65536


@dataclass
class Recording:
    """The recorded bytes of both directions of one connection."""

    sent: bytearray = field(default_factory=bytearray)
    received: bytearray = field(default_factory=bytearray)
    done: threading.Event = field(default_factory=threading.Event)
    ends: tuple[socket.socket, ...] = ()

    def cut(self) -> None:
        """Breaks the connection, as a network failure does."""
        for end in self.ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class Recorder:
    """Listens on its own port and forwards everything to `host:port`."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.host = "127.0.0.1"
        self.port: int = self._listener.getsockname()[1]
        self.recordings: list[Recording] = []
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                upstream = socket.create_connection(self._target)
                recording = Recording(ends=(client, upstream))
                self.recordings.append(recording)
                self._sockets += [client, upstream]
                self._pump(client, upstream, recording.sent, recording)
                self._pump(upstream, client, recording.received, recording)

    def _pump(self, source: socket.socket, target: socket.socket, kept: bytearray, recording: Recording) -> None:
        def run() -> None:
            with contextlib.suppress(OSError):
                while data := source.recv(CHUNK_BYTES):
                    kept.extend(data)
                    target.sendall(data)
            for end in (source, target):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
            recording.done.set()

        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        for each in self._sockets:
            each.close()
