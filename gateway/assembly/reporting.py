"""What tells operators, and other systems, how a gateway is: metrics, probes, alerts and lineage.

Tests: `test_metrics`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module

from gateway.assembly.listening import hosts_of
from gateway.assembly.one_gateway import Gateway
from gateway.config import Settings, version
from gateway.errors import FreshgateError
from gateway.lineage.dataset_names import Naming
from gateway.lineage.described_views import Describing
from gateway.lineage.reports import Reports
from gateway.lineage.sender import Sender
from gateway.monitoring import metrics
from gateway.monitoring.alerts import Alerts
from gateway.monitoring.lag import LoopLag
from gateway.monitoring.metrics import MetricsPage
from gateway.monitoring.monitor import Monitor
from gateway.monitoring.readiness import Readiness
from gateway.monitoring.webhook import Alarm, Webhook
from gateway.mv.model.view import MaterializedView
from gateway.spark import probe


@dataclass(frozen=True, slots=True)
class Reporting:
    """The parts that tell of a gateway."""

    readiness: Readiness
    alarm: Alarm
    lineage: Reports | None
    monitor: Monitor | None


def reporting_of(settings: Settings, gateway: Gateway, registered: Callable[[], bool] | None) -> Reporting:
    """`registered`: whether clients find the gateway in ZooKeeper, if that is used. Raises FreshgateError for unusable
    settings."""
    alarm, lineage = _alarm(settings, gateway), _lineage(settings, gateway)
    readiness, lag = Readiness(partial(probe.ask, gateway.spark.probes)), LoopLag()
    monitor = None
    if settings.metrics.port:
        sender = lineage.sender if lineage is not None else None
        own = partial(metrics.own, lag, gateway.records.audit_file, registered, alarm, sender)
        monitor = _monitor(settings, gateway, metrics_page(gateway, readiness, own), lag, readiness)
    return Reporting(readiness, alarm, lineage, monitor)


def metrics_page(gateway: Gateway, readiness: Readiness, own: metrics.Families) -> MetricsPage:
    service, listener, fence = gateway.service, gateway.listener, gateway.views.fence
    catalog, tasks, counts = gateway.views.catalog, gateway.refreshes.tasks, service.audit.counts
    servers = gateway.spark.connector.servers
    families: list[metrics.Families] = [
        partial(metrics.clients, listener, counts, service.sessions),
        partial(metrics.statements, counts, listener.traffic),
        partial(metrics.refreshes, tasks),
        partial(metrics.views, catalog, counts, gateway.versions.janitor, fence),
        partial(metrics.epochs, lambda: fence.epoch_number, fence.counts),
        partial(metrics.rewrites, gateway.rewriting.usages.counts),
        partial(metrics.results, service.results),
        partial(metrics.upstream, listener.traffic, readiness),
        own,
    ]
    if servers.several:
        families.append(partial(metrics.servers, *servers.figures, service.sessions))
    if gateway.memory is not None:
        families.append(partial(metrics.memory, gateway.memory.residency))
    if service.memory is not None:
        families.append(partial(metrics.memory_answers, service.memory.counts, service.memory.distrust))
    return MetricsPage(families, catalog, tasks.tally)


def _monitor(settings: Settings, gateway: Gateway, page: MetricsPage, lag: LoopLag, readiness: Readiness) -> Monitor:
    place, views = settings.metrics, gateway.views
    hosts = hosts_of(place.host, place.hosts, "metrics.hosts")
    return Monitor(place.host, place.port, page, lag, readiness, views.fence, views.members.status, hosts.refusal)


def _alarm(settings: Settings, gateway: Gateway) -> Alarm:
    alerts, notify, audit = Alerts(gateway.views.catalog), settings.notify, gateway.records.audit
    gateway.refreshes.tasks.ended.add(alerts.task_ended)
    gateway.scheduling.pauses.paused.add(alerts.paused)
    audit.differed.add(alerts.differed)
    audit.differed_in_memory.add(alerts.differed_in_memory)
    return Alarm(alerts, Webhook(notify.url, notify.secret) if notify.url else None)


def _lineage(settings: Settings, gateway: Gateway) -> Reports | None:
    """None without a receiver. Raises FreshgateError without its extra."""
    place, habits, catalog = settings.lineage, gateway.spark.habits, gateway.views.catalog
    if not place.url:
        return None
    try:
        events = import_module("..lineage.events", __package__)
    except ImportError as error:
        raise FreshgateError(
            f"lineage.url is set, which needs more packages ({error}). Install freshgate[openlineage]."
        ) from error

    def view(view_id: str) -> MaterializedView | None:
        entry = catalog.find(view_id)
        return entry.view if entry is not None else None

    describing = Describing(
        view,
        gateway.views.observer.relation,
        gateway.spark.metastore,
        lambda: Naming(habits.settings, place.metastore),
        lambda: habits.version.partition(" ")[0],
        gateway.refreshes.planning.refreshers.analyzed,
    )
    writer, log = events.OpenLineageWriter(place.namespace, version()), gateway.refreshes.log
    reports = Reports(describing, writer, Sender(place.url, place.api_key))
    log.writes.add(reports.task_writes)
    log.ended.add(reports.task_ended)
    log.counted.add(reports.task_counted)
    catalog.news.lives.add(reports.lives)
    return reports
