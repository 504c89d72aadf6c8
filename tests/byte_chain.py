"""A gateway between two recorders: what a client says and hears must be what Spark hears and says.

A client, a recorder, the gateway, a second recorder, Spark: both recorders must have seen the same messages. What is
excepted:
- The status of a finished operation comes from the gateway's memory, with the bytes of Spark's own answer.
- Rows of schemas, tables, columns and functions are fetched over another connection, and those of the storage database
  left out: pages without any must be the same.
- Whoever asks for tables, and not for views, is shown materialized views: Spark is asked for both.
- SHOW SCHEMAS is answered by the gateway, without its storage database.
- Of a result that is read page by page Spark is asked for a page before the client asks: it is that page, sequence ids
  aside. Where the client does not ask for it, Spark is told to go back.
- Over HTTP a session is opened and closed over a connection of its own; the close is the gateway's.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
"""Seconds between two looks."""
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
        """All messages that the gateway has sent there so far."""
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
    """A gateway of its own between two recorders, and in a database that is there a view `m`."""
    behind = Recorder(engine.host, engine.port)
    # A statement that may read anything waits for a look that is due, and then goes another way than its connection.
    settings = {"storage.database": f"storage_of_{database}", "staleness.probe_interval": NEVER, "listen.http_port": 0}
    gateway = Gateway(log, upstream=f"{behind.host}:{behind.port}", **settings)
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
    """Holds every session that clients had through the chain against that of Spark. How often each call was seen."""
    # Over HTTP a driver keeps its connection when it has closed its session.
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
    """The connection of the session that this reply opened: it has ids that no other one has."""
    (found,) = [each for each in chain.behind.recordings if opened in bytes(each.received)]
    return found


def _joined(chain: Chain, request: bytes) -> Recording:
    """The connection over which this request of a client's went to Spark."""
    (found,) = [each for each in chain.behind.recordings if request in bytes(each.sent)]
    return found


def _ended(recording: Recording) -> bool:
    return recording.done.is_set()


def _answered(recording: Recording) -> bool:
    return len(messages(recording.sent)) == len(messages(recording.received))


def _pairs(recording: Recording) -> list[Pair]:
    return list(zip(messages(recording.sent), messages(recording.received), strict=True))


def _fetched_aside(chain: Chain) -> dict[bytes, list[bytes]]:
    """Pages of metadata, by their operation's id: the gateway fetches them over connections of its own."""
    opened = {messages(outer.received)[0] for outer in chain.before.recordings}
    found: dict[bytes, list[bytes]] = {}
    for inner in chain.behind.recordings:
        if not any(each in bytes(inner.received) for each in opened):
            # The gateway's own connections go on: the last request may have no answer yet.
            for request, reply in zip(messages(inner.sent), messages(inner.received), strict=False):
                if peek(request).name == FETCH:
                    found.setdefault(_guid(request), []).append(reply)
    return found


def _assert_same_session(outer: list[Pair], inner: list[Pair], aside: dict[bytes, list[bytes]], storage: bytes) -> None:
    """Requests with their replies as the client had them, and as Spark had them."""
    assert peek(outer[0][0]).name == OPEN_SESSION
    remembered: dict[bytes, bytes] = {}
    changed: list[bytes] = []
    """Replies that opened operations of which the client sees something else than Spark's answers."""
    at_spark = _AtSpark(inner)
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


class _AtSpark:
    """What Spark was asked, in order, and the pages among it that were asked for ahead."""

    def __init__(self, pairs: list[Pair]) -> None:
        self._pairs = iter(pairs)
        self._fetched: set[bytes] = set()
        self._ahead: dict[bytes, Pair] = {}

    def next(self) -> Pair | None:
        return next(self._pairs, None)

    def asked(self, request: bytes) -> None:
        """A client has asked for just this."""
        if peek(request).name == FETCH:
            self._fetched.add(request)

    def is_ahead(self, pair: Pair) -> bool:
        """Whether no client has asked for it yet: the request of the page before once more, or the way back."""
        request, _ = pair
        if peek(request).name != FETCH:
            return False
        if fetch_call(request).orientation == FETCH_PRIOR:
            return self._ahead.pop(_guid(request), None) is not None
        if request not in self._fetched:
            return False
        assert _guid(request) not in self._ahead, "one page at most"
        self._ahead[_guid(request)] = pair
        return True

    def taken(self, request: bytes) -> bytes | None:
        """The page that was asked for ahead, where the request is for just that."""
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
    """The whole Thrift messages of one direction so far, login and frames or HTTP's heads taken off."""
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
    """SASL negotiation is a status of 1, 2 or 5 and a length; after it come frames, whose length is below 2^24."""
    position = 0
    while data[position : position + 1] in {b"\1", b"\2", b"\5"}:
        position += 5 + int.from_bytes(data[position + 1 : position + 5], "big")
    payload = bytearray()
    while position < len(data):
        length = int.from_bytes(data[position : position + HEADER_BYTES], "big")
        payload += data[position + HEADER_BYTES : position + HEADER_BYTES + length]
        position += HEADER_BYTES + length
    return bytes(payload)
