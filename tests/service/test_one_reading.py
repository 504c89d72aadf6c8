"""Tests that the gateway reads a statement's text once on its whole way, whatever the statement needs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes import Site
from lexings import counted
from views import given

from gateway.monitoring.unread import names
from gateway.service.answers.healing import Healing
from gateway.service.clients.audit import Audit, Line, Unread

INNER = "INSERT INTO s.u SELECT * FROM s.mv"


def find_names(_: Line, unread: Unread | None = None, /) -> None:
    if unread is not None:
        names(unread)


async def stage() -> Site:
    """An audit log is kept, and ddl_columns is on: both ask about the text, too."""
    site = Site(healing=Healing(ddl_columns=True))
    site.service = replace(site.service, audit=Audit(find_names))
    for name in ("s.t", "s.u"):
        site.table(name)
    await site.view("s.mv", "SELECT count(*) n FROM s.t")
    site.write("s.t")
    return site


@pytest.mark.parametrize(
    "text",
    [
        "SELECT n FROM s.mv",
        "SELECT n FROM s.other",
        "WITH c AS (SELECT n FROM s.mv) SELECT * FROM c JOIN LATERAL (SELECT 1)",
        "WITH c AS (SELECT n FROM s.mv) INSERT INTO s.u SELECT * FROM c",
        INNER,
        "INSERT INTO s.t VALUES (1, 'a')",
        "MERGE INTO s.t USING s.mv AS m ON t.a = m.n WHEN MATCHED THEN DELETE",
        "CREATE TABLE s.x USING parquet OPTIONS (path '/lake/x') AS SELECT * FROM s.mv",
        "CREATE TEMPORARY VIEW v AS SELECT n FROM s.mv",
        "DROP VIEW s.mv",
        "SHOW CREATE TABLE s.mv",
        "USE s",
        "SET freshgate.snapshot = session",
        "EXPLAIN SELECT n FROM s.mv",
        "FROBNICATE s.mv WITH 'x'",
        "REFRESH MATERIALIZED VIEW s.mv",
        f"EXECUTE IMMEDIATE '{INNER}'",
        f"EXECUTE IMMEDIATE '{INNER}' || x",
        f"BEGIN {INNER}; SET x = '{INNER}'; END",
        f"BEGIN EXECUTE IMMEDIATE '{INNER}'; END",
    ],
)
@pytest.mark.parametrize("when_stale", ["REFRESH", "INLINE"])
async def test_no_text_is_lexed_twice(text: str, when_stale: str, monkeypatch: pytest.MonkeyPatch) -> None:
    site = await stage()
    given(site.entry("s.mv"), properties={"when_stale": when_stale})
    bob = await site.client("bob")
    lexings = counted(monkeypatch)
    await bob.execute(text)
    assert lexings[text] <= 1
    assert lexings[INNER] <= 1
    assert {each: count for each, count in lexings.items() if count > 1} == {}


async def test_a_transaction_reads_it_once_too(monkeypatch: pytest.MonkeyPatch) -> None:
    site = await stage()
    bob = await site.client("bob")
    await bob.execute("BEGIN TRANSACTION")
    lexings = counted(monkeypatch)
    await bob.execute("SELECT n FROM s.mv")
    assert "freshgate_version" in site.spark.texts[-1]
    assert lexings["SELECT n FROM s.mv"] == 1
