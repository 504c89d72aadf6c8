"""Tests that requests that involve no stale view, and their replies, are forwarded byte for byte."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from byte_chain import Chain, assert_same_bytes, chain
from clients import Jdbc, beeline, pyhive, rows
from databases import Database
from processes import Engine, Gateway
from raw_session import RawSession
from tiers import sampled

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


MILLIONS = 155
WIDE = f"SELECT CAST(id AS STRING) AS n, repeat('x', 1000000) AS wide FROM range({MILLIONS})"
GROWTH_MAX = 16 << 20


@pytest.fixture
def recorded(engine: Engine, database: Database, tmp_path: Path) -> Iterator[Chain]:
    with chain(engine, database.name, tmp_path / "gateway.log") as running:
        yield running


def _with_pyhive(chain: Chain) -> None:
    with pyhive(chain.host, chain.port, user="recorded") as cursor:
        for statement in STATEMENTS:
            rows(cursor, statement.format(db=chain.database))
        with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
            rows(cursor, FAILING)


def _with_pyhive_nosasl(chain: Chain) -> None:
    with pyhive(chain.host, chain.port, user="recorded", auth="NOSASL") as cursor:
        for statement in STATEMENTS:
            rows(cursor, statement.format(db=chain.database))


def _with_jdbc(chain: Chain) -> None:
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


def _with_beeline(chain: Chain) -> None:
    beeline(
        chain.url,
        *(statement.format(db=chain.database) for statement in STATEMENTS),
        FAILING,
        user="recorded",
        check=False,
    )


CLIENTS = {"pyhive": _with_pyhive, "pyhive_nosasl": _with_pyhive_nosasl, "jdbc": _with_jdbc, "beeline": _with_beeline}


@pytest.mark.parametrize("client", sampled(list(CLIENTS.values()), {"pyhive", "jdbc"}, list(CLIENTS)))
def test_requests_and_replies_are_forwarded_unchanged(recorded: Chain, client: Callable[[Chain], None]) -> None:
    client(recorded)
    assert assert_same_bytes(recorded)["ExecuteStatement"] >= len(STATEMENTS)


def test_requests_and_replies_are_forwarded_unchanged_over_http(
    engine: Engine, database: Database, tmp_path: Path
) -> None:
    with chain(engine, database.name, tmp_path / "gateway.log", http=True) as recorded:
        _with_jdbc(recorded)
        assert assert_same_bytes(recorded)["ExecuteStatement"] >= len(STATEMENTS)


def test_a_reply_of_150_megabytes_is_streamed_without_being_held(
    engine: Engine, start_gateway: Callable[..., Gateway]
) -> None:
    gateway = start_gateway()
    sums: list[tuple[int, bytes]] = []
    before = _peak(gateway)
    for server in (engine, gateway):
        with RawSession(server) as session:
            page = session.fetch(session.execute(WIDE), MILLIONS)
        # The replies differ only in the request's sequence number.
        rows_only = page[page.index(b"x" * 100) :]
        sums.append((len(page), hashlib.sha256(rows_only).digest()))
    assert sums[0] == sums[1]
    assert sums[0][0] > MILLIONS * 1_000_000
    assert _peak(gateway) - before < GROWTH_MAX


def _peak(gateway: Gateway) -> int:
    """Returns the peak of its resident memory, in bytes."""
    status = Path(f"/proc/{gateway.pid}/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM:"))
