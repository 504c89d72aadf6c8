"""Views whose rows are in memory, and the answers from them."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from importlib.util import find_spec

from gateway.assembly.at_spark import AtSpark
from gateway.assembly.records import Records
from gateway.assembly.refreshes import Refreshes
from gateway.assembly.rewriting import Rewriting
from gateway.assembly.routing import Routing
from gateway.assembly.views import KeptVersions, Views
from gateway.config import Settings
from gateway.memory.memory_engine import MemoryEngine
from gateway.mv.memory.base_tables import BaseTables, TableLimits
from gateway.mv.memory.early_looks import EarlyLooks
from gateway.mv.memory.residency import Residency
from gateway.mv.memory.table_loads import LoadLimits, TableLoads
from gateway.service.memory.learning import Learner
from gateway.service.memory.memory_answers import MemoryAnswers, MemoryLimits
from gateway.service.memory.zones import Zones
from gateway.service.results.store import ENTRY_BYTES_MAX

log = logging.getLogger(__name__)

TABLES_SHARE = 0.75
"""Of `memory.bytes`, for the rows of views; the rest is for queries of them, and for what is being loaded."""


@dataclass(frozen=True, slots=True)
class InMemory:
    """The views whose rows are in memory, and the engine that has them."""

    engine: MemoryEngine
    residency: Residency


def memory_of(settings: Settings, spark: AtSpark, views: Views, versions: KeptVersions) -> InMemory | None:
    """None if no view is held in memory."""
    wanted, residences = settings.memory, views.catalog.residences
    if not wanted.bytes:
        residences.off = "memory.bytes is 0"
        return None
    if find_spec("duckdb") is None:
        residences.off = "it needs more packages: install freshgate[memory]"
        log.info("no view can be held in memory (IN MEMORY) before freshgate[memory] is installed")
        return None

    def lost() -> None:
        residency.lost()

    engine = MemoryEngine(wanted.bytes, wanted.threads, lost)
    limits = LoadLimits(wanted.view_bytes, wanted.view_rows)
    loads = TableLoads(engine, spark.loads, versions.readers, views.storages, limits)
    room = int(wanted.bytes * TABLES_SHARE)
    tables = None
    if wanted.table_queries:
        held = TableLimits(wanted.table_queries, wanted.table_probe_interval)
        tables = BaseTables(views.catalog, views.observer, loads, held)
        residences.tables = tables.residences
    residency = Residency(views.catalog, views.fence, loads, room, wanted.reads_per_day, tables=tables)
    early = EarlyLooks(views.catalog, views.inspector, lambda: views.fence.lost is None)
    residency.answered.add(early.read)
    news = views.catalog.news
    news.published.add(residency.published)
    news.altered.add(residency.changed)
    news.moved.add(residency.moved)
    news.stale.add(residency.stale)
    return InMemory(engine, residency)


def answering(
    settings: Settings,
    memory: InMemory,
    spark: AtSpark,
    views: Views,
    refreshes: Refreshes,
    rewriting: Rewriting,
    routing: Routing,
    records: Records,
) -> MemoryAnswers:
    """Answers reads from the rows of views in memory."""
    catalog, residency, surroundings = views.catalog, memory.residency, refreshes.planning.surroundings
    zones, named = Zones(spark.short, spark.habits), residency.table_named
    learner = Learner(catalog, spark.plans, rewriting.sessions, spark.short, surroundings, zones, named)
    limits = MemoryLimits(
        settings.access.rights_seconds, ENTRY_BYTES_MAX, settings.memory.query_seconds, settings.memory.canary
    )
    differed, forget = records.audit.memory_differed, records.results.forget
    answers = MemoryAnswers(catalog, residency, memory.engine, learner, limits, differed, forget)
    catalog.news.altered.add(answers.altered)
    routing.effects.forgetting.append(answers.forget)
    routing.answers.active, routing.answers.tables = True, residency.base_tables
    return answers
