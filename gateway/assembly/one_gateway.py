"""One whole gateway. `server` starts and stops what is built here.

Tests: `test_histories`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway.assembly.answers import catalog_rows, commands_of
from gateway.assembly.at_spark import AtSpark, SparkServer, at_spark
from gateway.assembly.clients import serve
from gateway.assembly.in_memory import InMemory, answering, memory_of
from gateway.assembly.listening import entrance_of, listen
from gateway.assembly.records import Records, records_of
from gateway.assembly.refreshes import Refreshes, Scheduling, refreshed_views, scheduling_of
from gateway.assembly.rewriting import Rewriting, rewriting_of
from gateway.assembly.routing import routed
from gateway.assembly.views import KeptVersions, Views, drafts_of, kept_versions, known_views
from gateway.config import Settings
from gateway.mv.catalog.draft_file import Drafts
from gateway.mv.catalog.epoch_counts import EpochCounts
from gateway.proxy.entrance import Entrance
from gateway.proxy.listener import Listener
from gateway.proxy.traffic import Traffic
from gateway.service.answers.commands import Commands
from gateway.service.dispatch import Service
from gateway.service.results.store import ResultStore
from gateway.service.routing.catalog_rows import CatalogRows
from gateway.wire.member import Member


@dataclass(frozen=True, slots=True)
class Gateway:
    """The parts that are started, drained and stopped, and those that tell of them."""

    spark: AtSpark
    records: Records
    views: Views
    drafts: Drafts
    versions: KeptVersions
    refreshes: Refreshes
    scheduling: Scheduling
    rewriting: Rewriting
    commands: Commands
    rows: CatalogRows
    memory: InMemory | None
    service: Service
    listener: Listener


@dataclass(frozen=True, slots=True)
class Lasting:
    """What one of several gateways has beyond a term."""

    entrance: Entrance
    """Its ports for clients, which are bound already."""
    doors: Callable[[], Sequence[Member]]
    """Those that watch it while it leads."""
    counts: EpochCounts


def assemble(settings: Settings, engine: SparkServer, lasting: Lasting | None = None) -> Gateway:
    """Builds the gateway. One of several gateways passes `lasting`, which it has already. Raises FreshgateError for
    unusable settings."""
    traffic = Traffic()
    spark, records = at_spark(settings, engine, traffic), records_of(settings)
    views = known_views(settings, spark, records.audit.restored)
    versions = kept_versions(settings, spark, views)
    refreshes = refreshed_views(settings, spark, views, versions)
    scheduling = scheduling_of(settings, spark, views, refreshes)
    subscribe(views, versions, scheduling, records.results)
    memory = memory_of(settings, spark, views, versions)
    rewriting = rewriting_of(settings, spark, views, versions, refreshes)
    commands = commands_of(settings, spark, views, versions, refreshes, scheduling)
    rows = catalog_rows(settings, spark, views, refreshes, scheduling, rewriting, records)
    routing = routed(settings, spark, views, versions, refreshes, rewriting, rows, records)
    answers = None
    if memory is not None:
        answers = answering(settings, memory, spark, views, refreshes, rewriting, routing, records)
    service = serve(settings, spark, views, routing, commands, records, answers)
    entrance = lasting.entrance if lasting is not None else entrance_of(settings)
    listener = listen(settings, spark, service, traffic, entrance)
    views.members.serve(listener, lasting.doors if lasting is not None else tuple)
    if lasting is not None:
        views.fence.counts = lasting.counts
    return Gateway(
        spark,
        records,
        views,
        drafts_of(settings, spark),
        versions,
        refreshes,
        scheduling,
        rewriting,
        commands,
        rows,
        memory,
        service,
        listener,
    )


def subscribe(views: Views, versions: KeptVersions, scheduling: Scheduling, results: ResultStore) -> None:
    """Connects events with their subscribers, in the order in which these are called."""
    news, scheduler, paced, janitor = views.catalog.news, scheduling.scheduler, scheduling.paced, versions.janitor
    news.touched.add(views.observer.touch)
    news.unread.add(views.observer.forget)
    news.moved.add(views.relations.forget_sources, views.schemas.forget)
    news.stale.add(scheduler.changed, paced.changed)
    news.published.add(scheduler.published, paced.published, results.forget)
    news.leftover.add(janitor.retire, lambda view_id, *_: results.forget(view_id))
    news.replaced.add(janitor.retire_found)
    views.observer.looked.add(views.inspector.forget_unread)
    versions.readers.released.add(janitor.released)
