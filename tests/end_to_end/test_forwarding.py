"""What is not about a stale view reaches Spark, and comes back, with the same bytes.

A client, a recorder, the gateway, a second recorder, Spark: both recorders must have seen the same messages. The one
exception is a finished operation's status, which the gateway answers from memory: with the bytes of Spark's own answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from clients import Jdbc, beeline, pyhive, rows
from databases import Database
from processes import Engine, Gateway, wait_until
from recorder import Recorder, Recording

from gateway.wire.frame import HEADER_BYTES
from gateway.wire.message import Head, peek, request_handle, with_seqid
from gateway.wire.scanner import message_end

STATUS = "GetOperationStatus"
MESSAGE_BYTES_MAX = 1 << 30
STATEMENTS = [
    "SELECT 1 AS one",
    "SELECT id, CAST(id AS STRING) AS s, IF(id % 3 = 0, NULL, id / 2) AS d FROM range(2500)",
    "SELECT true, 1Y, 2S, 3L, 1.5F, 2.5D, 3.14BD, 'ü😀', X'00FF', DATE'2020-02-29', TIMESTAMP'2020-01-01 00:00:00', "
    "array(1, NULL), map('k', 1), named_struct('a', 1), CAST(NULL AS INT), INTERVAL '1' DAY",
    "CREATE TEMPORARY VIEW numbers AS SELECT * FROM VALUES (1), (2) AS v(n)",
    "SELECT sum(n) FROM numbers",
    "SHOW FUNCTIONS LIKE 'abs'",
    "SET spark.sql.shuffle.partitions=3",
    "SELECT n FROM {db}.m ORDER BY n",
    "EXPLAIN SELECT n FROM {db}.m",
]
FAILING = "SELECT nothing FROM nowhere"


@dataclass
class Bench:
    """The chain of recorders around a gateway, and the name of a database that has a fresh view `m`."""

    before: Recorder
    behind: Recorder
    database: str

    @property
    def url(self) -> str:
        return f"jdbc:hive2://{self.before.host}:{self.before.port}/default"


@pytest.fixture
def chain(engine: Engine, database: Database, tmp_path: Path) -> Iterator[Bench]:
    behind = Recorder(engine.host, engine.port)
    gateway = Gateway(
        tmp_path / "gateway.log",
        upstream=f"{behind.host}:{behind.port}",
        **{"storage.database": "storage_of_forwarding"},
    )
    before = Recorder(gateway.host, gateway.port)
    try:
        with pyhive(gateway.host, gateway.port, user="creator", database=database.name) as cursor:
            rows(cursor, "CREATE TABLE t (n INT) USING parquet")
            rows(cursor, "INSERT INTO t VALUES (1), (2)")
            rows(cursor, "CREATE MATERIALIZED VIEW m AS SELECT n FROM t")
        yield Bench(before, behind, database.name)
        with pyhive(gateway.host, gateway.port, user="creator", database=database.name) as cursor:
            rows(cursor, "DROP MATERIALIZED VIEW m")
    finally:
        gateway.stop()
        before.close()
        behind.close()


def _with_pyhive(chain: Bench) -> None:
    with pyhive(chain.before.host, chain.before.port, user="recorded") as cursor:
        for statement in STATEMENTS:
            rows(cursor, statement.format(db=chain.database))
        with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
            rows(cursor, FAILING)


def _with_pyhive_nosasl(chain: Bench) -> None:
    with pyhive(chain.before.host, chain.before.port, user="recorded", auth="NOSASL") as cursor:
        for statement in STATEMENTS:
            rows(cursor, statement.format(db=chain.database))


def _with_jdbc(chain: Bench) -> None:
    with Jdbc(chain.url, user="recorded") as jdbc:
        for statement in STATEMENTS:
            jdbc.query(statement.format(db=chain.database))
        with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
            jdbc.query(FAILING)
        metadata = jdbc.connection.getMetaData()
        for found in (
            metadata.getCatalogs(),
            metadata.getPrimaryKeys(None, chain.database, "m"),
            metadata.getTypeInfo(),
        ):
            while found.next():
                pass
            found.close()


def _with_beeline(chain: Bench) -> None:
    beeline(
        chain.url,
        *(statement.format(db=chain.database) for statement in STATEMENTS),
        FAILING,
        user="recorded",
        check=False,
    )


@pytest.mark.parametrize(
    "client", [_with_pyhive, _with_pyhive_nosasl, _with_jdbc, _with_beeline], ids=lambda each: each.__name__
)
def test_the_same_bytes(chain: Bench, client: Callable[[Bench], None]) -> None:
    client(chain)
    outer, inner = _recorded(chain.before), _recorded(chain.behind)
    asked, answered = _messages(outer.sent), _messages(outer.received)
    passed_on, came_back = _messages(inner.sent), _messages(inner.received)
    assert len(asked) == len(answered)
    assert len(passed_on) == len(came_back)
    remembered: dict[bytes, bytes] = {}
    for request, reply in zip(asked, answered, strict=True):
        if passed_on and request == passed_on[0]:
            assert reply == came_back[0], peek(request).name
            del passed_on[0], came_back[0]
            if peek(request).name == STATUS:
                remembered[_guid(request)] = reply
        else:
            head: Head = peek(request)
            assert head.name == STATUS
            assert reply == with_seqid(remembered[_guid(request)], head.seqid)
    assert passed_on == []


def _guid(request: bytes) -> bytes:
    handle = request_handle(request)
    assert handle is not None
    return handle.guid


def _recorded(recorder: Recorder) -> Recording:
    """The connection on which the client's statements went."""
    wait_until(lambda: all(each.done.is_set() for each in _of_client(recorder)), what="the connection to end")
    (recording,) = _of_client(recorder)
    return recording


def _of_client(recorder: Recorder) -> list[Recording]:
    return [each for each in recorder.recordings if b"recorded" in each.sent and b"SELECT 1 AS one" in each.sent]


def _messages(stream: bytearray) -> list[bytes]:
    """The Thrift messages of one direction, login and frames taken off."""
    data = bytes(stream)
    if data[:2] != b"\x80\x01":
        data = _unframed(data)
    found = []
    while data:
        end = message_end(data, MESSAGE_BYTES_MAX)
        assert end is not None
        found.append(data[:end])
        data = data[end:]
    return found


def _unframed(data: bytes) -> bytes:
    """SASL negotiation is a status of 1, 2 or 5 and a length; after it come frames, whose length is below 2^24."""
    position = 0
    while data[position] in (1, 2, 5):
        position += 5 + int.from_bytes(data[position + 1 : position + 5], "big")
    payload = bytearray()
    while position < len(data):
        length = int.from_bytes(data[position : position + HEADER_BYTES], "big")
        payload += data[position + HEADER_BYTES : position + HEADER_BYTES + length]
        position += HEADER_BYTES + length
    return bytes(payload)
