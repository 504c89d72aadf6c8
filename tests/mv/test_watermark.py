"""Tables that are observed by a declared watermark, without Spark."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest
from fake_spark import Answer, FakeMetastore, named

from gateway.errors import StatementFailed
from gateway.mv.formats.known_formats import format_of
from gateway.mv.formats.watermark import OtherTables, statement_of
from gateway.mv.model.snapshot import Observed, Snapshot, Unobserved
from gateway.mv.observation.changes import Changes
from gateway.mv.observation.observer import Observer
from gateway.mv.ports import Relation, RelationKind
from sql.increments.reasons import NotIncremental, Reason
from sql.names import SESSION_CATALOG

NOW = float("inf")
COLUMNS = (("id", '{"name": "integer"}'), ("Changed At", '{"name": "timestamp_ltz"}'))
TABLE = Relation(named("s.t"), RelationKind.TABLE, columns=COLUMNS, provider="jdbc", created="then")
QUERY = "SELECT max(n) FROM s.marks -- of the source"


class Source(FakeMetastore):
    """Its own sessions."""

    def __init__(self, watermark: str, *rows: tuple[Any, ...]) -> None:
        super().__init__()
        self.observer = Observer(self, cast(Any, self), 60.0)
        self.add(replace(TABLE, watermark=watermark))
        self.say(*rows)

    def say(self, *rows: tuple[Any, ...]) -> None:
        self.answers.say("SELECT", Answer(list(rows)))

    def look(self) -> Observed:
        return asyncio.run(self.observer.observe([TABLE.name], NOW))[TABLE.name].observed

    def snapshot(self) -> Snapshot:
        found = self.look()
        assert isinstance(found, Snapshot), found
        return found


@pytest.mark.parametrize("watermark", ["id", "CHANGED AT", QUERY])
def test_a_table_changes_when_its_watermark_moves(watermark: str) -> None:
    source = Source(watermark, (5, 7))
    before = source.snapshot()
    assert source.snapshot() == before
    for moved in ((6, 7), (6, 8), (None, 0)):
        source.say(moved)
        after = source.snapshot()
        assert after.changed(before) is None, "as a whole"
        before = after


def test_another_watermark_or_table_is_a_change() -> None:
    source = Source("id", (5, 7))
    before = source.snapshot()
    for other in (
        replace(TABLE, watermark=QUERY),
        replace(TABLE, watermark="id", created="now"),
        replace(TABLE, watermark="id", reading="another url"),
        replace(TABLE, watermark="id", columns=COLUMNS[:1]),
    ):
        source.add(other)
        assert source.snapshot().identity != before.identity


def test_a_watermark_is_a_column_or_a_query() -> None:
    name = f"`{SESSION_CATALOG}`.`s`.`t`"
    assert statement_of(replace(TABLE, watermark=" changed at ")) == f"SELECT max(`Changed At`), count(*) FROM {name}"
    assert statement_of(replace(TABLE, watermark=QUERY)) == f"SELECT * FROM ({QUERY}\n) LIMIT 2"
    # A column may be called as a query begins.
    odd = (("select", COLUMNS[0][1]),)
    assert (
        statement_of(replace(TABLE, columns=odd, watermark="SELECT")) == f"SELECT max(`select`), count(*) FROM {name}"
    )
    for text in ("changed", "INSERT INTO s.t VALUES (1)", "max(id)", "DROP TABLE s.t", "selection", "-- SELECT 1"):
        assert statement_of(replace(TABLE, watermark=text)) is None


@pytest.mark.parametrize(
    ("watermark", "rows", "reason"),
    [
        (
            "",
            [(1,)],
            "s.t: tables of the format jdbc cannot be observed without the table property freshgate.watermark",
        ),
        ("no_column", [(1,)], "is neither a column (id, Changed At) nor a query: no_column"),
        (QUERY, [], "gives no row instead of one"),
        (QUERY, [(1,), (2,)], "gives several rows instead of one"),
    ],
)
def test_a_table_without_a_usable_watermark_is_not_observed(watermark: str, rows: list[Any], reason: str) -> None:
    found = Source(watermark, *rows).look()
    assert isinstance(found, Unobserved)
    assert reason in found.reason


def test_a_source_that_is_away_is_not_unchanged() -> None:
    source = Source("id")
    source.answers.say("SELECT", StatementFailed("Connection refused", "08001"))
    found = source.look()
    assert isinstance(found, Unobserved)
    assert "freshgate.watermark cannot be read: Connection refused" in found.reason


def test_rows_of_a_table_with_a_watermark_are_not_added_one_by_one() -> None:
    source = Source("id", (5, 7))
    look = asyncio.run(source.observer.observe([TABLE.name], NOW))[TABLE.name]
    with pytest.raises(NotIncremental) as refused:
        Changes(source.observer).check(TABLE.name, look, lambda _: True)
    assert refused.value.reason is Reason.PROVIDER


async def test_the_property_is_read_from_spark() -> None:
    source = Source("")
    for rows, expected in (
        ([("freshgate.watermark", "id"), ("comment", "x")], "id"),
        ([("transient_lastDdlTime", "7")], ""),
    ):
        source.answers.say("SHOW TBLPROPERTIES", Answer(rows))
        found = await OtherTables.complete(cast(Any, source), TABLE, cast(Any, None), identify=True)
        assert found.watermark == expected
    source.answers.say("SHOW TBLPROPERTIES", StatementFailed("not supported", "0A000"))
    assert await OtherTables.complete(cast(Any, source), TABLE, cast(Any, None), identify=True) == TABLE


def test_a_watermark_of_a_table_that_is_observed_otherwise_is_ignored() -> None:
    files = replace(TABLE, provider="parquet", location="file:/t", watermark="id")
    assert format_of(files) is not OtherTables
    assert format_of(replace(files, location="")) is OtherTables
