"""Reads plans from the text of EXPLAIN EXTENDED, for a Spark that no process of the gateway's can ask."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from gateway.errors import StatementFailed, UpstreamLost
from gateway.mv.formats.known_formats import format_of
from gateway.mv.ports import UNKNOWN_SETTINGS, WHOLE_TEXTS, PlanUnavailable, Relation, RelationKind, Rows, SqlSession
from gateway.spark.client import OneSession, is_ended
from gateway.spark.metastore import SparkMetastore
from gateway.spark.plan_settings import EXCLUDED_RULES, SETTINGS, UNFOLDED
from sql.names import TableName, quote
from sql.proof import plan_text
from sql.proof.plan import Plan
from sql.spark_settings import is_harmless

ANSI = "spark.sql.ansi.enabled"
PRECISION = "spark.sql.decimalOperations.allowPrecisionLoss"
ZONE = "spark.sql.session.timeZone"
EXPLAINED_MAX = 3
"""The first text says only what is read."""
_SHOWN_NOWHERE = re.compile(r"spark\.sql\.(?:ansi|decimalOperations|legacy|session\.timeZone|timestampType).*")
"""Settings that a text does not show, although expressions depend on them."""
_OF_GATEWAY = frozenset({EXCLUDED_RULES, *SETTINGS, *WHOLE_TEXTS})


class TextPlans:
    """Implements `mv.ports.Plans`."""

    in_place = False
    checks_rights = False

    def __init__(self) -> None:
        self._explaining: dict[bytes, _Explaining] = {}

    @asynccontextmanager
    async def of(self, session: SqlSession) -> AsyncIterator[bytes]:
        """The name, for `optimized`, of a session that serves for nothing but plans. Raises what Spark raises."""
        explaining, name = _Explaining(session), secrets.token_bytes(16)
        await explaining.prepare()
        self._explaining[name] = explaining
        try:
            yield name
        finally:
            del self._explaining[name]

    async def optimized(self, session: bytes, text: str) -> Plan:
        return await self._plan(session, text, exactly=True)

    async def unfolded(self, session: bytes, text: str) -> Plan:
        async with self._explaining[session].unfolded():
            return await self._plan(session, text, exactly=True)

    async def analyzed(self, session: bytes, text: str) -> Plan:
        return await self._plan(session, text, exactly=False)

    async def _plan(self, session: bytes, text: str, *, exactly: bool) -> Plan:
        try:
            return await self._explaining[session].plan(text, exactly=exactly)
        except RecursionError as error:
            raise PlanUnavailable("the plan is nested too deeply") from error
        except (ValueError, StatementFailed) as error:
            if isinstance(error, StatementFailed) and is_ended(error):
                raise UpstreamLost("The session has ended.") from error
            raise PlanUnavailable(str(error)) from error


class _Explaining:
    """Plans in one session."""

    def __init__(self, session: SqlSession) -> None:
        self._session = session
        self._metastore = SparkMetastore(OneSession(session))
        self._listed: dict[str, str] = {}
        """The settings of the session, but for those of the gateway."""
        self._known: dict[str, str] = {}
        self._before: dict[TableName, Relation] = {}
        """What was read, as it was described last."""

    async def prepare(self) -> None:
        self._listed = listed(await self._session.run("SET"))
        for name, value in {**SETTINGS, **WHOLE_TEXTS}.items():
            await self._set(name, value)

    async def _set(self, name: str, value: str) -> None:
        before = self._listed.get(name, "") if name == EXCLUDED_RULES else ""
        await self._session.run(f"SET {name}={before + ',' if before else ''}{value}")

    @asynccontextmanager
    async def unfolded(self) -> AsyncIterator[None]:
        """Plans are made without looking at the values of literals. Nothing else may plan here meanwhile."""
        await self._set(EXCLUDED_RULES, UNFOLDED[EXCLUDED_RULES])
        try:
            yield
        finally:
            await self._set(EXCLUDED_RULES, SETTINGS[EXCLUDED_RULES])

    async def plan(self, text: str, *, exactly: bool) -> Plan:
        """Not `exactly`: modes of expressions may be others. Raises ValueError, and what Spark raises."""
        explained, relations = await self._explained(text)
        for relation in relations.values() if exactly else ():
            if relation.kind is RelationKind.VIEW:
                await self._check_settings(relation)
            elif (found := format_of(relation)) is None or not found.shown_in_plans:
                raise ValueError(
                    f"a plan's text does not show what is read of a table of the format {relation.provider}"
                )
        output = [(str(name), str(kind)) for name, kind, *_ in (await self._session.run(f"DESCRIBE QUERY {text}")).rows]
        tables = {_shown(name): _table(each) for name, each in relations.items() if each.kind is RelationKind.TABLE}
        views = [each.view_text for each in relations.values() if each.kind is RelationKind.VIEW]
        settings = plan_text.PlanSettings(
            ansi=await self._value(ANSI) == "true",
            loses_precision=await self._value(PRECISION) == "true",
            zone=await self._value(ZONE),
        )
        return await asyncio.to_thread(plan_text.read, explained, tuple(output), tables, (text, *views), settings)

    async def _explained(self, text: str) -> tuple[str, Mapping[TableName, Relation]]:
        """The plan's text, and what it reads, which was the same before and after Spark planned."""
        for _ in range(EXPLAINED_MAX):
            explained = await self._explain(text)
            found = {name: await self._relation(name) for name in _names_in(explained)}
            if all(self._before.get(name) == each for name, each in found.items()):
                return explained, found
            self._before |= found
        raise ValueError("a table or view that it reads is being changed")

    async def _explain(self, text: str) -> str:
        return "\n".join(str(row[0]) for row in (await self._session.run(f"EXPLAIN EXTENDED {text}")).rows)

    async def _relation(self, name: TableName) -> Relation:
        found = await self._metastore.relation(name)
        if found is None:
            raise ValueError(f"{name} does not exist any more")
        return found

    async def _check_settings(self, view: Relation) -> None:
        """Raises ValueError if the view's query may be analyzed under other settings than the statement."""
        if view.settings == UNKNOWN_SETTINGS:
            raise ValueError(f"Spark does not tell with which settings {view.name} was created")
        hidden = {name: value for name, value in self._listed.items() if _SHOWN_NOWHERE.fullmatch(name)}
        for name in sorted(hidden.keys() | (view.settings.keys() - _OF_GATEWAY)):
            if is_harmless(name):
                continue  # For example how a refresh writes, in whose session the view was published.
            if view.settings.get(name) != (hidden.get(name) or await self._value(name)):
                raise ValueError(f"the session has another {name} than the creator of {view.name} had")

    async def _value(self, name: str) -> str:
        if name not in self._known:
            self._known[name] = self._listed.get(name) or str(
                (await self._session.run(f"SET {quote(name)}")).rows[0][1]
            )
        return self._known[name]


def listed(answer: Rows) -> dict[str, str]:
    """The settings that SET lists."""
    return {str(name): str(value) for name, value, *_ in answer.rows}


def _names_in(explained: str) -> frozenset[TableName]:
    quoted = (name.strip("`").split("`.`") for name in plan_text.views_in(explained))
    plain = (name.split(".") for name in plan_text.tables_in(explained))
    parts = [*quoted, *plain]
    if any(len(each) != 3 for each in parts):
        raise ValueError("it reads rows that are not a table of the catalog")
    return frozenset(TableName(database, table, catalog) for catalog, database, table in parts)


def _shown(name: TableName) -> str:
    return f"{name.catalog}.{name.database}.{name.table}"


def _table(table: Relation) -> plan_text.PlanTable:
    columns = tuple((name, _type(json.loads(kind))) for name, kind in table.columns)
    return plan_text.PlanTable(
        columns, (_shown(table.name), table.created, table.location), (table.provider, table.reading)
    )


def _type(kind: Any) -> str:
    """A type as Spark prints it; empty for a nested one."""
    if not isinstance(kind, dict):
        return ""
    name = str(kind.get("name", ""))
    if name == "decimal":
        return f"decimal({kind['precision']},{kind['scale']})"
    if name == "string":
        return name if kind.get("collation", "UTF8_BINARY") == "UTF8_BINARY" else f"string collate {kind['collation']}"
    return _PRINTED.get(name, "")


_PRINTED = {"timestamp_ltz": "timestamp"} | {
    name: name
    for name in (
        *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "binary", "date", "timestamp_ntz"),
    )
}
