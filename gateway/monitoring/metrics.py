"""The metrics, read from what the gateway's parts count, when somebody asks for them."""

from __future__ import annotations

import asyncio
import importlib.metadata
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from gateway.monitoring.lag import LoopLag
from gateway.monitoring.readiness import Readiness
from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.index import Catalog
from gateway.mv.refresh.tasks import Tasks
from gateway.mv.versions.janitor import Janitor
from gateway.proxy.listener import Listener
from gateway.proxy.traffic import Traffic
from gateway.service.clients.audit import Counts
from gateway.service.clients.session import Sessions
from gateway.tally import Histogram

CONTENT_TYPE = CONTENT_TYPE_LATEST
VIEWS_TOGETHER = 40
"""Views that are written in one piece, before others have their turn: about a millisecond."""


class Lost(Protocol):
    """Who keeps the audit."""

    @property
    def lost(self) -> int:
        """Lines that could not be written."""
        ...


@dataclass(frozen=True, slots=True)
class Sources:
    """What is looked at."""

    listener: Listener
    traffic: Traffic
    counts: Counts
    sessions: Sessions
    catalog: Catalog
    tasks: Tasks
    janitor: Janitor
    fence: Fence
    readiness: Readiness
    lag: LoopLag
    audit: Lost | None

    @property
    def missing(self) -> list[str]:
        """Why clients should not come here, in words; nothing: they are welcome."""
        return [*self.readiness.missing, *([] if self.fence.lost is None else [self.fence.lost])]


class Metrics:
    """A registry of its own, with the process's metrics and the gateway's."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._registry.register(_Gateway(sources))
        self._one = asyncio.Lock()

    async def text(self) -> bytes:
        """All metrics, as Prometheus reads them. The event loop is held for about a millisecond at a time, however
        many views there are."""
        async with self._one:
            pieces = []
            for family in list(self._registry.collect()):
                pieces.append(generate_latest(_Family(family)))
                await asyncio.sleep(0)
            for name, about, values in (
                (
                    "freshgate_view_staleness_seconds",
                    "For how long the materialized view has missed a change of what it reads; 0 where it is fresh",
                    _staleness,
                ),
                (
                    "freshgate_view_last_refresh_timestamp_seconds",
                    "When the materialized view's current version was published; views never built are left out",
                    _published,
                ),
            ):
                ids = [view.id for view in self._sources.catalog.views()]
                for start in range(0, len(ids), VIEWS_TOGETHER):
                    await asyncio.sleep(0)
                    family = GaugeMetricFamily(name, about, labels=["database", "view"])
                    for labels, value in values(self._sources.catalog, ids[start : start + VIEWS_TOGETHER]):
                        family.add_metric(labels, value)
                    pieces.append(_rows(family, first=start == 0))
            return b"".join(pieces)


def _staleness(catalog: Catalog, ids: Sequence[str]) -> Iterator[tuple[list[str], float]]:
    now = time.time()
    for view_id in ids:
        entry = catalog.find(view_id)
        if entry is not None:
            # Whether is cheaper to say than why.
            found = catalog.staleness(view_id) if catalog.is_stale(view_id) else None
            if found is not None and not found.since:
                continue
            age = max(0.0, now - found.since / 1000) if found is not None else 0.0
            yield [entry.view.name.database, entry.view.name.table], age


def _published(catalog: Catalog, ids: Sequence[str]) -> Iterator[tuple[list[str], float]]:
    for view_id in ids:
        entry = catalog.find(view_id)
        if entry is not None and entry.view.built:
            yield [entry.view.name.database, entry.view.name.table], entry.view.current.published_at / 1000


class _Family(Collector):
    """A family that is there already."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        return [self._family]


def _rows(family: Metric, *, first: bool) -> bytes:
    """The family's rows; its head stands before the `first` ones only."""
    text = generate_latest(_Family(family))
    if first:
        return text
    return b"".join(line for line in text.splitlines(keepends=True) if not line.startswith(b"#"))


class _Gateway(Collector):
    """The gateway's families but those that have a row for each view."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._version = importlib.metadata.version("freshgate")

    def describe(self) -> Iterable[Metric]:
        return []  # else the registry would collect once when this is registered

    def collect(self) -> Iterator[Metric]:
        yield from self._clients()
        yield from self._statements()
        yield from self._refreshes()
        yield from self._upstream()
        yield from self._own()

    def _clients(self) -> Iterator[Metric]:
        sources, traffic, counts = self._sources, self._sources.traffic, self._sources.counts
        yield _gauge("client_connections", "Client connections that are open", sources.listener.clients)
        yield _counter("client_connections_accepted", "Client connections that were accepted", traffic.accepted)
        yield _counter("client_connections_refused", "Client connections beyond limits.connections", traffic.refused)
        yield _gauge("client_half_read_bytes", "Bytes of requests that are not complete", traffic.half_read)
        yield _counter("client_received_bytes", "Bytes that clients sent", traffic.from_clients)
        yield _counter("client_sent_bytes", "Bytes that were sent to clients", traffic.to_clients)
        logins = CounterMetricFamily("freshgate_logins", "Logins, by whether they were accepted", labels=["outcome"])
        logins.add_metric(["accepted"], counts.logins_accepted)
        logins.add_metric(["refused"], counts.logins_refused)
        yield logins
        yield _gauge("sessions", "Sessions that are open", len(sources.sessions))
        yield _counter("sessions_opened", "Sessions that were opened", counts.sessions)
        yield _counter("sessions_refused", "Sessions that users who had logged in did not get", counts.sessions_refused)
        yield _gauge("operations", "Operations that are not closed", sources.sessions.operations)

    def _statements(self) -> Iterator[Metric]:
        counts, traffic = self._sources.counts, self._sources.traffic
        requests = CounterMetricFamily("freshgate_requests", "Requests of clients, by method", labels=["method"])
        for method, number in counts.requests.items():
            requests.add_metric([method], number + (traffic.repeated if method == "GetOperationStatus" else 0))
        yield requests
        yield _counter("repeated_answers", "Status requests that the last answer answered again", traffic.repeated)
        yield _counter("pages_ahead", "Pages of rows that Spark was asked for before the client", traffic.pages_ahead)
        yield _counter("pages_ahead_taken", "Those of them that the client asked for", traffic.pages_ahead_taken)
        statements = CounterMetricFamily(
            "freshgate_statements",
            "Statements that have ended, by what they were taken for and their outcome",
            labels=["taken_for", "outcome"],
        )
        for (taken_for, outcome), number in counts.statements.items():
            statements.add_metric([taken_for, outcome], number)
        yield statements
        yield _histogram(
            "statement_duration_seconds",
            "From a statement's arrival until its outcome was known",
            counts.statement_seconds,
        )

    def _refreshes(self) -> Iterator[Metric]:
        sources, tasks = self._sources, self._sources.tasks
        refreshes = CounterMetricFamily(
            "freshgate_refreshes",
            "Refreshes that have ended, by outcome and by what they recomputed",
            labels=["outcome", "method"],
        )
        for (status, mode), number in tasks.tally.ended.items():
            refreshes.add_metric([status.lower(), mode.lower()], number)
        yield refreshes
        yield _histogram(
            "refresh_duration_seconds", "Of refreshes that had something to do, at Spark", tasks.tally.seconds
        )
        yield _gauge("refreshes_running", "Refreshes that are under way", tasks.running)
        yield _gauge("refreshes_waiting", "Refreshes that wait for another one of their view", tasks.waiting)
        yield _gauge("materialized_views", "Materialized views in the catalog", len(sources.catalog))
        yield _counter(
            "views_restored",
            "Materialized views that a statement had dropped or forged, and that were put back",
            sources.counts.views_restored,
        )
        yield _gauge("leftovers", "Replaced versions and remains that are still to be dropped", sources.janitor.waiting)
        yield _gauge(
            "superseded", "1 where another gateway refreshes the views of this storage", sources.fence.lost is not None
        )

    def _upstream(self) -> Iterator[Metric]:
        traffic = self._sources.traffic
        yield _gauge("upstream_up", "Whether Spark has just answered", self._sources.readiness.spark_problem is None)
        yield _counter("upstream_connects", "Connections to Spark for clients, tried or made", traffic.connects)
        yield _counter("upstream_connect_failures", "Those that could not be made", traffic.connects_failed)
        yield _histogram(
            "upstream_connect_duration_seconds", "From the first byte to the accepted login", traffic.connect_seconds
        )
        yield _counter("upstream_received_bytes", "Bytes that Spark sent for clients", traffic.from_spark)
        yield _counter("upstream_sent_bytes", "Bytes that were sent to Spark for clients", traffic.to_spark)

    def _own(self) -> Iterator[Metric]:
        lag, audit = self._sources.lag, self._sources.audit
        yield _histogram("event_loop_lag_seconds", "By how much a timer of the event loop was late", lag.seconds)
        yield _gauge("event_loop_lag_max_seconds", "The most of the last minute", lag.greatest)
        yield _counter("audit_lines_lost", "Lines of the audit that could not be written", audit.lost if audit else 0)
        info = GaugeMetricFamily("freshgate_info", "1, with the version", labels=["version"])
        info.add_metric([self._version], 1)
        yield info


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(f"freshgate_{name}", about, value=float(value))


def _counter(name: str, about: str, value: float) -> Metric:
    return CounterMetricFamily(f"freshgate_{name}", about, value=float(value))


def _histogram(name: str, about: str, values: Histogram) -> Metric:
    return HistogramMetricFamily(f"freshgate_{name}", about, buckets=list(values.buckets()), sum_value=values.total)
