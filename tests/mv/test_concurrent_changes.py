"""Creating, refreshing, altering and dropping views over a metastore in memory: what is said, and what meets what."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from itertools import combinations

import pytest
from fake_spark import named
from warehouse import House, Warehouse

from gateway.errors import FreshgateError, NoSuchView, StatementFailed, UpstreamLost
from gateway.mv.catalog import naming
from gateway.mv.catalog.fence import Fence, Superseded
from gateway.mv.refresh.tasks import RefreshLimits
from gateway.spark.metastore import SparkMetastore
from sql.names import Namespace, TableName
from sql.texts.epochs import is_epoch

CHAIN = re.compile(r"`(?:[^`]|``)+`(?:\.`(?:[^`]|``)+`)+")
CREATE = "CREATE MATERIALIZED VIEW spark_catalog.s.m AS SELECT a FROM s.t"


def house() -> House:
    """s.t, and nothing else."""
    warehouse = Warehouse()
    warehouse.table("s.t")
    return House(warehouse)


def left_in(made: House) -> set[TableName]:
    """All tables and views but the gateway's epoch."""
    return {name for name in made.warehouse.things if not is_epoch(name.table)}


async def built() -> House:
    made = house()
    await made.run(CREATE)
    return made


@pytest.mark.parametrize("namespace", [Namespace("s"), Namespace("i", "lake")])
async def test_every_name_in_a_statement_of_the_gateways_own_has_its_catalog(namespace: Namespace) -> None:
    made = house()
    made.warehouse.databases["i"] = {}
    for text in (
        "CREATE MATERIALIZED VIEW spark_catalog.s.m COMMENT 'it''s' TBLPROPERTIES ('q' = 'r') AS "
        "SELECT a FROM spark_catalog.s.t",
        "CREATE MATERIALIZED VIEW spark_catalog.s.other AS SELECT a FROM spark_catalog.s.m",
        "REFRESH MATERIALIZED VIEW spark_catalog.s.m",
        "EXPLAIN REFRESH MATERIALIZED VIEW spark_catalog.s.m",
        "EXPLAIN CREATE MATERIALIZED VIEW spark_catalog.s.new AS SELECT a FROM spark_catalog.s.t",
        "ALTER MATERIALIZED VIEW spark_catalog.s.m SET ('grace_period' = '5')",
        "ALTER MATERIALIZED VIEW spark_catalog.s.m UNSET ('grace_period')",
        "ALTER MATERIALIZED VIEW spark_catalog.s.m COMMENT 'another'",
        "ALTER MATERIALIZED VIEW spark_catalog.s.m RENAME TO m2",
        "DESCRIBE EXTENDED MATERIALIZED VIEW spark_catalog.s.m2",
        "SHOW PARTITIONS spark_catalog.s.m2",
        "SHOW MATERIALIZED VIEW VERSIONS spark_catalog.s.m2",
        "SHOW CREATE MATERIALIZED VIEW spark_catalog.s.m2",
        "SHOW MATERIALIZED VIEWS IN spark_catalog.s",
        "SHOW MATERIALIZED VIEWS",
        "ANALYZE MATERIALIZED VIEW spark_catalog.s.m2 COMPUTE STATISTICS",
        "PAUSE MATERIALIZED VIEW JOB ON spark_catalog.s.m2",
        "REFRESH MATERIALIZED VIEW spark_catalog.s.m2 WITH NO DATA",
        "CREATE OR REPLACE MATERIALIZED VIEW spark_catalog.s.m2 AS SELECT a FROM spark_catalog.s.t",
        "CREATE MATERIALIZED VIEW spark_catalog.s.third BUILD DEFERRED AS SELECT a FROM spark_catalog.s.t",
        "ALTER MATERIALIZED VIEW spark_catalog.s.m2 REPLACE WITH MATERIALIZED VIEW third",
        "ALTER MATERIALIZED VIEW spark_catalog.s.m2 REPLACE WITH MATERIALIZED VIEW third PROPERTIES ('swap' = 'false')",
        "DROP MATERIALIZED VIEW spark_catalog.s.m2",
    ):
        await made.run(text, namespace=namespace)
    chains = {chain: text for text in made.warehouse.texts for chain in CHAIN.findall(text)}
    assert len(chains) > 5
    short = [
        text
        for chain, text in chains.items()
        if len(re.findall(r"`(?:[^`]|``)+`", chain)) < 3 and not chain.startswith("`spark_catalog`.")
    ]
    assert short == []
    assert not [text for text in made.warehouse.texts if re.search(r"\bSHOW DATABASES$", text)]


async def test_show_create_lays_out_one_line_and_keeps_several() -> None:
    made = house()
    show = "SHOW CREATE MATERIALIZED VIEW m"
    for query, shown in (
        ("SELECT a, count(*) AS n FROM t GROUP BY a", "AS\nSELECT a, count(*) AS n\nFROM `s`.t\nGROUP BY a"),
        ("SELECT a,\n count(*) AS n FROM t GROUP BY a", "AS\nSELECT a,\n count(*) AS n FROM `s`.t GROUP BY a"),
    ):
        await made.run(f"CREATE OR REPLACE MATERIALIZED VIEW m AS {query}", namespace=Namespace("s"))
        ((name, text),) = await made.run(show, namespace=Namespace("s"))
        assert (name, text) == ("m", f"CREATE MATERIALIZED VIEW `s`.`m`\n{shown}")
        # What Spark is given, and the catalog holds, is what was written.
        assert made.entry("s.m").view.query == query
        assert any(sent.startswith("CREATE VIEW") and sent.endswith(f" AS {query}") for sent in made.warehouse.texts)
        await made.run("DROP MATERIALIZED VIEW s.m")
        await made.run(text)
        assert await made.run(show, namespace=Namespace("s")) == [(name, text)]


async def test_explain_refresh_lays_out_its_statements() -> None:
    made = await built()
    lines = [line for (line,) in await made.run("EXPLAIN REFRESH MATERIALIZED VIEW s.m COMPLETE")]
    assert [line for line in lines if "\n" in line] == []
    storage = made.entry("s.m").view.storage
    place = lines.index("step 2: write version 2")
    assert [line for line in lines[place + 1 :] if "`freshgate_version`)" not in line] == [
        f"    INSERT OVERWRITE {storage.quoted} PARTITION (freshgate_version)",
        "    SELECT *, CAST(2 AS BIGINT)",
        f"    FROM {made.entry('s.m').view.definition.quoted}",
        "step 3: switch readers from version 1 to 2",
        "    ALTER VIEW `spark_catalog`.`s`.`m` AS",
        "    SELECT `a`",
        f"    FROM {storage.quoted}",
        "    WHERE freshgate_version = 2",
    ]


async def test_a_name_in_another_catalog_is_told_where_views_live() -> None:
    made = await built()
    for text in ("CREATE MATERIALIZED VIEW m AS SELECT a FROM s.t", "DROP MATERIALIZED VIEW m"):
        with pytest.raises(FreshgateError, match=r"Write spark_catalog\.<database>\.m\."):
            await made.run(text, namespace=Namespace("i", "lake"))
    assert await made.run("SHOW MATERIALIZED VIEWS", namespace=Namespace("i", "lake")) == []


async def test_a_create_that_spark_refuses_leaves_nothing() -> None:
    made = house()
    before = left_in(made)
    made.warehouse.failing["INSERT"] = StatementFailed("no space", "53100")
    with pytest.raises(StatementFailed, match="was not created; nothing has changed"):
        await made.run(CREATE)
    assert left_in(made) == before
    assert made.catalog.idle


async def test_a_drop_by_another_user_is_refused_and_drops_nothing() -> None:
    made = await built()
    with pytest.raises(FreshgateError) as refused:
        await made.run("DROP MATERIALIZED VIEW s.m", user="mallory")
    assert refused.value.sqlstate == "42501"
    await made.run("DROP MATERIALIZED VIEW s.m")
    assert left_in(made) == {named("s.t")}
    with pytest.raises(NoSuchView):
        await made.run("DROP MATERIALIZED VIEW s.m")


PARTS = ["storage", "definition", "view"]


@pytest.mark.parametrize("missing", [parts for number in (1, 2, 3) for parts in combinations(PARTS, number)])
@pytest.mark.parametrize("seen", [False, True])
async def test_a_view_is_dropped_whatever_is_missing_of_it(missing: tuple[str, ...], seen: bool) -> None:
    made = await built()
    view = made.entry("s.m").view
    for part in missing:
        del made.warehouse.things[{"storage": view.storage, "definition": view.definition, "view": view.name}[part]]
    if seen:
        with suppress(FreshgateError):
            await made.run("REFRESH MATERIALIZED VIEW s.m")
    await made.run("DROP MATERIALIZED VIEW s.m")
    assert left_in(made) == {named("s.t")}
    assert made.catalog.idle
    await made.run(CREATE)


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER MATERIALIZED VIEW s.m SET ('grace_period' = '5')",
        "ALTER MATERIALIZED VIEW s.m COMMENT 'c'",
        "PAUSE MATERIALIZED VIEW JOB ON s.m",
    ],
)
async def test_what_a_refresh_finds_during_an_alter_stays(statement: str) -> None:
    """A base table that came with a view which was replaced: writes to it are noted from then on."""
    made = await built()
    hold = made.warehouse.hold(r"ALTER TABLE .* SET TBLPROPERTIES .*freshgate\.(?:properties|job)")
    altering = asyncio.create_task(made.run(statement))
    await hold.reached.wait()
    entry = made.entry("s.m")
    entry.read_more(frozenset({named("s.u")}), frozenset())
    hold.go.set()
    await altering
    assert named("s.u") in entry.view.tables
    assert made.catalog.dependents([named("s.u")]) == [entry]
    assert entry.view.paused or entry.view.comment == "c" or entry.view.properties == {"grace_period": "5"}


async def test_what_a_refresh_finds_while_a_doubt_is_settled_stays() -> None:
    made = await built()
    entry = made.entry("s.m")
    entry.doubt()
    hold = made.warehouse.hold("SHOW TBLPROPERTIES")
    settling = asyncio.create_task(made.views.settlement.settle(entry))
    await hold.reached.wait()
    entry.read_more(frozenset({named("s.u")}), frozenset())
    hold.go.set()
    await settling
    assert made.catalog.dependents([named("s.u")]) == [entry]


@pytest.mark.parametrize(
    ("statement", "slow", "never"),
    [
        ("REFRESH MATERIALIZED VIEW s.m", r"SET TBLPROPERTIES .*freshgate\.version\.2'", "ALTER VIEW"),
        ("REFRESH MATERIALIZED VIEW s.m WITH NO DATA", r"SET TBLPROPERTIES .*freshgate\.version\.0'", "ALTER VIEW"),
        ("ALTER MATERIALIZED VIEW s.m RENAME TO n", r"SET TBLPROPERTIES .*freshgate\.moving_to", "ALTER VIEW"),
    ],
)
async def test_a_gateway_that_was_superseded_during_a_slow_call_changes_no_view(
    statement: str, slow: str, never: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await built()
    fence = made.views.fence
    await fence.take()
    await fence.check()
    hold = made.warehouse.hold(slow)
    running = asyncio.create_task(made.run(statement))
    await hold.reached.wait()
    for _ in range(100):  # What is asked beside it has its answers.
        await asyncio.sleep(0)
    await Fence(SparkMetastore(made.warehouse), made.catalog.storage_database, "elsewhere").take()
    monkeypatch.setattr(fence, "_asked_at", float("-inf"))
    before, said = made.warehouse.shown("s.m"), len(made.warehouse.texts)
    hold.go.set()
    with pytest.raises(Superseded):
        await running
    assert made.warehouse.shown("s.m") == before
    assert not [text for text in made.warehouse.texts[said:] if text.startswith(never)]


async def test_a_switch_that_spark_may_still_carry_out_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the next version would be published before it, and then be replaced by it."""
    monkeypatch.setattr(naming, "LATE_SECONDS", 1.0)
    made = await built()
    monkeypatch.setattr(made.refreshes.tasks, "_limits", RefreshLimits(retries=0, retry_wait=0.0, timeout=0.0))
    made.warehouse.failing["ALTER VIEW"] = UpstreamLost("Spark closed the connection before it answered.")
    with pytest.raises(UpstreamLost):
        await made.run("REFRESH MATERIALIZED VIEW s.m")
    (late,) = [text for text in made.warehouse.texts if text.startswith("ALTER VIEW")]
    said = len(made.warehouse.texts)
    refreshing = asyncio.create_task(made.run("REFRESH MATERIALIZED VIEW s.m"))
    for _ in range(200):
        await asyncio.sleep(0)
    assert not [text for text in made.warehouse.texts[said:] if text.startswith(("INSERT", "ALTER VIEW"))]
    made.warehouse.answer(late, Namespace())
    await refreshing
    current = made.entry("s.m").view.current
    assert (current.number, current.previous) == (3, 2)
    assert "freshgate_version = 3" in made.warehouse.shown("s.m")
