"""Converts a materialized view to the table properties of its storage table, and back.

The name of every property begins with `freshgate.`. Numbers are stored as they are. Texts are stored as `x` and the
hexadecimal digits of their UTF-8, long records as `z` and the digits of their zlib stream: Spark shows a property whose
value matches `spark.redaction.regex` (url, token, password, …) as `*********(redacted)`, and a view's name or query may
contain such a word. A value longer than VALUE_CHARACTERS_MAX is split: the property itself then holds
`+<number of pieces>`, and `<name>.0`, `<name>.1`, … hold the pieces. Because of the count, leftover pieces of a longer,
earlier value are ignored.
"""

from __future__ import annotations

import dataclasses
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import astuple
from typing import Any

from gateway.errors import FreshgateError
from gateway.loops import in_thread
from gateway.mv.many import decoded, in_order
from gateway.mv.model.contents import Contents, read_basis, written_basis
from gateway.mv.model.marks import Fold
from gateway.mv.model.snapshot import read_snapshot, written_snapshot
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
from sql.names import Namespace, TableName
from sql.statement import (
    Clustering,
    CreateClauses,
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
from sql.texts.open_formats import OPEN_FORMATS
from sql.texts.open_rows import OpenRows
from sql.texts.storage_layout import PartitionKey, Shown, StorageLayout

PREFIX = "freshgate."
FORMAT = 2
READABLE = frozenset({"1", "2"})
"""Format 1 had no partitions of a view's own."""
VALUE_CHARACTERS_MAX = 3_900
"""Below the limit of 4,000 characters of PARAM_VALUE in metastore schemas before Hive 3."""

_TEXT_MARK = "x"
_PACKED_MARK = "z"
_PIECES_MARK = "+"
_PUBLISHED = PREFIX + "published"
_VERSION = PREFIX + "version."
_MOVING = PREFIX + "moving_to"
_TASK = PREFIX + "task."
_PARTITION_CHARACTERS = 5
"""The least number of characters that packed properties need for each partition."""
TASKS_MAX = 100
"""How many tasks of a view are kept, as in Doris. Task n is stored in place n % TASKS_MAX."""


class UnreadableProperties(FreshgateError):
    """The properties of a storage table are damaged, or a newer Freshgate wrote them."""

    sqlstate = "58030"


class LaterFormat(UnreadableProperties):
    """A newer Freshgate wrote the properties."""


def write_view(view: MaterializedView) -> dict[str, str]:
    """All properties of a new view."""
    return {
        PREFIX + "format": str(FORMAT),
        **_text("id", view.id),
        **write_name(view.name),
        PREFIX + "created_at": str(view.created_at),
        **_text("query", view.query),
        **_text("namespace", json.dumps([view.namespace.catalog, view.namespace.database])),
        **_text("columns", json.dumps(view.columns)),
        **_text("listed", json.dumps([[column.name, column.comment] for column in view.listed])),
        **_text("layout", json.dumps(_written_layout(view.layout))),
        **_text("kept_settings", json.dumps(view.settings and dict(view.settings)), packed=True),
        **write_settings(view),
        **write_bases(view),
        **write_version(view.current, view.versions_reserved),
    }


def write_settings(view: MaterializedView) -> dict[str, str]:
    """What ALTER can change, except for the name."""
    return {
        **write_owner(view.owner),
        **_text("refreshed_as", view.refreshed_as),
        **_text("clauses", json.dumps(_written_clauses(view.clauses))),
        **_text("properties", json.dumps(dict(view.properties))),
        **_text("comment", json.dumps(view.comment)),
        **_text("refreshers", json.dumps([[each.kind, each.name] for each in sorted(view.refreshers)]), packed=True),
    }


def write_name(name: TableName) -> dict[str, str]:
    return _text("view", _name(name))


def write_owner(owner: str) -> dict[str, str]:
    """The owner is stored on the definition as well: it says who may drop a view whose storage table is gone."""
    return _text("owner", owner)


CREATOR_SETTINGS = PREFIX + "creator_settings"


def write_creator_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """The creator's settings, stored on the definition at a Spark that does not say with which settings a view was
    created."""
    return _text(CREATOR_SETTINGS.removeprefix(PREFIX), json.dumps(settings, sort_keys=True), packed=True)


def read_creator_settings(properties: Mapping[str, str]) -> Mapping[str, str]:
    """Raises UnreadableProperties."""
    found: Mapping[str, str] = json.loads(_required(properties, CREATOR_SETTINGS.removeprefix(PREFIX)))
    return found


def write_job(view: MaterializedView) -> dict[str, str]:
    """What PAUSE, RESUME, and ALTER of the trigger change."""
    return {
        **_text("job", json.dumps(["PAUSED" if view.paused else "RUNNING", view.job_since])),
        # A property of its own, because earlier releases read two values above. It counts with this time only.
        **(_text("paused_because", json.dumps([view.job_since, view.paused_because])) if view.paused_because else {}),
    }


def write_move(name: TableName, version: int, first: tuple[TableName, TableName] | None = None) -> dict[str, str]:
    """While ALTER renames the storage table: its new name, and the version to show there. `first`: of a set of views
    that get their names together, the first name that is changed, and the storage table that it is to show."""
    return _text("moving_to", json.dumps([_name(name), version, *(_name(each) for each in first or ())]))


def moving_keys() -> tuple[str, ...]:
    return (_MOVING,)


def read_move(properties: Mapping[str, str]) -> tuple[TableName, int] | None:
    if _MOVING not in properties:
        return None
    name, version, *_ = json.loads(_required(properties, "moving_to"))
    return _read_name(name), version


def read_first_move(properties: Mapping[str, str]) -> tuple[TableName, TableName] | None:
    """`first` of `write_move`."""
    if _MOVING not in properties:
        return None
    _, _, *first = json.loads(_required(properties, "moving_to"))
    return (_read_name(first[0]), _read_name(first[1])) if first else None


def write_bases(view: MaterializedView) -> dict[str, str]:
    """What the definition reads, as the last refresh found it."""
    schemas = {_name(table): [schema.created, schema.columns, schema.is_view] for table, schema in view.schemas.items()}
    return {
        **_text("tables", json.dumps(sorted(_name(table) for table in view.tables))),
        **_text("schemas", json.dumps(schemas, sort_keys=True)),
        **_text("views", json.dumps(sorted(view.views))),
        **_text("followed", json.dumps(view.followed and _written_followed(view.followed))),
        **_text("view_names", json.dumps({base: _name(name) for base, name in sorted(view.view_names.items())})),
    }


def write_reads(last_at: int, days: Mapping[int, int]) -> dict[str, str]:
    """When the view was read last, and its reads of each day."""
    return _text("reads", json.dumps([last_at, sorted(days.items())]))


def read_reads(properties: Mapping[str, str]) -> tuple[int, dict[int, int]]:
    """Nothing for a view of which no reads were stored. Raises UnreadableProperties, ValueError or TypeError."""
    if PREFIX + "reads" not in properties:
        return 0, {}
    last_at, days = json.loads(_required(properties, "reads"))
    return int(last_at), {int(day): int(reads) for day, reads in days}


def write_tasks(tasks: Iterable[tuple[int, Task]]) -> dict[str, str]:
    """Finished tasks with their numbers. A task replaces the one TASKS_MAX before it."""
    written: dict[str, str] = {}
    for number, task in tasks:
        record = dataclasses.asdict(task)
        for name in ("not_before", "mends", "parent", "due", "reaches"):
            del record["cause"][name]
        # What earlier releases do not know is stored only if it has a value.
        if task.cause.method is None:
            del record["cause"]["method"]
        if not task.route:
            del record["route"]
        written |= _text(f"task.{number % TASKS_MAX}", json.dumps([number, record]))
    return written


def read_tasks(properties: Mapping[str, str]) -> list[tuple[int, Task]]:
    """The stored tasks with their numbers, oldest first."""
    found = []
    for place in {name[len(_TASK) :].split(".")[0] for name in properties if name.startswith(_TASK)}:
        number, record = json.loads(_required(properties, f"task.{place}"))
        cause = record.pop("cause")
        cause["partitions"] = tuple(cause["partitions"])
        cause["trigger"] = TriggerMode(cause["trigger"])
        if (method := cause.get("method")) is not None:
            cause["method"] = Method(method)
        partitions = tuple(record.get("partitions", ()))
        enums = {"status": TaskStatus(record["status"]), "mode": RefreshMode(record["mode"])}
        # Earlier releases had no `needed`: they named all partitions.
        known = {"needed": len(partitions), **record, **enums, "partitions": partitions}
        task = Task(**known, cause=Cause(**cause))
        found.append((number, task))
    return sorted(found, key=lambda item: item[0])


async def view_written(view: MaterializedView) -> dict[str, str]:
    """`write_view`; in a thread if there are very many partitions."""
    return await in_thread(view.current.partitions, write_view, view)


async def version_written(version: Version, reserved: int) -> dict[str, str]:
    """`write_version`; in a thread if there are very many partitions."""
    return await in_thread(version.partitions, write_version, version, reserved)


async def view_read(
    properties: Mapping[str, str], storage: TableName, definition: TableName, current: int
) -> MaterializedView:
    """`read_view`; in a thread if there are very many partitions."""
    return await in_thread(partitions_at_most(properties), read_view, properties, storage, definition, current)


async def version_read(properties: Mapping[str, str], number: int) -> Version:
    """`read_version`; in a thread if there are very many partitions."""
    return await in_thread(partitions_at_most(properties), read_version, properties, number)


def partitions_at_most(properties: Mapping[str, str]) -> int:
    """An upper bound of the number of partitions that these properties describe."""
    versions = (len(value) for key, value in properties.items() if key.startswith(_VERSION))
    return sum(versions) // _PARTITION_CHARACTERS


def write_version(version: Version, reserved: int) -> dict[str, str]:
    """What a refresh stores before it publishes `version`."""
    record = {
        "started_at": version.started_at,
        "published_at": version.published_at,
        "previous": version.previous,
        "method": version.method,
        "views": dict(version.views),
        "manifest": _written_manifest(version.manifest),
        "shown": _written_shown(version.shown),
        "followed": version.contents.followed and written_snapshot(version.contents.followed),
        "others": [
            [number, {base: written_snapshot(snapshot) for base, snapshot in states.items()}]
            for number, states in version.contents.others
        ],
        **({} if version.contents.basis is None else {"basis": written_basis(version.contents.basis)}),
        **({} if version.files is None else {"files": astuple(version.files)}),
        **({"read_as": [version.read_as, version.narrowed]} if version.read_as else {}),
        **({"computed_at": version.computed_at} if version.computed_at != version.started_at else {}),
    }
    return {
        # In pieces: json.dumps would hold the interpreter's lock, and so block the event loop, until it is done.
        **_text(f"version.{version.number}", "".join(json.JSONEncoder(sort_keys=True).iterencode(record)), packed=True),
        **write_reserved(reserved),
    }


def _written_manifest(manifest: Manifest) -> list[Any]:
    """The default, and for each other version the partitions that it wrote."""
    written: dict[int, list[PartitionKey]] = {}
    for key, version in manifest.exceptions.items():
        written.setdefault(version, []).append(key)
    return [manifest.default, sorted(written.items())]


def _written_shown(shown: Shown) -> list[Any]:
    hidden = [[version, in_order(keys, _written)] for version, keys in sorted(shown.hidden.items())]
    if shown.snapshot:
        return [list(shown.ranges), hidden, shown.flagged, shown.snapshot]
    return [list(shown.ranges), hidden, shown.flagged] if shown.flagged else [list(shown.ranges), hidden]


def _written_layout(layout: StorageLayout) -> dict[str, Any]:
    """Earlier releases know no open rows, and need not for views without."""
    record = dataclasses.asdict(layout)
    record["further"] = [_written_layout(part) for part in layout.further]
    for optional in ("further", "function"):
        if not record[optional]:
            del record[optional]
    del record["open"]
    if (rows := layout.open) is not None:
        record["open"] = [rows.format, *dataclasses.astuple(rows.table)]
        if rows.described:
            record["described"] = True
    return record


def _written(thing: object) -> str:
    return repr(thing)


def write_reserved(reserved: int) -> dict[str, str]:
    """What a refresh stores before it begins a version with a number below `reserved`."""
    return {PREFIX + "versions_reserved": str(reserved)}


def version_keys(properties: Mapping[str, str], number: int) -> tuple[str, ...]:
    """The names of the properties that hold one version."""
    key = f"{_VERSION}{number}"
    return tuple(name for name in properties if name == key or name.startswith(key + "."))


def versions(properties: Mapping[str, str]) -> frozenset[int]:
    """The numbers of the versions that are stored."""
    numbers = (name[len(_VERSION) :].split(".")[0] for name in properties if name.startswith(_VERSION))
    return frozenset(int(number) for number in numbers if number.isdigit())


def write_published() -> dict[str, str]:
    """Marks a view as published: it tells a view that was dropped from one whose CREATE was interrupted."""
    return {_PUBLISHED: "1"}


def was_published(properties: Mapping[str, str]) -> bool:
    return _PUBLISHED in properties


def published_keys() -> tuple[str, ...]:
    return (_PUBLISHED,)


def is_ours(properties: Mapping[str, str]) -> bool:
    return PREFIX + "format" in properties


def read_name(properties: Mapping[str, str]) -> TableName:
    """The name of the view whose storage table has these properties."""
    return _read_name(_required(properties, "view"))


def read_owner(properties: Mapping[str, str]) -> str | None:
    """The owner; None if it cannot be read."""
    try:
        return _required(properties, "owner")
    except (UnreadableProperties, ValueError):
        return None


def read_columns(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The view's columns, as the properties of its storage table name them."""
    return tuple(json.loads(_required(properties, "columns")))


def open_rows(properties: Mapping[str, str]) -> OpenRows | None:
    """The table of open rows of a storage table with these properties, if they tell one."""
    try:
        return read_layout(properties).open
    except (UnreadableProperties, ValueError, TypeError):
        return None


def read_layout(properties: Mapping[str, str]) -> StorageLayout:
    return _read_layout(json.loads(_optional(properties, "layout", "{}")))


def _read_layout(record: dict[str, Any]) -> StorageLayout:
    record["further"] = tuple(map(_read_layout, record.get("further", ())))
    if rows := record.pop("open", None):
        file_format, *table = rows
        record["open"] = OPEN_FORMATS[file_format](TableName(*table), record.pop("described", False))
    return StorageLayout(**record)


def read_view(
    properties: Mapping[str, str], storage: TableName, definition: TableName, current: int
) -> MaterializedView:
    """The view whose public view shows version `current`.

    Raises UnreadableProperties if a property is missing or damaged, LaterFormat if a newer Freshgate wrote them.
    """
    if (format_number := _required(properties, "format")) not in READABLE:
        raise LaterFormat(
            f"The storage table {storage} has catalog format {format_number}; this Freshgate reads formats up to "
            f"{FORMAT}. Start the version of Freshgate that wrote it."
        )
    try:
        return MaterializedView(
            id=_required(properties, "id"),
            name=read_name(properties),
            storage=storage,
            definition=definition,
            query=_required(properties, "query"),
            namespace=Namespace(*reversed(json.loads(_required(properties, "namespace")))),
            columns=read_columns(properties),
            listed=tuple(ListedColumn(*column) for column in json.loads(_optional(properties, "listed", "[]"))),
            clauses=_read_clauses(json.loads(_optional(properties, "clauses", "{}"))),
            owner=_required(properties, "owner"),
            created_at=int(_required(properties, "created_at")),
            tables=frozenset(_read_name(name) for name in json.loads(_required(properties, "tables"))),
            schemas=_read_schemas(json.loads(_optional(properties, "schemas", "{}"))),
            views=frozenset(json.loads(_required(properties, "views"))),
            layout=read_layout(properties),
            followed=_read_followed(json.loads(_optional(properties, "followed", "null"))),
            view_names={
                base: _read_name(name) for base, name in json.loads(_optional(properties, "view_names", "{}")).items()
            },
            properties=json.loads(_required(properties, "properties")),
            comment=json.loads(_required(properties, "comment")),
            current=read_version(properties, current),
            versions_reserved=int(_required(properties, "versions_reserved")),
            settings=json.loads(_optional(properties, "kept_settings", "null")),
            refreshers=frozenset(
                Grantee(GranteeKind(kind), name) for kind, name in json.loads(_optional(properties, "refreshers", "[]"))
            ),
            refreshed_as=_optional(properties, "refreshed_as", ""),
            **_read_job(
                json.loads(_optional(properties, "job", '["RUNNING", 0]')),
                json.loads(_optional(properties, "paused_because", '[0, ""]')),
            ),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableProperties(f"The table properties of {storage} are damaged ({error}).") from error


def read_version(properties: Mapping[str, str], number: int) -> Version:
    """A stored version. If an earlier Freshgate wrote it, it has no contents and so counts as stale."""
    record: dict[str, Any] = decoded(_required(properties, f"version.{number}"))
    default, exceptions = record.get("manifest", [number, []])
    ranges, hidden, *rest = record.get("shown", [[[number, number]], []])
    read_as, narrowed = record.get("read_as", ["", False])
    return Version(
        number=number,
        started_at=record["started_at"],
        published_at=record["published_at"],
        previous=record.get("previous", 0),
        method=record["method"],
        views=record["views"],
        manifest=Manifest(default, {key: version for version, keys in exceptions for key in keys}),
        shown=Shown(
            number,
            tuple((first, last) for first, last in ranges),
            {version: frozenset(keys) for version, keys in hidden},
            bool(rest and rest[0]),
            rest[1] if len(rest) > 1 else "",
        ),
        read_as=read_as,
        narrowed=narrowed,
        computed_at=record.get("computed_at", record["started_at"]),
        files=Fold(*files) if (files := record.get("files")) else None,
        contents=Contents(
            read_snapshot(followed) if (followed := record.get("followed")) else None,
            tuple(
                (since, {base: read_snapshot(kept) for base, kept in states.items() if kept})
                for since, states in record.get("others", [])
            ),
            read_basis(record.get("basis")),
        ),
    )


def _read_job(record: list[Any], because: list[Any]) -> dict[str, Any]:
    status, since = record
    paused, (changed, reason) = status == "PAUSED", because
    # A reason with another time is of an earlier pause.
    known = paused and changed == since
    return {"paused": paused, "job_since": int(since), "paused_because": str(reason) if known else ""}


def _written_followed(followed: FollowedTable) -> dict[str, Any]:
    record = dataclasses.asdict(followed)
    if not followed.further:
        del record["further"]
    return record


def _read_followed(record: dict[str, Any] | None) -> FollowedTable | None:
    if record is None:
        return None
    return FollowedTable(**record | {"further": tuple(FollowedTable(**each) for each in _further(record))})


def _further(record: dict[str, Any]) -> list[dict[str, Any]]:
    """What a record says of the other partition columns."""
    return [{**each, "further": ()} for each in record.get("further", ())]


def _read_schemas(record: dict[str, Any]) -> dict[TableName, Schema]:
    return {
        _read_name(name): Schema(created, tuple((column, kind) for column, kind in columns), is_view)
        for name, (created, columns, is_view) in record.items()
    }


DOWNSTREAM = "DOWNSTREAM"


def _written_clauses(clauses: CreateClauses) -> dict[str, Any]:
    """The clauses as earlier releases read them: they know neither lags nor AT MOST EVERY, and ignore these two. They
    refresh a view with a lag once in that time, and take one that is DOWNSTREAM for a view without a trigger."""
    written = dataclasses.asdict(clauses)
    refreshing, given = written["refreshing"], clauses.refreshing
    if clauses.partitioning is not None and not clauses.partitioning.further:
        del written["partitioning"]["further"]
    if clauses.partitioning is not None and not clauses.partitioning.transform:
        del written["partitioning"]["transform"]
    del refreshing["lag"], refreshing["at_most"]
    if given.trigger is Trigger.LAG and given.lag is None:
        refreshing |= {"trigger": None, "lag": DOWNSTREAM}
    elif given.trigger is Trigger.LAG and given.lag is not None:
        schedule = dataclasses.asdict(Schedule(-(-given.lag // 60), "MINUTE"))
        refreshing |= {"trigger": Trigger.SCHEDULE, "schedule": schedule, "lag": given.lag}
    if given.at_most is not None:
        refreshing["at_most"] = given.at_most
    return written


def _read_refreshing(record: dict[str, Any]) -> Refreshing:
    schedule, method, trigger = record["schedule"], record["method"], record["trigger"]
    method, lag, at_most = None if method is None else Method(method), record.get("lag"), record.get("at_most")
    if lag is not None:
        return Refreshing(method, Trigger.LAG, None, None if lag == DOWNSTREAM else int(lag), at_most)
    return Refreshing(
        method, None if trigger is None else Trigger(trigger), schedule and Schedule(**schedule), at_most=at_most
    )


def _read_clauses(record: dict[str, Any]) -> CreateClauses:
    if not record:
        return CreateClauses()
    partitioning, distribution, clustering = (record[name] for name in ("partitioning", "distribution", "clustering"))
    return CreateClauses(
        deferred=record["deferred"],
        refreshing=_read_refreshing(record["refreshing"]),
        partitioning=partitioning
        and Partitioning(**partitioning | {"further": tuple(Partitioning(**each) for each in _further(partitioning))}),
        distribution=distribution
        and Distribution(tuple(distribution["columns"]), distribution["buckets"], tuple(distribution["sorted_by"])),
        clustering=clustering and Clustering(tuple(clustering["distributed"]), tuple(clustering["sorted_by"])),
        file_format=record["file_format"],
        location=record["location"],
        keys=tuple(record["keys"]),
        duplicate=record["duplicate"],
        # Earlier releases did not write it.
        security=(security := record.get("security")) and Security(security),
        immutable=record.get("immutable"),
    )


def _name(name: TableName) -> str:
    return json.dumps([name.catalog, name.database, name.table, *([name.aspect] if name.aspect else [])])


def _read_name(text: str) -> TableName:
    catalog, database, table, *aspect = json.loads(text)
    return TableName(database, table, catalog, *aspect)


def _text(name: str, value: str, *, packed: bool = False) -> dict[str, str]:
    """The property or properties that hold a text. `packed`: it may be long and repetitive, so compress it."""
    content, mark = value.encode("utf-8"), _TEXT_MARK
    if packed and len(content) > VALUE_CHARACTERS_MAX // 2:
        content, mark = zlib.compress(content), _PACKED_MARK
    key, encoded = PREFIX + name, mark + content.hex()
    if len(encoded) <= VALUE_CHARACTERS_MAX:
        return {key: encoded}
    starts = range(0, len(encoded), VALUE_CHARACTERS_MAX)
    pieces = {f"{key}.{index}": encoded[start : start + VALUE_CHARACTERS_MAX] for index, start in enumerate(starts)}
    return {key: f"{_PIECES_MARK}{len(pieces)}", **pieces}


def _optional(properties: Mapping[str, str], name: str, default: str) -> str:
    """A property that earlier releases did not write; `default` if it is missing."""
    return _required(properties, name) if PREFIX + name in properties else default


def _required(properties: Mapping[str, str], name: str) -> str:
    """Raises UnreadableProperties if the property is missing or damaged."""
    key = PREFIX + name
    try:
        value = properties[key]
        if value.startswith(_PIECES_MARK):
            value = "".join(properties[f"{key}.{index}"] for index in range(int(value[1:])))
        if value.startswith(_PACKED_MARK):
            return zlib.decompress(bytes.fromhex(value[1:])).decode("utf-8")
        return bytes.fromhex(value[1:]).decode("utf-8") if value.startswith(_TEXT_MARK) else str(int(value))
    except KeyError as missing:
        raise UnreadableProperties(f"The catalog property {missing} is missing.") from missing
    except (ValueError, zlib.error) as error:
        raise UnreadableProperties(f"The catalog property {key} is damaged ({error}).") from error
