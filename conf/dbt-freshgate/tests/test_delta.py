"""dbt-tests-adapter's suites that need tables with MERGE: snapshots and incremental models, on Delta Lake.

BaseIncrementalUniqueKey is left out: Delta's MERGE on dates fails in a Thrift Server of Spark 4.1 (a LocalDate is no
java.sql.Date).
"""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.adapter.basic.test_snapshot_check_cols import BaseSnapshotCheckCols
from dbt.tests.adapter.basic.test_snapshot_timestamp import BaseSnapshotTimestamp
from dbt.tests.adapter.incremental.test_incremental_predicates import BaseIncrementalPredicates
from dbt.tests.util import run_dbt
from views import drop_schema, properties, relation_type, rows, run, write_model

pytestmark = pytest.mark.delta
DELTA = {"+file_format": "delta"}


class Delta:
    @pytest.fixture(scope="class")
    def dbt_profile_target(self, gateway: dict[str, Any]) -> dict[str, Any]:
        # The suites' SQL relies on casts that return NULL.
        lenient = {"spark.sql.ansi.enabled": "false"}
        return {"type": "freshgate", "user": "tester", "threads": 1, "server_side_parameters": lenient, **gateway}

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        merged = {**DELTA, "+incremental_strategy": "merge"}
        return {"seeds": DELTA, "snapshots": DELTA, "models": merged}


class TestSnapshotCheckCols(Delta, BaseSnapshotCheckCols):
    pass


class TestSnapshotTimestamp(Delta, BaseSnapshotTimestamp):
    pass


class TestIncrementalPredicates(Delta, BaseIncrementalPredicates):
    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        merged = {**DELTA, "+incremental_strategy": "merge", "+incremental_predicates": ["dbt_internal_dest.id != 2"]}
        return {"models": merged, "seeds": DELTA}


class TestMaterializedViews:
    @pytest.fixture(scope="class")
    def seeds(self) -> dict[str, str]:
        return {"numbers.csv": "number\n1\n2\n"}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {}

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"seeds": DELTA, "models": DELTA}

    def test_a_delta_table_becomes_a_view_and_a_table_again(self, project: Any) -> None:
        run_dbt(["seed"])
        query = "select * from {{ ref('numbers') }}"
        for materialized, expected in (("table", "table"), ("materialized_view", "materialized_view")) * 2:
            own = {"file_format": "parquet"} if materialized == "materialized_view" else {}
            write_model(project, "model", query, materialized=materialized, **own)
            run()
            assert relation_type(project, "model") == expected
            assert rows(project, "model") == [(1,), (2,)]
        assert "dbt.definition" in properties(project, "model")
        project.run_sql(f"delete from {project.test_schema}.numbers where number = 1")
        run()
        assert rows(project, "model") == [(2,)]
        drop_schema(project)
