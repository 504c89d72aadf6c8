"""Tests looks at Delta tables: the log of another table never passes for a later state of the same one."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from typing import Any

from fakes import named
from hypothesis import given
from hypothesis import strategies as st

from gateway.mv.model.snapshot import Snapshot
from gateway.mv.observation.delta_looks import DeltaLooks
from gateway.mv.ports import Relation, RelationKind, Rows
from sql.texts import observation

NAME = named("s.d")
NOTHING = "MERGE of nothing"
WRITES, MOVES, DESCRIBES = ("WRITE", "MERGE", "DELETE"), ("OPTIMIZE", "VACUUM END"), ("RESTORE", "CHANGE COLUMN")
REPLACES = ("CREATE OR REPLACE TABLE AS SELECT",)
CREATED = "created again"
OPERATIONS = (*WRITES, NOTHING, *MOVES, *DESCRIBES, *REPLACES, "SET TBLPROPERTIES", "CLONE", CREATED)


class Answer:
    def __init__(self, rows: list[tuple[Any, ...]], columns: tuple[str, ...] = ()) -> None:
        self.rows, self.columns = rows, columns


class Table:
    """A Delta table, and a session that answers questions about it."""

    def __init__(self, *, partitioned: bool) -> None:
        self.partitioned = partitioned
        self.asked: list[str] = []
        self.looks: DeltaLooks
        self.last: dict[Any, Snapshot] = {}
        self._numbers = itertools.count()
        self.restart()
        self.play(CREATED)

    def restart(self) -> None:
        """Another gateway: it knows the last observation from the catalog."""
        self.looks = DeltaLooks(self.last)

    def play(self, operation: str) -> None:
        number = next(self._numbers)
        if operation == CREATED:
            self.log: list[tuple[Any, ...]] = []
        if operation in (CREATED, "CLONE", *REPLACES):
            self.id = f"id {number}"
        if operation not in (NOTHING, *MOVES, "SET TBLPROPERTIES"):
            self.content = number
        measures = json.dumps({"numTargetRowsUpdated": "1" if operation in WRITES else "0", "numSourceRows": "4"})
        name = operation.removesuffix(" of nothing")
        self.log.append((len(self.log), f"at {number}", *[None] * 2, name, *[None] * 7, measures, operation))

    async def run(self, sql: str) -> Rows:
        self.asked.append(sql)
        return self._answer(sql)

    def _answer(self, sql: str) -> Answer:
        if sql.startswith("DESCRIBE DETAIL"):
            return Answer([(self.id,)], ("id",))
        if sql.startswith("DESCRIBE HISTORY"):
            return Answer(self.log[: -observation.COMMITS_SHOWN - 1 : -1])
        listed = re.search(r"\{([\d,]+)\}", sql)
        assert listed is not None
        versions = [int(each) for each in listed[1].split(",")]
        found: list[tuple[Any, ...]] = [(None, None, None, None, len([v for v in versions if v < len(self.log)]))]
        for version in versions:
            operation = self.log[version][-1] if version < len(self.log) else ""
            if operation in (*WRITES, *REPLACES, "RESTORE", CREATED):
                pairs = [["day", str(version % 2)]] if self.partitioned else []
                found.append(("data", json.dumps(pairs), version, None, 0))
            if operation in (*DESCRIBES, *REPLACES, "CLONE", "SET TBLPROPERTIES", CREATED):
                found.append(("schema", None, version, json.dumps([version]), 0))
            found.append(("operation", operation, version, json.dumps([version]), 0))
        return Answer(found)

    def look(self, *, identify: bool) -> Snapshot:
        partitions = ("day",) if self.partitioned else ()
        created = self.id if identify else ""
        relation = Relation(
            NAME,
            RelationKind.TABLE,
            provider="delta",
            location="file:/d",
            created=created,
            partition_columns=partitions,
        )
        found = asyncio.run(self.looks.look(self, NAME, relation))  # type: ignore[arg-type]
        assert self.looks.identified(NAME, relation).created == self.id
        self.last[NAME] = found
        return found


@given(
    partitioned=st.booleans(),
    steps=st.lists(st.tuples(st.lists(st.sampled_from(OPERATIONS), max_size=12), st.booleans(), st.booleans())),
)
def test_no_change_is_missed(partitioned: bool, steps: list[tuple[list[str], bool, bool]]) -> None:
    """Equal snapshots mean equal rows, and equal identities mean the same table."""
    table = Table(partitioned=partitioned)
    seen = [(table.look(identify=True), table.content, table.id)]
    for operations, restart, identify in steps:
        for operation in operations:
            table.play(operation)
        if restart:
            table.restart()
        now = table.look(identify=identify), table.content, table.id
        for before in seen:
            assert (before[0].identity == now[0].identity) == (before[2] == now[2])
            if now[0].changed(before[0]) == frozenset():
                assert before[1] == now[1], f"{before[0]} and {now[0]}"
        seen.append(now)


def test_the_id_is_not_asked_for_again() -> None:
    table = Table(partitioned=False)
    first = table.look(identify=True)
    assert not any("DETAIL" in sql for sql in table.asked)
    table.asked.clear()
    assert table.look(identify=False) == first
    for operation in (*WRITES, *MOVES):
        table.play(operation)
    later = table.look(identify=False)
    assert (later.state, later.position) == ("v3", "5")
    table.play("WRITE")
    assert table.look(identify=False).state == "v6"
    assert [sql.partition(" LIMIT")[0] for sql in table.asked] == [f"DESCRIBE HISTORY {NAME.quoted}"] * 3
    table.play("RESTORE")
    table.look(identify=False)
    assert sum("DETAIL" in sql for sql in table.asked) == 1


def test_a_write_of_no_rows_is_no_change() -> None:
    table = Table(partitioned=False)
    first = table.look(identify=True)
    table.play(NOTHING)
    assert table.look(identify=False).state == first.state
    for operation in ("WRITE", NOTHING):
        table.play(operation)
    assert table.look(identify=False).state != first.state


def test_partitions_are_read_from_the_log() -> None:
    table = Table(partitioned=True)
    first = table.look(identify=True)
    table.play("WRITE")
    later = table.look(identify=False)
    assert later.changed(first) == {("1",)}
    assert not any("DETAIL" in sql for sql in table.asked)
