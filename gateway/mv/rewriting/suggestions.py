"""Views that would have answered the queries that no view answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gateway.mv.catalog.index import Catalog
from gateway.mv.model.spark_types import sql_type
from gateway.mv.model.view import Schema
from gateway.mv.observation.schemas import Schemas
from gateway.mv.observation.table_statistics import Statistics, statistics_of
from gateway.mv.ports import Metastore
from gateway.mv.rewriting.candidates import Candidates
from gateway.mv.rewriting.unanswered import Runs, Unanswered
from sql.names import Namespace, TableName
from sql.rewriting.advice import Described, Suggestion, suggested, tables_of, without_literals
from sql.rewriting.candidate import RewritableView
from sql.rewriting.matching import Proposal, propose
from sql.rewriting.shape import Shape, shape_of

QUERIES_MAX = 500
"""Shapes that are read: those that took the longest in all. One takes some milliseconds of a thread."""
READING_SECONDS = 10.0
"""How long they are read."""
NAMINGS_MAX = 5
"""How often other names are looked for if those of the suggestions are taken."""


@dataclass(slots=True)
class _QueriesOfShape:
    """The queries of one shape, of all users whose queries count."""

    namespace: Namespace
    runs: Runs
    users: set[str]


@dataclass(frozen=True, slots=True)
class Advice:
    """A suggested view, and what the queries that it would have answered cost. Times are in seconds."""

    suggestion: Suggestion
    example: str
    """One of the queries, without its literals."""
    queries: int
    """Their shapes."""
    users: frozenset[str]
    runs: int
    seconds: float
    longest: float
    base_rows: int | None
    base_bytes: int | None
    """Of the tables that the view reads, as far as statistics tell."""


class Suggestions:
    """Computes them when they are asked for."""

    def __init__(
        self, catalog: Catalog, schemas: Schemas, metastore: Metastore, candidates: Candidates, unanswered: Unanswered
    ) -> None:
        self._catalog = catalog
        self._schemas = schemas
        self._metastore = metastore
        self._candidates = candidates
        self._unanswered = unanswered

    async def of(self, user: str | None) -> list[Advice]:
        """Suggests views for the queries of a user, or of all users; those that would save the most time first. Raises
        FreshgateError."""
        queries = self._longest(user)
        named = await asyncio.to_thread(lambda: [tables_of(each.runs.text, each.namespace) for each in queries])
        names = frozenset[TableName]().union(*named)
        schemas = {name: found for name, found in (await self._schemas.of(names)).items() if found is not None}
        statistics = await self._statistics(schemas, queries)
        tables = {name: _described(schema, statistics[name]) for name, schema in schemas.items()}
        views = await self._candidates.fitting(frozenset(name.table for name in names))

        def is_answered(shape: Shape, namespace: Namespace) -> bool:
            return _answers(views, shape, namespace, tables)

        texts = [(each.runs.text, each.namespace) for each in queries]
        taken = {view.name for view in self._catalog.views()} | schemas.keys()
        until = time.monotonic() + READING_SECONDS
        found = await asyncio.to_thread(suggested, texts, tables, taken, is_answered, lambda: time.monotonic() > until)
        advice = [_advice(each, queries, tables) for each in await self._named(found, taken)]
        return sorted(advice, key=lambda each: -each.seconds)

    def _longest(self, user: str | None) -> list[_QueriesOfShape]:
        found: dict[tuple[str, Namespace], _QueriesOfShape] = {}
        for asked, runs in self._unanswered.items():
            if user is not None and user != asked.user:
                continue
            query = found.get((asked.shape, asked.namespace))
            if query is None:
                query = found[asked.shape, asked.namespace] = _QueriesOfShape(asked.namespace, Runs(runs.text), set())
            query.users.add(asked.user)
            query.runs.count += runs.count
            query.runs.seconds += runs.seconds
            query.runs.longest = max(query.runs.longest, runs.longest)
        return sorted(found.values(), key=lambda each: -each.runs.seconds)[:QUERIES_MAX]

    async def _statistics(
        self, schemas: Mapping[TableName, Schema], queries: Iterable[_QueriesOfShape]
    ) -> dict[TableName, Statistics]:
        words = frozenset(word for query in queries for word in shape_of(query.runs.text.lower()).pieces)
        words |= {word.strip("`") for word in words}
        columns = {
            table: [name.lower() for name, _ in schema.columns if name.lower() in words]
            for table, schema in schemas.items()
        }
        found = await asyncio.gather(*(statistics_of(self._metastore, each, columns[each]) for each in schemas))
        return dict(zip(schemas, found, strict=True))

    async def _named(self, suggestions: list[Suggestion], taken: set[TableName]) -> list[Suggestion]:
        """Gives them names that no relation has, as far as Spark tells."""
        free, names = list(suggestions), set(taken)
        for _ in range(NAMINGS_MAX):
            # Not asked of the schemas, which would remember for a while that a suggested view does not exist.
            asked = {each.view.name for each in free}
            found = await asyncio.gather(*map(self._metastore.relation, asked))
            occupied = {name for name, relation in zip(asked, found, strict=True) if relation is not None}
            if not occupied:
                break
            names |= occupied | {each.view.name for each in free}
            for place, each in enumerate(free):
                if each.view.name in occupied:
                    free[place] = each.renamed(names)
                    names.add(free[place].view.name)
        return free


def _described(schema: Schema, statistics: Statistics) -> Described:
    types = {name.lower(): sql_type(kind) for name, kind in schema.columns}
    return Described(types, statistics.rows, statistics.bytes, statistics.distinct)


def _answers(
    views: list[RewritableView], shape: Shape, namespace: Namespace, tables: Mapping[TableName, Described]
) -> bool:
    def columns_of(table: TableName) -> tuple[str, ...] | None:
        return None if (found := tables.get(table)) is None else tuple(found.types)

    return any(isinstance(each, Proposal) for each in propose(shape, namespace, views, columns_of))


def _advice(suggestion: Suggestion, queries: list[_QueriesOfShape], tables: Mapping[TableName, Described]) -> Advice:
    served = [queries[number] for number in suggestion.serves]
    bases = [tables[name] for name in suggestion.view.bases]
    return Advice(
        suggestion,
        without_literals(shape_of(served[0].runs.text)),
        len(served),
        frozenset[str]().union(*(each.users for each in served)),
        sum(each.runs.count for each in served),
        sum(each.runs.seconds for each in served),
        max(each.runs.longest for each in served),
        _total([each.rows for each in bases]),
        _total([each.bytes for each in bases]),
    )


def _total(numbers: list[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None
