"""A view's properties read back as the view that was written."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import loops
from gateway.mv.model import properties
from gateway.mv.model.contents import Contents
from gateway.mv.model.history import History
from gateway.mv.model.snapshot import PartitionValues, Snapshot
from gateway.mv.model.view import (
    Cause,
    FollowedTable,
    Manifest,
    MaterializedView,
    RefreshMode,
    Schema,
    Task,
    TaskStatus,
    TriggerMode,
    Version,
)
from sql.grammar.parser import parse
from sql.lexed import Lexed
from sql.names import Namespace, TableName
from sql.statement import (
    Clustering,
    CreateClauses,
    CreateMaterializedView,
    Distribution,
    Grantee,
    GranteeKind,
    ListedColumn,
    Method,
    Partitioning,
    Refreshing,
    Schedule,
    Security,
    Trigger,
)
from sql.texts.create_text import create_statement
from sql.texts.storage_layout import Shown, StorageLayout

texts = st.text(max_size=60)
words = st.text(min_size=1, max_size=20).map(str.lower)
names = st.builds(TableName, words, words, words)
counts = st.integers(min_value=0, max_value=2**53)
keys = st.none() | texts
numbers = st.integers(0, 10_000)
snapshots = st.builds(
    Snapshot,
    words,
    words,
    words,
    st.dictionaries(st.lists(keys, min_size=1, max_size=2).map(tuple), words, max_size=4),
    words,
)
contents = st.builds(
    Contents,
    st.none() | snapshots,
    st.lists(st.tuples(numbers, st.dictionaries(words, snapshots, max_size=2)), max_size=2).map(tuple),
)
bare_versions = st.builds(
    Version,
    number=st.integers(0, 10_000),
    started_at=counts,
    published_at=counts,
    views=st.dictionaries(words, counts, max_size=3),
    method=st.just("COMPLETE"),
    manifest=st.builds(Manifest, numbers, st.dictionaries(keys, numbers, max_size=4)),
    shown=st.builds(
        Shown,
        numbers,
        st.lists(st.tuples(numbers, numbers), min_size=1, max_size=3).map(tuple),
        st.dictionaries(numbers, st.frozensets(keys, min_size=1, max_size=3), max_size=2),
    ),
    contents=contents,
)
readers = st.tuples(words, st.booleans()) | st.just(("", False))
versions = st.builds(
    lambda version, reader: replace(
        version, shown=replace(version.shown, number=version.number), read_as=reader[0], narrowed=reader[1]
    ),
    bare_versions,
    readers,
)
columns = st.lists(words, max_size=2).map(tuple)
schedules = st.builds(
    Schedule,
    every=st.none() | counts,
    unit=st.sampled_from(["MINUTE", "HOUR"]),
    starts=st.none() | texts,
    cron=st.none() | texts,
    time_zone=st.none() | texts,
)
methods = st.none() | st.sampled_from(Method)
clauses = st.builds(
    CreateClauses,
    deferred=st.booleans(),
    refreshing=st.one_of(
        st.builds(Refreshing, methods, st.none() | st.just(Trigger.MANUAL)),
        st.builds(Refreshing, methods, st.just(Trigger.SCHEDULE), schedules),
        st.builds(Refreshing, methods, st.just(Trigger.COMMIT), at_most=st.none() | counts),
        st.builds(Refreshing, methods, st.just(Trigger.LAG), lag=st.none() | counts),
        st.builds(Refreshing, methods, st.just(Trigger.LAG), lag=counts, at_most=counts),
    ),
    partitioning=st.none()
    | st.builds(
        Partitioning,
        words,
        st.none() | st.just("MONTH"),
        further=st.just(()) | st.tuples(st.builds(Partitioning, words, st.none() | st.just("DAY"))),
    ),
    distribution=st.none() | st.builds(Distribution, columns, st.none() | counts, columns),
    clustering=st.none() | st.builds(Clustering, columns, columns),
    file_format=st.none() | st.just("orc"),
    location=st.none() | texts,
    keys=columns,
    duplicate=st.booleans(),
    security=st.none() | st.sampled_from(Security),
)
schemas = st.builds(Schema, texts, st.lists(st.tuples(words, texts), max_size=3).map(tuple), st.booleans())
causes = st.builds(Cause, st.sampled_from(TriggerMode), texts, columns, st.booleans(), method=methods)
tasks = st.builds(
    Task,
    id=counts,
    cause=causes,
    reason=texts,
    created_at=counts,
    status=st.sampled_from([TaskStatus.FAILED, TaskStatus.CANCELED, TaskStatus.SUCCESS]),
    mode=st.sampled_from(RefreshMode),
    finished_at=counts,
    version=st.just(0),
    error=st.text(max_size=2000),
    partitions=st.lists(words, max_size=3).map(tuple),
    route=texts,
)
views = st.builds(
    MaterializedView,
    id=words,
    name=names,
    storage=st.just(TableName("freshgate_storage", "x")),
    definition=st.just(TableName("freshgate_storage", "x__definition")),
    query=st.text(min_size=1, max_size=20_000) | st.just("select 1 " * 3_000),
    namespace=st.builds(Namespace, words, words),
    columns=st.lists(texts, max_size=5).map(tuple),
    listed=st.lists(st.builds(ListedColumn, words, st.none() | texts), max_size=2).map(tuple),
    clauses=clauses,
    owner=texts,
    refreshed_as=texts,
    created_at=counts,
    tables=st.frozensets(names, max_size=4),
    schemas=st.dictionaries(names, schemas, max_size=3),
    views=st.frozensets(words, max_size=3),
    layout=st.builds(
        StorageLayout,
        words,
        words,
        texts,
        st.booleans(),
        words,
        further=st.just(()) | st.tuples(st.builds(StorageLayout, words, words, texts, st.booleans())),
    ),
    followed=st.none()
    | st.builds(
        FollowedTable,
        words,
        words,
        numbers,
        words,
        texts,
        st.just(()) | st.tuples(st.builds(FollowedTable, words, words, numbers, words, texts)),
    ),
    view_names=st.dictionaries(words, names, max_size=2),
    properties=st.dictionaries(texts, texts, max_size=3),
    comment=st.none() | texts,
    current=versions,
    versions_reserved=counts,
    refreshers=st.frozensets(st.builds(Grantee, st.sampled_from(GranteeKind), texts), max_size=3),
)


def _read(stored: dict[str, str], view: MaterializedView) -> MaterializedView:
    return properties.read_view(stored, view.storage, view.definition, view.current.number)


@given(views)
def test_a_view_reads_back(view: MaterializedView) -> None:
    stored = properties.write_view(view)
    assert _read(stored, view) == view
    assert properties.read_name(stored) == view.name
    assert properties.versions(stored) == {view.current.number}
    assert max(map(len, stored.values())) <= properties.VALUE_CHARACTERS_MAX


@given(views, versions)
def test_the_published_version_is_read_whatever_others_there_are(view: MaterializedView, other: Version) -> None:
    stored = properties.write_view(view)
    if other.number != view.current.number:
        stored |= properties.write_version(other, view.versions_reserved)
    assert _read(stored, view).current == view.current


@given(views, st.frozensets(names, max_size=200))
def test_shorter_bases_replace_longer_ones(view: MaterializedView, many: frozenset[TableName]) -> None:
    """Pieces of the longer value stay in the metastore; they must not be read."""
    longer = {**properties.write_view(view), **properties.write_bases(_with_tables(view, many))}
    stored = longer | properties.write_bases(view)
    assert _read(stored, view) == view


@given(views)
def test_the_keys_of_a_version_are_its_own(view: MaterializedView) -> None:
    stored = properties.write_view(view)
    keys = properties.version_keys(stored, view.current.number)
    assert keys
    rest = {key: value for key, value in stored.items() if key not in keys}
    assert properties.versions(rest) == frozenset()


def test_a_later_format_is_refused_with_advice() -> None:
    stored = {"freshgate.format": "99"}
    with pytest.raises(properties.UnreadableProperties, match="format 99"):
        properties.read_view(stored, TableName("s", "x"), TableName("s", "x__definition"), 1)


@given(views, st.data())
def test_a_missing_property_is_named(view: MaterializedView, data: st.DataObject) -> None:
    stored = properties.write_view(view)
    required = [key for key in stored if key.split(".")[1] in {"query", "owner", "tables", "view"}]
    del stored[data.draw(st.sampled_from(required))]
    with pytest.raises(properties.UnreadableProperties, match="missing"):
        _read(stored, view)


def _with_tables(view: MaterializedView, tables: frozenset[TableName]) -> MaterializedView:
    return MaterializedView(**{name: getattr(view, name) for name in view.__slots__} | {"tables": tables})


@given(st.lists(tasks, min_size=1, max_size=130))
def test_the_last_hundred_tasks_are_kept(run: list[Task]) -> None:
    """Each is stored when it has ended, and takes the place of the one a hundred before it."""
    history, stored = History(), {}
    for task in run:
        history.end(history.begin(task), task)
        saved = history.unsaved_with()
        stored.update(saved)
        history.saved(saved)
        assert not history.unsaved
    again = History.of_stored(stored, current=0)
    assert list(again.tasks) == list(history.tasks)
    assert [task for _, task in again.tasks] == run[-properties.TASKS_MAX :]


def test_unsaved_tasks_do_not_pile_up_nor_take_later_ones_places() -> None:
    history, stored = History(), dict[str, str]()
    cause = Cause(TriggerMode.SYSTEM, "EVERY 1 MINUTE")
    for number in range(1, 351):
        task = Task(number, cause, "why", number, TaskStatus.SUCCESS)
        history.end(history.begin(task), task)
        if number in {220, 350}:
            stored |= history.unsaved_with()
            history.saved(stored)
    assert not history.unsaved
    again = [task.id for _, task in History.of_stored(stored, current=0).tasks]
    assert again == list(range(251, 351))


@given(tasks, names, counts)
def test_a_move_and_damaged_tasks(task: Task, name: TableName, version: int) -> None:
    assert properties.read_move(properties.write_move(name, version)) == (name, version)
    assert properties.read_move({}) is None
    damaged = {**properties.write_tasks([(1, task)]), "freshgate.task.1": "xzz"}
    assert not History.of_stored(damaged, current=0).tasks


def test_a_task_of_a_version_that_was_never_published_has_failed() -> None:
    task = Task(1, Cause(TriggerMode.MANUAL, "me"), "why", 5, TaskStatus.SUCCESS, version=7)
    stored = properties.write_tasks([(1, task)])
    assert History.of_stored(stored, current=7).last == task
    cut_off = History.of_stored(stored, current=6).last
    assert cut_off is not None
    assert (cut_off.status, cut_off.version) == (TaskStatus.FAILED, 0)


async def test_very_many_partitions_are_written_and_read_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written is the same: an earlier Freshgate reads it."""
    states: dict[PartitionValues, str] = {(f"day {number}",): f"state {number}" for number in range(20)}
    version = replace(Version.whole(1, 0, 0, {}), contents=Contents(Snapshot("table", "state", partitions=states)))
    here = properties.write_version(version, 5)
    threads: list[int] = []

    def noted(work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            threads.append(threading.get_ident())
            return work(*arguments)

        return call

    for name in ("write_version", "read_version"):
        monkeypatch.setattr(properties, name, noted(getattr(properties, name)))
    monkeypatch.setattr(loops, "AT_ONCE", 10)
    assert await properties.version_written(version, 5) == here
    assert await properties.version_read(here, 1) == version
    assert len(threads) == 2
    assert threading.get_ident() not in threads


EVERY_CLAUSE = CreateClauses(
    deferred=True,
    refreshing=Refreshing(Method.COMPLETE, Trigger.SCHEDULE, Schedule(2, "HOUR", "2030-01-31 04:00:00")),
    partitioning=Partitioning("d", "DAY", follows=True),
    distribution=Distribution(("a",), 4),
    clustering=Clustering(("b",), ("b",)),
    file_format="orc",
    location="/data/views/v",
    keys=("k",),
    duplicate=True,
    security=Security.INVOKER,
    immutable="day < current_date()",
)


def test_every_clause_is_stored_and_shown() -> None:
    """A new clause must survive a restart, and SHOW CREATE must print it."""
    usual = CreateClauses()
    assert [
        each.name for each in fields(CreateClauses) if getattr(EVERY_CLAUSE, each.name) == getattr(usual, each.name)
    ] == []
    stored = json.loads(json.dumps(properties._written_clauses(EVERY_CLAUSE)))
    assert properties._read_clauses(stored) == EVERY_CLAUSE
    parsed = parse(Lexed(create_statement("v", (), None, EVERY_CLAUSE, {}, "SELECT 1")))
    assert isinstance(parsed, CreateMaterializedView)
    assert parsed.clauses == EVERY_CLAUSE


LAGGING = Refreshing(Method.AUTO, Trigger.LAG, lag=90, at_most=60)


@pytest.mark.parametrize(
    ("refreshing", "known"),
    [
        (LAGGING, Refreshing(Method.AUTO, Trigger.SCHEDULE, Schedule(2, "MINUTE"))),
        (Refreshing(None, Trigger.LAG), Refreshing()),
        (Refreshing(None, Trigger.COMMIT, at_most=300), Refreshing(None, Trigger.COMMIT)),
    ],
)
def test_earlier_releases_take_lags_for_what_they_know(refreshing: Refreshing, known: Refreshing) -> None:
    """They read three values of a trigger by name. What they write back has no lag any more."""
    clauses = CreateClauses(refreshing=refreshing)
    written = json.loads(json.dumps(properties._written_clauses(clauses)))
    assert properties._read_clauses(written) == clauses
    found = written["refreshing"]
    read = Refreshing(
        found["method"] and Method(found["method"]),
        found["trigger"] and Trigger(found["trigger"]),
        found["schedule"] and Schedule(**found["schedule"]),
    )
    assert read == known
    assert Trigger.LAG not in {found["trigger"]}
    usual = json.loads(json.dumps(properties._written_clauses(CreateClauses())))
    assert set(usual["refreshing"]) == {"method", "trigger", "schedule"}
