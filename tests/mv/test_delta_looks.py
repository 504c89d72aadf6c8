"""Tests looks at Delta tables: the log of another table never passes for a later state of the same one."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from fake_spark import named
from hypothesis import given
from hypothesis import strategies as st

from gateway.mv.formats.delta import DeltaTables
from gateway.mv.formats.table_format import Tools
from gateway.mv.model.snapshot import Snapshot
from gateway.mv.ports import Relation, RelationKind, Rows
from sql.texts import delta_texts

NAME = named("s.d")
NOTHING = "MERGE of nothing"
WRITES, MOVES = ("WRITE", "MERGE", "DELETE"), ("OPTIMIZE", "VACUUM END")
COLUMN, PROPERTIES = "CHANGE COLUMN", "SET TBLPROPERTIES"
REPLACES = ("CREATE OR REPLACE TABLE AS SELECT",)
CREATED = "created again"
RESTORES = tuple(f"RESTORE {back}" for back in range(1, 6))
"""To the state of so many versions before."""
TO_TIMES = tuple(f"{restore} at a time" for restore in RESTORES)
OPERATIONS = (*WRITES, NOTHING, *MOVES, COLUMN, *REPLACES, PROPERTIES, "CLONE", CREATED, *RESTORES, *TO_TIMES)


class Answer:
    def __init__(self, rows: list[tuple[Any, ...]], columns: tuple[str, ...] = ()) -> None:
        self.rows, self.columns = rows, columns


@dataclass(frozen=True)
class State:
    """What a version of a table is."""

    id: str
    columns: int
    content: Mapping[str, int]
    """The rows of each partition, as the number of their last change."""


@dataclass(frozen=True)
class Commit:
    operation: str
    state: State
    row: tuple[Any, ...]
    """As in the history."""
    changed: frozenset[str]
    """The partitions with changed rows."""
    described: bool
    to: int | None

    @property
    def name(self) -> str:
        return str(self.row[4])


class Table:
    """A Delta table, and a session that answers questions about it."""

    def __init__(self, *, partitioned: bool) -> None:
        self.partitioned = partitioned
        self.asked: list[str] = []
        self.looks: DeltaTables
        self.last: dict[Any, Snapshot] = {}
        self._numbers = itertools.count()
        self.restart()
        self.play(CREATED)

    def restart(self) -> None:
        """Another gateway: it knows the last observation from the catalog."""
        self.looks = DeltaTables(Tools(cast(Any, None), self.last))

    @property
    def state(self) -> State:
        return self.log[-1].state

    def play(self, operation: str) -> None:
        number = next(self._numbers)
        if operation == CREATED:
            self.log: list[Commit] = []
        name, back = operation.removesuffix(" of nothing"), 0
        if operation.startswith("RESTORE"):
            name, back = "RESTORE", min(int(operation.split()[1]), len(self.log))
        version = len(self.log)
        before = self.log[-1].state if self.log else State("", 0, {})
        after = self.log[-back].state if back else self._after(operation, number, before)
        changed = frozenset(
            day for day in {*before.content, *after.content} if before.content.get(day) != after.content.get(day)
        )
        described = operation not in (*WRITES, NOTHING, *MOVES)
        measures = json.dumps({"numTargetRowsUpdated": "1" if operation in WRITES else "0", "numSourceRows": "4"})
        row = (version, f"at {number}", *[None] * 2, name, *[None] * 7, measures, operation)
        to = version - back if back and not operation.endswith("time") else None
        self.log.append(Commit(operation, after, row, changed, described, to))

    def _after(self, operation: str, number: int, before: State) -> State:
        if operation in (CREATED, "CLONE", *REPLACES):
            return State(f"id {number}", number, dict.fromkeys("01", number))
        if operation == COLUMN:
            return replace(before, columns=number)
        if operation in WRITES:
            day = str(len(self.log) % 2) if self.partitioned else ""
            return replace(before, content={**before.content, day: number})
        return before

    async def run(self, sql: str) -> Rows:
        self.asked.append(sql)
        return self._answer(sql)

    def _answer(self, sql: str) -> Answer:
        if sql.startswith("DESCRIBE DETAIL"):
            return Answer([(self.state.id,)], ("id",))
        if sql.startswith("DESCRIBE HISTORY"):
            return Answer([commit.row for commit in self.log[: -delta_texts.COMMITS_SHOWN - 1 : -1]])
        listed = re.search(r"\{([\d,]+)\}", sql)
        assert listed is not None
        commits = {int(each): self.log[int(each)] for each in listed[1].split(",") if int(each) < len(self.log)}
        if "operationParameters" in sql:
            return Answer([(commit.described, commit.name, commit.to) for commit in commits.values()])
        found: list[tuple[Any, ...]] = [(None, None, None, None, len(commits))]
        for version, commit in commits.items():
            for day in commit.changed:
                found.append(("data", json.dumps([["day", day]] if self.partitioned else []), version, None, 0))
            if commit.described:
                found.append(("schema", None, version, json.dumps([version]), 0))
            found.append(("operation", commit.name, version, json.dumps([version]), 0))
        return Answer(found)

    def look(self, *, identify: bool) -> Snapshot:
        partitions = ("day",) if self.partitioned else ()
        created = self.state.id if identify else ""
        relation = Relation(
            NAME,
            RelationKind.TABLE,
            provider="delta",
            location="file:/d",
            created=created,
            partition_columns=partitions,
        )
        found = asyncio.run(self.looks.look_in(self, NAME, relation))  # type: ignore[arg-type]
        assert self.looks.identified(NAME, relation).created == self.state.id
        self.last[NAME] = found
        return found


@given(
    partitioned=st.booleans(),
    steps=st.lists(st.tuples(st.lists(st.sampled_from(OPERATIONS), max_size=12), st.booleans(), st.booleans())),
)
def test_no_change_is_missed(partitioned: bool, steps: list[tuple[list[str], bool, bool]]) -> None:
    """Equal snapshots mean equal rows, and equal identities mean the same table."""
    table = Table(partitioned=partitioned)
    seen = [(table.look(identify=True), table.state)]
    for operations, restart, identify in steps:
        for operation in operations:
            table.play(operation)
        if restart:
            table.restart()
        now, state = table.look(identify=identify), table.state
        for before, was in seen:
            assert (before.identity == now.identity) == (was.id == state.id)
            changed = now.changed(before)
            if changed is not None:
                days = {*was.content, *state.content} - {values[0] for values in changed}
                same = was.columns == state.columns and all(was.content.get(d) == state.content.get(d) for d in days)
                assert same, f"{before} and {now}"
        seen.append((now, state))


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
    table.play("RESTORE 2")
    assert table.look(identify=False).state == "v7"
    assert not any("DETAIL" in sql for sql in table.asked)
    table.play(COLUMN)
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
    assert later.changed(first) == frozenset({("1",)})
    assert not any("DETAIL" in sql for sql in table.asked)


def test_a_restore_changes_the_partitions_whose_files_it_changes() -> None:
    table = Table(partitioned=True)
    table.play("WRITE")
    first = table.look(identify=True)
    for operation in ("WRITE", "RESTORE 2", "OPTIMIZE"):
        table.play(operation)
    assert table.look(identify=False).changed(first) == frozenset({("0",)})
    for operation in (PROPERTIES, "WRITE", "RESTORE 3"):
        table.play(operation)
    later = table.look(identify=False)
    assert later.changed(first) == frozenset({("0",)})
    for operation in ("WRITE", "RESTORE 5 at a time"):
        table.play(operation)
    assert table.look(identify=False).changed(later) == frozenset({("0",)})
    for operation in (COLUMN, "RESTORE 2"):
        table.play(operation)
    assert table.look(identify=False).changed(later) is None
