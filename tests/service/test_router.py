"""What the router makes of statements, and what it knows of their sessions: with fakes of Spark and its metastore."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from fake_spark import CANCELED, ERROR, Answer, SparkOperation, named
from fakes import Executed, Site
from views import given

from gateway.errors import RefreshFailed, StatementFailed
from gateway.mv.ports import Function
from gateway.service.clients.pending_statement import HELD_SECONDS, WAIT_SECONDS
from gateway.service.routing.facts import ViewsRead
from sql.names import Namespace

READ = "SELECT n FROM s.mv"
INSERT = "INSERT INTO s.t VALUES (1)"
SCRIPT = "BEGIN USE s; SELECT 1; END"


async def stage(**view: str) -> Site:
    """ada's s.mv, which counts the rows of s.t; a table of the same name in another database."""
    site = Site()
    site.table("s.t")
    site.table("other.t")
    await site.view("s.mv", "SELECT count(*) n FROM s.t", properties=view)
    return site


async def test_a_read_after_a_write_is_fresh() -> None:
    site = await stage()
    bob = await site.client("bob")
    await bob.execute(READ)
    assert site.refreshed == []
    insert = await bob.execute(INSERT)
    await insert.poll()
    await bob.execute(READ)
    assert site.refreshed == ["s.mv"]


async def test_the_only_view_is_refused_while_it_is_damaged() -> None:
    """Spark would return its stored rows, which nobody keeps fresh."""
    site = await stage()
    site.catalog.report_damage(site.entry("s.mv"), "its storage table cannot be read")
    bob = await site.client("bob")
    refused = await bob.execute(READ)
    assert refused.sqlstate == "58030"
    assert "damaged" in (refused.error or "")


# --- statements whose status nobody asks for ---------------------------------------------------------------


@pytest.mark.parametrize("moving", ["USE s", "/* here */ use s", "EXECUTE IMMEDIATE 'USE ' || 's'", SCRIPT])
async def test_a_database_counts_as_chosen_though_nobody_polls(moving: str) -> None:
    site = await stage()
    bob = await site.client("bob")

    def carry_out(operation: SparkOperation) -> None:
        if operation.text in (moving, "EXECUTE IMMEDIATE 'USE s'"):
            operation.session.namespace = operation.session.namespace.__class__("s")

    site.spark.on_finish = carry_out
    await bob.execute(moving)
    site.write("s.t")
    await bob.execute("SELECT n FROM mv")
    assert site.refreshed == ["s.mv"]


@pytest.mark.parametrize("writing", [INSERT, "EXECUTE IMMEDIATE 'INSERT INTO s.' || 't VALUES (1)'"])
async def test_a_write_counts_though_nobody_polls(writing: str) -> None:
    """In every session."""
    site = await stage()
    ada, bob = await site.client("ada"), await site.client("bob")
    await ada.execute(writing)
    await bob.execute(READ)
    assert site.refreshed == ["s.mv"]


MAKING = [
    "CREATE TEMPORARY VIEW v AS SELECT n FROM s.mv",
    "CREATE OR REPLACE TEMP VIEW v AS SELECT n FROM s.mv",
    "CACHE TABLE v AS SELECT n FROM s.mv",
    "BEGIN CREATE TEMPORARY VIEW v AS SELECT n FROM s.mv; END",
]


@pytest.mark.parametrize("making", MAKING)
async def test_a_temporary_view_counts_as_made_though_nobody_polls(making: str) -> None:
    site = await stage()
    bob = await site.client("bob")
    await bob.execute(making)
    site.write("s.t")
    await bob.execute("SELECT n FROM v")
    assert site.refreshed == ["s.mv"]


async def test_a_spark_view_counts_as_made_though_nobody_polls() -> None:
    """For every session: lists of views that were asked for before do not count."""
    site = await stage()
    ada, bob = await site.client("ada"), await site.client("bob")
    await bob.execute("SELECT n FROM s.w")
    site.spark.on_finish = lambda _: site.spark_view("s.w", "SELECT n FROM mv")
    site.spark.holds(making := "CREATE VIEW s.w AS SELECT n FROM s.mv")
    begun = await ada.execute(making)
    begun.at_spark.finish()
    site.write("s.t")
    await bob.execute("SELECT n FROM s.w")
    assert site.refreshed == ["s.mv"]


async def test_a_setting_of_ours_counts_though_nobody_polls() -> None:
    site = await stage()
    bob = await site.client("bob")
    await bob.execute("SET freshgate.snapshot=session")
    await bob.execute("SELECT 1")
    assert bob.session.transaction.session


async def test_what_spark_is_still_busy_with_leaves_the_database_uncertain() -> None:
    """A bare name counts as that of any database, for the read and for the write."""
    site = await stage()
    site.spark.holds(SCRIPT)
    bob = await site.client("bob")
    script = await bob.execute(SCRIPT)
    assert bob.session.namespace_doubtful
    site.write("s.t")
    await bob.execute("SELECT n FROM mv")
    assert site.refreshed == ["s.mv"]
    before = site.ledger("s.mv").ended
    await bob.execute("INSERT INTO t VALUES (1)")
    await bob.execute(READ)
    assert site.ledger("s.mv").ended > before
    script.at_spark.finish()
    await bob.execute("SELECT 1")
    assert not bob.session.namespace_doubtful


async def test_what_lasts_is_waited_for_once() -> None:
    site = await stage()
    site.spark.holds(SCRIPT)
    bob = await site.client("bob")
    await bob.execute(SCRIPT)
    await bob.execute("SELECT 1")
    clock = asyncio.get_running_loop().time
    began = clock()
    for _ in range(20):
        await bob.execute("SELECT 1")
    assert clock() - began < WAIT_SECONDS + 20 * HELD_SECONDS


async def test_nothing_is_asked_where_nothing_is_pending() -> None:
    site = await stage()
    bob = await site.client("bob")
    for text in ("SELECT 1", "USE s", "CREATE TEMPORARY VIEW v AS SELECT 1 n"):
        await (await bob.execute(text)).poll()
    site.spark.asked.clear()
    for text in ("SELECT 2", "SELECT n FROM mv", "SELECT * FROM v"):
        await (await bob.execute(text)).poll()
    assert site.spark.asked == ["ExecuteStatement", "GetOperationStatus"] * 3


async def test_a_client_that_polls_is_trusted_to_hear_of_the_end() -> None:
    site = await stage()
    site.spark.holds(INSERT)
    ada, bob = await site.client("ada"), await site.client("bob")
    insert = await ada.execute(INSERT)
    polling = asyncio.ensure_future(insert.poll())
    await asyncio.sleep(HELD_SECONDS)
    await bob.execute(READ)
    assert site.refreshed == []
    assert insert.at_spark.polled == 1
    insert.at_spark.finish()
    await polling
    await bob.execute(READ)
    assert site.refreshed == ["s.mv"]


async def test_a_question_is_left_open_while_a_write_runs() -> None:
    """So that only the first read has to wait, and none misses the end."""
    site = await stage()
    site.spark.holds(INSERT)
    ada, bob = await site.client("ada"), await site.client("bob")
    insert = await ada.execute(INSERT)
    await bob.execute(READ)
    clock = asyncio.get_running_loop().time
    began = clock()
    for _ in range(5):
        await bob.execute(READ)
    assert clock() - began < HELD_SECONDS
    assert insert.at_spark.polled == 1
    assert site.refreshed == []
    insert.at_spark.finish()
    await asyncio.sleep(0)
    await bob.execute(READ)
    assert site.refreshed == ["s.mv"]


async def test_a_write_that_spark_does_not_tell_of_counts_as_ended() -> None:
    site = await stage()
    site.spark.holds(INSERT)
    ada, bob = await site.client("ada"), await site.client("bob")
    await ada.execute(INSERT)
    site.spark.down = True
    await bob.execute(READ)
    assert site.refreshed == ["s.mv"]


@pytest.mark.parametrize("ending", [Executed.cancel, Executed.close], ids=["cancelled", "closed"])
async def test_what_was_ended_may_still_commit(ending: Callable[[Executed], object]) -> None:
    """Each read looks, as long as it may."""
    site = await stage()
    site.spark.holds(INSERT)
    ada, bob = await site.client("ada"), await site.client("bob")
    insert = await ada.execute(INSERT)
    await ending(insert)  # type: ignore[misc]
    for _ in range(3):
        await bob.execute(READ)
        assert site.refreshed == ["s.mv"]


async def test_a_client_that_goes_leaves_its_write_in_doubt() -> None:
    site = await stage()
    site.spark.holds(INSERT)
    ada, bob = await site.client("ada"), await site.client("bob")
    await ada.execute(INSERT)
    await ada.leave()
    await bob.execute(READ)
    assert site.refreshed == ["s.mv"]


async def test_a_synchronous_statement_on_another_connection_counts_while_it_runs() -> None:
    """Its reply tells of its end; until then the database is doubtful."""
    site = await stage()
    bob = await site.client("bob")
    other = await site.second(bob)
    site.write("s.t")
    running = await other.begin("USE s")
    await bob.execute("SELECT n FROM mv")
    assert site.refreshed == ["s.mv"]
    running()
    assert not bob.session.namespace_doubtful
    site.write("s.t")
    await bob.execute("SELECT n FROM mv")
    assert site.refreshed == ["s.mv"]


async def test_an_answer_from_before_use_is_not_kept() -> None:
    site = await stage()
    bob = await site.client("bob")
    other = await site.second(bob)
    await (await bob.execute("USE spark_catalog.other")).poll()
    site.write("s.t")
    answered = site.spark.answering = asyncio.Event()
    read = asyncio.ensure_future(bob.execute("SELECT n FROM mv"))
    while "SELECT current_catalog(), current_database()" not in site.spark.answers.heard:  # noqa: ASYNC110 (what is waited for sets no event)
        await asyncio.sleep(0)
    site.spark.answering = asyncio.Event()
    site.spark.answering.set()
    (await other.begin("USE s"))()
    answered.set()
    await read
    assert site.refreshed == ["s.mv"]
    assert bob.session.namespace is not None
    assert bob.session.namespace.database == "s"


QUESTION = "SELECT current_catalog(), current_database()"


@pytest.mark.parametrize(
    ("texts", "asks"),
    [
        (["USE `s`"], False),
        (["use s "], False),
        (["USE spark_catalog.s"], True),
        (["SET spark.sql.catalog.other = x", "USE s"], True),
        (["USE other", "USE s"], False),
        (["USE spark_catalog.other", "USE s"], True),
    ],
)
async def test_where_a_plain_use_leads_is_known(texts: list[str], asks: bool) -> None:
    """As long as no setting of the session may have made a catalog of that name."""
    site = await stage()
    bob = await site.client("bob")
    for text in texts:
        await (await bob.execute(text)).poll()
    site.write("s.t")
    await bob.execute("SELECT n FROM mv")
    assert site.refreshed == ["s.mv"]
    assert (QUESTION in site.spark.answers.heard) == asks


# --- temporary views ----------------------------------------------------------------------------------------


SHARED = [
    "CREATE GLOBAL TEMPORARY VIEW g AS SELECT n FROM s.mv",
    "CREATE OR REPLACE GLOBAL TEMP VIEW g AS SELECT n FROM s.mv",
    "CREATE OR REPLACE GLOBAL TEMP VIEW global_temp.g AS SELECT n FROM s.mv",
    "BEGIN CREATE GLOBAL TEMPORARY VIEW g AS SELECT n FROM s.mv; END",
]


@pytest.mark.parametrize("making", SHARED)
@pytest.mark.parametrize("read", ["SELECT n FROM global_temp.g", "CACHE TABLE global_temp.g"])
async def test_a_global_temporary_view_is_fresh_in_every_session(making: str, read: str) -> None:
    site = await stage()
    ada, bob = await site.client("ada"), await site.client("bob")
    await ada.execute(making)
    site.write("s.t")
    await bob.execute(read)
    assert site.refreshed == ["s.mv"]
    site.write("s.t")
    await bob.execute("SELECT n FROM g")
    assert site.refreshed == [], "no table of the database, and none of the session"


async def test_a_global_temporary_view_may_be_another_clients() -> None:
    """Made past the gateway, or before it was started: Spark tells what it reads."""
    site = await stage()
    mv = site.entry("s.mv").view.id
    site.plan("SELECT n FROM global_temp.g", mv)
    site.plan("SELECT n FROM global_temp.h")
    bob = await site.client("bob")
    site.write("s.t")
    await bob.execute("SELECT n FROM global_temp.h")
    assert site.refreshed == []
    await bob.execute("SELECT n FROM global_temp.g")
    assert site.refreshed == ["s.mv"]


async def test_the_database_of_global_temporary_views_may_have_another_name() -> None:
    site = await stage()
    site.sessions.shared.database = "ours"
    ada, bob = await site.client("ada"), await site.client("bob")
    await ada.execute(SHARED[0])
    site.write("s.t")
    await bob.execute("SELECT n FROM global_temp.g")
    assert site.refreshed == []
    await bob.execute("SELECT n FROM ours.g")
    assert site.refreshed == ["s.mv"]


async def test_a_global_temporary_view_that_is_dropped_is_forgotten() -> None:
    site = await stage()
    ada, bob = await site.client("ada"), await site.client("bob")
    shared = site.sessions.shared.views
    await (await ada.execute(SHARED[0])).poll()
    assert "g" in shared
    await bob.execute("DROP VIEW global_temp.g")
    await bob.execute("SELECT 1")
    assert shared.names == {""}


async def test_global_temporary_views_go_with_spark() -> None:
    site = await stage()
    ada, bob = await site.client("ada"), await site.client("bob")
    await (await ada.execute(SHARED[0])).poll()
    bob.dispatch.upstream_lost(None)
    assert "g" not in site.sessions.shared.views


@pytest.mark.parametrize("after", ["v2", "V2"])
async def test_a_temporary_view_keeps_what_it_reads_under_its_new_name(after: str) -> None:
    site = await stage()
    bob = await site.client("bob")
    await bob.execute(MAKING[0])
    await bob.execute(f"ALTER VIEW v RENAME TO {after}")
    site.write("s.t")
    await bob.execute("SELECT n FROM v2")
    assert site.refreshed == ["s.mv"]


async def test_a_drop_of_a_temporary_view_may_fail() -> None:
    site = await stage()
    bob = await site.client("bob")
    await bob.execute(MAKING[0])
    site.spark.holds("DROP VIEW v")
    drop = await bob.execute("DROP VIEW v")
    drop.at_spark.finish(ERROR, "42501")
    site.write("s.t")
    await bob.execute("SELECT n FROM v")
    assert site.refreshed == ["s.mv"]


@pytest.mark.parametrize(
    "made",
    [
        "CREATE TEMPORARY FUNCTION mv() RETURNS INT RETURN 1",
        "CREATE GLOBAL TEMPORARY VIEW mv AS SELECT 1 n",
        "CREATE TEMPORARY VIEW MV AS SELECT 1 n",
    ],
)
@pytest.mark.parametrize("change", ["DROP VIEW mv", "ALTER VIEW mv AS SELECT 666 n", "DROP TABLE mv"])
async def test_what_may_not_be_a_temporary_view_is_protected(made: str, change: str) -> None:
    site = await stage()
    bob = await site.client("bob", {"use:database": "s"})
    await (await bob.execute(made)).poll()
    await bob.execute(change)
    assert change not in site.spark.texts


# --- views that only may be read ----------------------------------------------------------------------------

COMPOSED = "EXECUTE IMMEDIATE 'SELECT ' || '42'"
NAMELESS = "CREATE TEMPORARY VIEW IDENTIFIER('t' || 'w') AS SELECT 1 a"


async def broken() -> Site:
    """alice has a view that was never built and cannot be; ada's s.mv is stale."""
    site = await stage()
    await site.view("a.broken", "SELECT count(*) n FROM s.gone", owner="alice", built=False)
    site.tasks.failing["a.broken"] = RefreshFailed("s.gone is missing")
    site.spark.answers.say("^SHOW VIEWS", Answer([("", "tw", True), ("global_temp", "x", True)]))
    site.write("s.t")
    return site


async def test_a_text_whose_reads_spark_tells_waits_for_nothing_else() -> None:
    site = await broken()
    bob = await site.client("bob")
    site.spark.answers.say("^SELECT \\('SELECT", Answer([("SELECT 42",)]))
    site.plan("SELECT 42")
    done = await bob.execute(COMPOSED)
    assert done.error is None
    assert site.refreshed == []
    assert done.log == []


async def test_a_text_that_reads_a_view_according_to_spark_has_it_fresh() -> None:
    site = await broken()
    bob = await site.client("bob")
    site.spark.answers.say("^SELECT \\('SELECT", Answer([("SELECT n FROM s.mv",)]))
    site.plan("SELECT n FROM s.mv", site.entry("s.mv").view.id)
    done = await bob.execute("EXECUTE IMMEDIATE 'SELECT n FROM s.' || 'mv'")
    assert done.error is None
    assert site.refreshed == ["s.mv"]
    assert done.log == []


async def test_a_text_of_which_spark_tells_nothing_fails_for_no_view_and_builds_none() -> None:
    site = await broken()
    bob = await site.client("bob")
    site.spark.answers.say("^EXPLAIN", StatementFailed("no"))
    done = await bob.execute("BEGIN DECLARE x STRING DEFAULT 's.' || 'mv'; EXECUTE IMMEDIATE 'TABLE ' || x; END")
    assert done.error is None
    assert site.refreshed == ["s.mv"], "it was built, and a read would refresh it"
    assert "1 may be stale or not built: a.broken" in "".join(done.log)


async def test_a_text_of_which_spark_tells_nothing_waits_for_a_while_only() -> None:
    site = await broken()
    site.router._reads._unsure_seconds = 0.05
    site.tasks.working.clear()
    bob = await site.client("bob")
    done = await bob.execute("BEGIN DECLARE x STRING DEFAULT char(115) || '.mv'; EXECUTE IMMEDIATE 'TABLE ' || x; END")
    assert done.error is None
    assert "2 may be stale" in "".join(done.log)


async def test_a_temporary_view_without_a_name_hurts_no_other_read() -> None:
    site = await broken()
    bob = await site.client("bob")
    await bob.execute(NAMELESS)
    site.tasks.made.clear()
    read = await bob.execute("SELECT * FROM other.t")
    assert read.error is None
    assert site.refreshed == []
    assert bob.session.temporary.names == {"tw"}


async def test_what_a_temporary_view_without_a_name_reads_is_fresh() -> None:
    site = await broken()
    bob = await site.client("bob")
    await bob.execute("CREATE TEMPORARY VIEW IDENTIFIER('t' || 'w') AS SELECT n FROM s.mv")
    site.plan("SELECT n FROM tw", site.entry("s.mv").view.id)
    site.write("s.t")
    site.tasks.made.clear()
    await bob.execute("SELECT n FROM tw")
    assert site.refreshed == ["s.mv"]


async def test_a_view_that_is_dropped_meanwhile_is_none_that_may_be_read() -> None:
    site = await broken()
    bob = await site.client("bob")
    asked = []

    def drop(text: str) -> Answer:
        asked.append(text)
        site.catalog.remove(site.entry("a.broken"))
        raise StatementFailed("no")

    site.spark.answers.say("^EXPLAIN EXTENDED", drop)
    done = await bob.execute("SELECT * FROM IDENTIFIER('x' || 'y')")
    assert len(asked) == 1
    assert done.error is None


async def test_no_error_shows_an_id() -> None:
    site = await stage()
    entry = site.entry("s.mv")
    site.catalog.remove(entry)
    with pytest.raises(Exception, match=r"materialized view s\.mv was dropped"):
        site.catalog.entry(entry.view.id)


async def test_a_write_in_a_text_that_spark_is_asked_about_is_not_done_by_that() -> None:
    """EXPLAIN EXECUTE IMMEDIATE also runs other statements."""
    site = await broken()
    bob = await site.client("bob")
    for inner in ("INSERT INTO s.t VALUES (1)", "SET x=1", "DROP TABLE s.t", "USE s"):
        site.spark.answers.say("^SELECT \\('x'", Answer([(inner,)]))
        await bob.execute("EXECUTE IMMEDIATE 'x' || ''")
        await bob.execute("EXECUTE IMMEDIATE 'x' || '' USING 1 AS a")
    assert not [text for text in site.spark.answers.heard if "EXECUTE" in text]
    assert site.refreshed == [], "and it reads nothing"
    assert named("s.t") in site.metastore.relations


async def test_the_schema_of_before_a_change_is_not_kept() -> None:
    site = await stage()
    site.metastore.answering.clear()
    asking = asyncio.ensure_future(site.schemas.of([named("s.t")]))
    while ("relation", named("s.t")) not in site.metastore.asked:  # noqa: ASYNC110 (what is waited for sets no event)
        await asyncio.sleep(0)
    site.metastore.asked.clear()
    site.schemas.forget([named("s.t")])
    site.metastore.answering.set()
    await asking
    await site.schemas.of([named("s.t")])
    assert ("relation", named("s.t")) in site.metastore.asked


@pytest.mark.parametrize(
    ("text", "sqlstate"), [("SELECT n FROM mv", None), ("INSERT INTO t SELECT n FROM mv", "40001")]
)
async def test_the_database_may_change_while_a_statement_waits(text: str, sqlstate: str | None) -> None:
    """On another connection of the same session; the name means another view then."""
    site = await stage()
    await site.view("other.mv", "SELECT count(*) n FROM other.t")
    bob = await site.client("bob", {"use:database": "other"})
    second = await site.second(bob)
    site.write("s.t")
    site.write("other.t")
    site.tasks.working.clear()
    reading = asyncio.ensure_future(bob.execute(text))
    while not site.tasks.made:  # noqa: ASYNC110 (what is waited for sets no event)
        await asyncio.sleep(0)
    (await second.begin("USE s"))()
    site.tasks.working.set()
    assert (await reading).sqlstate == sqlstate
    assert site.refreshed == ["other.mv", "s.mv"][: 1 if sqlstate else 2]


async def test_a_cancelled_use_leaves_the_database_uncertain_for_a_while() -> None:
    site = await stage()
    site.spark.holds("USE s")
    bob = await site.client("bob")
    use = await bob.execute("USE s")
    use.at_spark.finish(CANCELED)
    await use.poll()
    assert bob.session.namespace_doubtful


NOTED = [
    ("parquet.`/Data/X`", "INSERT INTO delta.`/elsewhere` VALUES (1)"),
    ("parquet.`/Data/X`", "INSERT OVERWRITE DIRECTORY '/Data/X' USING parquet SELECT 1 AS a"),
    ("delta.`/Data/X`", "CREATE OR REPLACE TABLE s.other USING delta LOCATION '/Data/X' AS SELECT 1 AS a"),
    ("s.t", "LOAD DATA INPATH '/warehouse/s.db/t/part-0' INTO TABLE s.other"),
    ("s.t", "CALL lake.system.remove_orphan_files(table => 'x.y', location => '/warehouse/s.db/t')"),
    ("s.t", "BEGIN LOAD DATA INPATH '/warehouse/s.db/t/part-0' INTO TABLE s.other; END"),
    ("lake.i.t.branch_b", "INSERT INTO lake.i.t.branch_b VALUES (1)"),
    ("lake.i.t.branch_b", "ALTER TABLE lake.i.t CREATE OR REPLACE BRANCH b"),
    ("lake.i.t VERSION AS OF 'b'", "INSERT INTO lake.i.t.branch_b VALUES (1)"),
    ("lake.i.t VERSION AS OF 'b'", "CALL lake.system.fast_forward('i.t', 'b', 'main')"),
    ("lake.i.t", "CALL lake.system.rollback_to_snapshot('i.t', 1)"),
    ("lake.i.t.snapshots", "INSERT INTO lake.i.t VALUES (1)"),
    ("lake.i.t", "ALTER TABLE lake.i.t.branch_b SET TBLPROPERTIES ('a' = 'b')"),
]


@pytest.mark.parametrize(("source", "statement"), NOTED)
async def test_a_write_by_another_name_is_noted(source: str, statement: str) -> None:
    site = Site()
    site.table("s.t")
    await site.view("s.mv", f"SELECT count(*) n FROM {source}")
    bob = await site.client("bob")
    await bob.execute(READ)
    assert site.refreshed == []
    await (await bob.execute(statement)).poll()
    await bob.execute(READ)
    assert site.refreshed == ["s.mv"]


@pytest.mark.parametrize(
    "statement",
    [
        "LOAD DATA LOCAL INPATH '/tmp/x' INTO TABLE s.other",
        "CREATE TABLE s.other USING parquet LOCATION '/Data/X'",
        "INSERT INTO s.other SELECT location, path FROM s.t",
        "INSERT INTO s.t_of_others VALUES (1)",
    ],
)
async def test_a_write_elsewhere_is_not(statement: str) -> None:
    site = await stage()
    bob = await site.client("bob")
    await (await bob.execute(statement)).poll()
    await bob.execute(READ)
    assert site.refreshed == []


async def test_files_that_are_written_while_a_view_is_made_are_noted() -> None:
    """Whose they are nobody knew when the statement began."""
    site = Site()
    site.table("s.t")
    statement = "LOAD DATA INPATH '/warehouse/s.db/t/part-0' INTO TABLE s.other"
    site.spark.holds(statement)
    bob = await site.client("bob")
    load = await bob.execute(statement)
    await site.view("s.mv", "SELECT count(*) n FROM s.t")
    load.at_spark.finish()
    await load.poll()
    assert site.ledger("s.mv").stale


async def made_of_functions() -> Site:
    """ada's s.mv calls s.top, which calls s.plus and reads s.u."""
    site = Site()
    for table in ("s.t", "s.u"):
        site.table(table)
    here = Namespace("s")
    site.metastore.add_function("s.plus", Function("plus", "x + 1", namespace=here))
    site.metastore.add_function("s.top", Function("top", "plus(x) + (SELECT max(a) FROM u)", namespace=here))
    site.metastore.add_function("s.code", Function("Class: Ascii"))
    await site.view("s.mv", "SELECT sum(top(a)) n FROM t")
    return site


async def test_functions_that_a_definition_calls_are_base_tables() -> None:
    site = await made_of_functions()
    tables = {str(table) for table in site.entry("s.mv").view.tables}
    assert tables == {"s.t", "s.u", "the function s.top", "the function s.plus"}


@pytest.mark.parametrize(
    ("statement", "noted"),
    [
        ("CREATE OR REPLACE FUNCTION s.plus(x INT) RETURNS INT RETURN x + 100", True),
        ("DROP FUNCTION IF EXISTS s.plus", True),
        ("CREATE OR REPLACE FUNCTION s.top AS 'org.example.Top' USING JAR '/x.jar'", True),
        ("BEGIN CREATE OR REPLACE FUNCTION s.plus(x INT) RETURNS INT RETURN x; END", True),
        ("INSERT INTO s.u VALUES (1)", True),
        ("CREATE OR REPLACE FUNCTION s.other(x INT) RETURNS INT RETURN x", False),
        ("CREATE TEMPORARY FUNCTION plus(x INT) RETURNS INT RETURN x", False),
        ("DROP TEMPORARY FUNCTION plus", False),
    ],
)
async def test_a_function_that_is_replaced_makes_views_stale(statement: str, noted: bool) -> None:
    site = await made_of_functions()
    bob = await site.client("bob")
    await (await bob.execute(statement)).poll()
    await bob.execute(READ)
    assert site.refreshed == (["s.mv"] if noted else [])


async def test_built_in_functions_are_not_asked_for() -> None:
    site = await stage()
    await site.view("s.other", "SELECT upper(a) n, count(*) OVER (PARTITION BY a) FROM s.t WHERE a IN (1)")
    assert not [each for each in site.metastore.asked if each[0] == "function"]


async def test_a_function_that_reads_a_view_is_read_fresh() -> None:
    site = await stage()
    here = Namespace("s")
    site.metastore.add_function("s.counted", Function("counted", "SELECT n FROM mv", is_query=True, namespace=here))
    bob = await site.client("bob")
    await (await bob.execute(INSERT)).poll()
    await bob.execute("SELECT s.counted()")
    assert site.refreshed == ["s.mv"]


async def test_what_stands_in_the_place_of_a_view_names_its_catalog() -> None:
    """The session's current catalog may be another one."""
    site = await stage()
    inlined = site.entry("s.mv")
    given(inlined, properties={"when_stale": "INLINE"}, settings={})
    bob = await site.client("bob")
    site.write("s.t")
    read = await bob.execute("SELECT n FROM spark_catalog.s.mv")
    assert f"FROM {inlined.view.definition.quoted}" in read.at_spark.text
    assert inlined.view.definition.quoted.startswith("`spark_catalog`.")
    # A view that was created where files are read otherwise is made fresh instead.
    given(inlined, settings={"spark.sql.session.timeZone": "Asia/Tokyo"})
    site.spark.answers.say(r"^SET `spark\.sql\.session\.timeZone`$", Answer([("", "UTC")]))
    assert (await bob.execute("SELECT n FROM s.mv")).at_spark.text == "SELECT n FROM s.mv"
    assert site.refreshed == ["s.mv"]


@pytest.mark.parametrize("how", ["cancel", "close", "leave"])
async def test_the_jobs_that_a_cancelled_statement_submits_later_are_ended_too(how: str) -> None:
    site = await stage()
    cancelled: list[str] = []
    site.sessions.cancel_jobs = cancelled.append
    site.spark.holds(INSERT)
    bob = await site.client("bob")
    insert = await bob.execute(INSERT)
    public_id = insert.at_spark.handle.public_id
    if how == "cancel":
        await insert.cancel()
    elif how == "close":
        await insert.close()
    else:
        await bob.leave()
    assert cancelled == [public_id]


async def test_the_jobs_of_a_statement_that_has_ended_are_let_be() -> None:
    site = await stage()
    cancelled: list[str] = []
    site.sessions.cancel_jobs = cancelled.append
    bob = await site.client("bob")
    insert = await bob.execute(INSERT)
    await insert.poll()
    await insert.close()
    await bob.leave()
    assert cancelled == []


async def test_a_session_that_closes_nothing_is_refused_more() -> None:
    site = Site()
    site.sessions.operations_max = 3
    site.table("s.t")
    bob = await site.client("bob")
    open_ones = [await bob.execute("SELECT 1") for _ in range(3)]
    refused = await bob.execute("SELECT 1", settle=False)
    assert (refused.handle, refused.sqlstate) == (None, "54000")
    assert "a session may have no more" in str(refused.error)
    await open_ones[0].close()
    assert (await bob.execute("SELECT 1")).handle is not None


async def test_a_failure_is_remembered_once_spark_says_why() -> None:
    site = await stage()
    bob = await site.client("bob")
    site.spark.holds("SELECT 1 / 0")
    failing = await bob.execute("SELECT 1 / 0")
    failing.at_spark.reason = None
    failing.at_spark.finish(ERROR, "22012")
    assert (await failing.poll()).errorMessage is None
    failing.at_spark.reason = "Division by zero"
    assert [(await failing.poll()).errorMessage for _ in range(2)] == ["Division by zero"] * 2
    assert failing.at_spark.polled == 2


async def test_a_view_that_gets_its_name_while_a_statement_is_routed_is_refreshed() -> None:
    site = Site()
    for table, view in (("s.t", "s.v"), ("s.u", "s.w")):
        site.table(table)
        await site.view(view, f"SELECT count(*) AS n FROM {table}")
    site.write("s.u")
    bob, views_read = await site.client("bob"), site.scope.views_read

    async def rename_meanwhile(*arguments: Any, **named_ones: Any) -> ViewsRead:
        found = await views_read(*arguments, **named_ones)
        if site.catalog.named(named("s.w")) is not None:
            entry = site.entry("s.w")
            site.metastore.add(replace(site.metastore.relations[named("s.w")], name=named("s.x")))
            async with entry.lock:
                site.catalog.rename({named("s.x"): entry})
        return found

    site.scope.views_read = rename_meanwhile  # type: ignore[method-assign]
    await bob.execute("SELECT v.n, x.n FROM s.v JOIN s.x")
    assert site.refreshed == ["s.x"]
