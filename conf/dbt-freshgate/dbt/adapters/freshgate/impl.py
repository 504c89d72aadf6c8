"""The adapter: dbt-spark's, which also knows the gateway's materialized views."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from dbt.adapters.base import BaseRelation, available
from dbt.adapters.contracts.relation import RelationConfig, RelationType
from dbt.adapters.freshgate.connections import FreshgateConnectionManager
from dbt.adapters.freshgate.definition import Changes, Definition, Existing, changes, check_names
from dbt.adapters.freshgate.relation import FreshgateRelation
from dbt.adapters.spark.impl import SparkAdapter, SparkConfig
from dbt_common.exceptions import DbtRuntimeError

LIST_MACRO = "freshgate__list_materialized_views"
PROPERTIES_MACRO = "freshgate__show_properties"
DESCRIBE_MACRO = "freshgate__describe_materialized_view"
NO_GATEWAY = ("PARSE_SYNTAX_ERROR", "ParseException")
"""How a Spark without a gateway answers SHOW MATERIALIZED VIEWS."""


@dataclass
class FreshgateConfig(SparkConfig):
    """What a model may set. The clauses are those of CREATE MATERIALIZED VIEW."""

    tblproperties: dict[str, str] | None = None
    schedule: str | None = None
    refresh_on: str | None = None
    target_lag: str | None = None
    at_most_every: str | None = None
    refresh_method: str | None = None
    when_stale: str | None = None
    grace_period: int | float | str | None = None
    enable_rewrite: bool | None = None
    in_memory: bool | None = None
    cluster_by: list[str] | str | None = None
    sorted_by: list[str] | str | None = None


class FreshgateAdapter(SparkAdapter):
    """Runs models on the gateway, or on a plain Spark Thrift Server as long as no model is a materialized view."""

    Relation = FreshgateRelation
    ConnectionManager = FreshgateConnectionManager
    AdapterSpecificConfigs = FreshgateConfig

    _has_gateway: bool | None = None
    """None: not known yet."""

    def list_relations_without_caching(self, schema_relation: BaseRelation) -> list[BaseRelation]:
        """The relations of a schema. Takes one statement more than dbt-spark, however many relations there are."""
        relations = super().list_relations_without_caching(schema_relation)
        names = self._materialized_views(schema_relation) if relations else frozenset()
        return [
            replace(relation, type=RelationType.MaterializedView)
            if relation.identifier and relation.identifier.lower() in names
            else relation
            for relation in relations
        ]

    def _materialized_views(self, schema_relation: BaseRelation) -> frozenset[str]:
        """The names of the schema's materialized views; none if there is no gateway."""
        if self._has_gateway is False:
            return frozenset()
        try:
            rows = self.execute_macro(LIST_MACRO, kwargs={"schema": schema_relation.schema})
        except DbtRuntimeError as error:
            if not any(words in str(error) for words in NO_GATEWAY):
                raise
            self._has_gateway = False
            return frozenset()
        self._has_gateway = True
        return frozenset(str(row["name"]).lower() for row in rows)

    @available
    def list_materialized_views(self, schema_relation: BaseRelation) -> list[BaseRelation]:
        """The materialized views of a schema; none if there is no such schema."""
        if not self.check_schema_exists(schema_relation.database or "", schema_relation.schema or ""):
            return []
        return [
            self.Relation.create(schema=schema_relation.schema, identifier=name, type=RelationType.MaterializedView)
            for name in sorted(self._materialized_views(schema_relation))
        ]

    @available
    def check_gateway(self, relation: BaseRelation) -> None:
        """Raises DbtRuntimeError if the server knows no materialized views. To be called before it is sent one."""
        if self._has_gateway is None:
            self._materialized_views(relation)
        if self._has_gateway is False:
            credentials = self.config.credentials
            raise DbtRuntimeError(
                f"{relation.render()} cannot be a materialized view: {credentials.host}:{credentials.port} is a Spark "
                f"Thrift Server without Freshgate. Connect dbt to the gateway in front of it, or choose another "
                f"materialization."
            )

    @available
    def has_column_docs(self, model: RelationConfig, query: str) -> bool:
        """Whether the view's columns must be listed, with their comments."""
        return bool(Definition.of(model, query).columns)

    @available
    def materialized_view_clauses(self, model: RelationConfig, query: str, columns: list[str]) -> str:
        """The clauses of CREATE MATERIALIZED VIEW, between the name and AS."""
        self._check_names(model)
        return Definition.of(model, query).clauses(columns)

    @available
    def materialized_view_changes(self, relation: BaseRelation, model: RelationConfig, query: str) -> Changes | None:
        """What the model says that the view does not; None if nothing."""
        self._check_names(model)
        properties = self.execute_macro(PROPERTIES_MACRO, kwargs={"relation": relation})
        described = self.execute_macro(DESCRIBE_MACRO, kwargs={"relation": relation})
        return changes(Definition.of(model, query), Existing(_pairs(properties), _details(described)))

    def _check_names(self, model: RelationConfig) -> None:
        """Raises CompilationError if the model has a setting that only looks like one of those that have an effect."""
        check_names(model, [field.name for field in fields(self.AdapterSpecificConfigs)])


def _pairs(table: Any) -> dict[str, str]:
    return {str(row[0]): str(row[1]) for row in table}


def _details(table: Any) -> dict[str, str]:
    """What follows the columns in DESCRIBE EXTENDED."""
    rows = [(str(row[0]), "" if row[1] is None else str(row[1])) for row in table]
    start = next((place for place, row in enumerate(rows) if row[0].startswith("# Detailed")), len(rows))
    return dict(rows[start + 1 :])
