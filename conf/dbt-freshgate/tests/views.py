"""What the server says about relations, and changes to the models of a project."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dbt.tests.util import get_connection, run_dbt, run_dbt_and_capture


def relation_type(project: Any, name: str) -> str | None:
    """The type of a relation, as the server has it."""
    place = f"{project.test_schema} like '{name}'"
    if project.run_sql(f"show materialized views in {place}", fetch="all"):
        return "materialized_view"
    if project.run_sql(f"show views in {place}", fetch="all"):
        return "view"
    return "table" if project.run_sql(f"show tables in {place}", fetch="all") else None


def properties(project: Any, name: str) -> dict[str, str]:
    return dict(project.run_sql(f"show tblproperties {project.test_schema}.{name}", fetch="all"))


def created(project: Any, name: str) -> str:
    """The text of SHOW CREATE MATERIALIZED VIEW, without the adapter's own property and the commas of the others."""
    ((_, text),) = project.run_sql(f"show create materialized view {project.test_schema}.{name}", fetch="all")
    lines = [line.rstrip(",)") if line.startswith("  '") else line for line in str(text).split("\n")]
    return "\n".join(line for line in lines if "dbt.definition" not in line)


def version(project: Any, name: str) -> int:
    """The number of the view's current version. Each refresh that computes something makes a new one."""
    ((*_, number),) = project.run_sql(
        f"select version from freshgate.materialized_views "
        f"where database_name = '{project.test_schema}' and name = '{name}'",
        fetch="all",
    )
    return int(number)


def rows(project: Any, name: str) -> list[tuple[Any, ...]]:
    return sorted(project.run_sql(f"select * from {project.test_schema}.{name}", fetch="all"))


def write_model(project: Any, name: str, query: str, **settings: object) -> None:
    """Writes models/<name>.sql."""
    given = "".join(f", {key}={value!r}" for key, value in {"materialized": "materialized_view", **settings}.items())
    Path(project.project_root, "models", f"{name}.sql").write_text(f"{{{{ config({given[2:]}) }}}}\n{query}\n")


def run(*arguments: str) -> str:
    """`dbt run`, whose models must all succeed. Returns the log."""
    results, log = run_dbt_and_capture(["--debug", "run", *arguments])
    assert {result.status for result in results} == {"success"}
    return str(log)


def failed(*arguments: str) -> str:
    """`dbt run` of a single model, which must fail. Returns the message."""
    (result,) = run_dbt(["run", *arguments], expect_pass=False)
    assert result.status == "error"
    return str(result.message)


def drop_schema(project: Any) -> None:
    """Drops the project's schema with everything in it, also several times (`drop_test_schema` does so once)."""
    with get_connection(project.adapter):
        project.adapter.drop_schema(project.adapter.Relation.create(schema=project.test_schema))
