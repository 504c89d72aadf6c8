"""A refresh that recomputes the rows with some values, and copies the others: both must be of the same states."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from views import view_of

from gateway.mv.model.basis import Keyed
from gateway.mv.model.snapshot import Snapshot
from gateway.mv.model.view import Version
from gateway.mv.observation.inspection import Inspection
from gateway.mv.refresh.executor import Executor, Unfit
from gateway.mv.refresh.planner import Content, Increment
from sql.texts.maintenance import Rows

SEEN = Snapshot("t", "1", partitions={("a",): "1", ("b",): "2"})
CONTENT = Content(Rows("SELECT 1"), keyed=Keyed("d", "s.t", SEEN), copies=True)


class Stage:
    """The tables are `now` after the rows were written."""

    def __init__(self, now: Snapshot) -> None:
        self.now = now
        self.executor = Executor(None, self, None, self, None, None, None, self)  # type: ignore[arg-type]
        self.defaults: dict[str, str] = {}

    async def look_anew(self, _: object) -> Inspection:
        return Inspection({"s.t": self.now}, {})

    async def check(self) -> None: ...

    async def hold(self, *_: object) -> bool:
        return True

    async def write(self) -> None: ...

    async def written(self) -> Any:
        increment = Increment(CONTENT, appends=False, bytes=None)
        plan = SimpleNamespace(content=CONTENT, increment=increment)
        before = Inspection({"s.t": SEEN}, {})
        view = view_of(Version.whole(1, 1, 1, {}))
        return await self.executor._written(view, cast(Any, plan), before, cast(Any, self), self.write)


async def test_a_table_that_has_not_changed() -> None:
    assert (await Stage(SEEN).written()).keyed == CONTENT.keyed


async def test_a_partition_that_came_before_the_rows_were_read() -> None:
    """Its rows are not written, but rows of others that changed later may be."""
    later = replace(SEEN, state="2", partitions={**SEEN.partitions, ("c",): "3"})
    with pytest.raises(Unfit, match="CHANGED_WHILE_READ"):
        await Stage(later).written()
