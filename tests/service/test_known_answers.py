"""Queries that are answered from memory, with a fake of Spark: which are, to whom, and when no longer."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from fakes import CANCELED, ERROR, Client, Executed, World, decoded, named
from views import given

from gateway.config import ResultCache, Rewrite
from gateway.mv.catalog.watches import Suspect
from gateway.mv.ports import Function
from gateway.service import executions
from gateway.service.clients.audit import Outcome, TakenFor
from gateway.service.operations.operation import OperationState
from gateway.wire import message
from gateway.wire.message import FETCH_FIRST, FETCH_LOG, FETCH_PRIOR
from gateway.wire.rowset import rows_of

QUERY = "SELECT k, n FROM s.mv"
DEFINITION = "SELECT k, count(*) AS n FROM s.t GROUP BY k"
ROWS = 10


async def stage(results: ResultCache | None = None, rewrite: Rewrite | None = None, **properties: str) -> World:
    """ada's s.mv, and a Spark whose rows tell by which of its statements they were made."""
    world = World(rewrite, results or ResultCache())
    world.table("s.t", columns=(("k", '{"name": "string"}'),))
    await world.view("s.mv", DEFINITION, **properties)
    places: dict[Any, int] = {}

    def rows(operation: Any) -> list[tuple[str | None, int]]:
        place = places.setdefault(operation, len(places))
        return [(None if number % 3 == 0 else f"{place}", number) for number in range(ROWS)]

    world.spark.rows = rows
    return world


async def read(client: Client, text: str = QUERY, rows_max: int = 1000, **how: Any) -> list[bytes]:
    """Runs a query, and reads and closes its result: the replies, alike for equal answers."""
    executed = await client.execute(text, **how)
    assert executed.error is None
    replies = await executed.read(rows_max)
    await executed.close()
    return replies


async def runs(client: Client, text: str = QUERY, **how: Any) -> bool:
    """Whether a query goes to Spark."""
    before = len(client.world.spark.texts)
    await read(client, text, **how)
    return len(client.world.spark.texts) > before


def refresh(world: World, dotted: str = "s.mv") -> None:
    world.catalog.news.published.tell(world.entry(dotted).view.id)


async def test_the_second_answer_has_the_same_bytes() -> None:
    world = await stage()
    first, second = await world.client("bob"), await world.client("bob")
    replies = await read(first)
    assert await read(second) == replies
    assert await read(second, run_async=False) == replies
    assert world.spark.texts == [QUERY]
    assert (world.results.counts.hits, world.results.counts.misses, len(world.results)) == (2, 1, 1)


@pytest.mark.parametrize("recorded", [1, 3, 5, 10, 1000])
@pytest.mark.parametrize("asked", [1, 2, 4, 7, 10, 1000])
async def test_pages_are_as_long_as_the_client_asks(recorded: int, asked: int) -> None:
    world = await stage()
    bob = await world.client("bob")
    await read(bob, rows_max=recorded)
    replies = await read(bob, rows_max=asked)
    assert world.spark.texts == [QUERY]
    world.results.clear()
    world.spark.rows = lambda _: [(None if number % 3 == 0 else "0", number) for number in range(ROWS)]
    assert await read(bob, rows_max=asked) == replies


async def test_a_replay_moves_as_sparks_iterator() -> None:
    """FETCH_PRIOR goes back from the start of the last page."""
    world = await stage()
    bob = await world.client("bob")
    moves = [(0, 4), (FETCH_PRIOR, 2), (0, 3), (FETCH_FIRST, 5), (0, 100), (0, 1), (FETCH_PRIOR, 3), (FETCH_PRIOR, 0)]
    direct = await bob.execute("SELECT k, n FROM s.mv WHERE rand() < 2")
    await direct.poll()
    expected = [await direct.fetch(rows, orientation) for orientation, rows in moves]
    world.results.clear()
    world.spark.rows = lambda _: [(None if number % 3 == 0 else "0", number) for number in range(ROWS)]
    await read(bob)
    replayed = await bob.execute(QUERY)
    await replayed.poll()
    assert [await replayed.fetch(rows, orientation) for orientation, rows in moves] == expected
    assert len(world.spark.texts) == 2


# --- what an answer depends on ----------------------------------------------------------------------------


async def test_users_do_not_share_answers() -> None:
    world = await stage()
    assert await runs(await world.client("bob"))
    assert await runs(await world.client("carl"))
    assert not await runs(await world.client("carl"))


async def test_users_with_equal_rights_share_answers() -> None:
    world = await stage(ResultCache(shared=True))
    assert await runs(await world.client("bob"))
    assert not await runs(await world.client("carl"))


async def test_sessions_with_other_settings_do_not_share_answers() -> None:
    world = await stage()
    assert await runs(await world.client("bob"))
    assert await runs(await world.client("bob", {"set:hiveconf:spark.sql.ansi.enabled": "false"}))
    bob = await world.client("bob")
    await bob.execute("SET spark.sql.session.timeZone=Asia/Tokyo")
    assert await runs(bob)
    assert not await runs(bob)


async def test_a_name_means_another_view_in_another_database() -> None:
    world = await stage()
    await world.view("u.mv", DEFINITION)
    one, other = await world.client("bob", {"use:database": "s"}), await world.client("bob", {"use:database": "u"})
    assert await runs(one, "SELECT k, n FROM mv")
    assert await runs(other, "SELECT k, n FROM mv")
    await (await one.execute("USE u")).poll()
    await read(one, "SELECT k, n FROM mv")
    assert not await runs(one, "SELECT k, n FROM mv")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT rand() FROM s.mv",
        "SELECT my_function(n) FROM s.mv",
        "SELECT k FROM s.mv WHERE k = current_date",
        "SELECT mv.k FROM s.mv JOIN s.t ON mv.k = t.k",
        "SELECT k FROM s.t",
        "SELECT k FROM s.mv LIMIT 0",
        "EXPLAIN SELECT k FROM s.mv",
        "INSERT INTO s.u SELECT k FROM s.mv",
        "CREATE TEMPORARY VIEW v AS SELECT k FROM s.mv",
        "SELECT * FROM s.v",
        "EXECUTE IMMEDIATE 'SELECT k FROM s.mv'",
        "BEGIN SELECT k FROM s.mv; END",
        "CACHE TABLE s.mv",
    ],
)
async def test_other_statements_are_not_answered_from_memory(text: str) -> None:
    world = await stage()
    world.spark_view("s.v", "SELECT k FROM s.mv")
    bob = await world.client("bob")
    assert await runs(bob, text)
    assert await runs(bob, text)
    assert len(world.results) == 0


@pytest.mark.parametrize(
    "before",
    [
        "DECLARE VARIABLE k STRING DEFAULT 'a'",
        "SET VAR k = 'b'",
        "BEGIN SET VAR k = 'b'; END",
        "EXECUTE IMMEDIATE 'SET VAR k = 1'",
        "CREATE TEMPORARY VIEW mv AS SELECT 1",
        "CREATE TEMPORARY FUNCTION k AS 'a.B'",
        "SET freshgate.result_cache = off",
    ],
)
async def test_a_session_whose_state_may_matter_shares_no_answers(before: str) -> None:
    world = await stage()
    other, bob = await world.client("bob"), await world.client("bob")
    await read(other)
    await (await bob.execute(before)).poll()
    assert await runs(bob)
    assert await runs(bob)
    assert not await runs(other)


async def test_a_session_decides_for_itself() -> None:
    world = await stage()
    bob = await world.client("bob", {"set:hiveconf:freshgate.result_cache": "off"})
    assert await runs(bob)
    assert await runs(bob)
    await (await bob.execute("SET freshgate.result_cache = on")).poll()
    assert await runs(bob)
    assert not await runs(bob)
    await (await bob.execute("SET freshgate.result_cache = off")).poll()
    assert await runs(bob)


async def test_a_statement_that_changes_the_session_while_the_query_runs_counts() -> None:
    world = await stage()
    world.spark.holds(QUERY)
    bob = await world.client("bob")
    executed = await bob.execute(QUERY)
    await (await bob.execute("SET spark.sql.session.timeZone=Asia/Tokyo")).poll()
    executed.at_spark.finish()
    await executed.read()
    assert len(world.results) == 0


async def test_a_permanent_function_hides_one_of_sparks() -> None:
    world = await stage()
    world.metastore.add_function("s.upper", Function("x"))
    world.relations.forget("s")
    bob = await world.client("bob")
    assert await runs(bob, "SELECT upper(k) FROM s.mv")
    assert await runs(bob, "SELECT upper(k) FROM s.mv")


# --- when an answer ends ----------------------------------------------------------------------------------


async def test_a_refresh_ends_it_at_once() -> None:
    world = await stage()
    bob = await world.client("bob")
    await read(bob)
    world.write("s.t")
    assert await runs(bob)
    assert world.refreshed == ["s.mv"]
    assert not await runs(bob)


async def test_it_is_given_while_the_view_is_served_stale() -> None:
    world = await stage(when_stale="SERVE")
    bob = await world.client("bob")
    await read(bob)
    world.write("s.t")
    assert not await runs(bob)


async def test_a_view_whose_reads_fail_when_it_is_stale_fails_them() -> None:
    world = await stage(when_stale="FAIL")
    bob = await world.client("bob")
    await read(bob)
    world.write("s.t")
    assert (await bob.execute(QUERY)).error is not None


async def test_the_definition_that_runs_in_place_of_a_stale_view_is_not_recorded() -> None:
    world = await stage(when_stale="INLINE")
    bob = await world.client("bob")
    world.write("s.t")
    assert await runs(bob)
    assert await runs(bob)
    assert len(world.results) == 0


async def test_a_publication_frees_its_bytes() -> None:
    world = await stage()
    bob = await world.client("bob")
    await read(bob)
    assert world.results.bytes > 0
    refresh(world)
    assert (world.results.bytes, len(world.results)) == (0, 0)


async def test_a_view_that_is_gone_frees_its_bytes() -> None:
    world = await stage()
    bob = await world.client("bob")
    await read(bob)
    world.catalog.remove(world.entry("s.mv"))
    assert (world.results.bytes, len(world.results)) == (0, 0)


async def test_a_view_that_was_made_anew_is_read_anew() -> None:
    world = await stage()
    bob = await world.client("bob")
    await read(bob)
    world.catalog.remove(world.entry("s.mv"))
    await world.view("s.mv", DEFINITION)
    assert await runs(bob)


async def test_another_name_ends_it() -> None:
    world = await stage()
    bob = await world.client("bob")
    await read(bob)
    world.catalog.rename({named("s.other"): world.entry("s.mv")})
    assert len(world.results) == 0


async def test_a_view_that_may_have_been_forged_is_read_anew() -> None:
    world = await stage()
    bob = await world.client("bob")
    await read(bob)
    world.guard.begin(Suspect("eve", "", 1, "DROP VIEW s.mv"), [world.entry("s.mv").view.id])
    assert len(world.results) == 0
    assert await runs(bob)
    assert await runs(bob)


async def test_a_publication_while_the_query_runs_counts() -> None:
    world = await stage()
    world.spark.holds(QUERY)
    bob = await world.client("bob")
    executed = await bob.execute(QUERY)
    refresh(world)
    executed.at_spark.finish()
    await executed.read()
    assert (world.results.bytes, len(world.results)) == (0, 0)


async def test_it_ends_with_its_time() -> None:
    world = await stage(ResultCache(seconds=60))
    bob = await world.client("bob")
    await read(bob)
    world.now += 59
    assert not await runs(bob)
    world.now += 2
    assert await runs(bob)
    assert not await runs(bob)


@pytest.mark.parametrize("text", ["REVOKE SELECT ON s.mv FROM bob", "GRANT SELECT ON s.mv TO bob"])
async def test_a_change_of_rights_ends_all(text: str) -> None:
    world = await stage()
    bob, ada = await world.client("bob"), await world.client()
    await read(bob)
    await (await ada.execute(text)).poll()
    assert await runs(bob)


async def test_the_loss_of_spark_ends_all() -> None:
    world = await stage()
    bob, carl = await world.client("bob"), await world.client("carl")
    await read(bob)
    carl.dispatch.upstream_lost(None)
    assert await runs(bob)


# --- what is recorded --------------------------------------------------------------------------------------


async def half(executed: Executed) -> None:
    await executed.fetch(4)


async def backwards(executed: Executed) -> None:
    await executed.fetch(4)
    await executed.fetch(2, FETCH_PRIOR)
    await executed.fetch(1000)


async def again_from_the_first(executed: Executed) -> None:
    await executed.fetch(4)
    await executed.fetch(4, FETCH_FIRST)
    await executed.fetch(1000)


@pytest.mark.parametrize("reading", [half, backwards, again_from_the_first])
async def test_a_result_that_was_not_read_in_order_to_its_end_is_not_kept(reading: Any) -> None:
    world = await stage()
    bob = await world.client("bob")
    executed = await bob.execute(QUERY)
    await executed.poll()
    await executed.metadata()
    await reading(executed)
    await executed.close()
    assert (world.results.bytes, len(world.results)) == (0, 0)


async def test_a_page_that_is_not_full_ends_the_result() -> None:
    world = await stage()
    bob = await world.client("bob")
    executed = await bob.execute(QUERY)
    await executed.poll()
    await executed.metadata()
    await executed.fetch(1000)
    assert len(world.results) == 1


async def test_columns_that_were_asked_for_before_the_end_are_not_kept() -> None:
    world = await stage()
    world.spark.holds(QUERY)
    bob = await world.client("bob")
    executed = await bob.execute(QUERY)
    await executed.metadata()
    executed.at_spark.finish()
    await executed.read()
    assert len(world.results) == 0


@pytest.mark.parametrize("state", [ERROR, CANCELED])
async def test_a_failed_query_is_not_kept(state: OperationState) -> None:
    world = await stage()
    world.spark.holds(QUERY)
    bob = await world.client("bob")
    executed = await bob.execute(QUERY)
    executed.at_spark.finish(state)
    await executed.poll()
    await executed.close()
    assert (world.results.bytes, len(world.results), world.results.recording(None)) == (0, 0, None)
    world.spark._held.clear()
    assert await runs(bob)
    assert not await runs(bob)


async def test_a_long_answer_is_not_kept() -> None:
    world = await stage(ResultCache(entry_bytes=1024))
    world.spark.rows = lambda _: [("x" * 2_000, 1)]
    bob = await world.client("bob")
    assert await runs(bob)
    assert await runs(bob)
    assert (world.results.bytes, len(world.results)) == (0, 0)


async def test_the_answers_used_last_stay() -> None:
    world = await stage()
    bob = await world.client("bob")
    await read(bob)
    size = world.results.bytes
    world.results._limits = ResultCache(bytes=3 * size + 200)
    texts = [f"SELECT k, n FROM s.mv WHERE n > {number}" for number in range(3)]
    for text in texts:
        await read(bob, text)
        assert not await runs(bob)
    assert world.results.bytes <= 3 * size + 200
    assert world.results.counts.evicted
    assert await runs(bob, texts[0])


async def test_an_answer_that_is_being_read_keeps_its_bytes() -> None:
    world = await stage()
    bob = await world.client("bob")
    await read(bob)
    size = world.results.bytes
    replayed = await bob.execute(QUERY)
    await replayed.fetch(4)
    refresh(world)
    assert (world.results.bytes, len(world.results)) == (size, 0)
    assert len(await replayed.read(4)) == 4
    await replayed.close()
    assert world.results.bytes == 0


async def test_a_session_that_ends_lets_go_of_its_answers() -> None:
    world = await stage()
    bob = await world.client("bob")
    await read(bob)
    await bob.execute(QUERY)
    refresh(world)
    await bob.leave()
    assert world.results.bytes == 0


async def test_nothing_is_kept_without_bytes() -> None:
    world = await stage(ResultCache(bytes=0))
    bob = await world.client("bob")
    assert await runs(bob)
    assert await runs(bob)
    assert world.results.counts.misses == 0


# --- a replayed operation -----------------------------------------------------------------------------------


async def test_an_answer_from_memory_says_so() -> None:
    world = await stage()
    bob = await world.client("bob")
    await read(bob)
    world.now += 5
    executed = await bob.execute(QUERY)
    (line,) = rows_of(decoded(await executed.fetch(100, kind=FETCH_LOG)).results)
    assert line == ("Answered from memory: Spark made these rows 5.0 s ago",)
    counts = world.service.audit.counts.statements
    assert counts[(TakenFor.CACHED, Outcome.SUCCEEDED)] == 1


async def test_cancelling_and_closing_a_replay_is_as_at_spark() -> None:
    world = await stage()
    bob = await world.client("bob")
    await read(bob)
    executed = await bob.execute(QUERY)
    await executed.fetch(4)
    await executed.cancel()
    assert (await executed.poll()).operationState == OperationState.FINISHED
    assert message.reply_status(await executed.fetch(4)).code == 0
    await executed.close()
    assert message.reply_status(await executed.fetch(4)).code == message.STATUS_ERROR
    assert world.spark.texts == [QUERY]


@pytest.mark.parametrize("orientation", [2, 3, 5])
async def test_orientations_that_spark_refuses_are_refused(orientation: int) -> None:
    world = await stage()
    bob = await world.client("bob")
    await read(bob)
    executed = await bob.execute(QUERY)
    status = message.reply_status(await executed.fetch(4, orientation))
    assert (status.code, status.sqlstate) == (message.STATUS_ERROR, "HY106")


# --- queries that do not name the view ---------------------------------------------------------------------


async def test_a_query_on_base_tables_is_answered_from_memory() -> None:
    world = await stage(rewrite=Rewrite(wait=10, canary=0), use_for_rewrite="true")
    given(world.entry("s.mv"), columns=("k", "n"))
    columns = (("k", '{"name": "string"}'), ("n", '{"name": "bigint"}'))
    relation = world.metastore.relations[named("s.mv")]
    world.metastore.relations[named("s.mv")] = replace(relation, columns=columns)
    bob = await world.client("bob")
    assert await runs(bob, DEFINITION)
    assert not await runs(bob, DEFINITION)
    assert world.rewrites.counts.used == 2
    world.write("s.t")
    assert await runs(bob, DEFINITION)
    assert world.spark.texts[-1] == DEFINITION


# --- single flight -----------------------------------------------------------------------------------------


async def test_equal_queries_share_the_answer_of_the_first() -> None:
    world = await stage()
    world.spark.holds(QUERY)
    first = await world.client("bob")
    leading = await first.execute(QUERY)
    others = [await world.client("bob") for _ in range(5)]
    following = [await other.execute(QUERY, settle=False) for other in others]
    await asyncio.sleep(0)
    leading.at_spark.finish()
    replies = await leading.read()
    for each in following:
        await each.client.session.operations[each.handle.guid].settle()  # type: ignore[union-attr]
        assert await each.read() == replies
    assert world.spark.texts == [QUERY]
    assert world.results.counts.shared == 5


async def test_a_client_that_neither_asks_nor_reads_delays_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executions, "STALL_SECONDS", 0.0)
    world = await stage()
    world.spark.holds(QUERY)
    leading = await (await world.client("bob")).execute(QUERY)
    other = await world.client("bob")
    following = await other.execute(QUERY, settle=False)
    await asyncio.sleep(0)
    world.spark._held.clear()
    leading.at_spark.finish()
    await other.session.operations[following.handle.guid].settle()  # type: ignore[union-attr]
    assert world.spark.texts == [QUERY, QUERY]


@pytest.mark.parametrize("state", [ERROR, CANCELED, OperationState.CLOSED])
async def test_the_others_go_to_spark_if_the_first_fails(state: OperationState) -> None:
    world = await stage()
    world.spark.holds(QUERY)
    leading = await (await world.client("bob")).execute(QUERY)
    other = await world.client("bob")
    following = await other.execute(QUERY, settle=False)
    world.spark._held.clear()
    if state is OperationState.CLOSED:
        await leading.close()
    else:
        leading.at_spark.finish(state)
        await leading.poll()
    await other.session.operations[following.handle.guid].settle()  # type: ignore[union-attr]
    assert len(await following.read()) == 3
    assert world.spark.texts == [QUERY, QUERY]
