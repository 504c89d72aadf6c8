"""A whole project: seeds, staging views, marts that are materialized views on each other, data tests and docs."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt
from views import created, drop_schema, rows, run, version

CAFE = Path(__file__).parent / "cafe"
MARTS = ("customers", "daily_revenue", "orders")


def texts(folder: Path) -> dict[str, Any]:
    """The files of a folder as dbt's fixtures take them."""
    return {path.name: texts(path) if path.is_dir() else path.read_text() for path in folder.iterdir()}


def outcomes(*arguments: str, passes: bool = True) -> dict[str, str]:
    """The status of each node, by its name."""
    results = run_dbt([*arguments], expect_pass=passes)
    return {result.node.name: str(result.status) for result in results}


class TestCafe:
    @pytest.fixture(scope="class")
    def seeds(self) -> dict[str, Any]:
        return texts(CAFE / "seeds")

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, Any]:
        return texts(CAFE / "models")

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        marts = {"+materialized": "materialized_view", "+persist_docs": {"relation": True, "columns": True}}
        return {"models": {"test": {"staging": {"+materialized": "view"}, "marts": marts}}}

    @pytest.fixture(scope="class")
    def dbt_profile_target(self, gateway: dict[str, Any]) -> dict[str, Any]:
        return {"type": "freshgate", "user": "tester", "threads": 3, **gateway}

    def test_the_life_of_a_project(self, project: Any) -> None:
        built = outcomes("build")
        assert set(built.values()) == {"success", "pass"}
        assert rows(project, "customers")[0][3:] == (2, Decimal("15.50"))
        before = {mart: version(project, mart) for mart in MARTS}

        # A second build computes nothing, and a new order only what it changes.
        assert set(outcomes("build", "--exclude", "resource_type:seed").values()) == {"success", "pass"}
        assert {mart: version(project, mart) for mart in MARTS} == before
        schema = project.test_schema
        project.run_sql(f"insert into {schema}.raw_orders values (5, 4, date'2026-01-03', 'placed')")
        project.run_sql(f"insert into {schema}.raw_payments values (6, 5, 'card', 99)")
        stale = outcomes("test", "--select", "test_name:not_stale", passes=False)
        assert set(stale.values()) == {"fail"}
        run()
        assert rows(project, "customers")[3][3:] == (1, Decimal("0.99"))
        assert [revenue for _, revenue in rows(project, "daily_revenue")] == [
            Decimal("12.50"),
            Decimal("3.00"),
            Decimal("5.49"),
        ]
        assert set(outcomes("test").values()) == {"pass"}

        # A changed property, a changed query, and what is above it.
        marts = Path(project.project_root, "models", "marts")
        revenue = marts / "daily_revenue.sql"
        revenue.write_text(revenue.read_text().replace("every 1 day", "every 2 days"))
        log = run()
        assert log.count("Applying ALTER to") == 1
        assert "Applying REPLACE to" not in log
        assert "EVERY 2 DAY" in created(project, "daily_revenue")
        orders = marts / "orders.sql"
        orders.write_text(orders.read_text().replace("group by", "where p.method <> 'voucher'\ngroup by"))
        log = run()
        assert log.count("Applying REPLACE to") == 1
        assert rows(project, "customers")[0][3:] == (2, Decimal("13.00"))
        assert rows(project, "daily_revenue")[0][1] == Decimal("10.00")

        docs = run_dbt(["docs", "generate"])
        types = {name.rpartition(".")[2]: node.metadata.type for name, node in docs.nodes.items()}
        assert {types[mart] for mart in MARTS} == {"materialized_view"}
        assert types["stg_orders"] == "view"
        assert types["raw_orders"] == "table"
        text = created(project, "orders")
        assert "COMMENT 'One row for each order, with what was paid for it'" in text
        assert "`order_id` COMMENT 'The order\\'s number'" in text
        drop_schema(project)
