"""dbt-tests-adapter's tests of materialized views."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dbt.adapters.base import BaseRelation
from dbt.tests.adapter.materialized_view import files
from dbt.tests.adapter.materialized_view.basic import MaterializedViewBasic
from dbt.tests.adapter.materialized_view.changes import (
    MaterializedViewChanges,
    MaterializedViewChangesApplyMixin,
    MaterializedViewChangesContinueMixin,
    MaterializedViewChangesFailMixin,
)
from dbt.tests.util import get_model_file, run_dbt, set_model_file
from views import created, drop_schema, properties, relation_type


def set_config(project: Any, relation: BaseRelation, **settings: object) -> None:
    """Adds settings to a model's `config(...)`."""
    added = "".join(f"{name}={value!r}, " for name, value in settings.items())
    set_model_file(project, relation, get_model_file(project, relation).replace("config(", f"config({added}", 1))


class Clean:
    """Sets up each test of a suite. The suites' own fixture sends DROP SCHEMA, which the gateway refuses as long as
    there are materialized views."""

    @pytest.fixture(autouse=True)
    def setup(self, project: Any, my_materialized_view: BaseRelation) -> Iterator[None]:
        run_dbt(["seed"])
        run_dbt(["run", "--models", my_materialized_view.identifier, "--full-refresh"])
        models = {path: path.read_text() for path in Path(project.project_root, "models").iterdir()}
        yield
        for path, text in models.items():
            path.write_text(text)
        drop_schema(project)


class TestBasic(Clean, MaterializedViewBasic):
    @pytest.fixture(scope="class", autouse=True)
    def models(self) -> Any:
        # Without this, the read of a stale view would refresh it, and the suite wants rows of before.
        return {
            "my_table.sql": files.MY_TABLE,
            "my_view.sql": files.MY_VIEW,
            "my_materialized_view.sql": files.MY_MATERIALIZED_VIEW.replace("config(", "config(refresh_on='manual',"),
        }

    @staticmethod
    def insert_record(project: Any, table: BaseRelation, record: tuple[int, int]) -> None:
        project.run_sql(f"insert into {table} values {record}")

    @staticmethod
    def refresh_materialized_view(project: Any, materialized_view: BaseRelation) -> None:
        project.run_sql(f"refresh materialized view {materialized_view}")

    @staticmethod
    def query_row_count(project: Any, relation: BaseRelation) -> int:
        return int(project.run_sql(f"select count(*) from {relation}", fetch="one")[0])

    @staticmethod
    def query_relation_type(project: Any, relation: BaseRelation) -> str | None:
        return relation_type(project, relation.identifier)


class Changes(Clean, MaterializedViewChanges):
    """A changed grace period is applied by ALTER, a changed layout by CREATE OR REPLACE."""

    @staticmethod
    def check_start_state(project: Any, materialized_view: BaseRelation) -> None:
        assert "grace_period" not in properties(project, materialized_view.identifier)
        assert "USING orc" not in created(project, materialized_view.identifier)

    @staticmethod
    def change_config_via_alter(project: Any, materialized_view: BaseRelation) -> None:
        set_config(project, materialized_view, grace_period=60)

    @staticmethod
    def check_state_alter_change_is_applied(project: Any, materialized_view: BaseRelation) -> None:
        assert properties(project, materialized_view.identifier)["grace_period"] == "60"

    @staticmethod
    def change_config_via_replace(project: Any, materialized_view: BaseRelation) -> None:
        set_config(project, materialized_view, file_format="orc")

    @staticmethod
    def check_state_replace_change_is_applied(project: Any, materialized_view: BaseRelation) -> None:
        assert "USING orc" in created(project, materialized_view.identifier)

    @staticmethod
    def query_relation_type(project: Any, relation: BaseRelation) -> str | None:
        return relation_type(project, relation.identifier)


class TestChangesApply(Changes, MaterializedViewChangesApplyMixin):
    pass


class TestChangesContinue(Changes, MaterializedViewChangesContinueMixin):
    pass


class TestChangesFail(Changes, MaterializedViewChangesFailMixin):
    pass
