"""Views with SECURITY INVOKER: nobody is shown stored rows that the definition would not show, whatever reads them."""

from __future__ import annotations

from typing import Any

import pytest
from fakes import STORAGE, Client, Executed, Site
from views import given

from gateway.errors import RefreshFailed
from gateway.mv.model.view import MaterializedView
from sql.mentioned import Mentioned
from sql.statement import CreateClauses, Grantee, GranteeKind, Security

ADA, BOB = "ada", "bob"
DIFFER = "rights differ"


async def stage(**options: Any) -> tuple[Site, MaterializedView]:
    """Ada is shown other rows than those of s.mv; bob is not."""
    site = Site(**options)
    site.table("s.sales")
    view = await site.view("s.mv", "SELECT count(*) AS n FROM s.sales", owner=BOB)
    site.table("other.t")
    invoking(site, "s.mv")
    site.rights.differing["s.mv", ADA] = DIFFER
    return site, view


def invoking(site: Site, name: str) -> None:
    given(site.entry(name), clauses=CreateClauses(security=Security.INVOKER))
    site.catalog.revision += 1


async def runs(client: Client, text: str) -> Executed:
    executed = await client.execute(text)
    if executed.error is None:
        executed.at_spark.finish()
        await executed.poll()
    return executed


def definition(view: MaterializedView) -> str:
    return f"(SELECT * FROM {view.definition.quoted})"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT n FROM {}",
        "WITH c AS (SELECT * FROM {}) SELECT * FROM c",
        "SELECT a.n FROM {} AS a JOIN other.t",
        "INSERT INTO other.t SELECT * FROM {}",
        "CREATE TABLE other.copy AS SELECT * FROM {}",
        "TABLE {}",
    ],
)
async def test_the_definition_takes_the_place_of_a_view_for_whom_the_rows_differ(text: str) -> None:
    site, view = await stage()
    ada, bob = await site.client(ADA), await site.client(BOB)
    written = text.format("s.mv")
    theirs, own = await runs(bob, written), await runs(ada, written)
    assert (own.error, theirs.error) == (None, None)
    assert theirs.at_spark.text == written
    assert definition(view) in own.at_spark.text
    assert "s.mv" not in own.at_spark.text.replace(view.definition.quoted, "")
    assert any(DIFFER in line for line in own.log)
    assert site.rights.asked == [("s.mv", BOB), ("s.mv", ADA)]


@pytest.mark.parametrize("when_stale", ["REFRESH", "SERVE", "FAIL", "INLINE"])
async def test_staleness_does_not_matter_to_the_definition(when_stale: str) -> None:
    site, view = await stage()
    given(site.entry("s.mv"), properties={"when_stale": when_stale}, settings={})
    site.write("s.sales")
    executed = await runs(await site.client(ADA), "SELECT n FROM s.mv")
    assert executed.error is None
    assert definition(view) in executed.at_spark.text
    assert site.refreshed == []


async def in_a_temporary_view(client: Client) -> Executed:
    await runs(client, "CREATE TEMPORARY VIEW mine AS SELECT * FROM s.mv")
    return await runs(client, "SELECT * FROM mine")


async def in_a_cached_table(client: Client) -> Executed:
    await runs(client, "CACHE TABLE mine AS SELECT * FROM s.mv")
    return await runs(client, "SELECT * FROM mine")


async def in_a_view(client: Client) -> Executed:
    client.site.spark_view("s.plain", "SELECT * FROM s.mv")
    return await runs(client, "SELECT * FROM s.plain, s.mv")


async def in_a_view_of_its_storage(client: Client) -> Executed:
    (view,) = client.site.catalog.views()
    client.site.spark_view("s.past", f"SELECT * FROM {STORAGE}.{view.storage.table}")
    return await runs(client, "SELECT * FROM s.past")


async def in_its_storage(client: Client) -> Executed:
    (view,) = client.site.catalog.views()
    return await runs(client, f"SELECT * FROM {STORAGE}.{view.storage.table}")


async def in_its_storage_as_the_current_database(client: Client) -> Executed:
    (view,) = client.site.catalog.views()
    await runs(client, f"USE {STORAGE}")
    return await runs(client, f"SELECT * FROM {view.storage.table}")


async def in_its_files(client: Client) -> Executed:
    (view,) = client.site.catalog.views()
    return await runs(client, f"SELECT * FROM parquet.`/warehouse/storage.db/{view.storage.table}`")


async def in_all_files(client: Client) -> Executed:
    return await runs(client, "SELECT * FROM parquet.`/warehouse/*/*`")


async def in_a_new_view_of_its_storage(client: Client) -> Executed:
    (view,) = client.site.catalog.views()
    return await runs(client, f"CREATE VIEW s.past AS SELECT * FROM {STORAGE}.{view.storage.table}")


async def in_a_transaction(client: Client) -> Executed:
    await client.execute("BEGIN")
    return await runs(client, "SELECT * FROM s.mv")


async def in_a_script(client: Client) -> Executed:
    return await runs(client, "BEGIN SELECT * FROM s.mv; END")


async def in_a_merge(client: Client) -> Executed:
    return await runs(client, "MERGE INTO other.t USING s.mv ON true WHEN NOT MATCHED THEN INSERT *")


async def its_partitions(client: Client) -> Executed:
    return await client.execute("SHOW PARTITIONS s.mv")


async def by_a_name_that_is_built(client: Client) -> Executed:
    return await runs(client, "EXECUTE IMMEDIATE 'SELECT * FROM s' || '.mv'")


@pytest.mark.parametrize(
    "read",
    [
        in_a_temporary_view,
        in_a_cached_table,
        in_a_view,
        in_a_view_of_its_storage,
        in_its_storage,
        in_its_storage_as_the_current_database,
        in_its_files,
        in_all_files,
        in_a_new_view_of_its_storage,
        in_a_transaction,
        in_a_script,
        in_a_merge,
        by_a_name_that_is_built,
        its_partitions,
    ],
)
async def test_where_the_definition_cannot_stand_nothing_is_shown(read: Any) -> None:
    site, _ = await stage()
    executed = await read(await site.client(ADA))
    assert executed.sqlstate == "42501"
    assert "SECURITY INVOKER" in str(executed.error)


@pytest.mark.parametrize(
    "read", [in_a_temporary_view, in_a_view, in_a_transaction, in_a_script, in_a_merge, by_a_name_that_is_built]
)
async def test_who_is_shown_the_same_rows_is_refused_nothing(read: Any) -> None:
    site, _ = await stage()
    assert (await read(await site.client(BOB))).error is None


@pytest.mark.parametrize(
    "text", ["SELECT * FROM other.t", "SELECT * FROM parquet.`/lake/t`", "DESCRIBE s.mv", "SHOW TABLES"]
)
async def test_other_statements_are_forwarded_unasked(text: str) -> None:
    site, _ = await stage()
    assert (await runs(await site.client(ADA), text)).error is None
    assert site.rights.asked == []


async def test_a_text_that_may_read_anything_is_asked_of() -> None:
    """The text itself tells no name; Spark tells what it reads."""
    site, view = await stage()
    ada = await site.client(ADA)
    site.plan("SELECT * FROM ${name}", view.id)
    assert (await runs(ada, "SELECT * FROM ${name}")).sqlstate == "42501"
    site.plan("SELECT * FROM ${other}")
    assert (await runs(ada, "SELECT * FROM ${other}")).error is None


async def test_views_above_are_as_closed_as_those_below() -> None:
    """A view whose rows every reader is shown may be read, whatever it reads itself."""
    site, _ = await stage()
    await site.view("s.open", "SELECT * FROM s.mv")
    await site.view("s.closed", "SELECT * FROM s.mv")
    invoking(site, "s.closed")
    ada, bob = await site.client(ADA), await site.client(BOB)
    assert (await runs(ada, "SELECT * FROM s.open")).error is None
    assert (await runs(ada, "SELECT * FROM s.closed")).sqlstate == "42501"
    assert (await runs(bob, "SELECT * FROM s.closed")).error is None


async def test_remembered_answers_are_not_shown_to_others() -> None:
    site, view = await stage(result_bytes=1 << 20)
    site.results.shared = True
    site.spark.value = lambda operation: 1 if definition(view) in operation.text else 100
    text = "SELECT n FROM s.mv"
    ada, bob = await site.client(ADA), await site.client(BOB)
    for client in (bob, ada, bob, ada):
        executed = await client.execute(text)
        assert executed.error is None
        if client is ada:
            assert definition(view) in executed.at_spark.text


@pytest.mark.parametrize("text", ["GRANT SELECT ON s.sales TO ada", "ALTER TABLE s.sales SET ROW FILTER f ON (n)"])
async def test_a_change_of_rights_ends_at_once_what_is_known(text: str) -> None:
    site, view = await stage()
    bob, root = await site.client(BOB), await site.client("root")
    assert (await runs(bob, "SELECT n FROM s.mv")).at_spark.text == "SELECT n FROM s.mv"
    site.rights.differing["s.mv", BOB] = DIFFER
    await runs(root, text)
    assert definition(view) in (await runs(bob, "SELECT n FROM s.mv")).at_spark.text


FORMS = (
    "SET VAR x = (SELECT n FROM s.mv)",
    "SET VARIABLE (x) = (SELECT n FROM s.mv)",
    "DECLARE VARIABLE x INT DEFAULT (SELECT max(n) FROM s.mv)",
    "VALUES ((SELECT max(n) FROM s.mv))",
    "FROM s.mv |> SELECT n",
    "TABLE s.mv |> WHERE n > 0",
    "SELECT * FROM other.t |> JOIN s.mv",
    "SELECT * FROM IDENTIFIER('s.mv')",
    "SELECT * FROM IDENTIFIER('s.' || 'mv')",
    "SELECT * FROM `s`.`mv`",
    "SELECT * FROM spark_catalog.S.MV",
    "SELECT * FROM s . mv",
    "SELECT * FROM s.mv TABLESAMPLE (10 ROWS)",
    "SELECT * FROM other.t, LATERAL (SELECT * FROM s.mv)",
    "SELECT * FROM other.t WHERE EXISTS (SELECT 1 FROM s.mv WHERE n = 1)",
    "FROM s.mv INSERT INTO other.t SELECT *",
    "INSERT INTO other.t TABLE s.mv",
    "INSERT OVERWRITE DIRECTORY '/out' USING parquet SELECT * FROM s.mv",
    "CACHE TABLE s.mv",
    "CREATE TABLE other.copy AS TABLE s.mv",
    "WITH c AS (SELECT * FROM s.mv) INSERT INTO other.t SELECT * FROM c",
    "DELETE FROM other.t WHERE n IN (SELECT n FROM s.mv)",
    "UPDATE other.t SET n = (SELECT max(n) FROM s.mv)",
    "EXECUTE IMMEDIATE 'SELECT * FROM s.mv'",
    "BEGIN DECLARE x INT; SET x = (SELECT max(n) FROM s.mv); SELECT x; END",
    "SELECT n FROM s.mv UNION ALL SELECT n FROM other.t",
    "/* s.mv */ SELECT n -- s.mv\nFROM s.mv",
    "MAP n USING 'cat' FROM s.mv",
    "SELECT TRANSFORM(n) USING 'cat' FROM s.mv",
    "REDUCE n USING 'cat' FROM s.mv",
    "CALL system.p((SELECT max(n) FROM s.mv))",
)


@pytest.mark.parametrize("text", FORMS)
async def test_in_whatever_form_a_statement_names_the_view(text: str) -> None:
    """Either its definition takes its place, or it does not get to Spark."""
    site, view = await stage()
    site.plan(text, view.id)
    executed = await runs(await site.client(ADA), text)
    sent = [operation.text for operation in site.spark.operations.values()]
    for each in sent:
        for harmless in (view.definition.quoted, "/* s.mv */", "-- s.mv", "AS `mv`"):
            each = each.lower().replace(harmless.lower(), "")
        assert "mv" not in each, each
    assert executed.error is not None or any(definition(view) in each for each in sent)


# --- why a refresh failed ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("user", "granted", "differs", "told"),
    [
        (BOB, "", DIFFER, True),
        ("root", "", DIFFER, True),
        (ADA, "", "", True),
        (ADA, "", DIFFER, False),
        (ADA, ADA, DIFFER, True),
        (ADA, "eve", DIFFER, False),
    ],
)
@pytest.mark.parametrize("gone", [False, True])
async def test_what_spark_says_of_a_refresh_is_told_to_whom_it_shows_the_rows(
    user: str, granted: str, differs: str, told: bool, gone: bool
) -> None:
    """Others are told that it failed. `gone`: it is known, and the stored rows are served."""
    site = Site()
    site.table("s.sales")
    await site.view("s.mv", "SELECT count(*) AS n FROM s.sales", owner=BOB)
    given(site.entry("s.mv"), refreshers=frozenset({Grantee(GranteeKind.USER, granted)} if granted else ()))
    site.rights.differing["s.mv", user] = differs
    site.write("s.sales")
    error = RefreshFailed("The refresh of s.mv failed.", "22018", "the value 'needle' is malformed")
    if gone:
        site.tasks.gone["s.mv"] = str(error)
    else:
        site.tasks.failing["s.mv"] = error
    executed = await runs(await site.client(user), "SELECT n FROM s.mv")
    said = "\n".join(executed.log) if gone else str(executed.error)
    assert "The refresh of s.mv failed." in said
    assert ("needle" in said) is told
    assert ("The cause is shown to users who may refresh it" in said) is not told


async def test_the_cause_in_a_view_below_is_told_to_whom_its_rows_are_shown() -> None:
    site = Site()
    site.table("s.sales")
    await site.view("s.below", "SELECT count(*) AS n FROM s.sales", owner=BOB)
    above = await site.view("s.mv", "SELECT n FROM s.below", owner=ADA)
    site.rights.differing["s.below", ADA] = DIFFER
    client, text = await site.client(ADA), str(RefreshFailed("It failed.", "22018", "the value 'needle'"))
    assert "needle" not in await site.router._reads._invokers.told(text, above.id, client.session)
    site.rights.forget(Mentioned(frozenset()))
    site.rights.differing.clear()
    assert await site.router._reads._invokers.told(text, above.id, client.session) == text
