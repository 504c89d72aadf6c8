"""Generates the statements that create, refresh, alter and drop a materialized view: its definition view and its
storage table. `public_view` has those of its public view.

Each function returns one statement for Spark that means the same in every session: names are quoted and begin with the
catalog, and literals do not depend on the session's settings.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from sql.names import TableName, quote, quoted_database
from sql.statement import Clustering, CreateClauses, Distribution, ListedColumn, Partitioning
from sql.texts.literals import comment_clause, partition_value, property_list, safe_literal, string_token
from sql.texts.public_view import shown_rows
from sql.texts.storage_layout import (
    ALL,
    DEFAULT_PARTITION,
    PLACE,
    SHOWN_COLUMN,
    UNPARTITIONED,
    VERSION_COLUMN,
    PartitionKey,
    Selection,
    Shown,
    StorageLayout,
    divided,
    partition_columns,
    selected,
    shown_condition,
)

STAGED: Mapping[str, str] = {"spark.sql.sources.partitionOverwriteMode": "dynamic"}
"""The settings of sessions that run `insert_version`."""
_STAGED_TABLE: Mapping[str, str] = {"partitionOverwriteMode": "dynamic"}
PLAIN = CreateClauses()
NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})


def create_database(database: str) -> str:
    return f"CREATE DATABASE IF NOT EXISTS {quoted_database(database)}"


def describe(table: TableName) -> str:
    """Rows of column, declared type and comment."""
    return f"DESCRIBE TABLE {table.quoted}"


def describe_bare(name: str) -> str:
    """A row of JSON: what an unqualified name means in the session. A temporary view precedes other relations."""
    return f"DESCRIBE TABLE EXTENDED {quote(name)} AS JSON"


def is_of_session(described: Mapping[str, object]) -> bool:
    """Whether the answer to `describe_bare` describes a temporary view."""
    return described.get("catalog_name") == "system" and described.get("type") == "VIEW"


def describe_database(database: str) -> str:
    return f"DESCRIBE DATABASE EXTENDED {quoted_database(database)}"


def read_database_location(rows: Iterable[Sequence[str]]) -> str | None:
    """The directory of the database's tables in the answer to `describe_database`."""
    return next((row[1] for row in rows if row[0] == "Location" and row[1]), None)


def create_definition(
    definition: TableName,
    query: str,
    columns: Sequence[ListedColumn] = (),
    properties: Mapping[str, str] = NO_PROPERTIES,
) -> str:
    """The view that holds the definition. The user's query is not changed."""
    listed = ", ".join(quote(column.name) + comment_clause(column.comment) for column in columns)
    kept = f" TBLPROPERTIES ({property_list(properties)})" if properties else ""
    return f"CREATE VIEW {definition.quoted}{f' ({listed})' if listed else ''}{kept} AS {query}"


def create_temporary(name: str, query: str, columns: Sequence[ListedColumn] = ()) -> str:
    """Creates a temporary view, or replaces it."""
    listed = f" ({', '.join(quote(column.name) for column in columns)})" if columns else ""
    return f"CREATE OR REPLACE TEMPORARY VIEW {quote(name)}{listed} AS {query}"


def create_storage(
    storage: TableName,
    definition: TableName,
    properties: Mapping[str, str],
    comment: str | None = None,
    clauses: CreateClauses = PLAIN,
    columns: Sequence[str] = (),
    layout: StorageLayout = UNPARTITIONED,
    *,
    staged: bool = True,
) -> str:
    """The managed table for the versions' rows, with one or more partitions per version; created empty.

    It is created from the definition, because Spark does not print every type in a form that it can parse again. If the
    rows are open, it stays empty.
    """
    file_format = "parquet" if layout.open is not None else clauses.file_format or "parquet"
    partitions, selected = quote(VERSION_COLUMN), f"CAST(0 AS BIGINT) AS {quote(VERSION_COLUMN)}"
    for name, part in layout.places.items() if layout.open is None else ():
        partitions += f", {quote(name)}"
        selected += f", {part.row_key} AS {quote(name)}"
    return (
        f"CREATE TABLE {storage.quoted} USING {file_format} "
        f"{f'OPTIONS ({property_list(_STAGED_TABLE)}) ' if staged else ''}"
        f"PARTITIONED BY ({partitions}){_buckets(clauses.distribution)}{comment_clause(comment)} "
        f"TBLPROPERTIES ({property_list(properties)}) "
        f"AS SELECT {layout.stored(columns)}, {selected} FROM {definition.quoted} LIMIT 0"
    )


def _buckets(distribution: Distribution | None) -> str:
    """Spark's clause for buckets; empty unless both the columns and the number are given."""
    if distribution is None or not distribution.columns or distribution.buckets is None:
        return ""
    order = f" SORTED BY ({_listed(distribution.sorted_by)})" if distribution.sorted_by else ""
    return f" CLUSTERED BY ({_listed(distribution.columns)}){order} INTO {distribution.buckets} BUCKETS"


def explain_shown(storage: TableName, shown: Shown, layout: StorageLayout) -> str:
    """Prints the directories in which Spark would read the rows of a version (`observation.explained_paths`)."""
    return f"EXPLAIN SELECT 1 FROM {storage.quoted} WHERE {shown_condition(replace(shown, flagged=False), layout)}"


@dataclass(frozen=True, slots=True)
class RowsQuery:
    """Where the rows of a version come from, if not from the definition view: a query with the view's columns and then
    the `hidden` ones."""

    query: str
    hidden: tuple[str, ...] = ()
    adds: bool = False
    """Whether other tasks read the rows that were added than those that are there."""


@dataclass(frozen=True, slots=True)
class RowsThatStay:
    """What a version of open rows has of the current one: all rows, or copies of partitions that are not written."""

    shown: Shown | None = None
    """What the current version shows, to copy from; None: all rows stay where they are."""
    lacking: Mapping[str, str] = field(default_factory=dict)
    """Columns that the version does not have yet, and their types."""


def _open_rows(
    columns: Sequence[str],
    relation: str,
    layout: StorageLayout,
    conditions: Sequence[str],
    stays: RowsThatStay | None,
    order: str,
) -> str:
    """The query for all rows of a version of open rows."""
    assert layout.open is not None
    listed, by = _listed(columns), layout.open_by
    # Without the hint, each of Spark's tasks would write its own file into each partition.
    hint = f"/*+ REBALANCE({_listed(by)}) */ " if by and not order else ""
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    if stays is None or stays.shown is None:
        return f"SELECT {hint}{listed} FROM {relation}{where}{order}"
    chosen, *window = conditions
    others = " AND ".join((f"NOT coalesce({chosen}, false)", *window))
    copied = ", ".join(
        f"CAST(NULL AS {stays.lacking[column]}) AS {quote(column)}" if column in stays.lacking else quote(column)
        for column in columns
    )
    both = (
        f"SELECT {listed} FROM {relation}{where} UNION ALL "
        f"SELECT {copied} FROM {layout.open.at(stays.shown.snapshot)} WHERE {others}"
    )
    return f"SELECT {hint}{listed} FROM ({both}){order}"


def insert_version(
    storage: TableName,
    source: TableName | RowsQuery,
    version: int,
    clustering: Clustering | None = None,
    columns: Sequence[str] = (),
    layout: StorageLayout = UNPARTITIONED,
    selection: Selection = ALL,
    window: str | None = None,
    *,
    staged: bool = True,
    stays: RowsThatStay | None = None,
) -> str:
    """Writes the rows of a version, or of some of its partitions. Version numbers are never reused, so a version holds
    only partitions that the same refresh wrote.

    Concurrent INSERT INTO statements on one table share the directory of uncommitted files, and the first to finish
    empties it: an abandoned refresh could thus remove rows of the next one. `staged` gives each statement a directory
    of its own: Spark creates one for INSERT OVERWRITE with dynamic partitions (HadoopMapReduceCommitProtocol). That
    statement replaces the partitions for which it has rows; here there are none to replace. In static mode Spark would
    replace all matching partitions, so both the table (`create_storage`) and the session (STAGED) set dynamic mode.

    `window` is another condition on rows (see `within`). `source`: the definition view, or a query. The columns are
    named because the storage table may have hidden ones that are not written. `stays`: only for open rows; None:
    nothing does.
    """
    insert = "INSERT OVERWRITE" if staged else "INSERT INTO"
    if isinstance(source, RowsQuery):
        columns = (*columns, *source.hidden)
        relation = f"({source.query}) AS freshgate_rows({_listed(columns)})"
    else:
        relation = source.quoted
    conditions = [text for text in (selected(selection, layout), window) if text]
    if layout.open is not None:
        rows = _open_rows(columns, relation, layout, conditions, stays, _order(clustering, layout.open_by))
        return layout.open.insert(columns, rows, appends=stays is not None and stays.shown is None)
    if not layout.partitioned:
        named = f" ({_listed((*columns, VERSION_COLUMN))})" if columns else ""
        return (
            f"{insert} {storage.quoted} PARTITION ({VERSION_COLUMN}){named} "
            f"SELECT *, CAST({version} AS BIGINT) FROM {relation}{_order(clustering, ())}"
        )
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    # Without the hint, each of Spark's tasks would write its own file into each partition.
    places = _listed(layout.places)
    alone = _is_one(selection) and not (isinstance(source, RowsQuery) and source.adds)
    hint = "" if clustering or alone else f"/*+ REBALANCE({places}) */ "
    listed = layout.stored(columns)
    listed = f"{listed if listed != '*' else _listed(columns)}, {places}"
    guarded = ", ".join(f"{_guarded(part)} AS {quote(name)}" for name, part in layout.places.items())
    return (
        f"{insert} {storage.quoted} PARTITION ({VERSION_COLUMN} = {version}, {places}) ({listed}) "
        f"SELECT {hint}{listed} "
        f"FROM (SELECT *, {guarded} FROM {relation}{where})"
        f"{_order(clustering, tuple(layout.places))}"
    )


def _order(clustering: Clustering | None, before: tuple[str, ...]) -> str:
    """Spark sorts by the partition columns before it writes, so only an order that begins with them is kept."""
    if clustering is None:
        return ""
    order = f" DISTRIBUTE BY {_listed((*before, *clustering.distributed))}"
    return order + (f" SORT BY {_listed((*before, *clustering.sorted_by))}" if clustering.sorted_by else "")


def _is_one(selection: Selection) -> bool:
    return not selection.all_but and len(selection.keys) == 1


def _guarded(layout: StorageLayout) -> str:
    """A row's value of a partition column, or an error for strings that partitions do not distinguish from NULL."""
    key = layout.row_key
    if not layout.holds_column or layout.kind != "string":
        return key
    message = (
        f"The partition column {layout.column} contains an empty string (or {DEFAULT_PARTITION}), which Spark does not "
        "distinguish from NULL in a partition. Recreate the view with CREATE OR REPLACE, which then stores such values "
        "differently, or partition it by another column."
    )
    return f"CASE WHEN {key} IN ('', '{DEFAULT_PARTITION}') THEN raise_error({safe_literal(message)}) ELSE {key} END"


OF_VIEW = "of_view"
"""The view's first partition column in the query of `partition_keys`."""
KEY = "key"
"""A partition's key in the query of `keys_without`."""


def partition_keys(
    values: Sequence[Sequence[PartitionKey]],
    followed: Sequence[tuple[str, str]],
    layout: StorageLayout,
    window: str,
) -> str:
    """Rows of (position in `values`, key of the view's partition that follows from these, whether that partition is
    within the window).

    `values` have the texts of a base table's partition columns, one for each of the view's. `followed` are the types of
    these columns, and the view's columns as SQL of them; `window` is a condition on OF_VIEW. Spark computes the keys in
    the same way as when it writes rows, so that both are the same texts.
    """
    names = [f"value{place}" for place in range(len(followed))]
    columns = [OF_VIEW, *(f"{OF_VIEW}{place}" for place in range(1, len(followed)))]
    computed = []
    for name, column, part, (kind, expression) in zip(names, columns, layout.parts, followed, strict=True):
        base = name if kind == "string" else f"try_cast({name} AS {kind})"
        computed.append(f"CAST({expression.replace(PLACE, base)} AS {part.kind}) AS {column}")
    rows = (f"({place}, {', '.join(map(_text, each))})" for place, each in enumerate(values))
    return (
        f"SELECT place, {layout.key_sql(columns)}, coalesce({window or 'true'}, false) FROM ("
        f"SELECT place, {', '.join(computed)} FROM VALUES {', '.join(rows)} AS partitions(place, {', '.join(names)}))"
    )


def keys_without(keys: Iterable[PartitionKey], condition: str) -> str:
    """Rows of the keys that do not meet a condition on KEY."""
    return f"SELECT {KEY} FROM {_inline(keys)} AS partitions({KEY}) WHERE NOT coalesce({condition}, false)"


def keys_meeting(keys: Iterable[PartitionKey], layout: StorageLayout, condition: str) -> str:
    """Rows of the keys for which a condition on the view's columns is true. The storage's partitions hold these."""
    names = [f"value{place}" for place in range(len(layout.parts))]
    columns = ", ".join(
        f"CAST({name} AS {part.kind}) AS {quote(part.column)}"
        for name, part in zip(names, layout.parts, strict=True)
        if part.holds_column
    )
    rows = (f"({', '.join(map(_text, (key, *divided(key, len(layout.parts)))))})" for key in keys)
    inline = f"VALUES {', '.join(rows)} AS partitions({KEY}, {', '.join(names)})"
    return f"SELECT {KEY} FROM (SELECT {KEY}, {columns} FROM {inline}) WHERE {condition}"


def _inline(values: Iterable[PartitionKey]) -> str:
    return f"VALUES {', '.join(f'({_text(value)})' for value in values)}"


def _text(value: PartitionKey) -> str:
    return "CAST(NULL AS STRING)" if value is None else safe_literal(value)


def within(moment: str, unit: str, limit: int, whole: str | None) -> str:
    """The condition that a moment is within the last `limit` units (DAY, MONTH, YEAR) including the current one, or in
    the same `whole` unit as the first of them."""
    first = f"date_trunc('{unit}', current_timestamp()) - INTERVAL {limit - 1} {unit}"
    return f"{moment} >= " + (first if whole is None else f"date_trunc('{whole}', {first})")


def partly_recomputed(
    stored: str, recomputed: str, columns: Sequence[str], touched: Selection, layout: StorageLayout
) -> str:
    """The query for the `recomputed` rows of a selection, and all other `stored` rows; both are queries."""
    others = selected(Selection(touched.keys, all_but=not touched.all_but), layout)
    return (
        f"(SELECT * FROM ({stored}) AS freshgate_stored WHERE {others}) UNION ALL "
        f"(SELECT * FROM ({recomputed}) AS freshgate_again({_listed(columns)}) WHERE {selected(touched, layout)})"
    )


def past_rows(
    storage: TableName, columns: Sequence[str], hidden: Sequence[str], shown: Shown, layout: StorageLayout
) -> str:
    """The query for the rows of a version that readers see, with the `hidden` columns; they stay shown."""
    written = "".join(f", true AS {quote(name)}" if name == SHOWN_COLUMN else f", {quote(name)}" for name in hidden)
    stored = shown_rows(storage, (*columns, *hidden), shown, layout)
    return f"SELECT {_listed(columns)}{written} FROM ({stored}) AS freshgate_past"


def rows_meeting(rows: RowsQuery, columns: Sequence[str], condition: str) -> RowsQuery:
    """Those of the rows for which the condition on `columns` is true."""
    listed = _listed((*columns, *rows.hidden))
    query = f"SELECT {listed} FROM ({rows.query}) AS freshgate_rows({listed}) WHERE {condition}"
    return replace(rows, query=query)


def with_past(stored: str, rows: RowsQuery, columns: Sequence[str], past: str) -> RowsQuery:
    """The rows without those that meet the condition `past`, which is never NULL, and those of the query `stored` that
    do."""
    kept = rows_meeting(replace(rows, query=stored), columns, past).query
    return replace(rows, query=f"({kept}) UNION ALL ({rows_meeting(rows, columns, f'NOT {past}').query})")


def rows_of_definition(definition: TableName, columns: Sequence[str]) -> str:
    return f"SELECT {_listed(columns)} FROM {definition.quoted}"


def add_columns(storage: TableName, columns: Mapping[str, str]) -> str:
    """Adds at least one hidden column; `columns` are their types by name."""
    listed = ", ".join(f"{quote(name)} {kind}" for name, kind in columns.items())
    return f"ALTER TABLE {storage.quoted} ADD COLUMNS ({listed})"


def explained_plans(query: str) -> str:
    """One row: the analyzed and the optimized plan of a query, with other text."""
    return f"EXPLAIN EXTENDED {query}"


def query_types(query: str) -> str:
    """Rows of (column, type, comment) of a query; reads no rows."""
    return f"DESCRIBE QUERY {query}"


def explained_padding(table: TableName, columns: Iterable[str]) -> str:
    """Asks for the plan of comparisons with columns of texts: see `PADS`."""
    compared = " OR ".join(f"{quote(column)} = ''" for column in columns)
    return f"EXPLAIN EXTENDED SELECT 1 FROM {table.quoted} WHERE {compared}"


PADS = "rpad("
"""What the plan of `explained_padding` calls if one of the columns is of the type CHAR."""


def partition_rows(storage: TableName, shown: Shown, layout: StorageLayout) -> str:
    """Rows of (key, number of rows) for each shown partition; reads no rows of files."""
    key, rows = layout.stored_key, f"{storage.quoted} WHERE {shown_condition(shown, layout)}"
    if layout.open is not None:
        key, rows = layout.all_keys, layout.open.at(shown.snapshot)
    return f"SELECT {key} AS key, count(*) AS n FROM {rows} GROUP BY {key} ORDER BY key"


def show_partitions(table: TableName) -> str:
    return f"SHOW PARTITIONS {table.quoted}"


def place_version(storage: TableName, version: int, location: str) -> str:
    """Places a version's files below `location`, in a directory named after the storage table.

    The table stays managed, so that dropping the version deletes its files.
    """
    path = f"{location.rstrip('/')}/{storage.table}/{VERSION_COLUMN}={version}"
    return f"ALTER TABLE {storage.quoted} ADD PARTITION ({VERSION_COLUMN} = {version}) LOCATION {string_token(path)}"


def rename_table(table: TableName, renamed: TableName) -> str:
    """Renames a table within its database."""
    return f"ALTER TABLE {table.quoted} RENAME TO {quote(renamed.table)}"


def rename_view(view: TableName, renamed: TableName) -> str:
    """Renames a view within its database. Spark accepts no catalog in the new name."""
    return f"ALTER VIEW {view.quoted} RENAME TO {quote(renamed.table)}"


def analyze(storage: TableName, rest: str) -> str:
    """Computes statistics of the stored rows; `rest` is what follows the name in ANALYZE TABLE."""
    return f"ANALYZE TABLE {storage.quoted} {rest}"


def measure_versions(kept: Iterable[tuple[TableName, Sequence[Shown], StorageLayout]]) -> str:
    """Rows of (storage, version, rows, bytes) for each version with rows; reads no column. Of each view, what its
    versions show that are kept, the current one last; rows of earlier versions that it shows count for that one."""
    return " UNION ALL ".join(
        f"SELECT {safe_literal(storage.table)} AS storage, version, n, bytes FROM "
        f"({layout.open.sizes((each.number, each.snapshot) for each in shown)})"
        if layout.open is not None
        else f"SELECT {safe_literal(storage.table)} AS storage, version, sum(n) AS n, sum(bytes) AS bytes FROM ("
        f"SELECT {_counted_as(shown[-1], layout)} AS version, _metadata.file_path AS path, "
        f"max(_metadata.file_size) AS bytes, count(*) AS n FROM {storage.quoted} GROUP BY 1, 2) GROUP BY version"
        for storage, shown, layout in kept
    )


def measure_shown(storage: TableName, shown: Iterable[Shown], layout: StorageLayout) -> str:
    """Rows of (version, rows, bytes) with what each version shows; reads no column."""
    if layout.open is not None:
        return layout.open.sizes((version.number, version.snapshot) for version in shown)
    return " UNION ALL ".join(
        f"SELECT {version.number} AS version, sum(n) AS n, sum(bytes) AS bytes FROM ("
        f"SELECT _metadata.file_path AS path, max(_metadata.file_size) AS bytes, count(*) AS n FROM {storage.quoted} "
        f"WHERE {shown_condition(version, layout)} GROUP BY 1)"
        for version in shown
    )


def stored_bytes(storage: TableName, shown: Iterable[Shown], layout: StorageLayout) -> str:
    """One row: the bytes of all files of a storage table, of which versions show these contents; NULL if it has
    none."""
    if layout.open is not None:
        return layout.open.bytes(each.snapshot for each in shown if each.snapshot)
    return (
        f"SELECT sum(bytes) FROM (SELECT _metadata.file_path AS path, max(_metadata.file_size) AS bytes "
        f"FROM {storage.quoted} GROUP BY 1)"
    )


def _counted_as(shown: Shown, layout: StorageLayout) -> str:
    if not layout.partitioned and len(shown.ranges) == 1 and shown.ranges[0][0] == shown.number:
        return VERSION_COLUMN
    return f"CASE WHEN {shown_condition(shown, layout)} THEN {shown.number} ELSE {VERSION_COLUMN} END"


def count_version(storage: TableName, version: int) -> str:
    """One row: the number of rows that a refresh wrote."""
    return f"SELECT count(*) FROM {storage.quoted} WHERE {VERSION_COLUMN} = {version}"


def partition_values(
    source: TableName, partitioning: Partitioning, version: int | None, texts: Collection[str], date_format: str
) -> str:
    """Rows of (number of rows, value as text, name of its type, value of the next column, ...) for each of the view's
    own partitions.

    `source` is the storage table if a version is given, otherwise the definition. `date_format` is the pattern of times
    in columns of strings, whose names in lower case are `texts`.
    """
    names = [f"value{place}" for place in range(len(partitioning.parts))]
    values = []
    for part in partitioning.parts:
        column = moment = quote(part.column)
        if part.column.lower() in texts:
            moment = f"try_to_timestamp({column}, {safe_literal(date_format)})"
        values.append(column if part.unit is None else f"date_trunc('{part.unit}', {moment})")
    where = "" if version is None else f" WHERE {VERSION_COLUMN} = {version}"
    listed = ", ".join(f"{value} AS {name}" for value, name in zip(values, names, strict=True))
    grouped = ", ".join(str(place) for place in range(1, len(names) + 1))
    return (
        f"SELECT n, {', '.join(f'CAST({name} AS STRING), typeof({name})' for name in names)} FROM ("
        f"SELECT {listed}, count(*) AS n FROM {source.quoted}{where} GROUP BY {grouped}) ORDER BY {', '.join(names)}"
    )


def definition_keys(definition: TableName, layout: StorageLayout, window: str) -> str:
    """Rows of the key of each partition that a complete refresh would write; `window` is a condition on the column."""
    key = layout.all_keys
    within = f" WHERE {window}" if window else ""
    return f"SELECT DISTINCT {key} AS {KEY} FROM {definition.quoted}{within} ORDER BY 1"


def explain_definition(definition: TableName) -> str:
    """Shows the analyzed plan, which contains the functions that the definition calls."""
    return explained_plans(f"SELECT * FROM {definition.quoted}")


def describe_rows(definition: TableName) -> str:
    """Fails like a query of the definition if a table that it reads is missing; reads no rows."""
    return f"DESCRIBE QUERY SELECT * FROM {definition.quoted}"


def drop_versions(storage: TableName, versions: Iterable[int]) -> str:
    """Drops all partitions of at least one version."""
    listed = ", ".join(f"PARTITION ({VERSION_COLUMN} = {version})" for version in versions)
    if not listed:
        raise ValueError("no version to drop")
    return f"ALTER TABLE {storage.quoted} DROP IF EXISTS {listed}"


def drop_partitions(storage: TableName, partitions: Iterable[tuple[int, PartitionKey]], columns: int = 1) -> str:
    """Drops at least one of the view's own partitions with its files; missing partitions are ignored. `columns`: how
    many partition columns the view has."""
    listed = ", ".join(
        f"PARTITION ({VERSION_COLUMN} = {version}, {_place(divided(key, columns))})" for version, key in partitions
    )
    if not listed:
        raise ValueError("no partition to drop")
    return f"ALTER TABLE {storage.quoted} DROP IF EXISTS {listed}"


def _place(values: Sequence[PartitionKey]) -> str:
    named = zip(partition_columns(len(values)), values, strict=True)
    return ", ".join(f"{quote(name)} = {'NULL' if value is None else partition_value(value)}" for name, value in named)


def set_properties(storage: TableName, properties: Mapping[str, str]) -> str:
    """Sets at least one property."""
    if not properties:
        raise ValueError("no property to set")
    return f"ALTER TABLE {storage.quoted} SET TBLPROPERTIES ({property_list(properties)})"


def set_view_properties(view: TableName, properties: Mapping[str, str], comment: str | None) -> str:
    """Sets properties and comment of the public view. The metastore stores the comment as a property."""
    return f"ALTER VIEW {view.quoted} SET TBLPROPERTIES ({property_list({**properties, 'comment': comment or ''})})"


def set_definition_properties(definition: TableName, properties: Mapping[str, str]) -> str:
    """Sets at least one property."""
    return f"ALTER VIEW {definition.quoted} SET TBLPROPERTIES ({property_list(properties)})"


def unset_view_properties(view: TableName, keys: Iterable[str]) -> str:
    """Unsets at least one property."""
    return f"ALTER VIEW {view.quoted} UNSET TBLPROPERTIES IF EXISTS ({', '.join(map(string_token, keys))})"


def unset_properties(storage: TableName, keys: Iterable[str]) -> str:
    """Unsets at least one property; missing ones are ignored."""
    listed = ", ".join(map(string_token, keys))
    if not listed:
        raise ValueError("no property to unset")
    return f"ALTER TABLE {storage.quoted} UNSET TBLPROPERTIES IF EXISTS ({listed})"


def refresh_listing(definition: TableName) -> str:
    """Refreshes the session's cached file listings of everything that the definition reads, also through views and
    subqueries; for a path, what Spark has cached of its files."""
    return f"REFRESH {safe_literal(definition.path)}" if definition.path else f"REFRESH TABLE {definition.quoted}"


def drop_view(view: TableName) -> str:
    return f"DROP VIEW IF EXISTS {view.quoted}"


def drop_table(table: TableName) -> str:
    return f"DROP TABLE IF EXISTS {table.quoted}"


def _listed(columns: Iterable[str]) -> str:
    return ", ".join(map(quote, columns))
