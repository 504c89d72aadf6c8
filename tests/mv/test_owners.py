"""Views that are refreshed in the names of their owners, and what happens when an owner leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import cast

import pytest
from fake_spark import named
from record_plans import recorded
from warehouse import House, Warehouse

from gateway.config import Settings
from gateway.errors import FreshgateError, NotAllowed, OwnerLost, RefreshFailed, StatementFailed
from gateway.mv.model.view import MaterializedView
from gateway.mv.ports import OwnerRefused, SqlSession
from gateway.mv.rewriting.candidates import Participant
from gateway.spark.client import SessionPool
from gateway.spark.owners import OwnerPools
from sql.proof import plan_json
from sql.proof.plan import Plan

CREATE = "CREATE MATERIALIZED VIEW s.m {}AS SELECT a FROM s.t"
AS_OWNER = replace(
    Settings(),
    refresh=replace(Settings().refresh, run_as="owner"),
    access=replace(Settings().access, administrators=("root",)),
)


class PlansByOwner:
    """All see the same rows but those in `filtered`. Implements `ports.Plans`."""

    in_place = True
    checks_rights = True

    def __init__(self) -> None:
        known = recorded()
        self._all = plan_json.read(known["SELECT g, sum(x) s FROM t GROUP BY g"])
        self._some = plan_json.read(known["SELECT g, sum(x) s FROM t WHERE x > 0 GROUP BY g"])
        self.filtered: set[str] = set()

    @asynccontextmanager
    async def of(self, session: SqlSession) -> AsyncIterator[bytes]:
        yield getattr(session, "owner", "").encode()

    async def optimized(self, session: bytes, text: str) -> Plan:
        return self._some if session.decode() in self.filtered else self._all


class OwnersHouse(House):
    """With a table, of which views are made."""

    def __init__(self, settings: Settings = AS_OWNER) -> None:
        self.plans = PlansByOwner()
        super().__init__(Warehouse(), settings, self.plans)
        self.warehouse.table("s.t")

    @property
    def view(self) -> MaterializedView:
        found = self.catalog.named(named("s.m"))
        assert found is not None
        return found

    @property
    def writers(self) -> list[str]:
        """In whose name rows were written since the last call; empty for the gateway's account."""
        of_owners = {text: owner for owner, text in self.owners.texts}
        found = [of_owners.get(text, "") for text in self.warehouse.texts if text.startswith("INSERT")]
        self.owners.texts.clear()
        self.warehouse.texts.clear()
        return found

    async def changed(self) -> list[str]:
        """Writes to the table and refreshes."""
        self.warehouse.write("s.t")
        await self.run("REFRESH MATERIALIZED VIEW s.m AUTO", "ada")
        return self.writers


async def refused(house: House, text: str, user: str) -> FreshgateError:
    with pytest.raises(FreshgateError) as caught:
        await house.run(text, user)
    return caught.value


async def test_rows_are_read_in_the_name_of_the_owner_and_published_by_the_account() -> None:
    house = OwnersHouse()
    await house.run(CREATE.format(""))
    assert house.writers == ["ada"]
    assert (house.view.security.value, house.view.refreshed_as, house.view.current.read_as) == ("DEFINER", "ada", "ada")
    await house.run("REFRESH MATERIALIZED VIEW s.m", "root")
    altered = [text for text in house.warehouse.texts if text.startswith("ALTER")]
    assert altered
    assert not {text for _, text in house.owners.texts}.intersection(altered)
    assert house.writers == ["ada"]


@pytest.mark.parametrize(
    ("settings", "clause"),
    [(AS_OWNER, "SECURITY INVOKER "), (Settings(), "SECURITY DEFINER "), (Settings(), "")],
)
async def test_other_views_are_refreshed_by_the_account(settings: Settings, clause: str) -> None:
    house = OwnersHouse(settings)
    await house.run(CREATE.format(clause))
    assert house.writers == [""]
    assert (house.view.refreshed_as, house.view.current.read_as) == ("", "")


async def test_a_view_of_an_earlier_release_is_refreshed_as_before_until_it_is_altered() -> None:
    house = OwnersHouse(Settings())
    await house.run(CREATE.format(""))
    house = restarted(house)
    await house.start()
    assert house.view.clauses.security is None
    assert await house.changed() == [""]
    await house.run("ALTER MATERIALIZED VIEW s.m SET SECURITY DEFINER")
    assert house.view.misread
    assert await house.changed() == ["ada"]
    assert not house.view.misread


class Restarted(OwnersHouse):
    async def start(self) -> None:
        await self.views.fence.take()
        await self.views.loading.load()


def restarted(house: OwnersHouse) -> Restarted:
    found = Restarted()
    found.warehouse.things, found.warehouse.databases = house.warehouse.things, house.warehouse.databases
    return found


async def test_the_reader_of_the_rows_is_stored() -> None:
    house = OwnersHouse()
    house.plans.filtered.add("ada")
    await house.run(CREATE.format(""))
    again = restarted(house)
    await again.start()
    assert again.view == house.view
    assert (again.view.refreshed_as, again.view.current.read_as, again.view.current.narrowed) == ("ada", "ada", True)


async def test_rows_of_the_previous_owner_are_shown_to_nobody() -> None:
    house = OwnersHouse()
    await house.run(CREATE.format("WHEN STALE SERVE "))
    await house.run("ALTER MATERIALIZED VIEW s.m OWNER TO bob", "root")
    entry = house.catalog.entry(house.view.id)
    assert "its rows were read as ada, and its refreshes read as bob" in entry.damage
    assert not entry.changed_rows
    assert house.catalog.is_stale(house.view.id)
    house.writers.clear()
    await house.run("REFRESH MATERIALIZED VIEW s.m AUTO", "bob")
    assert house.writers[-1] == "bob"
    assert not entry.damage
    await house.run("ALTER MATERIALIZED VIEW s.m SET SECURITY INVOKER", "bob")
    assert "read as the gateway's account" in entry.damage


async def test_no_proof_holds_for_the_rows_of_another_owner() -> None:
    house = OwnersHouse()
    await house.run(CREATE.format(""))
    proved = Participant.of(house.view)
    assert proved.is_still(house.view)
    await house.run("ALTER MATERIALIZED VIEW s.m OWNER TO bob", "root")
    await house.run("REFRESH MATERIALIZED VIEW s.m", "bob")
    assert not proved.is_still(house.view)


async def test_only_administrators_give_away_a_view_that_reads_in_the_name_of_its_owner() -> None:
    """Otherwise a user could have it read what another one may read."""
    house = OwnersHouse()
    await house.run(CREATE.format(""))
    error = await refused(house, "ALTER MATERIALIZED VIEW s.m OWNER TO bob", "ada")
    assert isinstance(error, NotAllowed)
    assert error.sqlstate == "42501"
    await house.run("ALTER MATERIALIZED VIEW s.m SET SECURITY INVOKER", "ada")
    await house.run("ALTER MATERIALIZED VIEW s.m OWNER TO bob", "ada")
    assert (house.view.owner, house.view.refreshed_as) == ("bob", "")


async def test_an_owner_who_has_left_is_named_with_a_way_out() -> None:
    house = OwnersHouse()
    await house.run(CREATE.format(""))
    version = house.view.current.number
    house.owners.refused["ada"] = "User: freshgate is not allowed to impersonate ada"
    house.warehouse.write("s.t")
    error = await refused(house, "REFRESH MATERIALIZED VIEW s.m", "root")
    assert isinstance(error, OwnerLost)
    assert error.sqlstate == "28000"
    for part in ("s.m", "its owner ada", "ALTER MATERIALIZED VIEW s.m OWNER TO", "not allowed to impersonate"):
        assert part in str(error)
    assert house.view.current.number == version
    assert (last := house.catalog.entry(house.view.id).history.last) is not None
    assert "its owner ada" in last.error
    await house.run("ALTER MATERIALIZED VIEW s.m OWNER TO bob", "root")
    house.writers.clear()
    await house.run("REFRESH MATERIALIZED VIEW s.m", "root")
    assert house.writers == ["bob"]


async def test_an_owner_who_may_no_longer_read_is_named() -> None:
    house = OwnersHouse()
    await house.run(CREATE.format(""))
    house.warehouse.failing["^INSERT"] = StatementFailed(
        "Permission denied: user [ada] does not have [select]", "42000"
    )
    error = await refused(house, "REFRESH MATERIALIZED VIEW s.m", "root")
    for part in ("in the name of its owner ada", "OWNER TO", "does not have [select]"):
        assert part in str(error)


async def test_what_an_owner_is_shown_in_part_is_never_mixed_with_other_rows() -> None:
    """Policies do not follow partitions, and may have changed since the version that is stored."""
    house = OwnersHouse()
    await house.run(CREATE.format("REFRESH INCREMENTAL FALLBACK "))
    house.plans.filtered.add("ada")
    await house.changed()
    assert house.view.current.method == "COMPLETE"
    assert house.view.current.narrowed
    house.plans.filtered.clear()
    await house.changed()
    assert house.view.current.method == "COMPLETE"
    assert not house.view.current.narrowed
    await house.run("ALTER MATERIALIZED VIEW s.m REFRESH INCREMENTAL")
    house.plans.filtered.add("ada")
    house.warehouse.write("s.t")
    error = await refused(house, "REFRESH MATERIALIZED VIEW s.m INCREMENTAL", "ada")
    assert error.sqlstate == "0A000"
    assert "other rows" in str(error)


async def test_a_narrowed_view_is_not_recomputed_if_nothing_has_changed() -> None:
    house = OwnersHouse()
    house.plans.filtered.add("ada")
    await house.run(CREATE.format(""))
    house.writers.clear()
    await house.run("REFRESH MATERIALIZED VIEW s.m AUTO", "ada")
    assert house.writers == []


async def test_stored_rows_that_the_owner_is_not_shown_are_not_read_for_the_owner() -> None:
    house = OwnersHouse()
    await house.run("CREATE MATERIALIZED VIEW s.below SECURITY INVOKER AS SELECT a FROM s.t", "bob")
    await house.run("CREATE MATERIALIZED VIEW s.m AS SELECT a FROM s.below", "ada")
    house.plans.filtered.add("eve")
    error = await refused(house, "CREATE MATERIALIZED VIEW s.n AS SELECT a FROM s.below", "eve")
    assert isinstance(error, RefreshFailed)
    assert "s.below, which has SECURITY INVOKER" in str(error)


# --- sessions ----------------------------------------------------------------------------------------------


class Pool:
    """Stands for `SessionPool`."""

    def __init__(self, log: list[str], owner: str) -> None:
        self._log, self._owner = log, owner

    @asynccontextmanager
    async def session(self, *, fresh: bool = False) -> AsyncIterator[str]:
        if self._owner == "gone":
            raise StatementFailed("Unknown user", "28000")
        self._log.append(f"lend {self._owner}")
        yield self._owner

    async def close(self) -> None:
        self._log.append(f"close {self._owner}")

    def cut_off(self) -> None:
        self._log.append(f"cut {self._owner}")


def pools(log: list[str], size: int = 2, idle_seconds: float = 100.0) -> OwnerPools:
    return OwnerPools(lambda owner: cast(SessionPool, Pool(log, owner)), size, idle_seconds)


async def test_sessions_of_owners_are_bounded() -> None:
    log: list[str] = []
    owners = pools(log)
    async with AsyncExitStack() as lent:
        for owner in ("a", "b"):
            await lent.enter_async_context(owners.session(owner))
        waiting = asyncio.ensure_future(lent.enter_async_context(owners.session("c")))
        await asyncio.sleep(0)
        assert log == ["lend a", "lend b"]
        waiting.cancel()
    for owner in ("b", "c", "d"):
        async with owners.session(owner):
            pass
    await asyncio.sleep(0)
    assert [each for each in log if each.startswith("close")] == ["close a", "close b"]
    await owners.close()
    assert log[-2:] == ["close c", "close d"]


async def test_idle_sessions_of_owners_are_kept_while_there_is_room() -> None:
    log: list[str] = []
    owners = pools(log, size=4)
    for owner in ("a", "b", "a", "c", "b"):
        async with owners.session(owner):
            pass
    await asyncio.sleep(0)
    assert not [each for each in log if each.startswith("close")]


async def test_idle_sessions_of_owners_are_closed() -> None:
    log: list[str] = []
    owners = pools(log, idle_seconds=0.0)
    async with owners.session("a"):
        pass
    async with owners.session("a"):
        await asyncio.sleep(0.01)
        assert log == ["lend a", "lend a"]
    await asyncio.sleep(0.01)
    assert log[-1] == "close a"


async def test_the_owner_whom_spark_refuses_is_named() -> None:
    with pytest.raises(OwnerRefused) as caught:
        async with pools([]).session("gone"):
            pass
    assert (caught.value.owner, caught.value.reason) == ("gone", "Unknown user")
