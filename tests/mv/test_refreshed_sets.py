"""REFRESH MATERIALIZED VIEWS: several views, in the order in which they read each other, that agree at the end."""

from __future__ import annotations

import asyncio
import re

import pytest
from fake_spark import Answer
from staging import staged_by
from warehouse import House, Warehouse

from gateway.errors import DefinitionRefused, NoSuchView, NotAllowed, StatementFailed
from gateway.mv.model.view import TaskStatus
from gateway.mv.refresh import refreshed_sets
from sql.names import Namespace

Row = dict[str, object]
COLUMNS = (
    "database_name name status refresh_method version duration_seconds reason error other_states".split()  # noqa: SIM905
)


class Restless(Warehouse):
    """Its table `s.t` changes when statements begin that match a pattern."""

    restless = re.compile("nothing")

    async def carry_out(self, sql: str, namespace: Namespace) -> Answer:
        if self.restless.match(sql):
            self.write("s.t")
        return await super().carry_out(sql, namespace)


@pytest.fixture(autouse=True)
def _one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The warehouse tells only one table's files at a time."""
    monkeypatch.setattr(refreshed_sets, "TOGETHER", 1)


class Stage:
    def __init__(self) -> None:
        self.warehouse = Restless()
        self.warehouse.table("s.t")
        self.warehouse.table("s.u")
        self.house = House(self.warehouse)

    async def make(self) -> None:
        for text in (
            "z AS SELECT a FROM s.t",
            "y AS SELECT a FROM s.u",
            "a AS SELECT a FROM s.z",
            "b AS SELECT a FROM s.t",
        ):
            await self.house.run(f"CREATE MATERIALIZED VIEW s.{text}")

    async def refresh(self, what: str, user: str = "ada") -> list[Row]:
        rows = await self.house.run(f"REFRESH MATERIALIZED VIEWS {what}", user, Namespace("s"))
        return [dict(zip(COLUMNS, row, strict=True)) for row in rows]

    def inserts(self, name: str) -> int:
        """How often rows of the view were written."""
        return sum(
            re.match(rf"INSERT \w+ `\w+`\.`\w+`\.`s__{name}__", text) is not None for text in self.warehouse.texts
        )


staged = staged_by(Stage, Stage.make)


@staged
async def test_views_that_others_read_come_first(stage: Stage) -> None:
    rows = await stage.refresh("IN s")
    assert [row["name"] for row in rows] == ["b", "y", "z", "a"]
    assert {row["status"] for row in rows} == {"SUCCESS"}
    assert {row["refresh_method"] for row in rows} == {"COMPLETE"}
    assert [row["version"] for row in rows] == [2, 2, 2, 2]
    assert not any(row["other_states"] for row in rows)


@staged
async def test_auto_does_only_what_is_needed(stage: Stage) -> None:
    stage.warehouse.write("s.u")
    rows = {row["name"]: row for row in await stage.refresh("FROM s AUTO")}
    assert rows["y"]["refresh_method"] == "COMPLETE"
    assert rows["z"]["refresh_method"] == "NOT_REFRESH"
    assert stage.inserts("y") == 2
    assert stage.inserts("z") == 1


@staged
async def test_named_views_are_refreshed(stage: Stage) -> None:
    assert [row["name"] for row in await stage.refresh("(a, s.z)")] == ["z", "a"]
    assert stage.inserts("b") == 1


@staged
async def test_an_error_of_one_does_not_hide_the_others(stage: Stage) -> None:
    stage.warehouse.failing[r"^INSERT .*`s__y__"] = StatementFailed("division by zero", "22012")
    rows = {row["name"]: row for row in await stage.refresh("IN s")}
    assert rows["y"]["status"] == "FAILED"
    assert rows["y"]["version"] is None
    assert "y" in str(rows["y"]["error"])
    assert {rows[name]["status"] for name in "zab"} == {"SUCCESS"}


@staged
async def test_a_view_that_has_read_an_earlier_state_is_refreshed_again(stage: Stage) -> None:
    hold = stage.warehouse.hold(r"^INSERT .*`s__b__")
    refreshing = asyncio.create_task(stage.refresh("z, b COMPLETE"))
    await hold.reached.wait()
    # One of them has been looked at, and the other has not.
    stage.warehouse.write("s.t")
    hold.go.set()
    rows = {row["name"]: row for row in await refreshing}
    assert not any(row["other_states"] for row in rows.values())
    contained = [stage.house.entry(f"s.{name}").view.current.contents.others[-1][1] for name in "zb"]
    assert contained[0] == contained[1]
    assert stage.inserts("b") == 3


@staged
async def test_tables_that_do_not_rest_are_told(stage: Stage) -> None:
    stage.warehouse.restless = re.compile(r"^INSERT .*`s__[bz]__")
    rows = await stage.refresh("z, b")
    assert "s.t" in [row["other_states"] for row in rows]


@staged
async def test_views_of_others_are_left_out_of_a_database(stage: Stage) -> None:
    assert await stage.refresh("IN s", "bob") == []
    await stage.house.run("GRANT REFRESH ON MATERIALIZED VIEW s.y TO USER bob")
    assert [row["name"] for row in await stage.refresh("IN s", "bob")] == ["y"]
    with pytest.raises(NotAllowed):
        await stage.refresh("y, z", "bob")
    assert stage.inserts("y") == 2


@staged
async def test_what_does_not_exist_is_told(stage: Stage) -> None:
    with pytest.raises(DefinitionRefused, match="no database nowhere"):
        await stage.refresh("IN nowhere")
    with pytest.raises(NoSuchView):
        await stage.refresh("z, nothing")
    assert stage.inserts("z") == 1


@staged
async def test_cancelling_ends_the_refreshes(stage: Stage) -> None:
    hold = stage.warehouse.hold(r"^INSERT .*`s__z__")
    refreshing = asyncio.create_task(stage.refresh("IN s"))
    await hold.reached.wait()
    refreshing.cancel()
    await asyncio.wait([refreshing])
    await stage.house.refreshes.tasks.stop_all()
    assert {stage.house.entry(f"s.{name}").history.tasks[-1][1].status for name in "z"} == {TaskStatus.CANCELED}
    assert stage.inserts("a") == 1
