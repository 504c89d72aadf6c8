"""Changes of one of several gateways are sent only if it leads, as scripts that fail once its epoch is gone."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from warehouse import Warehouse

from gateway.assembly.at_spark import at_spark
from gateway.config import Gateways, Settings, Upstream
from gateway.errors import StatementFailed, UpstreamLost
from gateway.mv.catalog.fence import SURE_SECONDS, Fence, Superseded
from gateway.mv.catalog.fenced import Fenced
from gateway.mv.ports import Before
from gateway.proxy.traffic import Traffic
from gateway.spark.metastore import SparkMetastore
from gateway.spark.owners import OwnerPools
from sql.texts import epochs

CHANGE = "ALTER VIEW `spark_catalog`.`s`.`v` AS SELECT 1"
NOT_FOUND = "[TABLE_OR_VIEW_NOT_FOUND] The table or view {} cannot be found. SQLSTATE: 42P01; line 1 pos 21"


@dataclass
class FencedSession:
    """What sends statements: a session at a Spark with the warehouse's epochs."""

    warehouse: Warehouse
    scripting: StatementFailed | None = None
    """With what it refuses every script."""
    failure: StatementFailed | None = None
    """With what the statement itself fails."""
    blind: int = 0
    """How often it does not find an epoch that stands."""
    done: list[str] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)

    async def __call__(self, text: str, before: Before | None) -> str:
        if before is not None:
            await before()
        self.heard.append(text)
        if text.startswith("BEGIN"):
            text = self._in_script(text)
        if self.failure is not None:
            raise self.failure
        self.done.append(text)
        return "rows"

    def _in_script(self, text: str) -> str:
        if self.scripting is not None:
            raise self.scripting
        script = re.fullmatch(r"BEGIN SHOW TBLPROPERTIES (\S+);\n(.*)\n;END", text, re.DOTALL)
        assert script is not None, text
        standing = {name.quoted for name in self.warehouse.things}
        self.blind -= 1
        if script[1] not in standing or self.blind >= 0:
            raise StatementFailed(NOT_FOUND.format(script[1]), "42P01")
        return script[2]


@dataclass
class Site:
    """A gateway of several that has its epoch."""

    now: float = 0.0
    warehouse: Warehouse = field(default_factory=Warehouse)

    def __post_init__(self) -> None:
        self.fence = self.another()
        self.spark = FencedSession(self.warehouse)
        self.port = Fenced(self.fence)

    def another(self) -> Fence:
        return Fence(SparkMetastore(self.warehouse), "s", "elsewhere", lambda: self.now, several=True)

    @property
    def checks(self) -> int:
        return sum(text.startswith("SHOW TBLPROPERTIES") for text in self.warehouse.texts)


@pytest.fixture
def site() -> Site:
    made = Site()
    asyncio.run(made.fence.take())
    return made


async def test_a_change_is_a_script_that_names_the_epoch(site: Site) -> None:
    assert await site.port.run(CHANGE, site.spark) == "rows"
    assert site.spark.done == [CHANGE]
    assert site.spark.heard == [epochs.fenced(epochs.epoch_view("s", 1), CHANGE)]


@pytest.mark.parametrize("text", ["SELECT 1", "SHOW TABLES", "SET a=1", "/* mark */ SELECT 1", "REFRESH TABLE t"])
async def test_what_changes_nothing_passes_unchecked(site: Site, text: str) -> None:
    site.now = 100
    checks = site.checks
    await site.port.run(text, site.spark)
    assert site.spark.heard == [text]
    assert site.checks == checks


async def test_a_check_holds_for_the_changes_of_a_second(site: Site) -> None:
    site.now = 100
    checks = site.checks
    for _ in range(5):
        await site.port.run(CHANGE, site.spark)
    assert site.checks == checks + 1
    site.now += SURE_SECONDS
    await site.port.run(CHANGE, site.spark)
    assert site.checks == checks + 2


async def test_a_gateway_whose_epoch_is_gone_sends_nothing(site: Site) -> None:
    await site.another().take()
    site.now = 100
    with pytest.raises(Superseded):
        await site.port.run(CHANGE, site.spark)
    assert site.spark.heard == []


async def test_a_change_that_comes_late_does_nothing_once_another_gateway_leads(site: Site) -> None:
    """The check was a moment ago; the epoch is dropped while the bytes are under way."""
    site.now = 100
    await site.fence.sure()
    await site.another().take()
    with pytest.raises(Superseded):
        await site.port.run(CHANGE, site.spark)
    assert (len(site.spark.heard), site.spark.done) == (1, [])


async def test_an_epoch_that_spark_does_not_find_for_a_moment_is_asked_for_again(site: Site) -> None:
    site.spark.blind = 1
    await site.port.run(CHANGE, site.spark)
    assert (len(site.spark.heard), site.spark.done) == (2, [CHANGE])


async def test_a_database_that_was_created_again_has_another_epoch(site: Site) -> None:
    site.warehouse.things.clear()
    await site.port.run(CHANGE, site.spark)
    assert site.spark.done == [CHANGE]


@pytest.mark.parametrize(
    "refusal",
    [
        StatementFailed("[PARSE_SYNTAX_ERROR] Syntax error at or near 'BEGIN'.", "42601"),
        StatementFailed("[UNSUPPORTED_FEATURE.SQL_SCRIPTING] The feature is not supported.", "0A000"),
        StatementFailed("ada may not read freshgate_epoch_1", "42501"),
    ],
    ids=["Spark 3.5", "off", "no right"],
)
async def test_where_no_script_runs_the_statement_is_sent_alone(site: Site, refusal: StatementFailed) -> None:
    site.spark.scripting = refusal
    await site.port.run(CHANGE, site.spark)
    assert (site.spark.heard[-1], site.spark.done) == (CHANGE, [CHANGE])
    await site.another().take()
    site.now = 100
    with pytest.raises(Superseded):
        await site.port.run(CHANGE, site.spark)
    assert site.spark.done == [CHANGE]


async def test_at_a_spark_without_scripts_none_is_tried(site: Site) -> None:
    site.warehouse.failing["BEGIN"] = StatementFailed("[PARSE_SYNTAX_ERROR] near 'BEGIN'", "42601")
    other = site.another()
    await other.take()
    assert not other.runs_scripts
    await Fenced(other).run(CHANGE, site.spark)
    assert site.spark.heard == [CHANGE]


async def test_an_error_of_the_statement_is_told_as_without_the_script(site: Site) -> None:
    site.spark.failure = StatementFailed("[NOT_FOUND] `s`.`w` SQLSTATE: 42P01; line 2 pos 11", "42P01")
    with pytest.raises(StatementFailed, match=r"`s`.`w` .*; line 1 pos 11$") as raised:
        await site.port.run(CHANGE, site.spark)
    assert (raised.value.sqlstate, len(site.spark.heard)) == ("42P01", 1)


async def test_a_change_is_not_sent_if_nobody_knows_who_leads(site: Site) -> None:
    site.now = 100
    site.warehouse.failing["SHOW TBLPROPERTIES"] = UpstreamLost("Spark does not answer.")
    with pytest.raises(UpstreamLost):
        await site.port.run(CHANGE, site.spark)
    assert site.spark.heard == []


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("CREATE VIEW v AS SELECT 1", True),
        ("CREATE VIEW v AS SELECT ';' AS a, `;` AS b /* ; */ -- ;", True),
        ("CREATE VIEW v AS SELECT 1; DROP VIEW w", False),
        ("CREATE VIEW v AS SELECT '${x}' AS a", False),
        ("CREATE VIEW v AS SELECT '" + 4_000 * "x" + ";'", False),
    ],
)
async def test_a_users_query_does_not_become_other_statements(site: Site, text: str, fits: bool) -> None:
    await site.port.run(text, site.spark)
    assert site.spark.heard[0].startswith("BEGIN") == fits
    assert site.spark.done == [text]


@pytest.mark.parametrize("enabled", [True, False])
def test_all_sessions_of_one_of_several_pass_the_port_but_the_fences(enabled: bool) -> None:
    settings = Settings(
        upstream=Upstream(address="127.0.0.1:1"), gateways=Gateways(enabled, "127.0.0.1:2", secret="s" * 32)
    )
    spark = at_spark(settings, cast(Any, SimpleNamespace(address=None)), Traffic())
    pools = [each._pool_of("ada") if isinstance(each, OwnerPools) else each for each in spark.pools]
    passing = {each for each, pool in zip(spark.pools, pools, strict=True) if isinstance(pool._outlet, Fenced)}
    assert passing == ({*spark.pools} - {spark.epochs} if enabled else set())
    assert isinstance(spark.connector.outlet, Fenced) == enabled
