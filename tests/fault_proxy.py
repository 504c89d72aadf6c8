"""A TCP proxy between a gateway and Spark that counts statements and injects faults into chosen ones."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from TCLIService import TCLIService
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TMessageType
from thrift.transport.TTransport import TMemoryBuffer

from gateway.wire import message, reply
from gateway.wire.frame import frame

SASL_COMPLETE = 5
STALL_SECONDS = 120.0
LATE_SECONDS = 1.0
"""The delay of a statement whose connection broke; the gateway has observed the tables by then."""


class Fault(Enum):
    ERROR = "an error"
    """The proxy answers with an error, and Spark never gets the statement."""
    ERROR_AFTER = "an error after it"
    """Spark runs the statement, but the answer is an error, as from a Spark that is being stopped."""
    CUT = "the connection cut before it"
    CUT_AFTER = "the connection cut after it"
    """Spark runs the statement; the gateway gets no answer."""
    CUT_LATE = "the connection cut, and then it"
    """Spark gets the statement a second later and runs it."""
    STALL = "a stop"
    """The statement waits until `release`."""


@dataclass
class FaultProxy:
    """Listens on its own port and forwards everything to `host:port`, which may be changed.

    `subject_of` returns the name under which a statement is counted; None: the statement is not counted.
    """

    host: str
    port: int
    subject_of: Callable[[str], str | None]
    faults: dict[tuple[str, int], Fault] = field(default_factory=dict)
    """The fault of a subject's n-th statement, from 1."""
    statuses: list[int] = field(default_factory=list)
    """Spark's own status codes after ERROR_AFTER and CUT_LATE."""
    sent: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """The statements of each subject."""
    stalled: set[str] = field(default_factory=set)
    """The subjects with a waiting statement."""
    hit: list[tuple[str, int, Fault, str]] = field(default_factory=list)
    """The faults that occurred: subject, number, fault, statement."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._released = threading.Event()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.own_port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.own_port}"

    @property
    def counts(self) -> Counter[str]:
        """How many statements of each subject were sent."""
        with self._lock:
            return Counter({subject: len(texts) for subject, texts in self.sent.items()})

    def plan(self, faults: dict[tuple[str, int], Fault]) -> None:
        """Forgets what was sent, and sets the faults."""
        with self._lock:
            self.faults, self.sent = dict(faults), defaultdict(list)
            self.stalled.clear()
            self._released = threading.Event()

    def release(self) -> None:
        """Cuts the connections of waiting statements."""
        self._released.set()

    def close(self) -> None:
        self.release()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._sockets:
            _end(each)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    spark = socket.create_connection((self.host, self.port))
                except OSError:
                    client.close()
                    continue
                self._sockets += [client, spark]
                link = _Link(self, client, spark)
                threading.Thread(target=link.requests, daemon=True).start()
                threading.Thread(target=link.replies, daemon=True).start()

    def meet(self, text: str) -> Fault | None:
        """Counts a statement and returns its fault."""
        subject = self.subject_of(text)
        if subject is None:
            return None
        with self._lock:
            self.sent[subject].append(text)
            number = len(self.sent[subject])
            fault = self.faults.get((subject, number))
            if fault is None:
                return None
            self.hit.append((subject, number, fault, text))
            if fault is Fault.STALL:
                self.stalled.add(subject)
            released = self._released
        if fault is Fault.STALL:
            released.wait(STALL_SECONDS)
        return fault


class _Link:
    """One connection through the proxy; the gateway logs in with SASL."""

    def __init__(self, proxy: FaultProxy, client: socket.socket, spark: socket.socket) -> None:
        self._proxy, self._client, self._spark = proxy, client, spark
        self._logged_in = threading.Event()
        self._swallow = False
        self._late = False
        self._answered = threading.Event()
        self._instead: bytes | None = None

    def requests(self) -> None:
        with contextlib.suppress(OSError, EOFError):
            while not self._logged_in.is_set():
                header = _exactly(self._client, 5)
                body = _exactly(self._client, int.from_bytes(header[1:], "big"))
                self._spark.sendall(header + body)
                # The server's answer tells whether the handshake continues.
                if header[0] != 1:
                    self._logged_in.wait(30)
            while True:
                payload = _exactly(self._client, int.from_bytes(_exactly(self._client, 4), "big"))
                if not self._request(payload):
                    break
        self._close()

    def _request(self, payload: bytes) -> bool:
        """Forwards a request, or applies its fault; False: the connection must be cut."""
        head = message.peek(payload)
        fault = self._proxy.meet(message.statement(payload).statement) if head.name == "ExecuteStatement" else None
        match fault:
            case None:
                self._spark.sendall(frame(payload))
            case Fault.ERROR:
                answer = reply.error(head.name, head.seqid, "[INJECTED] a fault of this test", "XX000")
                self._client.sendall(frame(answer))
            case Fault.ERROR_AFTER:
                self._instead = reply.error(head.name, head.seqid, "[INJECTED] Spark is being stopped", "XX000")
                self._spark.sendall(frame(_run_to_its_end(payload)))
            case Fault.CUT_AFTER:
                self._swallow = True
                self._spark.sendall(frame(payload))
            case Fault.CUT_LATE:
                _end(self._client)
                self._swallow = self._late = True
                time.sleep(LATE_SECONDS)  # the fault itself
                self._spark.sendall(frame(_run_to_its_end(payload)))
                self._answered.wait(30)
                return False
            case Fault.CUT | Fault.STALL:
                return False
        return True

    def replies(self) -> None:
        with contextlib.suppress(OSError, EOFError):
            while not self._logged_in.is_set():
                header = _exactly(self._spark, 5)
                body = _exactly(self._spark, int.from_bytes(header[1:], "big"))
                self._client.sendall(header + body)
                if header[0] == SASL_COMPLETE:
                    self._logged_in.set()
            while True:
                header = _exactly(self._spark, 4)
                payload = _exactly(self._spark, int.from_bytes(header, "big"))
                if self._swallow:
                    if self._late:
                        self._proxy.statuses.append(_status(payload))
                    self._answered.set()
                    break
                answer, self._instead = self._instead, None
                if answer is not None:
                    self._proxy.statuses.append(_status(payload))
                self._client.sendall(header + payload if answer is None else frame(answer))
        self._close()

    def _close(self) -> None:
        self._logged_in.set()
        for each in (self._client, self._spark):
            _end(each)


def _run_to_its_end(payload: bytes) -> bytes:
    """The request as a synchronous one, whose reply comes when the statement has ended."""
    head = message.peek(payload)
    arguments = TCLIService.ExecuteStatement_args()
    source = TBinaryProtocol(TMemoryBuffer(payload))
    source.readMessageBegin()
    arguments.read(source)
    arguments.req.runAsync = False
    buffer = TMemoryBuffer()
    target = TBinaryProtocol(buffer)
    target.writeMessageBegin(head.name, TMessageType.CALL, head.seqid)
    arguments.write(target)
    target.writeMessageEnd()
    return bytes(buffer.getvalue())


def _status(payload: bytes) -> int:
    """The status code in the reply to a statement."""
    result = TCLIService.ExecuteStatement_result()
    source = TBinaryProtocol(TMemoryBuffer(payload))
    source.readMessageBegin()
    result.read(source)
    return int(result.success.status.statusCode)


def _exactly(source: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        piece = source.recv(count - len(data))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)


def _end(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
