"""Tests with random writes that a read of a materialized view equals its query on the base tables."""

from __future__ import annotations

from typing import Any

import pytest
from clients import pyhive, rows
from databases import Database
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from processes import Engine, Gateway
from tiers import EVERYTHING

# Each example takes seconds of Spark's time: few examples, each with many steps.
EXAMPLES = 20 if EVERYTHING else 1
STEPS = 8

cells = st.one_of(st.none(), st.integers(-3, 3))
texts = st.sampled_from(["NULL", "''", "'x'", "'it\\'s'", "'ü'"])
table_rows = st.tuples(cells, cells, texts).map(
    lambda row: f"({'NULL' if row[0] is None else row[0]}, {'NULL' if row[1] is None else row[1]}, {row[2]})"
)
tables = st.sampled_from(["t", "u"])

DEFINITIONS = [
    "SELECT k, count(*) AS n, sum(v) AS s FROM t GROUP BY k",
    "SELECT t.k, u.v, t.w FROM t LEFT JOIN u ON t.k = u.k",
    "SELECT DISTINCT w FROM t UNION SELECT w FROM u",
    "SELECT count(*) AS n, max(v) AS m, min(w) AS w FROM t WHERE v > 0",
    "SELECT k, v FROM t EXCEPT ALL SELECT k, v FROM u",
    "WITH q AS (SELECT k, avg(v) AS a FROM t GROUP BY k) SELECT u.w, q.a FROM q JOIN u ON u.k <=> q.k",
    "SELECT k, v, rank() OVER (PARTITION BY k ORDER BY v) AS r FROM t",
    "SELECT k, w FROM seen WHERE k IN (SELECT k FROM u)",
    "SELECT a.k, a.w FROM t a FULL JOIN t b ON a.k = b.v",
]
ABOVE = ["SELECT count(*) AS n FROM {0}", "SELECT a.* FROM {0} a JOIN u ON true", "SELECT * FROM {0} LIMIT 0"]

writes = st.one_of(
    st.builds("INSERT INTO {} VALUES {}".format, tables, st.lists(table_rows, min_size=1, max_size=3).map(", ".join)),
    st.builds(
        "INSERT OVERWRITE {} VALUES {}".format, tables, st.lists(table_rows, min_size=1, max_size=3).map(", ".join)
    ),
    st.builds("TRUNCATE TABLE {}".format, tables),
    st.builds("INSERT INTO {} SELECT * FROM {}".format, tables, tables),
    st.sampled_from(
        [
            "FROM t INSERT INTO u SELECT k, v, w INSERT INTO t SELECT k, v, w",
            "CREATE OR REPLACE VIEW seen AS SELECT k, w FROM u",
            "CREATE OR REPLACE VIEW seen AS SELECT v AS k, w FROM t",
        ]
    ),
)
steps = st.lists(
    st.one_of(writes, writes, writes, st.just("READ"), st.just("READ"), st.just("RESTART"), st.just("KILL")),
    min_size=3,
    max_size=STEPS,
)


class Scenario:
    """A sequence of gateways in front of one Spark."""

    def __init__(self, engine: Engine, database: Database, start: Any) -> None:
        self.engine = engine
        self.name = database.name
        self._start = start
        self.gateway: Gateway = start()
        self._numbers = 0

    def restart(self, *, kill: bool) -> None:
        if kill:
            self.gateway.kill()
        else:
            assert self.gateway.stop() == 0
        self.gateway = self._start()

    def run(self, *statements: str) -> None:
        with pyhive(self.gateway.host, self.gateway.port, database=self.name) as cursor:
            for statement in statements:
                rows(cursor, statement)

    def check(self, views: dict[str, str]) -> None:
        """Compares each view with its query. In the queries, definitions replace the names of other views."""
        with (
            pyhive(self.gateway.host, self.gateway.port, database=self.name) as gateway,
            pyhive(self.engine.host, self.engine.port, database=self.name) as direct,
        ):
            for name, query in reversed(views.items()):
                found = sorted(rows(gateway, f"SELECT * FROM {name}"), key=repr)
                assert found == sorted(rows(direct, query), key=repr), (name, query)


@pytest.fixture
def scenario(engine: Engine, database: Database, start_gateway: Any) -> Scenario:
    return Scenario(engine, database, start_gateway)


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=False,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    picked=st.lists(st.sampled_from(DEFINITIONS), min_size=1, max_size=3, unique=True),
    above=st.sampled_from(ABOVE),
    chosen_steps=steps,
)
def test_reads_equal_their_query(scenario: Scenario, picked: list[str], above: str, chosen_steps: list[str]) -> None:
    scenario.run(
        "DROP VIEW IF EXISTS seen",
        *(f"DROP TABLE IF EXISTS {table}" for table in "tu"),
        *(f"CREATE TABLE {table} (k INT, v INT, w STRING) USING parquet" for table in "tu"),
        "CREATE VIEW seen AS SELECT k, w FROM t",
        "INSERT INTO t VALUES (1, 1, 'x'), (1, NULL, NULL), (NULL, 2, '')",
    )
    views = {f"m{number}": query for number, query in enumerate(picked)}
    first = next(iter(views))
    views["top"] = above.format(f"({views[first]}) below") if " a " not in above else above.format(f"({views[first]})")
    try:
        scenario.run(
            *(
                f"CREATE OR REPLACE MATERIALIZED VIEW {name} AS {query}"
                for name, query in views.items()
                if name != "top"
            )
        )
        scenario.run(f"CREATE OR REPLACE MATERIALIZED VIEW top AS {above.format(first)}")
        scenario.check(views)
        for step in chosen_steps:
            if step == "READ":
                scenario.check(views)
            elif step in {"RESTART", "KILL"}:
                scenario.restart(kill=step == "KILL")
            else:
                scenario.run(step)
        scenario.check(views)
    finally:
        scenario.run(*(f"DROP MATERIALIZED VIEW IF EXISTS {name}" for name in reversed(views)))
