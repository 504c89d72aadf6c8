"""A refresh that recomputes the rows with some values, and copies the others: both must be of the same states. What a
later one compares by must be the state of the rows."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from views import view_of

from gateway.mv.model.contents import Keyed
from gateway.mv.model.marks import Mark
from gateway.mv.model.snapshot import Snapshot
from gateway.mv.model.view import Version
from gateway.mv.observation.inspection import Inspection
from gateway.mv.refresh.executor import Executor
from gateway.mv.refresh.planner import Exact, PartlyRecomputed, Recomputed, RowSource
from gateway.mv.refresh.publication import Unfit
from sql.texts.maintenance import RowsQuery
from sql.texts.storage_layout import ALL

SEEN = Snapshot("t", "1", partitions={("a",): "1", ("b",): "2"})
EXACT = Exact(RowsQuery("SELECT 1"), keyed=Keyed("d", "s.t", SEEN))
PARTLY = PartlyRecomputed(EXACT)
LATER = replace(SEEN, state="2", partitions={**SEEN.partitions, ("c",): "3"})


class Stage:
    """The tables are `now` after the rows were written."""

    def __init__(self, now: Snapshot) -> None:
        self.now = now
        self.disturbed = False
        self.executor = Executor(None, self, None, self, None, None, None, self, None)  # type: ignore[arg-type]
        self.defaults: dict[str, str] = {}

    async def look_anew(self, _: object) -> Inspection:
        return Inspection({"s.t": self.now}, {})

    async def check(self) -> None: ...

    async def hold(self, *_: object) -> bool:
        return True

    async def write(self) -> None: ...

    async def written(self, source: RowSource = PARTLY) -> Any:
        plan = SimpleNamespace(source=source, chosen=ALL, inserts=True)
        before = Inspection({"s.t": SEEN}, {})
        view = view_of(Version.whole(1, 1, 1, {}))
        took = await self.executor._write(view, cast(Any, plan), self.write())
        read = await self.executor._read(view, cast(Any, plan), before, took, lambda: self.disturbed)
        self.after = read.after
        return read.basis


async def test_a_table_that_has_not_changed() -> None:
    assert (await Stage(SEEN).written()).keyed == EXACT.keyed


async def test_a_partition_that_came_before_the_rows_were_read() -> None:
    """Its rows are not written, but rows of others that changed later may be."""
    with pytest.raises(Unfit, match="CHANGED_WHILE_READ"):
        await Stage(LATER).written()


@pytest.mark.parametrize("marks", [{"s.t": Mark("t", "")}, {}], ids=["marked", "not marked"])
@pytest.mark.parametrize(("now", "keyed"), [(SEEN, EXACT.keyed), (LATER, None)], ids=["the same", "another"])
async def test_all_rows_are_recomputed_beside_a_write(
    now: Snapshot, keyed: Keyed | None, marks: dict[str, Mark]
) -> None:
    """Its rows may be among those that were read. If they go before the next look, the partitions look as they did."""
    basis = await Stage(now).written(Recomputed(replace(EXACT, marks=marks)))
    assert basis.keyed == keyed


@pytest.mark.parametrize("exact", [replace(EXACT, keyed=None), None], ids=["for later refreshes", "plainly"])
@pytest.mark.parametrize("disturbed", [False, True])
async def test_tables_that_are_written_meanwhile_are_looked_at_again(exact: Exact | None, disturbed: bool) -> None:
    stage = Stage(LATER)
    stage.disturbed = disturbed
    await stage.written(Recomputed(exact))
    assert (stage.after and stage.after.snapshots) == ({"s.t": LATER} if disturbed else None)
