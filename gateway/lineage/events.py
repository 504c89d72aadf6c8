"""Writes OpenLineage's events.

Tests: `test_lineage_reports`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TypeAlias

from openlineage.client import event_v2 as event
from openlineage.client import facet_v2 as facets
from openlineage.client.serde import Serde
from openlineage.client.uuid import generate_static_uuid

from gateway.lineage.dataset_names import NamedDataset
from gateway.lineage.told import DescribedView, Input, LifeTold, RunState, RunTold, ToldColumn, ToldLineage, columns_of
from gateway.mv.freshness.news import Life
from gateway.mv.model.view import MaterializedView, RefreshMode, Task
from sql.column_lineage import Sources
from sql.redaction import redact

PRODUCER = "urn:freshgate:"
ERROR_CHARACTERS_MAX = 2_000
_CHANGES = {
    Life.CREATED: "CREATE",
    Life.ALTERED: "ALTER",
    Life.RENAMED: "RENAME",
    Life.DROPPED: "DROP",
}
DatasetFacets: TypeAlias = dict[str, facets.DatasetFacet]


class OpenLineageWriter:
    """Writes events of one gateway as JSON."""

    def __init__(self, namespace: str, release: str) -> None:
        """`namespace`: of the jobs. `release`: of the gateway."""
        self._namespace = namespace
        self._release = release
        self._producer = f"{PRODUCER}{release}"
        event.set_producer(self._producer)

    def written(self, told: RunTold | LifeTold, described: DescribedView) -> bytes:
        """Raises ValueError if too little is known."""
        made = self._run(told, described) if isinstance(told, RunTold) else self._life(told, described)
        # Indented, because Python writes it piece by piece then: otherwise the event loop would wait for all of it.
        return json.dumps(Serde.to_dict(made), ensure_ascii=False, indent=0).encode("utf-8", "replace")

    # --- refreshes ---------------------------------------------------------------------------------

    def _run(self, told: RunTold, described: DescribedView) -> event.RunEvent:
        task, ended = told.task, told.state is not RunState.START
        wrote = task.mode is not RefreshMode.NOT_REFRESH
        return event.RunEvent(
            eventType=event.RunState(told.state.value),
            eventTime=_moment(task.finished_at if ended else task.started_at or task.created_at),
            run=event.Run(run_id(told.view, task), self._run_facets(told, described)),
            job=self._job(told.view),
            inputs=[_input(each) for each in described.inputs],
            outputs=[_output(told, described, described.output)] if wrote and described.output is not None else [],
            producer=self._producer,
        )

    def _run_facets(self, told: RunTold, described: DescribedView) -> dict[str, facets.RunFacet]:
        task, cause = told.task, told.task.cause
        found: dict[str, facets.RunFacet] = {}
        if described.engine:
            found["processing_engine"] = facets.processing_engine_run.ProcessingEngineRunFacet(
                described.engine, "spark", self._release
            )
        if cause.due:
            found["nominalTime"] = facets.nominal_time_run.NominalTimeRunFacet(_moment(cause.due))
        if cause.parent:
            namespace, _, rest = cause.parent.partition("/")
            job, _, run = rest.rpartition("/")
            parent = facets.parent_run
            found["parent"] = parent.ParentRunFacet(parent.Run(run), parent.Job(namespace, job))
        if task.error and told.state in (RunState.FAIL, RunState.ABORT):
            error = redact(task.error, cut=True)[:ERROR_CHARACTERS_MAX]
            found["errorMessage"] = facets.error_message_run.ErrorMessageRunFacet(error, "SQL")
        return found

    def _job(self, view: MaterializedView) -> event.Job:
        found: dict[str, facets.JobFacet] = {
            "jobType": facets.job_type_job.JobTypeJobFacet("BATCH", "FRESHGATE", "REFRESH"),
            "sql": facets.sql_job.SQLJobFacet(redact(view.query), "spark"),
        }
        if view.owner:
            owners = [facets.ownership_job.Owner(view.owner, "OWNER")]
            found["ownership"] = facets.ownership_job.OwnershipJobFacet(owners)
        if view.comment:
            found["documentation"] = facets.documentation_job.DocumentationJobFacet(view.comment)
        return event.Job(self._namespace, str(view.name), found)

    # --- views -------------------------------------------------------------------------------------

    def _life(self, told: LifeTold, described: DescribedView) -> event.DatasetEvent:
        named = described.output
        if named is None:
            raise ValueError(f"the location of {told.view.name} is not known")
        found = _view_facets(told.view, described, named) | {"lifecycleStateChange": _change(told, described)}
        name = named.name
        return event.DatasetEvent(
            eventTime=_moment(told.at),
            dataset=event.StaticDataset(name.namespace, name.name, facets=found),
            producer=self._producer,
        )


def run_id(view: MaterializedView, task: Task) -> str:
    """The same for all events of a task, whichever gateway tells them."""
    began = datetime.fromtimestamp(task.created_at / 1000, UTC)
    return str(generate_static_uuid(began, f"{view.id} {task.id}".encode()))


def _output(told: RunTold, described: DescribedView, named: NamedDataset) -> event.OutputDataset:
    view, task, name = told.view, told.task, named.name
    found = _view_facets(view, described, named)
    statistics: dict[str, facets.OutputDatasetFacet] = {}
    if told.state is RunState.COMPLETE:
        change = facets.lifecycle_state_change_dataset
        kind = change.LifecycleStateChange
        if told.creates:
            found["lifecycleStateChange"] = change.LifecycleStateChangeDatasetFacet(kind.CREATE)
        elif not task.version:
            found["lifecycleStateChange"] = change.LifecycleStateChangeDatasetFacet(kind.TRUNCATE)
        elif task.mode is RefreshMode.COMPLETE:
            found["lifecycleStateChange"] = change.LifecycleStateChangeDatasetFacet(kind.OVERWRITE)
        if task.version:
            found["version"] = facets.dataset_version_dataset.DatasetVersionDatasetFacet(str(task.version))
            statistics["outputStatistics"] = _statistics(view, task)
        if described.lineage is not None:
            found["columnLineage"] = _column_lineage(described.lineage)
    return event.OutputDataset(name.namespace, name.name, facets=found, outputFacets=statistics)


def _statistics(view: MaterializedView, task: Task) -> facets.OutputDatasetFacet:
    """Rows that the refresh wrote; and the bytes, if it wrote all that the view shows."""
    files = view.current.files if view.current.shown.versions == 1 and view.current.number == task.version else None
    size, count = (files.sum, files.count) if files is not None else (None, None)
    return facets.output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(task.rows, size, count)


def _view_facets(view: MaterializedView, described: DescribedView, named: NamedDataset) -> DatasetFacets:
    found: DatasetFacets = {
        "datasetType": facets.dataset_type_dataset.DatasetTypeDatasetFacet("VIEW", "MATERIALIZED"),
        **_named(named),
    }
    if described.columns:
        found["schema"] = _schema(
            columns_of(described.columns), {each.name.lower(): each.comment for each in view.listed}
        )
    if view.comment:
        found["documentation"] = facets.documentation_dataset.DocumentationDatasetFacet(view.comment)
    return found


def _change(told: LifeTold, described: DescribedView) -> facets.DatasetFacet:
    change = facets.lifecycle_state_change_dataset
    then = described.before
    before = change.PreviousIdentifier(then.name, then.namespace) if then is not None else None
    return change.LifecycleStateChangeDatasetFacet(change.LifecycleStateChange[_CHANGES[told.life]], before)


def _input(told: Input) -> event.InputDataset:
    found = _named(told.named)
    if told.columns:
        found["schema"] = _schema(columns_of(told.columns), {})
    if told.version:
        found["version"] = facets.dataset_version_dataset.DatasetVersionDatasetFacet(told.version)
    if told.is_view:
        found["datasetType"] = facets.dataset_type_dataset.DatasetTypeDatasetFacet("VIEW", "MATERIALIZED")
    return event.InputDataset(told.named.name.namespace, told.named.name.name, facets=found)


def _column_lineage(told: ToldLineage) -> facets.DatasetFacet:
    columns = facets.column_lineage_dataset
    fields = {name: columns.Fields(_input_fields(told, each)) for name, each in told.found.columns.items()}
    return columns.ColumnLineageDatasetFacet(fields, _input_fields(told, told.found.whole))


def _input_fields(told: ToldLineage, sources: Sources) -> list[facets.column_lineage_dataset.InputField]:
    columns = facets.column_lineage_dataset
    found = []
    for source in sorted(sources):
        uses = [
            columns.Transformation("DIRECT" if use.effect.is_direct else "INDIRECT", use.effect.value, "", use.masking)
            for use in sorted(sources[source])
        ]
        name = told.names[source.table]
        found.append(columns.InputField(name.namespace, name.name, source.column, uses))
    return found


def _named(named: NamedDataset) -> DatasetFacets:
    if not named.symlinks:
        return {}
    symlinks = facets.symlinks_dataset
    identifiers = [symlinks.Identifier(each.namespace, each.name, "TABLE") for each in named.symlinks]
    return {"symlinks": symlinks.SymlinksDatasetFacet(identifiers)}


def _schema(columns: Iterable[ToldColumn], comments: Mapping[str, str | None]) -> facets.DatasetFacet:
    fields = [_field(each, comments.get(each.name.lower())) for each in columns]
    return facets.schema_dataset.SchemaDatasetFacet(fields)


def _field(column: ToldColumn, comment: str | None = None) -> facets.schema_dataset.SchemaDatasetFacetFields:
    below = [_field(each) for each in column.fields] or None
    return facets.schema_dataset.SchemaDatasetFacetFields(column.name, column.type, comment, fields=below)


def _moment(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
