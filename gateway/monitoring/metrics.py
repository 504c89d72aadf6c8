"""Builds the metrics, on request, from the counters of the gateway's parts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from functools import partial
from typing import Protocol

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from gateway.config import version
from gateway.limit_rules import SESSIONS, STATEMENTS
from gateway.monitoring import view_metrics
from gateway.monitoring.alerts import AlertKind
from gateway.monitoring.lag import LoopLag
from gateway.monitoring.readiness import Readiness
from gateway.monitoring.view_metrics import VIEWS_TOGETHER
from gateway.monitoring.webhook import Alarm
from gateway.mv.catalog.epoch_counts import EpochCounts, What
from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.index import Catalog
from gateway.mv.memory.residency import EVICTION_REASONS, Residency
from gateway.mv.memory.table_loads import LOAD_OUTCOMES
from gateway.mv.refresh.tasks import RefreshTally, Tasks
from gateway.mv.rewriting.usage import Counts, WhyMissed
from gateway.mv.versions.janitor import Janitor
from gateway.proxy.doorway import Doorway
from gateway.proxy.listener import Listener
from gateway.proxy.traffic import Traffic
from gateway.service.clients.audit import StatementCounts
from gateway.service.clients.quotas import Quotas
from gateway.service.clients.session import Sessions
from gateway.service.memory.memory_answers import AnswerCounts, WhySpark
from gateway.service.results.store import ResultStore
from gateway.tally import Histogram

CONTENT_TYPE = CONTENT_TYPE_LATEST
LEADER = "1 if this gateway may change the views of this storage"


class LostLines(Protocol):
    """The audit file."""

    @property
    def lost(self) -> int:
        """Lines that could not be written."""
        ...


Families = Callable[[], Iterable[Metric]]
"""Reads metrics that have the same source."""


class MetricsPage:
    """A separate registry with the metrics of the process and the gateway. `families`: all but those with a row for
    each view."""

    def __init__(self, families: Iterable[Families], catalog: Catalog, tally: RefreshTally) -> None:
        self._catalog = catalog
        self._tally = tally
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        for each in families:
            self._registry.register(_Subject(each))
        self._one = asyncio.Lock()

    async def text(self) -> bytes:
        """All metrics in Prometheus' text format. The event loop is blocked for about a millisecond at a time, however
        many views there are."""
        async with self._one:
            pieces = []
            for family in list(self._registry.collect()):
                pieces.append(generate_latest(_Family(family)))
                await asyncio.sleep(0)
            catalog = self._catalog
            for each in view_metrics.FAMILIES:
                ids = [view.id for view in catalog.views()]
                for start in range(0, max(1, len(ids)), VIEWS_TOGETHER):
                    await asyncio.sleep(0)
                    rows = each.metric(catalog, self._tally, ids[start : start + VIEWS_TOGETHER])
                    pieces.append(_rows(rows, first=start == 0))
            pieces.append(generate_latest(_Family(view_metrics.damaged(catalog))))
            return b"".join(pieces)


class _Family(Collector):
    """Collects a family that already exists."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        return [self._family]


def _rows(family: Metric, *, first: bool) -> bytes:
    """The family's rows; only the `first` ones include its head."""
    text = generate_latest(_Family(family))
    if first:
        return text
    return b"".join(line for line in text.splitlines(keepends=True) if not line.startswith(b"#"))


class _Subject(Collector):
    """Returns these metrics as Prometheus families."""

    def __init__(self, families: Families) -> None:
        self._families = families

    def describe(self) -> Iterable[Metric]:
        return []  # Otherwise the registry would collect once during the registration.

    def collect(self) -> Iterable[Metric]:
        return self._families()


def door_text(
    doorway: Doorway, epoch: Callable[[], int], counts: EpochCounts, registered: Callable[[], bool] | None
) -> bytes:
    """The metrics of a gateway that passes its clients on, in Prometheus' text format."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    for families in (partial(door, doorway), partial(epochs, epoch, counts), partial(info, registered)):
        registry.register(_Subject(families))
    return generate_latest(registry)


# --- subjects ------------------------------------------------------------------------------------------


def clients(listener: Listener, counts: StatementCounts, sessions: Sessions) -> Iterator[Metric]:
    traffic = listener.traffic
    yield from _connections(listener.clients, traffic)
    yield _gauge("relayed_connections", "Client connections that other gateways pass on", listener.relayed)
    yield _gauge("client_half_read_bytes", "Bytes buffered for incomplete requests", traffic.half_read)
    logins = CounterMetricFamily("freshgate_logins", "Logins by outcome", labels=["outcome"])
    logins.add_metric(["accepted"], counts.logins_accepted)
    logins.add_metric(["refused"], counts.logins_refused)
    yield logins
    yield _gauge("sessions", "Open sessions", len(sessions))
    yield _counter("sessions_opened", "Opened sessions", counts.sessions)
    yield _counter("sessions_refused", "Sessions refused to users who had logged in", counts.sessions_refused)
    yield _gauge("operations", "Open operations", sessions.operations)
    yield from _limits(sessions.quotas)


def _limits(quotas: Quotas) -> Iterator[Metric]:
    uses = list(quotas.uses())
    yield _gauge("statements_waiting", "Statements that wait because of limits.rules", quotas.turns.waiting)
    refused = CounterMetricFamily("freshgate_limit_refusals", "Refusals because of limits.rules", labels=["what"])
    full = GaugeMetricFamily("freshgate_limits_full", "Numbers of limits.rules that are used up", labels=["what"])
    for what in (SESSIONS, STATEMENTS):
        refused.add_metric([what], sum(use.refused for use in uses if use.what == what))
        full.add_metric([what], sum(use.is_full for use in uses if use.what == what))
    yield refused
    yield full


def _connections(clients: int, traffic: Traffic) -> Iterator[Metric]:
    yield _gauge("client_connections", "Open client connections", clients)
    yield _counter("client_connections_accepted", "Accepted client connections", traffic.accepted)
    yield _counter(
        "client_connections_refused",
        "Client connections refused because of limits.connections, or because no gateway leads",
        traffic.refused,
    )
    yield _counter(
        "client_connections_starved",
        "Client connections refused, or left waiting, because too few file descriptors were left",
        traffic.starved,
    )
    yield _counter("client_received_bytes", "Bytes received from clients", traffic.from_clients)
    yield _counter("client_sent_bytes", "Bytes sent to clients", traffic.to_clients)


def door(doorway: Doorway) -> Iterator[Metric]:
    yield _gauge("leader", LEADER, 0)
    yield _gauge("following", "1 if this gateway passes its clients to one that leads", doorway.leader is not None)
    yield from _connections(doorway.clients, doorway.traffic)


def epochs(number: Callable[[], int], counts: EpochCounts) -> Iterator[Metric]:
    yield _gauge("epoch", "Number of the epoch in which this gateway leads or follows; 0 if it has none", number())
    yield _histogram("epoch_check_seconds", "Time of the checks whether this gateway still leads", counts.check_seconds)
    yield _histogram(
        "takeover_seconds",
        "Time from the suspicion that the leader has gone until this gateway served in its place",
        counts.takeover_seconds,
    )
    fenced = CounterMetricFamily(
        "freshgate_fenced", "What was refused because this gateway may not lead any more", labels=["what"]
    )
    for what in What:
        fenced.add_metric([what], counts.fenced[what])
    yield fenced


def statements(counts: StatementCounts, traffic: Traffic) -> Iterator[Metric]:
    requests = CounterMetricFamily("freshgate_requests", "Requests from clients by method", labels=["method"])
    for method, number in counts.requests.items():
        requests.add_metric([method], number + (traffic.repeated if method == "GetOperationStatus" else 0))
    yield requests
    yield _counter("repeated_answers", "Status requests answered by repeating the last answer", traffic.repeated)
    yield _counter("pages_ahead", "Pages of rows read ahead from Spark", traffic.pages_ahead)
    yield _counter("pages_ahead_taken", "Pages read ahead that the client then asked for", traffic.pages_ahead_taken)
    statements = CounterMetricFamily(
        "freshgate_statements",
        "Ended statements by what they were taken for and by outcome",
        labels=["taken_for", "outcome"],
    )
    for (taken_for, outcome), number in counts.statements.items():
        statements.add_metric([taken_for, outcome], number)
    yield statements
    yield _histogram(
        "statement_duration_seconds",
        "Time from a statement's arrival until its outcome was known",
        counts.statement_seconds,
    )
    yield _counter(
        "statement_waited_seconds",
        "Time that statements have waited for refreshes of views, and for their turn by limits.rules",
        counts.waited_seconds,
    )


def refreshes(tasks: Tasks) -> Iterator[Metric]:
    refreshes = CounterMetricFamily(
        "freshgate_refreshes",
        "Ended refreshes by outcome and by what they recomputed",
        labels=["outcome", "method"],
    )
    for (status, mode), number in tasks.tally.ended.items():
        refreshes.add_metric([status.lower(), mode.lower()], number)
    yield refreshes
    seconds = HistogramMetricFamily(
        "freshgate_refresh_duration_seconds",
        "Time at Spark of refreshes that had something to do",
        labels=["method"],
    )
    for mode, values in tasks.tally.seconds.items():
        seconds.add_metric([mode.lower()], buckets=list(values.buckets()), sum_value=values.total)
    yield seconds
    yield _gauge("refreshes_running", "Running refreshes", tasks.running)
    yield _gauge("refreshes_waiting", "Refreshes that wait for another refresh of their view", tasks.waiting)


def views(catalog: Catalog, counts: StatementCounts, janitor: Janitor, fence: Fence) -> Iterator[Metric]:
    yield _gauge("materialized_views", "Materialized views in the catalog", len(catalog))
    yield _counter(
        "views_restored",
        "Materialized views restored after a statement had dropped or forged them",
        counts.views_restored,
    )
    yield _gauge("leftovers", "Replaced versions and other remains still to be dropped", janitor.waiting)
    yield _gauge("leader", LEADER, fence.lost is None)
    yield _gauge("superseded", "1 if another gateway refreshes the views of this storage", fence.lost is not None)


def rewrites(counts: Counts) -> Iterator[Metric]:
    yield _counter(
        "rewrite_considered", "Shapes of queries that were compared with materialized views", counts.considered
    )
    yield _counter("rewrite_matched", "Proposals of how a view answers the queries of a shape", counts.matched)
    yield _counter("rewrite_proved", "Proposals that were proved to give the same rows", counts.proved)
    yield _counter(
        "rewrite_compared", "Answers from views compared with those of clients' texts", counts.answers_compared
    )
    yield _counter("rewrite_differed", "Compared answers that differed", counts.answers_differed)
    yield _counter("rewrite_used", "Queries on base tables that were answered from a view", counts.used)
    yield _counter(
        "rewrite_failed", "Texts on views that failed at Spark, so that the client's own text ran", counts.failed
    )
    refused = CounterMetricFamily(
        "freshgate_rewrite_refused",
        "Queries on base tables of views that take part, but forwarded unchanged, by reason",
        labels=["reason"],
    )
    for reason in WhyMissed:
        refused.add_metric([reason], counts.refused[reason])
    yield refused
    yield _counter("rewrite_saved_seconds", "Estimated time that answers from views have saved", counts.saved_seconds)


def results(store: ResultStore) -> Iterator[Metric]:
    counts = store.counts
    yield _counter("result_cache_hits", "Reads that were answered from memory", counts.hits)
    yield _counter("result_cache_shared", "Reads that got the answer of an equal one at the same time", counts.shared)
    yield _counter("result_cache_misses", "Reads whose answer could be kept, but was not in memory", counts.misses)
    yield _counter("result_cache_evictions", "Results that had to make room for others", counts.evictions)
    yield _gauge("result_cache_entries", "Results in memory", len(store))
    yield _gauge("result_cache_bytes", "Bytes of the results in memory", store.bytes)


def memory(residency: Residency) -> Iterator[Metric]:
    """What is in memory of views, and their loads."""
    counts = residency.counts
    yield _gauge("memory_views", "Views whose rows are in memory", residency.tables)
    held = () if residency.base_tables is None else residency.base_tables.loaded()
    yield _gauge("memory_base_tables", "Base tables whose rows are in memory", sum(1 for _ in held))
    yield _gauge("memory_bytes", "Bytes of all rows in memory", residency.bytes)
    about = "Loads of views and base tables into memory by outcome"
    loads = CounterMetricFamily("freshgate_memory_loads", about, labels=["outcome"])
    for outcome in LOAD_OUTCOMES:
        loads.add_metric([outcome], counts.loads[outcome])
    yield loads
    yield _histogram("memory_load_seconds", "Time to load a view or base table into memory", counts.load_seconds)
    about = "Views and base tables that left memory, by reason"
    left = CounterMetricFamily("freshgate_memory_evictions", about, labels=["reason"])
    for reason in EVICTION_REASONS:
        left.add_metric([reason], counts.drops[reason])
    yield left


def memory_answers(counts: AnswerCounts, differences: Sized) -> Iterator[Metric]:
    """Reads that may be answered from the rows of views in memory."""
    yield _counter("memory_answers", "Reads answered from the rows of views in memory", counts.answered)
    yield _counter("memory_answer_seconds", "What the engine took for these answers", counts.seconds)
    yield _counter(
        "memory_saved_seconds", "What Spark took for first queries of the same shapes, less that", counts.saved
    )
    missed = CounterMetricFamily(
        "freshgate_memory_misses", "Reads of views in known versions that Spark answered, by reason", labels=["reason"]
    )
    for reason in WhySpark:
        missed.add_metric([reason], counts.missed[reason])
    yield missed
    yield _counter("memory_learned", "Shapes of queries that the engine can answer", counts.learned)
    yield _counter("memory_compared", "Answers from memory that were compared with Spark's", counts.answers_compared)
    yield _counter("memory_differed", "Compared answers that differed", counts.answers_differed)
    yield _gauge("memory_distrusted", "Of these, those because of which queries are left to Spark", len(differences))


def upstream(traffic: Traffic, readiness: Readiness) -> Iterator[Metric]:
    yield _gauge("upstream_up", "Whether Spark has just answered", readiness.spark_problem is None)
    yield _counter("upstream_connects", "Connections to Spark for clients, including failed attempts", traffic.connects)
    yield _counter("upstream_connect_failures", "Connections to Spark for clients that failed", traffic.connects_failed)
    yield _histogram(
        "upstream_connect_duration_seconds", "Time to connect to Spark and log in", traffic.connect_seconds
    )
    yield _counter("upstream_received_bytes", "Bytes received from Spark for clients", traffic.from_spark)
    yield _counter("upstream_sent_bytes", "Bytes sent to Spark for clients", traffic.to_spark)


def servers(
    names: Sequence[str], home: Callable[[], str], up: Callable[[str], bool], sessions: Sessions
) -> Iterator[Metric]:
    """Of several Spark servers. `home`: the name of the one with the gateway's own sessions; empty if there is none."""
    families = [
        GaugeMetricFamily(f"freshgate_spark_server_{name}", about, labels=["server"])
        for name, about in (
            ("up", "1 if this Spark server answers"),
            ("home", "1 if the gateway's own sessions are at this Spark server"),
            ("sessions", "Clients' sessions at this Spark server"),
        )
    ]
    counted = sessions.by_server()
    for name in names:
        for family, value in zip(families, (up(name), home() == name, counted[name]), strict=True):
            family.add_metric([name], float(value))
    yield from families


class Sending(Protocol):
    """What sends events of lineage."""

    @property
    def counts(self) -> Mapping[str, int]: ...

    @property
    def waiting(self) -> int: ...


def own(
    lag: LoopLag,
    audit: LostLines | None,
    registered: Callable[[], bool] | None,
    alarm: Alarm,
    lineage: Sending | None = None,
) -> Iterator[Metric]:
    yield _histogram("event_loop_lag_seconds", "How late a timer of the event loop was", lag.seconds)
    yield _gauge("event_loop_lag_max_seconds", "Maximum lag of the last minute", lag.greatest)
    yield _counter("audit_lines_lost", "Audit lines that could not be written", audit.lost if audit else 0)
    told = CounterMetricFamily("freshgate_alerts", "Alerts, by kind", labels=["kind"])
    for kind in AlertKind:
        told.add_metric([kind.value], alarm.alerts.counts[kind])
    yield told
    if alarm.webhook is not None:
        sent = CounterMetricFamily("freshgate_notifications", "Alerts for notify.url, by outcome", labels=["outcome"])
        for outcome, number in alarm.webhook.counts.items():
            sent.add_metric([outcome], number)
        yield sent
    if lineage is not None:
        about = "Events for lineage.url, by outcome"
        events = CounterMetricFamily("freshgate_lineage_events", about, labels=["outcome"])
        for outcome, number in lineage.counts.items():
            events.add_metric([outcome], number)
        yield events
        yield _gauge("lineage_events_waiting", "Events for lineage.url that wait", lineage.waiting)
    yield from info(registered)


def info(registered: Callable[[], bool] | None) -> Iterator[Metric]:
    """`registered`: whether clients find the gateway in ZooKeeper; None without ZooKeeper."""
    if registered is not None:
        yield _gauge("registered", "1 if clients find this gateway in ZooKeeper", registered())
    info = GaugeMetricFamily("freshgate_info", "1, with the version", labels=["version"])
    info.add_metric([version()], 1)
    yield info


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(f"freshgate_{name}", about, value=float(value))


def _counter(name: str, about: str, value: float) -> Metric:
    return CounterMetricFamily(f"freshgate_{name}", about, value=float(value))


def _histogram(name: str, about: str, values: Histogram) -> Metric:
    return HistogramMetricFamily(f"freshgate_{name}", about, buckets=list(values.buckets()), sum_value=values.total)
