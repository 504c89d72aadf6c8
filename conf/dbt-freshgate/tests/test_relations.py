"""Relations of all types: how a model changes its type, its name and its place, and what dbt's catalog says."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.adapter.catalog.relation_types import CatalogRelationTypes
from dbt.tests.util import get_connection, run_dbt
from views import created, drop_schema, failed, relation_type, rows, run, write_model

QUERY = "select * from {{ ref('numbers') }}"
TYPES = {"table": "table", "view": "view", "incremental": "table", "materialized_view": "materialized_view"}


@pytest.fixture(scope="class")
def seeds() -> dict[str, str]:
    return {"numbers.csv": "number\n1\n2\n"}


@pytest.fixture(scope="class")
def models() -> dict[str, str]:
    return {}


@pytest.fixture
def shop(project: Any) -> Iterator[Any]:
    """The project with its seed, and without the models of other tests."""
    run_dbt(["seed"])
    yield project
    for path in Path(project.project_root, "models").iterdir():
        path.unlink()
    drop_schema(project)


class TestTypes:
    @pytest.mark.parametrize("full_refresh", [False, True])
    def test_a_model_becomes_every_type_from_every_other(self, shop: Any, full_refresh: bool) -> None:
        pairs = itertools.permutations(TYPES, 2)
        # A walk that makes each change to or from a materialized view.
        wanted = {pair for pair in pairs if "materialized_view" in pair}
        before = None
        while wanted:
            onward = [second for first, second in sorted(wanted) if first == before]
            now = onward[0] if onward else sorted(wanted)[0][0]
            wanted.discard((before, now))
            write_model(shop, "model", QUERY, materialized=now)
            run(*(["--full-refresh"] if full_refresh else []))
            assert relation_type(shop, "model") == TYPES[now]
            assert {number for (number,) in rows(shop, "model")} == {1, 2}
            before = now

    def test_a_seed_does_not_take_the_place_of_a_view(self, shop: Any) -> None:
        schema = shop.test_schema
        shop.run_sql(f"create table {schema}.base as select 7 as number")
        shop.run_sql(f"drop table {schema}.numbers")
        shop.run_sql(f"create materialized view {schema}.numbers as select number from {schema}.base")
        (result,) = run_dbt(["seed", "--full-refresh"], expect_pass=False)
        assert "is a materialized view" in str(result.message)
        assert rows(shop, "numbers") == [(7,)]

    @pytest.mark.parametrize("before", ["table", "view"])
    def test_a_refused_definition_leaves_the_old_relation(self, shop: Any, before: str) -> None:
        write_model(shop, "model", QUERY, materialized=before)
        run()
        write_model(shop, "model", "select rand() as number from {{ ref('numbers') }}")
        assert "rand" in failed()
        assert relation_type(shop, "model") == before
        assert rows(shop, "model") == [(1,), (2,)]

    def test_views_read_a_replaced_view(self, shop: Any) -> None:
        write_model(shop, "model", QUERY)
        write_model(shop, "above", "select sum(number) as total from {{ ref('model') }}")
        run()
        write_model(shop, "model", QUERY + " where number > 1")
        log = run()
        assert log.count("Applying REPLACE to") == 1
        assert rows(shop, "above") == [(2,)]


class TestNames:
    def test_a_renamed_model_leaves_the_old_view(self, shop: Any) -> None:
        write_model(shop, "model", QUERY)
        run()
        models = Path(shop.project_root, "models")
        (models / "model.sql").rename(models / "renamed.sql")
        run()
        assert relation_type(shop, "renamed") == "materialized_view"
        assert relation_type(shop, "model") == "materialized_view"

    def test_rename_relation_keeps_the_view(self, shop: Any) -> None:
        write_model(shop, "model", QUERY, tblproperties={"kept": "yes"})
        run()
        text = created(shop, "model")
        with get_connection(shop.adapter) as _:
            found = shop.adapter.get_relation(None, shop.test_schema, "model")
            assert found.is_materialized_view
            shop.adapter.rename_relation(found, found.incorporate(path={"identifier": "renamed"}))
        assert relation_type(shop, "model") is None
        assert created(shop, "renamed") == text.replace("model`", "renamed`")
        # dbt knows it again as a model's.
        Path(shop.project_root, "models", "model.sql").rename(Path(shop.project_root, "models", "renamed.sql"))
        assert "Applying REPLACE to" not in run()

    def test_an_alias_and_a_schema_of_its_own(self, shop: Any) -> None:
        write_model(shop, "model", QUERY, alias="Other", schema="apart")
        run()
        assert "Applying REFRESH to" in run()
        apart = f"{shop.test_schema}_apart"
        assert [row[1] for row in shop.run_sql(f"show materialized views in {apart}", fetch="all")] == ["other"]
        run_dbt(["run-operation", "drop_schema_named", "--args", f"{{schema_name: {apart}}}"])
        assert shop.run_sql(f"show databases like '{apart}'", fetch="all") == []

    def test_a_schema_that_does_not_exist_is_dropped(self, shop: Any) -> None:
        run_dbt(["run-operation", "drop_schema_named", "--args", "{schema_name: nowhere_at_all}"])


class TestListing:
    def test_a_schema_costs_one_more_statement_than_with_dbt_spark(self, shop: Any) -> None:
        for number in range(3):
            write_model(shop, f"model_{number}", QUERY)
        run()
        log = run("--select", "model_0")
        assert log.count("show table extended in") == 1
        assert log.count("show materialized views in") == 1


class TestCatalog(CatalogRelationTypes):
    @pytest.fixture(scope="class", autouse=True)
    def docs(self, project: Any) -> Iterator[Any]:
        run_dbt(["seed"])
        run_dbt(["run"])
        yield run_dbt(["docs", "generate"])
        drop_schema(project)

    @pytest.fixture(scope="class", autouse=True)
    def seeds(self) -> dict[str, str]:
        return {"my_seed.csv": "id,value\n1,100\n"}

    @pytest.fixture(scope="class", autouse=True)
    def models(self) -> dict[str, str]:
        query = "select * from {{ ref('my_seed') }}"
        return {
            f"my_{name}.sql": f"{{{{ config(materialized='{name}') }}}}\n{query}"
            for name in ("table", "view", "materialized_view")
        }

    @pytest.mark.parametrize(
        ("node_name", "relation_type"),
        [
            ("seed.test.my_seed", "table"),
            ("model.test.my_table", "table"),
            ("model.test.my_view", "view"),
            ("model.test.my_materialized_view", "materialized_view"),
        ],
    )
    def test_relation_types_populate_correctly(self, docs: Any, node_name: str, relation_type: str) -> None:
        super().test_relation_types_populate_correctly(docs, node_name, relation_type)
        assert list(docs.nodes[node_name].columns) == ["id", "value"]
