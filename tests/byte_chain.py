"""A gateway between two recorders: the messages on both sides must be the same.

The chain is client, recorder, gateway, recorder, Spark. The recorders must have seen the same messages, except:
- The gateway answers the status of a finished operation from memory, with the bytes of Spark's own answer.
- The gateway fetches rows of schemas, tables, columns and functions over another connection, and removes those of the
  storage database. Pages without such rows must be the same.
- A client that asks for tables, but not for views, also gets materialized views: the gateway asks Spark for both.
- The gateway answers SHOW SCHEMAS, without its storage database.
- For a result that is read page by page, the gateway asks Spark for the next page in advance. The client's page must be
  that page, except for the sequence id. If the client does not ask for it, the gateway makes Spark go back.
- Over HTTP, a session is opened and closed over a connection of its own, and the gateway sends the close.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httptools
from clients import pyhive, rows
from processes import Engine, Gateway, wait_until
from recorder import Recorder, Recording

from gateway.wire.frame import HEADER_BYTES
from gateway.wire.message import FETCH_PRIOR, Head, fetch_call, peek, request_handle, with_seqid
from gateway.wire.scanner import message_end

OPEN_SESSION = "OpenSession"
CLOSE_SESSION = "CloseSession"
STATUS = "GetOperationStatus"
FETCH = "FetchResults"
GET_TABLES = "GetTables"
LISTS_DATABASES = re.compile(rb"SHOW\s+(SCHEMAS|DATABASES)", re.IGNORECASE)
MESSAGE_BYTES_MAX = 1 << 30
NEVER = 1_000_000
"""The probe interval, in seconds."""
Pair = tuple[bytes, bytes]
"""A request and its reply."""


@dataclass(frozen=True)
class Chain:
    """The recorders around a gateway, and the name of a database that has a fresh view `m` of column `n`."""

    before: Recorder
    behind: Recorder
    database: str
    http: bool

    @property
    def host(self) -> str:
        return self.before.host

    @property
    def port(self) -> int:
        return self.before.port

    def to_spark(self) -> list[bytes]:
        """All messages that the gateway has sent to Spark so far."""
        return [each for recording in self.behind.recordings for each in messages(recording.sent)]

    @property
    def storage(self) -> str:
        """The name of the gateway's storage database."""
        return f"storage_of_{self.database}"

    @property
    def url(self) -> str:
        mode = ";transportMode=http;httpPath=cliservice" if self.http else ""
        return f"jdbc:hive2://{self.host}:{self.port}/default{mode}"


@contextlib.contextmanager
def chain(engine: Engine, database: str, log: Path, *, http: bool = False) -> Iterator[Chain]:
    """Starts a gateway between two recorders, and creates a view `m` in an existing database."""
    behind = Recorder(engine.host, engine.port)
    # If an observation were due, a statement that may read anything would wait and then use another connection.
    settings: dict[str, Any] = {
        "storage.database": f"storage_of_{database}",
        "staleness.probe_interval": NEVER,
        "listen.http_port": 0,
        # A read whose result may be kept is read by the gateway first.
        "result_cache.bytes": 0,
    }
    gateway = Gateway(log, upstream=f"{behind.host}:{behind.port}", settings=settings)
    before = Recorder(gateway.host, gateway.http_port if http else gateway.port)
    try:
        with pyhive(gateway.host, gateway.port, user="creator", database=database) as cursor:
            rows(cursor, "CREATE TABLE t (n INT) USING parquet")
            rows(cursor, "INSERT INTO t VALUES (1), (2)")
            rows(cursor, "CREATE MATERIALIZED VIEW m AS SELECT n FROM t")
        yield Chain(before, behind, database, http)
        with pyhive(gateway.host, gateway.port, user="creator", database=database) as cursor:
            rows(cursor, "DROP MATERIALIZED VIEW m")
    finally:
        gateway.stop()
        before.close()
        behind.close()


def assert_same_bytes(chain: Chain) -> Counter[str]:
    """Compares every session of clients in the chain with Spark's. Returns how often each call was seen."""
    # Over HTTP, a driver keeps its connection after it has closed its session.
    ended = _answered if chain.http else _ended
    wait_until(lambda: all(map(ended, chain.before.recordings)), what="the connections to end")
    aside = _fetched_aside(chain)
    seen: Counter[str] = Counter()
    for outer in chain.before.recordings:
        asked, answered = messages(outer.sent), messages(outer.received)
        inner = _at_spark(chain, answered[0])
        wait_until(inner.done.is_set, what="Spark's connection to end")
        if chain.http:
            *mine, (closing, closed) = _pairs(outer)
            opening, *rest = _pairs(inner)
            assert [peek(closing).name] == [peek(request).name for request, _ in rest] == [CLOSE_SESSION]
            assert [closed] == [with_seqid(reply, peek(closing).seqid) for _, reply in rest]
            _assert_same_session(mine, [opening, *_pairs(_joined(chain, mine[1][0]))], aside, chain.storage.encode())
        else:
            _assert_same_session(_pairs(outer), _pairs(inner), aside, chain.storage.encode())
        assert len(asked) == len(answered)
        seen.update(peek(request).name for request in asked)
    return seen


def _at_spark(chain: Chain, opened: bytes) -> Recording:
    """The connection of the session that this reply opened; its ids are unique."""
    (found,) = [each for each in chain.behind.recordings if opened in bytes(each.received)]
    return found


def _joined(chain: Chain, request: bytes) -> Recording:
    """The connection over which the gateway sent this request of a client to Spark."""
    (found,) = [each for each in chain.behind.recordings if request in bytes(each.sent)]
    return found


def _ended(recording: Recording) -> bool:
    return recording.done.is_set()


def _answered(recording: Recording) -> bool:
    return len(messages(recording.sent)) == len(messages(recording.received))


def _pairs(recording: Recording) -> list[Pair]:
    return list(zip(messages(recording.sent), messages(recording.received), strict=True))


def _fetched_aside(chain: Chain) -> dict[bytes, list[bytes]]:
    """Pages of metadata by the id of their operation. The gateway fetches them over its own connections."""
    opened = {messages(outer.received)[0] for outer in chain.before.recordings}
    found: dict[bytes, list[bytes]] = {}
    for inner in chain.behind.recordings:
        if not any(each in bytes(inner.received) for each in opened):
            # The gateway's own connections stay open, so the last request may have no answer yet.
            for request, reply in zip(messages(inner.sent), messages(inner.received), strict=False):
                if peek(request).name == FETCH:
                    found.setdefault(_guid(request), []).append(reply)
    return found


def _assert_same_session(outer: list[Pair], inner: list[Pair], aside: dict[bytes, list[bytes]], storage: bytes) -> None:
    """Compares the requests and replies of the client with those of Spark."""
    assert peek(outer[0][0]).name == OPEN_SESSION
    remembered: dict[bytes, bytes] = {}
    changed: list[bytes] = []
    """Replies that opened operations whose answers the gateway changes."""
    at_spark = _SparksSide(inner)
    expected = at_spark.next()
    for request, reply in outer:
        head: Head = peek(request)
        while expected is not None and request != expected[0] and at_spark.is_ahead(expected):
            expected = at_spark.next()
        if head.name == FETCH and (page := at_spark.taken(request)) is not None:
            assert reply == with_seqid(page, head.seqid)
            at_spark.asked(request)
        elif expected is not None and request == expected[0]:
            assert reply == expected[1], head.name
            at_spark.asked(request)
            expected = at_spark.next()
            if head.name == STATUS:
                remembered[_guid(request)] = reply
        elif head.name == GET_TABLES and expected is not None:
            assert peek(expected[0]).name == GET_TABLES
            assert reply == expected[1]
            expected = at_spark.next()
            changed.append(reply)
        elif LISTS_DATABASES.search(request):
            changed.append(reply)
        elif not any(_guid(request) in each for each in changed):
            if head.name == STATUS:
                assert reply == with_seqid(remembered[_guid(request)], head.seqid)
            else:
                assert head.name == FETCH, (request, expected)
                page = aside[_guid(request)].pop(0)
                assert storage in page or reply == with_seqid(page, head.seqid)
    while expected is not None and at_spark.is_ahead(expected):
        expected = at_spark.next()
    assert expected is None


class _SparksSide:
    """Spark's requests in order, and the pages among them that the gateway fetched in advance."""

    def __init__(self, pairs: list[Pair]) -> None:
        self._pairs = iter(pairs)
        self._fetched: set[bytes] = set()
        self._ahead: dict[bytes, Pair] = {}

    def next(self) -> Pair | None:
        return next(self._pairs, None)

    def asked(self, request: bytes) -> None:
        """Records that a client has sent this request."""
        if peek(request).name == FETCH:
            self._fetched.add(request)

    def is_ahead(self, pair: Pair) -> bool:
        """Whether the gateway sent the request by itself: a repeated request for a page, or the step back."""
        request, _ = pair
        if peek(request).name != FETCH:
            return False
        if fetch_call(request).orientation == FETCH_PRIOR:
            return self._ahead.pop(_guid(request), None) is not None
        if request not in self._fetched:
            return False
        assert _guid(request) not in self._ahead, "more than one page was fetched in advance"
        self._ahead[_guid(request)] = pair
        return True

    def taken(self, request: bytes) -> bytes | None:
        """The page that was fetched in advance, if this is the request for it."""
        asked, page = self._ahead.get(_guid(request), (b"", b""))
        if _but_for_seqid(asked) != _but_for_seqid(request):
            return None
        del self._ahead[_guid(request)]
        return page


def _but_for_seqid(request: bytes) -> bytes:
    return request[:20] + request[24:]


def _guid(request: bytes) -> bytes:
    handle = request_handle(request)
    assert handle is not None
    return handle.guid


def messages(stream: bytearray) -> list[bytes]:
    """The complete Thrift messages of one direction so far, without the login, frames and HTTP heads."""
    data = bytes(stream)
    if data[:5] in {b"POST ", b"HTTP/"}:
        return _bodies(data)
    if data[:2] != b"\x80\x01":
        data = _unframed(data)
    found = []
    while data and (end := message_end(data, MESSAGE_BYTES_MAX)) is not None:
        found.append(data[:end])
        data = data[end:]
    return found


def _bodies(data: bytes) -> list[bytes]:
    found: list[bytes] = []

    class Found:
        def on_message_begin(self) -> None:
            found.append(b"")

        def on_body(self, body: bytes) -> None:
            found[-1] += body

    parser = httptools.HttpRequestParser if data.startswith(b"POST ") else httptools.HttpResponseParser
    parser(Found()).feed_data(data)
    return found


def _unframed(data: bytes) -> bytes:
    """A SASL message begins with a status of 1, 2 or 5 and a length. Frames follow, whose length is below 2^24."""
    position = 0
    while data[position : position + 1] in {b"\1", b"\2", b"\5"}:
        position += 5 + int.from_bytes(data[position + 1 : position + 5], "big")
    payload = bytearray()
    while position < len(data):
        length = int.from_bytes(data[position : position + HEADER_BYTES], "big")
        payload += data[position + HEADER_BYTES : position + HEADER_BYTES + length]
        position += HEADER_BYTES + length
    return bytes(payload)
