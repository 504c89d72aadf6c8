"""The settings of a model that is a materialized view: what they create, and how changes are noticed and applied."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture
from views import created, drop_schema, failed, properties, relation_type, rows, run, version, write_model

ORDERS = "day,region,amount\n2026-01-01,north,10\n2026-01-01,south,5\n2026-01-02,north,1\n"
DAILY = "select day, sum(amount) as total from {{ ref('orders') }} group by day"


@pytest.fixture(scope="class")
def seeds() -> dict[str, str]:
    return {"orders.csv": ORDERS}


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


class TestRuns:
    def test_a_second_run_computes_nothing(self, shop: Any) -> None:
        write_model(shop, "daily", DAILY)
        run()
        assert [total for _, total in rows(shop, "daily")] == [15, 1]
        before = version(shop, "daily")
        log = run()
        assert "Applying REFRESH to" in log
        assert "Applying ALTER to" not in log
        assert "Applying REPLACE to" not in log
        assert version(shop, "daily") == before

    def test_a_run_refreshes_the_view_after_a_write(self, shop: Any) -> None:
        write_model(shop, "daily", DAILY, refresh_on="manual")
        run()
        before = version(shop, "daily")
        shop.run_sql(f"insert into {shop.test_schema}.orders values (date'2026-01-02', 'south', 41)")
        run()
        assert version(shop, "daily") > before
        assert [total for _, total in rows(shop, "daily")] == [15, 42]

    @pytest.mark.sample
    def test_a_changed_query_replaces_the_view(self, shop: Any) -> None:
        write_model(shop, "daily", DAILY)
        run()
        write_model(shop, "daily", DAILY.replace("sum(amount) as total", "max(amount) as best"))
        assert "Applying REPLACE to" in run()
        assert [best for _, best in rows(shop, "daily")] == [10, 1]
        assert "Applying REPLACE to" not in run()

    def test_blanks_and_comments_of_a_query_change_nothing(self, shop: Any) -> None:
        write_model(shop, "daily", DAILY)
        run()
        before = version(shop, "daily")
        write_model(shop, "daily", "-- by day\n" + DAILY.replace(", ", ",\n    ").replace(" from", " /* all */ from"))
        assert "Applying REPLACE to" not in run()
        assert version(shop, "daily") == before

    def test_a_view_that_dbt_did_not_create_is_replaced(self, shop: Any) -> None:
        shop.run_sql(f"create materialized view {shop.test_schema}.daily as select day from {shop.test_schema}.orders")
        write_model(shop, "daily", DAILY)
        assert "Applying REPLACE to" in run()
        assert len(rows(shop, "daily")) == 2

    def test_an_ephemeral_model_below_the_view_counts(self, shop: Any) -> None:
        write_model(shop, "large", "select * from {{ ref('orders') }} where amount > 1", materialized="ephemeral")
        write_model(shop, "daily", DAILY.replace("orders", "large"))
        run()
        assert [total for _, total in rows(shop, "daily")] == [15]
        write_model(shop, "large", "select * from {{ ref('orders') }} where amount > 5", materialized="ephemeral")
        assert "Applying REPLACE to" in run()
        assert [total for _, total in rows(shop, "daily")] == [10]


EVERY_SETTING: dict[str, object] = {
    "partition_by": "day",
    "cluster_by": ["region"],
    "file_format": "orc",
    "refresh_method": "incremental fallback",
    "schedule": "every 2 hours starts '2030-01-31T04:00'",
    "when_stale": "inline",
    "grace_period": 90,
    "enable_rewrite": True,
    "in_memory": True,
    "tblproperties": {"team's": "a \\ b", "workload_group": "etl"},
    "persist_docs": {"relation": True, "columns": True},
}
CONTRACT = """
models:
  - name: daily
    config: {{contract: {{enforced: true}}}}
    columns:
      - {{name: day, data_type: date}}
      - {{name: {column}, data_type: bigint}}
"""
BY_REGION = "select day, region, sum(amount) as total from {{ ref('orders') }} group by day, region"
DOCS = """
models:
  - name: daily
    description: "{relation}"
    columns:
      - name: day
        description: "{column}"
"""


def describe(project: Any, relation: str = "sums by day", column: str = "of the order") -> None:
    path = Path(project.project_root, "models", "schema.yml")
    path.write_text(DOCS.format(relation=relation, column=column))


class TestSettings:
    @pytest.mark.sample
    def test_every_setting_takes_effect(self, shop: Any) -> None:
        describe(shop, relation="it's the sums", column="of the customer's order")
        write_model(shop, "daily", BY_REGION, **EVERY_SETTING)
        run()
        text = created(shop, "daily")
        for clause in (
            "`day` COMMENT 'of the customer\\'s order'",
            "REFRESH INCREMENTAL FALLBACK ON SCHEDULE EVERY 2 HOUR STARTS '2030-01-31 04:00:00'",
            "PARTITIONED BY (`day`)",
            "CLUSTER BY (`region`)",
            "USING orc",
            "COMMENT 'it\\'s the sums'",
        ):
            assert clause in text
        found = properties(shop, "daily")
        assert {name: found[name] for name in found if name != "dbt.definition"} == {
            "team's": "a \\ b",
            "workload_group": "etl",
            "when_stale": "INLINE",
            "grace_period": "90",
            "use_for_rewrite": "true",
            "in_memory": "true",
        }
        log = run()
        assert "Applying ALTER to" not in log
        assert "Applying REPLACE to" not in log

    def test_buckets(self, shop: Any) -> None:
        write_model(shop, "daily", BY_REGION, clustered_by=["region"], sorted_by="day", buckets=2)
        run()
        assert "CLUSTERED BY (`region`) SORTED BY (`day`) INTO 2 BUCKETS" in created(shop, "daily")
        assert "Applying REPLACE to" not in run()

    @pytest.mark.parametrize(
        "settings",
        [
            {"schedule": "cron '0 4 * * *' at time zone 'Europe/Berlin'"},
            {"schedule": "EVERY 3 days", "refresh_method": "complete"},
            {"schedule": "every 1 week starts '2030-01-31'"},
            {"refresh_on": "commit"},
            {"refresh_on": "commit", "at_most_every": "5 minutes"},
            {"target_lag": "600 seconds", "at_most_every": "1 minute"},
            {"target_lag": "downstream", "refresh_method": "complete"},
            {"refresh_on": "manual"},
            {"refresh_on": "manual", "when_stale": "fail"},
            {"refresh_method": "incremental fallback"},
            {"when_stale": "serve", "grace_period": 1.5},
        ],
        ids=str,
    )
    def test_a_trigger_is_added_kept_and_removed_without_a_replacement(
        self, shop: Any, settings: dict[str, object]
    ) -> None:
        write_model(shop, "daily", DAILY)
        run()
        plain = created(shop, "daily")
        write_model(shop, "daily", DAILY, **settings)
        log = run()
        assert "Applying ALTER to" in log
        assert "Applying REPLACE to" not in log
        altered = created(shop, "daily")
        assert altered != plain
        assert "Applying ALTER to" not in run()
        run("--full-refresh")
        assert sorted(created(shop, "daily").split("\n")) == sorted(altered.split("\n"))
        write_model(shop, "daily", DAILY)
        assert "Applying ALTER to" in run()
        assert created(shop, "daily") == plain
        assert "Applying ALTER to" not in run()

    def test_properties_and_comments_are_altered(self, shop: Any) -> None:
        describe(shop)
        docs = {"relation": True}
        write_model(shop, "daily", DAILY, persist_docs=docs, tblproperties={"a": "1", "b": "2"})
        run()
        describe(shop, relation="changed")
        write_model(shop, "daily", DAILY, persist_docs=docs, tblproperties={"b": "3"})
        log = run()
        assert "Applying ALTER to" in log
        assert "Applying REPLACE to" not in log
        assert "COMMENT 'changed'" in created(shop, "daily")
        found = properties(shop, "daily")
        assert ("a" in found, found["b"]) == (False, "3")

    @pytest.mark.sample
    def test_a_run_says_what_it_has_done(self, shop: Any) -> None:
        def done() -> str:
            (result,) = run_dbt(["run"])
            return str(result.message)

        write_model(shop, "daily", DAILY)
        assert done() == "CREATE"
        assert done() == "REFRESH"
        write_model(shop, "daily", DAILY, grace_period=60, refresh_on="manual")
        assert done() == "ALTER, REFRESH"
        write_model(shop, "daily", DAILY.replace("sum(", "max("))
        assert done() == "CREATE OR REPLACE"

    @pytest.mark.sample
    @pytest.mark.parametrize("change", ["continue", "fail"])
    def test_a_run_that_changes_nothing_says_what_has_changed(self, shop: Any, change: str) -> None:
        write_model(shop, "daily", DAILY)
        run()
        query = DAILY.replace("sum(", "max(")
        write_model(shop, "daily", query, grace_period=60, on_configuration_change=change)
        _, log = run_dbt_and_capture(["run"], expect_pass=change == "continue")
        assert "its query has changed; properties changed: grace_period" in " ".join(log.split())

    def test_a_misspelt_setting_is_refused(self, shop: Any) -> None:
        write_model(shop, "daily", DAILY, shedule="every 1 hour")
        assert "Do you mean `schedule`?" in failed()

    def test_what_someone_altered_is_set_again(self, shop: Any) -> None:
        write_model(shop, "daily", DAILY, grace_period=60, schedule="every 1 hour")
        run()
        before = created(shop, "daily")
        view = f"{shop.test_schema}.daily"
        shop.run_sql(f"alter materialized view {view} drop schedule")
        shop.run_sql(f"alter materialized view {view} set ('grace_period' = '7')")
        shop.run_sql(f"alter materialized view {view} set tblproperties ('of_others' = 'stays')")
        assert "Applying ALTER to" in run()
        after = created(shop, "daily")
        assert "'of_others' = 'stays'" in after
        assert after.replace("  'of_others' = 'stays'\n", "") == before

    def test_a_view_is_created_and_replaced_below_its_location_root(self, shop: Any) -> None:
        root = os.environ["FRESHGATE_LOCATIONS"]

        def files() -> set[str]:
            return {path.parent.parent.name for path in Path(root, "daily").glob("*/freshgate_version=*/*.parquet")}

        write_model(shop, "daily", DAILY, location_root=root)
        run()
        assert f"LOCATION '{root}/daily'" in created(shop, "daily")
        before = files()
        assert len(before) == 1
        assert [total for _, total in rows(shop, "daily")] == [15, 1]
        shop.run_sql(f"insert into {shop.test_schema}.orders values (date'2026-01-02', 'south', 41)")
        assert "Applying REPLACE to" not in run()
        assert [total for _, total in rows(shop, "daily")] == [15, 42]
        write_model(shop, "daily", DAILY.replace("sum(", "max("), location_root=root)
        assert "Applying REPLACE to" in run()
        assert [total for _, total in rows(shop, "daily")] == [10, 41]
        # The replaced view's files stay for its readers; those of the new one are in a directory beside them.
        assert len(files() - before) == 1
        write_model(shop, "daily", DAILY)
        assert "Applying REPLACE to" in run()
        assert "LOCATION" not in created(shop, "daily")

    def test_a_location_root_elsewhere_is_refused(self, shop: Any) -> None:
        write_model(shop, "daily", DAILY, location_root="/elsewhere")
        assert "storage.locations" in failed()

    def test_spark_gets_the_grants_of_the_view(self, shop: Any) -> None:
        """Spark itself knows no GRANT, and says so."""
        write_model(shop, "daily", DAILY, grants={"select": ["ada"]})
        message = failed()
        assert "GRANT is not valid" in message
        assert f"grant select on {shop.test_schema}.daily to `ada`" in message
        assert relation_type(shop, "daily") == "materialized_view"

    def test_a_contract_is_checked(self, shop: Any) -> None:
        contract = Path(shop.project_root, "models", "schema.yml")
        contract.write_text(CONTRACT.format(column="total"))
        write_model(shop, "daily", DAILY)
        run()
        assert rows(shop, "daily")
        contract.write_text(CONTRACT.format(column="sum"))
        assert "This model has an enforced contract that failed" in failed("--full-refresh")
        assert len(rows(shop, "daily")) == 2

    def test_changed_column_docs_replace_the_view(self, shop: Any) -> None:
        describe(shop)
        write_model(shop, "daily", DAILY, persist_docs={"columns": True})
        run()
        describe(shop, column="changed")
        assert "Applying REPLACE to" in run()
        assert "`day` COMMENT 'changed'" in created(shop, "daily")

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"schedule": "hourly"}, "`schedule` is 'hourly', but must be a schedule such as"),
            ({"refresh_on": "update"}, "`refresh_on` is 'update', but must be one of manual, commit"),
            ({"refresh_method": "fast"}, "`refresh_method` is 'fast'"),
            ({"when_stale": "wait"}, "`when_stale` is 'wait', but must be one of refresh, serve, inline, fail"),
            ({"schedule": "every 1 hour", "refresh_on": "commit"}, "exclude each other"),
            ({"target_lag": "soon"}, "`target_lag` is 'soon', but must be a time such as"),
            ({"schedule": "every 1 hour", "at_most_every": "1 hour"}, "`at_most_every` needs"),
            ({"partition_by": ["day", "DAY"]}, "occurs twice"),
            ({"file_format": "delta"}, "PARQUET"),
            ({"tblproperties": {"grace_perod": "1"}}, "did you mean grace_period"),
        ],
        ids=lambda value: value if isinstance(value, str) else "-".join(value),
    )
    def test_wrong_settings_are_refused(self, shop: Any, settings: dict[str, object], message: str) -> None:
        write_model(shop, "daily", DAILY, **settings)
        assert message in failed()
        assert relation_type(shop, "daily") is None
