"""The statements that the gateway, and the clients of a history, send to Spark, and what each does.

Only the forms that `sql.texts` writes are known, and the few that clients use: any other text is a fault of the
history. A statement that Spark carries out in several steps is a generator: others may come between its steps.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from described import described_row
from explanations import explained

from gateway.errors import StatementFailed
from world.edges import EPOCH
from world.storage import Columns, Key, Place, Thing, columns_of, rows_at, shown
from world.tables import NOTHING, File, Rows, Table, rows_of

if TYPE_CHECKING:
    from world.spark import Statement

Answer = list[tuple[Any, ...]]
Steps = Generator[None, None, Answer]
Handler = Callable[["Statement", "re.Match[str]"], "Answer | Steps | None"]
DEFAULT = "__HIVE_DEFAULT_PARTITION__"
NAME = r"`spark_catalog`\.`(\w+)`\.`(\w+)`"
SCRIPT = re.compile(rf"BEGIN SHOW TBLPROPERTIES {NAME};\n(?P<statement>.*)\n;END", re.DOTALL)
"""Encloses a statement that is carried out only if an epoch stands."""
_PAIR = re.compile(r"'((?:[^'\\]|\\.)*)'(?: = '((?:[^'\\]|\\.)*)')?")
_TEXTS = re.compile(r"'([^']*)'")


@dataclass(frozen=True, slots=True)
class Known:
    """A statement that was recognised. `kind` is what faults go by."""

    kind: str
    handler: Handler
    found: re.Match[str]


@lru_cache(maxsize=50_000)
def known(text: str) -> Known:
    """Raises ValueError for a text of no known form."""
    for kind, pattern, handler in _BY_WORD.get(text.partition(" ")[0], ()):
        if (found := pattern.fullmatch(text)) is not None:
            return Known(kind, handler, found)
    raise ValueError(f"no statement that the simulation knows: {text}")


def _name(found: re.Match[str]) -> str:
    return f"{found[1]}.{found[2]}"


def _pairs(text: str) -> dict[str, str]:
    return {_plain(key): _plain(value) for key, value in _PAIR.findall(text)}


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text) if "\\" in text else text


# --- the storage database, definitions, public views ----------------------------------------------------------


def _describe_database(running: Statement, found: re.Match[str]) -> Answer:
    properties = running.metastore.databases.get(found[1])
    if properties is None:
        raise StatementFailed(f"[SCHEMA_NOT_FOUND] The schema {found[1]} cannot be found.", "42704")
    pairs = ",".join(f"({key},{value})" for key, value in properties.items())
    return [("Location", f"file:/w/{found[1]}.db"), ("Properties", f"({pairs})")]


def _create_database(running: Statement, found: re.Match[str]) -> None:
    running.metastore.databases.setdefault(found[1], {})


def _create_view(running: Statement, found: re.Match[str]) -> None:
    columns = _columns(running, found[4])
    thing = running.metastore.add(_name(found), columns, found[4])
    thing.properties.update(_pairs(found[3] or ""))


def _create_epoch(running: Statement, found: re.Match[str]) -> None:
    running.metastore.add(_name(found), (), "SELECT 1").properties.update(_pairs(found[3]))


def _drop_epoch(running: Statement, found: re.Match[str]) -> None:
    running.world.oracle.drop_epoch(_name(found))
    running.metastore.remove(_name(found))


def _columns(running: Statement, text: str) -> Columns:
    """A query's columns: those of what stands first behind FROM, or of its storage."""
    if (public := shown(text)) is not None:
        return running.metastore.thing(public.storage).columns
    name = relations(text)[0]
    table = running.metastore.tables.get(name)
    return running.metastore.thing(name).columns if table is None else columns_of(table)


def _alter_view(running: Statement, found: re.Match[str]) -> None:
    running.metastore.thing(_name(found))
    running.world.oracle.before_switch(running.gateway, _name(found), found[3])
    running.metastore.show(_name(found), found[3])


def _rename_view(running: Statement, found: re.Match[str]) -> None:
    running.metastore.rename(_name(found), f"{found[1]}.{found[3]}")


def _set(running: Statement, found: re.Match[str]) -> None:
    running.metastore.thing(_name(found)).properties.update(_pairs(found[3]))


def _unset(running: Statement, found: re.Match[str]) -> None:
    for key in _pairs(found[3]):
        running.metastore.thing(_name(found)).properties.pop(key, None)


def _create_storage(running: Statement, found: re.Match[str]) -> None:
    definition = running.metastore.thing(f"{found[5]}.{found[6]}")
    thing = running.metastore.add(_name(found), definition.columns)
    thing.partitioned = "freshgate_partition" in found[3]
    thing.properties.update(_pairs(found[4]))
    running.world.oracle.created(_name(found), thing.partitioned)


def _drop(running: Statement, found: re.Match[str]) -> None:
    running.world.oracle.before_drop(_name(found))
    running.metastore.remove(_name(found))


def _show_described(running: Statement, found: re.Match[str]) -> Answer:
    things = running.metastore.things
    names = [(name, f"{found[1]}.{name}") for name in found[2].split("|")]
    return [
        described_row(found[1], name, thing.properties, thing.text)
        for name, dotted in names
        if (thing := things.get(dotted)) is not None
    ]


# --- rows of views --------------------------------------------------------------------------------------------


def _show_partitions(running: Statement, found: re.Match[str]) -> Answer:
    if (table := running.metastore.tables.get(_name(found))) is not None:
        return [(f"d={partition}",) for partition in table.files]
    storage = running.metastore.thing(_name(found))
    return [(_path(storage, *place),) for place in sorted(storage.partitions, key=repr)]


def _path(storage: Thing, version: int, key: Key) -> str:
    said = f"freshgate_version={version}"
    return f"{said}/freshgate_partition={DEFAULT if key is None else key}" if storage.partitioned else said


_PLACE = re.compile(r"PARTITION \(freshgate_version = (\d+)(?:, `freshgate_partition` = (?:'([^']*)'|NULL))?\)")


def _drop_partitions(running: Statement, found: re.Match[str]) -> Steps:
    """One after the other: readers meet some of them gone and others not."""
    for said in _PLACE.finditer(found[3]):
        storage = running.metastore.thing(_name(found))
        version, single = int(said[1]), ", `freshgate_partition`" in said[0]
        for place in [each for each in storage.partitions if each[0] == version]:
            if not single or place[1] == said[2]:
                running.world.oracle.before_partition_drop(_name(found), place)
                del storage.partitions[place]
        yield
    return []


def _insert_whole(running: Statement, found: re.Match[str]) -> Steps:
    return _insert(running, found, int(found[4]), f"{found[5]}.{found[6]}", "")


def _insert_parts(running: Statement, found: re.Match[str]) -> Steps:
    return _insert(running, found, int(found[4]), f"{found[5]}.{found[6]}", found[7] or "")


def _insert_increment(running: Statement, found: re.Match[str]) -> Steps:
    return _store(running, found, int(found[4]), _computed(running, found[5]))


def _insert_increment_parts(running: Statement, found: re.Match[str]) -> Steps:
    chosen = _selected(found[6] or "")
    rows = _computed(running, found[5])
    return _store(running, found, int(found[4]), {key: part for key, part in rows.items() if chosen(key)})


def _computed(running: Statement, text: str) -> dict[Key, Rows]:
    """The rows of a query that the gateway has made of a definition, by partition: those of files, of Delta's versions,
    and of the version before if it is copied. Without those that it removes, if it removes some."""
    if (found := _TAKEN_OUT.fullmatch(text)) is not None:
        # Of equal rows as many are left as were added: those of a history are sets.
        left = _without(_computed(running, found[1]), _computed(running, found[3]))
        more = _computed(running, found[2])
        return {key: left.get(key, NOTHING) | more.get(key, NOTHING) for key in left.keys() | more.keys()}
    assert "freshgate_rows" not in text, f"rows are removed in another way: {text}"
    rows: dict[Key, Rows] = {}
    for branch in text.split(") UNION ALL ("):
        parts = _parts(running, branch)
        condition = _VALUES.search(branch)
        chosen = _selected(condition[1] if condition is not None else "")
        if parts:
            for key, part in combined(branch, parts).items():
                # The view's column is the partition column of its only table.
                taken = part if condition is None else frozenset(row for row in part if chosen(row[1]))
                rows[key] = rows.get(key, NOTHING) | taken
    return rows


def _parts(running: Statement, branch: str) -> list[Mapping[Key, Rows]]:
    """The rows of each source, in their order. Of two with EXCEPT ALL between them, those of the first alone."""
    sources = [said for pattern, read in _SOURCES for said in _found(pattern, read, branch)]
    parts, end = list[Mapping[Key, Rows]](), 0
    for start, read, said in sorted(sources, key=lambda each: each[0]):
        rows = read(running, said)
        if "EXCEPT ALL" in branch[end:start]:
            parts[-1] = _without(parts[-1], rows)
        else:
            parts.append(rows)
        end = said.end()
    return parts


def _without(rows: Mapping[Key, Rows], others: Mapping[Key, Rows]) -> dict[Key, Rows]:
    return {key: part - others.get(key, NOTHING) for key, part in rows.items()}


_TAKEN_OUT = re.compile(
    r".*?SELECT \* FROM \((.*?)\) AS `freshgate_rows`.*<=> `freshgate_r`\.`\w+`\)(.*)"
    r"\) EXCEPT ALL \(SELECT \* FROM \((.*?)\) AS `freshgate_removed`\(.*?\)\)\)",
    re.DOTALL,
)
"""The stored rows, those that are added, and those that are removed."""
_VALUES = re.compile(r"AS freshgate_(?:stored|again\([^()]*\)) WHERE (.*)$", re.DOTALL)


Source = Callable[["Statement", re.Match[str]], Mapping[Key, Rows]]


def _found(pattern: re.Pattern[str], read: Source, text: str) -> Iterator[tuple[int, Source, re.Match[str]]]:
    return ((found.start(), read, found) for found in pattern.finditer(text))


def _stored(running: Statement, found: re.Match[str]) -> Mapping[Key, Rows]:
    storage = running.metastore.thing(f"{found[1]}.{found[2]}")
    places = _places(storage, found, found[3])
    if found[4] is not None:
        other = _places(storage, found, found[4])
        places = [place for place in places if place not in other]
    return rows_at(storage, places)


def _places(storage: Thing, found: re.Match[str], predicate: str) -> list[Place]:
    public = shown(f"SELECT `k` FROM `spark_catalog`.`{found[1]}`.`{found[2]}` WHERE {predicate}")
    assert public is not None
    return list(filter(public.has, list(storage.partitions)))


def _of_delta_version(running: Statement, found: re.Match[str]) -> Mapping[Key, Rows]:
    return {None: running.metastore.tables[f"{found[1]}.{found[2]}"].states[int(found[3]) - 1].rows}


def _of_delta_files(running: Statement, found: re.Match[str]) -> Mapping[Key, Rows]:
    return {None: running.metastore.tables[found[1]].rows_of_commits(map(int, _TOKENS.findall(found[2])))}


_FILES = re.compile(r"FROM `spark_catalog`\.`(\w+)`\.`(\w+)` WHERE _metadata\.file_path IN \(([^)]*)\)")
_UNTIL = re.compile(
    r"FROM `spark_catalog`\.`(\w+)`\.`(\w+)` WHERE _metadata\.file_modification_time <= timestamp_millis\((\d+)\)"
    r"(?: AND _metadata\.file_path NOT IN \(([^)]*)\))?"
)
_AT_VERSION = re.compile(r"FROM `spark_catalog`\.`(\w+)`\.`(\w+)` VERSION AS OF (\d+)")
_DELTA_FILES = re.compile(
    r"parquet\.`file:/w/(\w+\.\w+)` WITH \('pathGlobFilter' = '\{([^}]*)\}', 'mergeSchema' = 'true'\)"
)
_TOKENS = re.compile(r"p(\d+)\.parquet")
_PREDICATE = r"(freshgate_version (?:= \d+|<= \d+ AND \([^()]*\)(?: AND CASE freshgate_version .*? END)?))"
_STORED = re.compile(rf"FROM `spark_catalog`\.`(\w+)`\.`(\w+)` WHERE {_PREDICATE}(?: AND NOT \({_PREDICATE}\))?")


def _of_files(running: Statement, found: re.Match[str]) -> Mapping[Key, Rows]:
    """A listed file that is gone has no rows, and Spark says nothing."""
    table, paths = running.metastore.tables[f"{found[1]}.{found[2]}"], frozenset(_TEXTS.findall(found[3]))
    return _listed(running, table, lambda partition, file: _file_path(table, partition, file) in paths)


def _until(running: Statement, found: re.Match[str]) -> Mapping[Key, Rows]:
    """The rows of the files that were modified until then, except for some."""
    table, without = running.metastore.tables[f"{found[1]}.{found[2]}"], frozenset(_TEXTS.findall(found[4] or ""))

    def reads(partition: Key, file: File) -> bool:
        return EPOCH * 1000 + file.written <= int(found[3]) and _file_path(table, partition, file) not in without

    return _listed(running, table, reads)


def _listed(running: Statement, table: Table, reads: Callable[[Key, File], bool]) -> Mapping[Key, Rows]:
    listed = running.session.listed(table)
    return {partition: rows_of(file for file in files if reads(partition, file)) for partition, files in listed}


def _definition(running: Statement, found: re.Match[str]) -> Mapping[Key, Rows]:
    return query(running, running.metastore.thing(f"{found[1]}.{found[2]}").text)


_DEFINITION = re.compile(r"FROM `spark_catalog`\.`(\w+)`\.`(\w+)`\) AS freshgate_again")
_SOURCES: tuple[tuple[re.Pattern[str], Source], ...] = (
    (_FILES, _of_files),
    (_UNTIL, _until),
    (_AT_VERSION, _of_delta_version),
    (_DELTA_FILES, _of_delta_files),
    (_STORED, _stored),
    (_DEFINITION, _definition),
)


def _file_path(table: Table, partition: str | None, file: File) -> str:
    return f"{_directory(table, partition)}/{file.name}"


def _insert(running: Statement, found: re.Match[str], version: int, definition: str, condition: str) -> Steps:
    chosen = _selected(condition)
    text = running.metastore.thing(definition).text
    return _store(running, found, version, {key: part for key, part in query(running, text).items() if chosen(key)})


def _store(running: Statement, found: re.Match[str], version: int, rows: dict[Key, Rows]) -> Steps:
    """Has read, commits later. Two INSERT INTO share a directory for what is not committed, two OVERWRITE do not."""
    name = f"{found[2]}.{found[3]}"
    storage = running.metastore.thing(name)
    running.world.oracle.before_insert(running, name, version)
    if not storage.partitioned:
        whole = NOTHING.union(*rows.values())
        rows = {None: whole} if whole else {}
    running.shares_directory = name if found[1] == "INTO" else None
    yield
    if running.directory_emptied:
        # Spark commits what is left, and says nothing.
        rows = {}
    storage = running.metastore.thing(name)
    for key, part in rows.items():
        before = storage.partitions.get((version, key), NOTHING) if found[1] == "INTO" else NOTHING
        storage.partitions[version, key] = before | part
    running.shares_directory = None
    return []


def _selected(condition: str) -> Callable[[Key], bool]:
    """Which of the view's partitions a condition of `insert_version` takes."""
    if not condition:
        return lambda _: True
    keys: set[Key] = set(_TEXTS.findall(condition))
    if "IS NULL" in condition:
        keys.add(None)
    return (lambda key: key not in keys) if condition.startswith("NOT ") else (lambda key: key in keys)


def _count(running: Statement, found: re.Match[str]) -> Answer:
    storage = running.metastore.thing(_name(found))
    return [(sum(len(rows) for place, rows in storage.partitions.items() if place[0] == int(found[3])),)]


def _keys(_: Statement, found: re.Match[str]) -> Answer:
    """Each value of the base table's partition column is the key of the view's partition."""
    said = [row.partition(", ") for row in found[1][1:-1].split("), (")]
    return [(int(place), None if value.startswith("CAST(NULL") else value.strip("'"), True) for place, _, value in said]


# --- queries --------------------------------------------------------------------------------------------------

_RELATION = re.compile(r"(?:FROM|JOIN) `?(\w+)`?\.`?(\w+)`?(?!\.)")


@lru_cache(maxsize=10_000)
def relations(text: str) -> tuple[str, ...]:
    return tuple(f"{database}.{table}" for database, table in _RELATION.findall(text.replace("`spark_catalog`.", "")))


def query(running: Statement, text: str) -> Mapping[Key, Rows]:
    """The rows of a query, by partition, all read now: a UNION ALL of relations, or a join whose rows are in the
    partitions of its first one."""
    if (public := shown(text)) is not None:
        storage = running.metastore.thing(public.storage)
        return rows_at(storage, filter(public.has, list(storage.partitions)))
    return combined(text, [relation(running, name) for name in relations(text)])


def combined(text: str, parts: list[Mapping[Key, Rows]]) -> Mapping[Key, Rows]:
    """What a definition makes of the rows of its relations."""
    first, *others = parts
    if " JOIN " not in text:
        found = dict(first)
        for other in others:
            for key, rows in other.items():
                found[key] = found.get(key, NOTHING) | rows
        return found
    joined = [NOTHING.union(*other.values()) for other in others]
    if not all(joined):
        return {}
    return {key: rows.union(*joined) for key, rows in first.items() if rows}


def relation(running: Statement, name: str) -> Mapping[Key, Rows]:
    table = running.metastore.tables.get(name)
    if table is None:
        return query(running, running.metastore.thing(name).text)
    return {partition: rows_of(files) for partition, files in running.session.listed(table)}


def _select(running: Statement, found: re.Match[str]) -> Steps:
    """A client's query of one relation: it is planned first, and its rows are read afterwards."""
    name = f"{found[1]}.{found[2]}"
    if name in running.metastore.tables:
        rows = relation(running, name)
        yield
        return [(key, rows[key]) for key in rows]
    public = shown(running.metastore.thing(name).text)
    if public is None:
        rows = query(running, running.metastore.thing(name).text)
        yield
        return list(rows.items())
    storage = running.metastore.thing(public.storage)
    planned = [place for place in storage.partitions if public.has(place)]
    running.reads = public.storage
    yield
    storage = running.metastore.thing(public.storage)
    rows = rows_at(storage, planned)
    if sum(len(storage.partitions.get(place, NOTHING)) for place in planned) > sum(map(len, rows.values())):
        running.world.violate(f"{name} shows a row twice")
    yield
    return list(rows.items())


def _refresh_table(running: Statement, found: re.Match[str]) -> None:
    running.session.forget(_name(found))


def _types(_: Statement, found: re.Match[str]) -> Answer:
    """Each column is a number."""
    return [(name, "bigint", None) for name in dict.fromkeys(re.findall(r"`(t\d+)`", found[0]))]


def _delta_columns(*_: object) -> Answer:
    """The columns of a table of Delta's, and of its files."""
    return [("k", "bigint", None)]


def _explain_definition(_: Statement, found: re.Match[str]) -> Answer:
    return [(explained(found[0]),)]


# --- looks ----------------------------------------------------------------------------------------------------

_LOCATION = re.compile(r"binaryFile\.`file:/w/(\w+\.\w+)(?:/d=(\w+))?`")


_STORED_FILES = re.compile(r"binaryFile\.`file:/s/(\w+\.\w+)(?:/freshgate_version=(\d+))?`")


def _explain_storage(running: Statement, found: re.Match[str]) -> Answer:
    """The directories in which a query of a storage table would read."""
    public, name = shown(found[1]), f"{found[2]}.{found[3]}"
    assert public is not None
    storage = running.metastore.thing(name)
    paths = [_stored_in(name, storage, place) for place in storage.partitions if public.has(place)]
    return [(f"Location: InMemoryFileIndex({len(paths)} paths)[{', '.join(paths)}], PartitionFilters: []",)]


def _stored_in(name: str, storage: Thing, place: Place) -> str:
    return f"file:/s/{name}/{_path(storage, *place)}"


def _list_stored(running: Statement, found: re.Match[str]) -> Answer:
    answer: Answer = []
    for name, number in _STORED_FILES.findall(found[0]):
        storage = running.metastore.things.get(name)
        places = [] if storage is None else [each for each in storage.partitions if number in {"", str(each[0])}]
        if storage is None or not places:
            raise StatementFailed(f"[PATH_NOT_FOUND] Path does not exist: file:/s/{name}.", "42K03")
        for place in places:
            if rows := storage.partitions[place]:
                answer.append((_stored_in(name, storage, place), hash(rows), 1, len(rows)))
    return answer


def _list_files(running: Statement, found: re.Match[str]) -> Answer:
    answer = _list_stored(running, found) if "`file:/s/" in found[0] else []
    for name, partition in _LOCATION.findall(found[0]):
        table = running.metastore.tables[name]
        for key, files in table.files.items():
            if files and (not partition or key == partition):
                answer.append((_directory(table, key), *_folded(files.values())))
    return answer


def _list_young_files(running: Statement, found: re.Match[str]) -> Answer:
    bound = int(found[1])
    answer: Answer = []
    for name, _ in _LOCATION.findall(found[0]):
        table = running.metastore.tables[name]
        for partition, files in table.files.items():
            directory, older = _directory(table, partition), []
            for file in files.values():
                modified = EPOCH * 1000 + file.written
                if modified > bound:
                    path = _file_path(table, partition, file)
                    answer.append((directory, path, hash((file.name, file.written)), 1, 1, modified))
                else:
                    older.append(file)
            if older:
                answer.append((directory, None, *_folded(older), bound))
    return answer


def _directory(table: Table, partition: str | None) -> str:
    return f"file:/w/{table.name}" + (f"/d={partition}" if table.partitioned else "")


def _folded(files: Any) -> tuple[int, int, int]:
    total = count = 0
    for file in files:
        total ^= hash((file.name, file.written))
        count += 1
    return total, count, count


def _explain_partitions(running: Statement, found: re.Match[str]) -> Answer:
    table = running.metastore.tables[_name(found)]
    paths = ", ".join(_directory(table, partition) for partition in table.files)
    return [(f"Location: InMemoryFileIndex({len(table.files)} paths)[{paths}], PartitionFilters: []",)]


def _delta_history(running: Statement, found: re.Match[str]) -> Answer:
    last = running.metastore.tables[_name(found)].version
    return [
        (version, f"at {version}", None, None, "WRITE") for version in range(last, max(-1, last - int(found[3])), -1)
    ]


_COMMITS = re.compile(r"file:/w/(\w+\.\w+)/_delta_log` WITH \('pathGlobFilter' = '\{([\d,]+)\}")


def _delta_commits(running: Statement, found: re.Match[str]) -> Answer:
    said = _COMMITS.search(found[0])
    assert said is not None
    versions = [int(version) for version in said[2].split(",")]
    last = max(versions)
    return [("data", "[]", last, None, len(versions)), (None, None, last, json.dumps(versions), len(versions))]


def _delta_actions(running: Statement, found: re.Match[str]) -> Answer:
    said = _COMMITS.search(found[0])
    assert said is not None
    table, files = running.metastore.tables[said[1]], dict[int, list[int | None]]()
    versions = [int(version) for version in said[2].split(",")]
    for version in versions:
        added, removed = table.commit(version)
        for number, rows in enumerate((added, removed)):
            for _, _, token in rows:
                files.setdefault(token, [None, None])[number] = version
    answer: Answer = [(True, len(versions), False, *[None] * 9)]
    for token, (came, left) in files.items():
        balanced = came is not None and left is not None
        answer.append((False, 1, False, f"p{token}.parquet", came, left, left, None, 1, False, "{}", balanced))
    return answer


def _no_property(running: Statement, found: re.Match[str]) -> Answer:
    return [(found[3], f"Table {_name(found)} does not have property: {found[3]}")]


# --- what clients change --------------------------------------------------------------------------------------


def _write(running: Statement, found: re.Match[str]) -> Steps:
    """It commits, and is said to have ended later."""
    table = running.metastore.tables.get(name := f"{found[2]}.{found[3]}")
    if table is None:
        running.metastore.thing(name)
        running.world.violate(f"Spark is sent a write to a materialized view: {running.text}")
        return []
    partition, token = _row(found[4] or "")
    now, by = running.world.loop.now, running.gateway
    if found[1] == "INTO":
        table.insert(partition, token, now, by)
    elif found[1] == "OVERWRITE":
        table.replace(partition, token, now, by)
    else:
        table.truncate(now, by)
    running.session.forget(table.name)
    running.world.committed(running, table)
    yield
    return []


def _row(values: str) -> tuple[str | None, int]:
    """Partition and token of `'a', 7`, or of `7`."""
    *partition, token = values.split(", ")
    return (partition[0].strip("'") if partition else None), int(token or 0)


def _said(_: Statement, found: re.Match[str]) -> Answer:
    """What a statement puts together: a variable has the text of one that changes nothing."""
    return [(found[1].strip("'") if found[1] != "said" else "REFRESH TABLE s.t",)]


def _nothing(*_: object) -> None: ...


_PROPERTIES = r"TBLPROPERTIES \((.*)\)"
_EPOCH = r"\S+`freshgate_epoch_\d+`"
_STATEMENTS: tuple[tuple[str, str, Handler], ...] = (
    ("fence", r"DESCRIBE DATABASE EXTENDED `spark_catalog`\.`(\w+)`", _describe_database),
    ("fence", rf"CREATE VIEW {NAME} {_PROPERTIES} AS SELECT 1 AS freshgate_epoch", _create_epoch),
    ("fence", rf"ALTER VIEW (?={_EPOCH}){NAME} SET {_PROPERTIES}", _set),
    ("fence", rf"DROP VIEW IF EXISTS (?={_EPOCH}){NAME}", _drop_epoch),
    ("create", r"CREATE DATABASE IF NOT EXISTS `spark_catalog`\.`(\w+)`", _create_database),
    ("create", rf"CREATE VIEW {NAME}(?: COMMENT '.*?')?(?: {_PROPERTIES})? AS (SELECT .*)", _create_view),
    (
        "create",
        rf"CREATE TABLE {NAME} USING parquet (.*?) {_PROPERTIES} AS SELECT .* FROM {NAME} LIMIT 0",
        _create_storage,
    ),
    ("publish", rf"ALTER VIEW {NAME} AS (.*)", _alter_view),
    ("publish", rf"ALTER VIEW {NAME} RENAME TO `(\w+)`", _rename_view),
    ("props", rf"ALTER (?:VIEW|TABLE) {NAME} SET {_PROPERTIES}", _set),
    ("props", rf"ALTER (?:VIEW|TABLE) {NAME} UNSET TBLPROPERTIES IF EXISTS \((.*)\)", _unset),
    ("drop", rf"ALTER TABLE {NAME} DROP IF EXISTS (PARTITION .*)", _drop_partitions),
    ("drop", rf"DROP (?:VIEW|TABLE) IF EXISTS {NAME}", _drop),
    ("ask", r"SHOW TABLE EXTENDED IN `spark_catalog`\.`(\w+)` LIKE '(.*)'", _show_described),
    ("ask", rf"SHOW PARTITIONS {NAME}", _show_partitions),
    (
        "insert",
        rf"INSERT (OVERWRITE|INTO) {NAME} PARTITION \(freshgate_version\)(?: \([^()]*\))? "
        rf"SELECT \*, CAST\((\d+) AS BIGINT\) FROM {NAME}",
        _insert_whole,
    ),
    (
        "insert",
        rf"INSERT (OVERWRITE|INTO) {NAME} PARTITION \(freshgate_version\) \([^()]*\) "
        r"SELECT \*, CAST\((\d+) AS BIGINT\) FROM \((.*)\) AS freshgate_rows\(.*\)",
        _insert_increment,
    ),
    (
        "insert",
        rf"INSERT (OVERWRITE|INTO) {NAME} PARTITION \(freshgate_version = (\d+), `freshgate_partition`\) \([^()]*\) "
        rf"SELECT .* FROM \(SELECT \*, .* AS `freshgate_partition` FROM {NAME}(?: WHERE (.*))?\)",
        _insert_parts,
    ),
    (
        "insert",
        rf"INSERT (OVERWRITE|INTO) {NAME} PARTITION \(freshgate_version = (\d+), `freshgate_partition`\) \([^()]*\) "
        r"SELECT .* FROM \(SELECT \*, .*? AS `freshgate_partition` FROM \((.*)\) AS freshgate_rows\([^()]*\)"
        r"(?: WHERE (.*))?\)",
        _insert_increment_parts,
    ),
    ("ask", rf"SELECT count\(\*\) FROM {NAME} WHERE freshgate_version = (\d+)", _count),
    ("ask", r"SELECT place, CAST\(.* FROM VALUES (.*) AS partitions\(place, value0\)\)", _keys),
    ("ask", rf"REFRESH TABLE {NAME}", _refresh_table),
    ("ask", r"REFRESH '.*'", _nothing),  # It is for rows that CACHE TABLE keeps.
    ("ask", r"EXPLAIN EXTENDED \(?SELECT .*", _explain_definition),
    ("look", r"SELECT left\(path, .*", _list_files),
    ("look", r"SELECT directory, file, .* > (\d+) THEN .*", _list_young_files),
    ("look", rf"EXPLAIN (SELECT 1 FROM {NAME} WHERE freshgate_version .*)", _explain_storage),
    ("look", rf"EXPLAIN SELECT 1 FROM {NAME} WHERE .*", _explain_partitions),
    ("look", rf"DESCRIBE DETAIL {NAME}", lambda *_: [("1",)]),
    ("look", rf"DESCRIBE HISTORY {NAME} LIMIT (\d+)", _delta_history),
    ("look", r"SELECT kind, detail.*", _delta_commits),
    ("look", r"SELECT grouping\(path\) = 1, .*", _delta_actions),
    ("ask", rf"SHOW TBLPROPERTIES {NAME} \('(.*)'\)", _no_property),
    ("ask", r"DESCRIBE QUERY SELECT \* FROM .*", _types),
    ("ask", r"DESCRIBE QUERY SELECT `k` FROM parquet\..*", _delta_columns),
    ("ask", rf"DESCRIBE (?:TABLE )?{NAME}", _delta_columns),
    ("ask", r"SELECT \((said|'.*')\)", _said),
    ("ask", r"EXECUTE IMMEDIATE (?:said|'REFRESH TABLE .*)", _nothing),
    ("ask", r"SELECT current_catalog\(\), current_database\(\)", lambda *_: [("spark_catalog", "default")]),
    ("read", r"SELECT \* FROM (\w+)\.(\w+)", _select),
    ("write", r"INSERT (INTO|OVERWRITE) (\w+)\.(\w+) VALUES \((.*)\)", _write),
    ("write", r"TRUNCATE TABLE()? (\w+)\.(\w+)()?", _write),
)


_BY_WORD: dict[str, list[tuple[str, re.Pattern[str], Handler]]] = {}
for _kind, _pattern, _handler in _STATEMENTS:
    _BY_WORD.setdefault(_pattern.partition(" ")[0], []).append((_kind, re.compile(_pattern, re.DOTALL), _handler))
