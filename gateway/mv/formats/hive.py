"""Tables of Hive's formats: files in directories, which Spark may read as Parquet or ORC of its own.

A query of such a table cannot tell the file of a row, so new files are named by their paths.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

from gateway.mv.formats.file_schemas import difference
from gateway.mv.formats.files import FileTables
from gateway.mv.formats.table_format import Change, columns_of
from gateway.mv.formats.young_files import EVER, YoungFiles
from gateway.mv.model.marks import Mark, YoungFile
from gateway.mv.model.snapshot import PartitionValues
from gateway.mv.model.spark_types import sql_type
from gateway.mv.ports import Relation, SqlSession
from sql.increments.reasons import NotIncremental, Reason
from sql.texts import additions, hive_texts, maintenance, observation

_ORC = "orc"
CONVERSIONS = {
    "parquet": "spark.sql.hive.convertMetastoreParquet",
    "orc": "spark.sql.hive.convertMetastoreOrc",
}
"""Settings with which Spark reads Hive tables as files of a format of its own, by `Relation.converted`. A view does not
keep them, so those of the service sessions apply."""


class HiveTables(FileTables):
    title = "a Hive table"
    providers = frozenset({"hive"})
    paths = frozenset()

    def check(self, relation: Relation) -> None:
        if not relation.converted:
            raise NotIncremental(Reason.HIVE_TEXT, f"Spark reads {relation.name} with Hive's classes")
        super().check(relation)

    def hindrance(self, relation: Relation, is_on: Callable[[str], bool]) -> NotIncremental | None:
        if is_on(setting := CONVERSIONS[relation.converted]):
            return None
        why = f"Spark reads {relation.name} with Hive's classes, because {setting} is off"
        return NotIncremental(Reason.HIVE_TEXT, why)

    async def _change(self, relation: Relation, now: Mark, found: YoungFiles, new: Sequence[YoungFile]) -> Change:
        if not new:
            return Change(now)
        async with self._tools.listings.session() as session:
            rows = await added(session, relation, new, found.places)
        return Change(now, rows, bytes=sum(file.bytes for file in new))

    def rows(self, relation: Relation, mark: Mark) -> str:
        return additions.all_rows(relation.name, columns_of(relation))

    def reads_until(self, mark: Mark) -> int:
        return EVER


async def added(
    session: SqlSession, relation: Relation, files: Sequence[YoungFile], places: Mapping[PartitionValues, str] | None
) -> str:
    """The query for the rows of these files, in the table's columns. `places`: as `FileTables.places`. Raises
    NotIncremental if the table does not simply show what is in the files, and what Spark raises."""
    if odd := next((file for file in files if not additions.is_plain(file.path.rpartition("/")[2])), None):
        raise NotIncremental(Reason.PROVIDER, f"{relation.name} has a new file with an unusual name: {odd.path}")
    columns = {name: _partition_type(relation, name, kind) for name, kind in relation.columns}
    root = observation.plain_path(relation.location)
    if outside := next((file for file in files if not observation.is_within(file.directory, root)), None):
        raise NotIncremental(Reason.PROVIDER, f"{relation.name} has a new file outside its location: {outside.path}")
    pattern = hive_texts.pattern_of(root, (file.directory for file in files))
    query = hive_texts.converted_files(relation.converted, pattern, columns, _values(relation, root, files, places))
    if why := await difference(session, relation, query):
        raise NotIncremental(Reason.PROVIDER, why)
    if relation.converted == _ORC:
        stored = hive_texts.columns_of_files(relation.converted, pattern, (file.path for file in files))
        await _check_order(session, relation, stored, [name for name, type_ in columns.items() if type_ is None])
    return query


def _partition_type(relation: Relation, name: str, kind: str) -> str | None:
    if name not in relation.partition_columns:
        return None
    if not additions.is_simple(kind):
        raise NotIncremental(Reason.PROVIDER, f"{relation.name} is partitioned by {name}, a {json.loads(kind)['name']}")
    return sql_type(kind)


def _values(
    relation: Relation, root: str, files: Iterable[YoungFile], places: Mapping[PartitionValues, str] | None
) -> dict[str, PartitionValues]:
    """The values of the partition columns, by the path of the file."""
    if places is None:
        places = {(): root}
    at: dict[str, list[PartitionValues]] = {}
    for values, place in places.items():
        at.setdefault(place, []).append(values)
    found = {}
    for file in files:
        # Whether Spark also reads the directories below, depends on its settings.
        if len(here := at.get(file.directory, [])) != 1:
            where = f"{file.path}, which is not in the directory of one partition"
            raise NotIncremental(Reason.PROVIDER, f"{relation.name} has a new file {where}")
        found[file.path] = here[0]
    return found


async def _check_order(session: SqlSession, relation: Relation, query: str, columns: Sequence[str]) -> None:
    """Spark reads an ORC file without names, as Hive writes them (`_col0`), by the places of the columns: those of the
    table, but for `query` those of all columns that it finds in any of the files."""
    stored = [name.lower() for name, *_ in (await session.run(maintenance.query_types(query))).rows]
    if stored != [name.lower() for name in columns]:
        why = f"new files with other columns, or in another order: {', '.join(stored)}"
        raise NotIncremental(Reason.PROVIDER, f"{relation.name} has {why}")
