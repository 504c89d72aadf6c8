"""Creates thousands of materialized views in seconds instead of hours.

The gateway creates and builds one view over each of a few empty tables. All other views are written straight into the
metastore: each has a storage table with an id of its own, a definition and a public view, as the gateway would have
stored them. Their rows are right, too: there are none, because the base tables are empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from clients import pyhive, rows
from processes import Engine, Gateway

from gateway.mv.catalog import naming
from gateway.mv.model import properties as stored
from gateway.mv.model.view import MaterializedView
from sql.names import TableName
from sql.texts import literals, maintenance

DATABASE = "many"
STORAGE = "many_storage"
"""The storage database of the gateway that creates them."""
TABLES = 10
CREATORS = 6


def create_tables(engine: Engine) -> None:
    """Creates the database and the base tables."""
    with pyhive(engine.host, engine.port) as cursor:
        rows(cursor, f"CREATE DATABASE {DATABASE}")
        for number in range(TABLES):
            rows(cursor, f"CREATE TABLE {DATABASE}.t{number} (g STRING, a INT) USING parquet")


def create_views(engine: Engine, gateway: Gateway, views: int) -> None:
    """Creates this many views: v0, v1, ... The gateway knows the first ones only; stop it, or start it again."""
    with pyhive(gateway.host, gateway.port, database=DATABASE) as cursor:
        for number in range(min(views, TABLES)):
            trigger = "SCHEDULE EVERY 1 DAY" if number % 2 else "COMMIT"
            rows(cursor, f"CREATE MATERIALIZED VIEW v{number} REFRESH AUTO ON {trigger} AS {_query(number)}")
    models = list(_models(engine, gateway.storage))

    def copy(numbers: Sequence[int]) -> None:
        with pyhive(engine.host, engine.port) as cursor:
            for number in numbers:
                for statement in _statements(models[number % TABLES], number):
                    rows(cursor, statement)

    with ThreadPoolExecutor(CREATORS) as pool:
        list(pool.map(copy, [range(TABLES + first, views, CREATORS) for first in range(CREATORS)]))


@dataclass(frozen=True)
class _Model:
    """A view that the gateway has created."""

    view: MaterializedView
    tasks: dict[str, str]
    """The properties of its refresh tasks."""


def _query(number: int) -> str:
    return f"SELECT g, count(*) AS n, sum(a) AS s FROM {DATABASE}.t{number % TABLES} WHERE a > {number} GROUP BY g"


def _models(engine: Engine, storage_database: str) -> Iterator[_Model]:
    """One for each base table, in their order."""
    found = {}
    with pyhive(engine.host, engine.port) as cursor:
        for _, table, _ in rows(cursor, f"SHOW TABLES IN {storage_database} LIKE '{DATABASE}__v*'"):
            if table.endswith(naming.DEFINITION_SUFFIX):
                continue
            storage = TableName(storage_database, table)
            properties = dict(rows(cursor, f"SHOW TBLPROPERTIES {storage.quoted}"))
            (current,) = stored.versions(properties)
            view = stored.read_view(properties, storage, naming.definition_of(storage), current)
            tasks = {key: value for key, value in properties.items() if key.startswith(f"{stored.PREFIX}task.")}
            found[view.name.table] = _Model(view, tasks)
    for number in range(TABLES):
        yield found[f"v{number}"]


def _statements(model: _Model, number: int) -> Iterator[str]:
    """What creates a view as the model."""
    view_id = f"{DATABASE}__v{number}__{number:08x}"
    storage = TableName(model.view.storage.database, view_id)
    view = replace(
        model.view,
        id=view_id,
        name=TableName(DATABASE, f"v{number}"),
        storage=storage,
        definition=naming.definition_of(storage),
        query=_query(number),
    )
    kept = {**stored.write_view(view), **model.tasks, **stored.write_published()}
    yield maintenance.create_definition(view.definition, view.query, properties=stored.write_owner(view.owner))
    yield (
        f"CREATE TABLE {storage.quoted} (g STRING, n BIGINT, s BIGINT, freshgate_version BIGINT) USING parquet "
        f"OPTIONS ('partitionOverwriteMode' = 'dynamic') PARTITIONED BY (freshgate_version) "
        f"TBLPROPERTIES ({literals.property_list(kept)})"
    )
    yield naming.create_public(view)
