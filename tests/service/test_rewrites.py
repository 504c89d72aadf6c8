"""What becomes of queries on base tables that a view may answer: with fakes of Spark and of the proofs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from fake_spark import CANCELED, ERROR, named
from fakes import Client, Site
from TCLIService import ttypes
from views import given

from gateway.config import Rewrite
from gateway.mv.model.view import MaterializedView, Schema
from gateway.service.operations.operation import TIMED_OUT, OperationState
from sql.words import Words

DEFINITION = "SELECT k, count(*) AS n FROM s.t GROUP BY k"
QUERY = "SELECT k, count(*) AS n FROM s.t GROUP BY k"
ALL = "SELECT count(*) AS n FROM s.t"
INSERT = "INSERT INTO s.t VALUES ('a')"
COLUMNS = (("k", '{"name": "string"}'), ("n", '{"name": "bigint"}'))


async def stage(rewrite: Rewrite | None = None, properties: Mapping[str, str] = MappingProxyType({})) -> Site:
    """ada's s.mv takes part; a query of a new shape waits for the outcome."""
    site = Site(rewrite)
    site.table("s.t", columns=(("k", '{"name": "string"}'),))
    await add_view(site, "s.mv", **{"use_for_rewrite": "true", **properties})
    return site


async def add_view(site: Site, dotted: str, **properties: str) -> MaterializedView:
    view = await site.view(dotted, DEFINITION, properties=properties)
    given(site.entry(dotted), columns=("k", "n"))
    described = site.metastore.relations[view.name]
    site.metastore.relations[view.name] = replace(described, columns=COLUMNS)
    return view


def sent(site: Site) -> list[str]:
    """Which of the views and tables the clients' queries have read so far, by their texts."""
    return ["mv" if "`mv`" in text else "t" for text in site.spark.texts if text.startswith("SELECT")]


async def test_a_query_is_answered_from_the_view() -> None:
    site = await stage()
    bob = await site.client("bob")
    executed = await bob.execute(QUERY)
    assert executed.error is None
    assert sent(site) == ["mv"]
    assert site.rewrites.counts.proved == 1
    await bob.execute(QUERY)
    assert site.prover.asked == 1
    assert site.refreshed == []


async def two_views() -> tuple[Site, Client]:
    """s.mv has the groups of s.t, s.names a part of s.u: a query joins both tables."""
    site = await stage()
    site.table("s.u", columns=(("k", '{"name": "string"}'), ("name", '{"name": "string"}')))
    await site.view("s.names", "SELECT k, name FROM s.u", properties={"use_for_rewrite": "true"})
    described = site.metastore.relations[named("s.names")]
    columns = (("k", '{"name": "string"}'), ("name", '{"name": "string"}'))
    site.metastore.relations[named("s.names")] = replace(described, columns=columns)
    given(site.entry("s.names"), columns=("k", "name"))
    return site, await site.client("bob")


def read(site: Site) -> list[str]:
    """Which of these relations the last query of a client has read."""
    text = [each for each in site.spark.texts if each.startswith("SELECT")][-1]
    return [name for name in ("`mv`", "`names`", "s.t", "s.u") if name in text]


JOINED = "SELECT u.name, count(*) AS n FROM s.t JOIN s.u ON t.k = u.k GROUP BY u.name"


async def test_two_views_answer_a_query_together() -> None:
    site, bob = await two_views()
    assert (await bob.execute(JOINED)).error is None
    assert read(site) == ["`mv`", "`names`"]
    (usage,) = [usage for _, usage in site.usages.items()]
    assert usage.hits == {(named("s.mv"), named("s.names")): 1}


async def nested_views() -> tuple[Site, Client]:
    """s.top reads s.mv, which reads s.t."""
    site = await stage()
    await site.view("s.top", "SELECT sum(n) AS n FROM s.mv", properties={"use_for_rewrite": "true"})
    described = site.metastore.relations[named("s.top")]
    site.metastore.relations[named("s.top")] = replace(described, columns=COLUMNS[1:])
    given(site.entry("s.top"), columns=("n",))
    return site, await site.client("bob")


async def test_a_view_of_a_view_answers_a_query_on_base_tables() -> None:
    site, bob = await nested_views()
    total = "SELECT coalesce(sum(n), 0) AS n FROM (SELECT k, count(*) AS n FROM s.t GROUP BY k)"
    await bob.execute(total)
    (found,) = [each for _, each in site.rewrites._verdicts.items()]
    assert {each.named: [below.name.table for below in each.below] for each in found.answers} == {
        "s.mv": [],
        "s.top": ["mv"],
    }


async def test_a_view_of_a_stale_view_does_not_answer() -> None:
    site, bob = await nested_views()
    total = "SELECT sum(n) AS n FROM (SELECT k, count(*) AS n FROM s.t GROUP BY k)"
    await bob.execute(total)
    assert "s.t" not in site.spark.texts[-1]
    await bob.execute(INSERT)
    await bob.execute(total)
    assert "s.t" in site.spark.texts[-1]


async def test_of_two_views_the_fresh_one_answers() -> None:
    site, bob = await two_views()
    await bob.execute(JOINED)
    await bob.execute("INSERT INTO s.u VALUES ('a', 'b')")
    await bob.execute(JOINED)
    assert read(site) == ["`mv`", "s.u"]


async def test_of_two_views_of_which_one_takes_part_no_more_the_other_answers() -> None:
    site, bob = await two_views()
    await bob.execute(JOINED)
    given(site.entry("s.names"), properties={"use_for_rewrite": "false"})
    await bob.execute(JOINED)
    assert read(site) == ["`mv`", "s.u"]


async def test_views_that_are_proved_alone_only_answer_alone() -> None:
    site, bob = await two_views()
    site.prover.refuted["s.names"] = "it is not equal"
    await bob.execute(JOINED)
    assert read(site) == ["`mv`", "s.u"]


async def test_a_stale_view_is_neither_read_nor_refreshed() -> None:
    site = await stage()
    bob = await site.client("bob")
    await bob.execute(QUERY)
    await (await bob.execute(INSERT)).poll()
    await bob.execute(QUERY)
    assert sent(site) == ["mv", "t"]
    assert site.refreshed == []


async def test_a_view_whose_reads_fail_when_it_is_stale_fails_no_query_that_does_not_name_it() -> None:
    site = await stage(properties={"when_stale": "FAIL"})
    bob = await site.client("bob")
    await bob.execute(QUERY)
    site.write("s.t")
    executed = await bob.execute(QUERY)
    assert executed.error is None
    assert sent(site) == ["mv", "t"]


async def test_a_write_whose_end_nobody_asks_for_is_seen_by_a_view_that_is_served_stale() -> None:
    site = await stage(properties={"when_stale": "SERVE"})
    bob = await site.client("bob")
    await bob.execute(QUERY)
    await bob.execute(INSERT)
    await bob.execute(QUERY)
    assert sent(site) == ["mv", "t"]


async def test_a_view_that_is_observed_at_each_read_answers() -> None:
    """An observation is due again as soon as it has ended."""
    site = await stage()
    site.inspector.due = lambda views: True  # type: ignore[method-assign]
    bob = await site.client("bob")
    await bob.execute(QUERY)
    assert sent(site) == ["mv"]


async def test_a_write_that_ends_while_the_query_is_routed_counts() -> None:
    site = await stage()
    bob = await site.client("bob")
    await bob.execute(QUERY)
    learn = site.relations.learn

    async def write_meanwhile(current: str, words: Words) -> None:
        site.write("s.t")
        await learn(current, words)

    site.relations.learn = write_meanwhile  # type: ignore[method-assign]
    await bob.execute(QUERY)
    assert sent(site) == ["mv", "t"]


async def test_what_is_not_proved_is_not_used() -> None:
    site = await stage()
    site.prover.refuted["s.mv"] = "it is a test"
    bob = await site.client("bob")
    await bob.execute(QUERY)
    assert sent(site) == ["t"]


# --- sessions ----------------------------------------------------------------------------------------------


async def test_proofs_are_of_one_user_and_his_settings() -> None:
    site = await stage()
    for user, proofs in (("bob", 1), ("bob", 1), ("carl", 2)):
        client = await site.client(user)
        await client.execute(QUERY)
        assert site.prover.asked == proofs
    await client.execute("SET spark.sql.ansi.enabled=false")
    await client.execute(QUERY)
    assert site.prover.asked == 3
    assert set(sent(site)) == {"mv"}


async def closed(client: Client) -> None:
    """Closes the client's session, and waits until that has ended at Spark."""
    session = client.session.handle
    identifier = ttypes.THandleIdentifier(session.guid, session.secret)
    await client.ask("CloseSession", ttypes.TCloseSessionReq(ttypes.TSessionHandle(identifier)))
    assert client.session.over
    assert session.guid not in client.site.spark.sessions


async def test_the_proof_goes_on_after_the_client_has_closed_its_session() -> None:
    """As Superset does after each query."""
    site = await stage(Rewrite(wait=0, canary=0))
    site.prover.ready.clear()
    bob = await site.client("bob")
    await bob.execute(QUERY)
    (considering,) = site.rewrites._considering.values()
    await site.prover.begun.wait()
    await closed(bob)
    site.prover.ready.set()
    await asyncio.wait([considering])
    await (await site.client("bob")).execute(QUERY)
    assert sent(site) == ["t", "mv"]
    assert site.prover.asked == 2


async def test_that_a_session_has_ended_is_remembered_as_nothing() -> None:
    site = await stage(Rewrite(wait=0, canary=0))
    site.prover.ready.clear()
    bob = await site.client("bob")
    await bob.execute("SET x.y=1")
    bob.session.settings.opaque = True
    await bob.execute(QUERY)
    (considering,) = site.rewrites._considering.values()
    await site.prover.begun.wait()
    await closed(bob)
    site.prover.ready.set()
    await asyncio.wait([considering])
    assert "its settings were known" in str(considering.result())
    assert site.rewrites._verdicts.items() == []


async def test_a_proof_that_is_much_too_old_is_not_used_until_it_is_made_anew() -> None:
    """Users may have lost rights."""
    site = await stage(Rewrite(wait=0, canary=0))
    bob = await site.client("bob")

    async def ask(age: float) -> None:
        """Queries, with a proof that was made so many seconds ago, and waits for what that causes."""
        for _, known in site.rewrites._verdicts.items():
            known.at = time.monotonic() - age
        await bob.execute(QUERY)
        if site.rewrites._considering:
            await asyncio.wait(site.rewrites._considering.values())

    for age in (0, 99, 101, 199, 201, 0):
        await ask(age)
    assert sent(site) == ["t", "mv", "mv", "mv", "t", "mv"]


async def test_a_session_decides_for_itself() -> None:
    site = await stage()
    bob = await site.client("bob")
    await bob.execute("SET freshgate.rewrite = off")
    await bob.execute(QUERY)
    await bob.execute("RESET freshgate.rewrite")
    await bob.execute(QUERY)
    assert sent(site) == ["t", "mv"]


async def test_a_temporary_view_a_database_and_a_transaction() -> None:
    site = await stage()
    bob = await site.client("bob", {"use:database": "s"})
    unqualified = QUERY.replace("s.t", "t")
    for text in (
        *(unqualified, "USE other", unqualified, "USE s", unqualified, "BEGIN", unqualified, "COMMIT", unqualified),
        *("CREATE TEMPORARY VIEW t AS SELECT 1 AS k", unqualified),
    ):
        await bob.execute(text)
    assert sent(site) == ["mv", "t", "mv", "t", "mv", "t"]


async def test_disable_ends_it_at_once() -> None:
    site = await stage()
    bob = await site.client("bob")
    await bob.execute(QUERY)
    given(site.entry("s.mv"), properties={"use_for_rewrite": "false"})
    await bob.execute(QUERY)
    assert sent(site) == ["mv", "t"]


async def test_a_change_of_the_table_ends_a_proof() -> None:
    site = await stage()
    bob = await site.client("bob")
    await bob.execute(QUERY)
    await bob.execute("ALTER TABLE s.t ADD COLUMN x INT")
    site.ledger("s.mv").publish(site.ledger("s.mv").events)
    await bob.execute(QUERY)
    assert site.prover.asked == 2


async def test_a_refresh_that_sees_other_columns_ends_a_proof() -> None:
    """A statement that bypassed the gateway has added one."""
    site = await stage()
    bob = await site.client("bob")
    await bob.execute(QUERY)
    given(site.entry("s.mv"), schemas={named("s.t"): Schema("", (("k", "string"), ("new", "int")))})
    await bob.execute(QUERY)
    assert site.prover.asked == 2


# --- replay ------------------------------------------------------------------------------------------------


def ending(site: Site, state: OperationState) -> None:
    """Statements on the view end so."""
    finish = site.spark.on_start

    def start(operation: Any) -> None:
        finish(operation)
        if "`mv`" in operation.text:
            operation.finish(state)

    site.spark.on_start = start


async def test_after_an_error_the_clients_text_runs_once() -> None:
    site = await stage()
    ending(site, ERROR)
    bob = await site.client("bob")
    executed = await bob.execute(QUERY)
    assert executed.error is None
    assert site.spark.texts[1:] == [QUERY]
    assert executed.at_spark.text == QUERY
    assert site.rewrites.counts.failed == 1
    await bob.execute(QUERY)
    assert sent(site) == ["mv", "t", "t"]


async def test_a_synchronous_client_gets_the_rows_of_its_own_text_after_an_error() -> None:
    site = await stage()
    ending(site, ERROR)
    bob = await site.client("bob")
    executed = await bob.execute(QUERY, run_async=False)
    assert executed.error is None
    assert executed.at_spark.text == QUERY
    assert sent(site) == ["mv", "t"]


async def test_at_the_time_limit_nothing_runs_instead() -> None:
    """The view is used for the next query."""
    site = await stage()
    ending(site, OperationState.TIMEDOUT)
    bob = await site.client("bob")
    executed = await bob.execute(QUERY)
    assert executed.sqlstate == TIMED_OUT
    assert sent(site) == ["mv"]
    assert site.rewrites.counts.failed == 0


async def test_a_cancelled_query_ends_at_spark() -> None:
    site = await stage()
    bob = await site.client("bob")
    await bob.execute(QUERY)
    (text,) = site.spark.texts
    site.spark.holds(text)
    executed = await bob.execute(QUERY, settle=False)
    while len(site.spark.texts) < 2:
        await executed.client.site.settlement.look(site.entry("s.mv"))
    await executed.cancel()
    await executed.close()
    assert site.spark.operation(text).state in (CANCELED, OperationState.CLOSED)
    assert sent(site) == ["mv", "mv"]


async def test_the_view_with_this_name_is_the_one_that_was_proved() -> None:
    site = await stage()
    bob = await site.client("bob")
    await bob.execute(QUERY)
    entry = site.entry("s.mv")
    site.catalog.rename({named("s.other"): entry})
    await bob.execute(QUERY)
    assert sent(site)[0] == "mv"
    assert "`mv`" not in site.spark.texts[-1]
