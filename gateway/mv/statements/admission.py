"""Checks the definition and the clauses of a new materialized view. All checks raise DefinitionRefused."""

from __future__ import annotations

import json
import re

from gateway.errors import DefinitionRefused
from gateway.mv.model.view import MaterializedView
from gateway.mv.ports import Relation
from sql.definition import immutable
from sql.definition.determinism import COMPUTED, DATE_FUNCTIONS, METADATA, MOMENTS, OPTIMIZED, SAMPLE, UNSEEDED
from sql.grammar import view_properties
from sql.names import TableName
from sql.statement import CreateClauses, CreateMaterializedView, Security, WhenStale
from sql.texts.storage_layout import PARTITION_COLUMN, VERSION_COLUMN

TRUNCATED_TYPES = frozenset({"date", "timestamp", "timestamp_ltz", "timestamp_ntz", "string", "varchar", "char"})
"""Types of columns, as in Spark's JSON, that PARTITION BY (date_trunc(…)) accepts."""
PARTITION_TYPES = TRUNCATED_TYPES | {"tinyint", "smallint", "int", "bigint", "boolean", "decimal"}
NAMED = {
    SAMPLE: "TABLESAMPLE",
    METADATA: METADATA,
    COMPUTED: "a date or time from a computed text, which may be 'today' (use a literal instead)",
    UNSEEDED: "aes_encrypt() without an initialization vector",
    **{moment: f"'{moment}'" for moment in MOMENTS - {"now"}},
}
"""How messages name expressions that are not functions."""
_CUT = re.compile(r"\.\.\. \d+ more characters\s*\Z")
"""The end of a plan of which Spark shows only the beginning."""


def check_whole(name: TableName, plan: str) -> None:
    """`plan`: the output of EXPLAIN EXTENDED. A part that Spark has left out could hold any expression."""
    if _CUT.search(plan[-40:]) and OPTIMIZED not in plan:
        raise DefinitionRefused(
            f"Spark's plan of the definition of materialized view {name} is so long that Spark does not show it whole. "
            f"So whether its rows are always the same cannot be checked. Make materialized views of parts of it.",
            sqlstate="54001",
        )


def refuse_nondeterministic(statement: CreateMaterializedView, name: TableName, found: frozenset[str]) -> None:
    """`found`: functions whose values differ between runs, under the names of `sql.definition.determinism`."""
    dates_only = found <= DATE_FUNCTIONS | {COMPUTED}
    if not found or (dates_only and view_properties.allows_nondeterministic(dict(statement.properties))):
        return
    named = ", ".join(NAMED.get(function, f"{function}()") for function in sorted(found))
    advice = (
        "Set the property 'enable_nondeterministic_function' = 'true' if the value of the last refresh is what "
        "readers should see."
        if dates_only
        else "Compute it in the queries that read the view instead."
    )
    raise DefinitionRefused(
        f"The definition of materialized view {name} can not contain nonDeterministic expression: {named}. {advice}"
    )


def check_column(view: TableName, column: str, type_json: str) -> None:
    """Refuses reserved names and types that cannot be stored. `type_json`: the type in Spark's JSON."""
    if column.lower() == VERSION_COLUMN or column.lower().startswith(PARTITION_COLUMN):
        raise DefinitionRefused(
            f"The materialized view {view} cannot have a column {column}: its storage table uses that name. "
            f"Give the column another alias."
        )
    if '"name": "void"' in type_json:
        raise DefinitionRefused(
            f"The column {column} of materialized view {view} is a NULL without a type (void), which cannot be stored. "
            f"Give it a type, as in CAST(NULL AS STRING) AS {column}."
        )


def check_open(view: TableName, clauses: CreateClauses, catalog: str) -> None:
    """Refuses what rows in a table for other engines do not allow. `catalog`: where that table would be."""
    if not catalog:
        raise DefinitionRefused(
            f"The materialized view {view} cannot be stored USING {clauses.file_format}: storage."
            f"{clauses.file_format}_catalog names no catalog for it. Set it, or omit USING.",
            sqlstate="55000",
        )
    refused = {
        "LOCATION": clauses.location,
        "buckets": clauses.distribution,
        "SECURITY INVOKER, because whoever may read the table reads all of its rows": clauses.security
        is Security.INVOKER,
    }
    for what, given in refused.items():
        if given:
            raise DefinitionRefused(
                f"The materialized view {view} is stored USING {clauses.file_format}, in a table that other engines "
                f"read. It cannot have {what}. Omit one of the two.",
                sqlstate="0A000",
            )


def check_condition(view: TableName, condition: str | None) -> None:
    """Refuses a condition of immutable rows that may change other than to true as time passes."""
    try:
        if condition is not None:
            immutable.check(condition)
    except immutable.NoPast as reason:
        raise DefinitionRefused(
            f"The rows of materialized view {view} cannot be immutable by this condition: {reason}.", sqlstate="22023"
        ) from reason


def check_immutable(view: MaterializedView) -> None:
    """Refuses also what would show readers the definition's rows in place of immutable ones."""
    check_condition(view.name, view.clauses.immutable)
    if view.clauses.immutable is None:
        return
    for given, words in (
        (view.when_stale is WhenStale.INLINE, "WHEN STALE INLINE"),
        (view.security is Security.INVOKER, "SECURITY INVOKER"),
    ):
        if given:
            raise DefinitionRefused(
                f"The materialized view {view.name} cannot have both IMMUTABLE WHERE and {words}: with that, readers "
                f"get rows of its definition, which immutable rows may differ from. Leave out one of them.",
                sqlstate="42613",
            )


def check_clauses(view: TableName, clauses: CreateClauses, definition: Relation) -> None:
    """The columns that clauses name must be columns of the view, with suitable types."""
    types = {name.lower(): json.loads(kind).get("name", "") for name, kind in definition.columns}
    named: list[tuple[str, tuple[str, ...]]] = []
    if clauses.partitioning is not None:
        named.append(("PARTITION BY", clauses.partitioning.columns))
    if clauses.distribution is not None:
        named.append(("DISTRIBUTED BY", (*clauses.distribution.columns, *clauses.distribution.sorted_by)))
    if clauses.clustering is not None:
        named.append(("CLUSTER BY", (*clauses.clustering.distributed, *clauses.clustering.sorted_by)))
    named.append(("KEY", clauses.keys))
    for clause, columns in named:
        for column in columns:
            if column.lower() not in types:
                what = "partition column can not find from sql select column"
                what = what if clause == "PARTITION BY" else "there is no such column"
                raise DefinitionRefused(
                    f"{clause} of materialized view {view}: {what}: {column}. Its columns are "
                    f"{', '.join(name for name, _ in definition.columns)}.",
                    sqlstate="42703",
                )
    for part in clauses.partitioning.parts if clauses.partitioning is not None else ():
        kind = types[part.column.lower()]
        allowed = TRUNCATED_TYPES if part.unit else PARTITION_TYPES
        if kind not in allowed:
            raise DefinitionRefused(
                f"The materialized view {view} cannot be partitioned by {part.column} of type {kind}: "
                f"only support {', '.join(sorted(allowed))}. Partition by another column."
            )
