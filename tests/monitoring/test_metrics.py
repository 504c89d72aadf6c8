"""Tests the metrics and the audit with real counters and a catalog without Spark."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kept_lines import KeptLines
from prometheus_client.parser import text_string_to_metric_families
from views import view_of

from gateway.access_list import Principal
from gateway.assembly.reporting import metrics_page
from gateway.errors import LimitReached, NotAllowed
from gateway.limit_rules import LimitRules
from gateway.lineage.sender import Sender
from gateway.monitoring import metrics
from gateway.monitoring.alerts import Alerts
from gateway.monitoring.lag import LoopLag
from gateway.monitoring.monitor import DoorMonitor, Monitor
from gateway.monitoring.readiness import Readiness
from gateway.monitoring.view_metrics import VIEWS_TOGETHER
from gateway.monitoring.webhook import Alarm, Webhook
from gateway.mv.catalog.epoch_counts import EpochCounts, What
from gateway.mv.catalog.fence import Superseded
from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.drift import NOT_LOOKED
from gateway.mv.memory.table_loads import MemoryCounts
from gateway.mv.model.contents import NEVER_BUILT
from gateway.mv.model.view import Cause, RefreshMode, Task, TaskStatus, TriggerMode, Version
from gateway.mv.refresh.tasks import RefreshTally
from gateway.mv.rewriting.usage import Counts as RewriteCounts
from gateway.mv.rewriting.usage import WhyMissed
from gateway.proxy.capacity import Capacity
from gateway.proxy.doorway import Doorway
from gateway.proxy.leader_link import Trust
from gateway.proxy.traffic import Traffic
from gateway.service.clients.audit import METHODS, Audit, Mentions, Outcome
from gateway.service.clients.quotas import Quotas
from gateway.service.clients.session import Session, Sessions
from gateway.service.memory.memory_answers import AnswerCounts
from gateway.service.operations.operation import End
from gateway.service.results.store import ResultStore
from gateway.spark.servers import KnownServer, Servers
from gateway.wire.member import GatewayRole, Member
from gateway.wire.message import Handle, OpenCall
from gateway.wire.sasl import Login
from sql.names import TableName
from sql.understood import Understood

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
MEMBER = Member("gateway-1:10009", GatewayRole.LEADER, 7, 1_700_000_000_250, 3, "0.1.0")
NAMES = 3 * VIEWS_TOGETHER + 1


class _Tasks:
    running = 2
    waiting = 3

    def __init__(self) -> None:
        self.tally = RefreshTally()


async def _answers(seconds: float) -> None:
    assert seconds > 0


def catalog_of(count: int) -> Catalog:
    """This many views, built an hour ago. Every third one misses a write, and the first one was never built."""
    catalog = Catalog("s", cast(Any, SimpleNamespace(lost=None)))
    built = (time.time_ns() // 1_000_000) - 3_600_000
    for number in range(count):
        version = Version.whole(1 if number else NEVER_BUILT, built, built, {})
        name = TableName("d", f"v{number}")
        entry = catalog.reserve(replace(view_of(version), id=f"v{number}", name=name, created_at=built))
        if number % 3 == 2:
            entry.ledger.touch(built + 1_800_000, frozenset())
        catalog.show(entry)
    return catalog


class Stage:
    """A gateway of which the metrics are read."""

    def __init__(
        self,
        catalog: Catalog,
        audit: Audit | None = None,
        traffic: Traffic | None = None,
        quotas: Quotas | None = None,
    ) -> None:
        counted = {"operations": 8, "by_server": lambda _: Counter(b=3), "quotas": quotas or Quotas()}
        sessions = cast(Any, type("Sessions", (), {"__len__": lambda _: 7, **counted})())
        servers = [KnownServer(cast(Any, None), name) for name in "ab"]
        servers[1].is_up()
        self.tasks = _Tasks()
        self.sender = Sender("http://127.0.0.1:9/")
        alarm = Alarm(Alerts(catalog), Webhook("http://127.0.0.1:9/", ""))
        self.readiness = Readiness(_answers, 5)
        self.lag = LoopLag()
        self.fence: Any = SimpleNamespace(lost=None, epoch_number=12, counts=EpochCounts(), is_sure=lambda _: True)
        self.rewrites = RewriteCounts()
        self.residency = SimpleNamespace(counts=MemoryCounts(), tables=6, bytes=4096, base_tables=None)
        self.memory = SimpleNamespace(counts=AnswerCounts(answered=31, learned=32, saved=33.5), distrust=range(34))
        results = ResultStore(1 << 20, 1 << 20, 60.0)
        self.audit = audit or Audit()
        gateway = SimpleNamespace(
            spark=SimpleNamespace(connector=SimpleNamespace(servers=Servers(servers, cast(Any, None)))),
            views=SimpleNamespace(catalog=catalog, fence=self.fence),
            versions=SimpleNamespace(janitor=SimpleNamespace(waiting=4)),
            refreshes=SimpleNamespace(tasks=self.tasks),
            rewriting=SimpleNamespace(usages=SimpleNamespace(counts=self.rewrites)),
            service=SimpleNamespace(audit=self.audit, sessions=sessions, results=results, memory=self.memory),
            listener=SimpleNamespace(clients=5, relayed=0, traffic=traffic or Traffic()),
            memory=SimpleNamespace(residency=self.residency),
        )
        own = partial(metrics.own, self.lag, None, lambda: True, alarm, self.sender)
        self.page = metrics_page(cast(Any, gateway), self.readiness, own)

    def text(self) -> str:
        return asyncio.run(self.page.text()).decode()


def samples_of(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def session_of(user: str) -> Session:
    call = OpenCall(user, None, {}, 9)
    login = Login(user, "", "PLAIN")
    return Session(Handle(bytes(16), bytes(16)), 9, user, login, call, b"", cast(Any, None))


def test_views_have_staleness_and_refresh_time() -> None:
    catalog = catalog_of(NAMES)
    catalog.entry("v4")._drift = NOT_LOOKED
    text = Stage(catalog).text()
    samples = samples_of(text)
    age, refreshed = "freshgate_view_staleness_seconds", "freshgate_view_last_refresh_timestamp_seconds"
    for name in (age, refreshed):
        assert text.count(f"# HELP {name} ") == text.count(f"# TYPE {name} gauge") == 1
    ages = [samples.get((age, (("database", "d"), ("view", f"v{number}")))) for number in range(NAMES)]
    assert [number for number, each in enumerate(ages) if each is None] == [4]
    assert ages[1] == 0
    assert ages[2] == pytest.approx(1800, abs=300)
    assert ages[0] == pytest.approx(3600, abs=300)
    times = {dict(labels)["view"] for name, labels in samples if name == refreshed}
    assert times == {f"v{number}" for number in range(1, NAMES)}


def task_of(status: TaskStatus, at_ms: int) -> Task:
    cause = Cause(TriggerMode.SYSTEM, "a schedule")
    return Task(1, cause, "", at_ms, status, finished_at=at_ms)


def test_a_broken_view_is_shown_after_a_restart() -> None:
    """Nobody has looked at its base tables since, but its stored tasks have failed for two hours."""
    catalog, now_ms = catalog_of(4), time.time_ns() // 1_000_000
    hours = [(5, TaskStatus.FAILED), (3, TaskStatus.SUCCESS), (2, TaskStatus.FAILED), (1, TaskStatus.FAILED)]
    for view_id in ("v1", "v2"):
        catalog.entry(view_id)._drift = NOT_LOOKED
    for number, (ago, status) in enumerate(hours):
        catalog.entry("v1").history.tasks.append((number, task_of(status, now_ms - ago * 3_600_000)))
    catalog.entry("v3").history.tasks.append((1, task_of(TaskStatus.SUCCESS, now_ms)))
    samples = samples_of(Stage(catalog).text())
    labels = [(("database", "d"), ("view", f"v{number}")) for number in range(4)]
    assert samples["freshgate_view_staleness_seconds", labels[1]] == pytest.approx(7200, abs=300)
    failed = [samples["freshgate_view_last_refresh_failed", each] for each in labels]
    assert failed == [0, 1, 0, 0]


def test_damaged_views_are_shown() -> None:
    catalog = catalog_of(2)
    catalog.report_damage(catalog.entry("v1"), "its storage table was dropped")
    samples = samples_of(Stage(catalog).text())
    damaged = {labels: value for (name, labels), value in samples.items() if name == "freshgate_view_damaged"}
    assert damaged == {(("database", "d"), ("view", "v1")): 1}


def test_refreshes_are_counted_by_view() -> None:
    catalog = catalog_of(3)
    stage = Stage(catalog)
    tally = stage.tasks.tally
    for number, status in enumerate([TaskStatus.SUCCESS, TaskStatus.SUCCESS, TaskStatus.FAILED]):
        entry = catalog.entry("v1")
        entry.history.tasks.append((number, task_of(status, 1)))
        tally.add(entry, number)
        tally.add(entry, 99)
    samples = samples_of(stage.text())
    name = "freshgate_view_refreshes_total"
    found = {dict(labels)["outcome"]: value for (each, labels), value in samples.items() if each == name}
    assert found == {"success": 2, "failed": 1}


def test_without_views_there_are_no_samples_of_views() -> None:
    samples = samples_of(Stage(catalog_of(0)).text())
    assert samples["freshgate_materialized_views", ()] == 0
    assert not any(name.startswith("freshgate_view_") for name, _ in samples)


def test_readiness_names_the_gateway_that_took_over() -> None:
    async def scenario() -> None:
        stage = Stage(catalog_of(0))
        stage.readiness.catalog_loaded = True
        await stage.readiness.check()
        status = MEMBER.shown(MEMBER.address)
        monitor = Monitor("127.0.0.1", 0, stage.page, stage.lag, stage.readiness, stage.fence, lambda: status)
        await monitor.start()

        async def ready(path: str = "/readyz") -> str:
            reader, writer = await asyncio.open_connection("127.0.0.1", monitor.port)
            writer.write(f"GET {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n".encode())
            answer = await reader.read()
            writer.close()
            return answer.decode()

        assert " 200 " in (await ready()).splitlines()[0]
        answer = await ready("/leaderz")
        assert " 200 " in answer.splitlines()[0]
        assert json.loads(answer.splitlines()[-1]) == {"status": "leading", "epoch": 7}
        answer = await ready("/status")
        assert json.loads(answer.splitlines()[-1]) == {
            "address": "gateway-1:10009",
            "role": "LEADER",
            "epoch": 7,
            "leader": "gateway-1:10009",
            "since": "2023-11-14T22:13:20.250000+00:00",
            "clients": 3,
            "version": "0.1.0",
        }

        # One that was paused does not know what happened meanwhile: it looks.
        async def lost() -> None:
            raise Superseded("Another gateway leads.")

        stage.fence.is_sure, stage.fence.sure = (lambda seconds: seconds > 60), lost
        answer = await ready("/leaderz")
        assert " 503 " in answer.splitlines()[0]
        assert json.loads(answer.splitlines()[-1])["missing"] == ["Another gateway leads."]
        stage.fence.sure = partial(asyncio.sleep, 0)
        assert " 200 " in (await ready("/leaderz")).splitlines()[0]
        stage.readiness.draining = True
        assert " 503 " in (await ready("/leaderz")).splitlines()[0]
        stage.readiness.draining = False

        stage.fence.lost = "Another gateway (there) does it now."
        answer = await ready()
        assert " 503 " in answer.splitlines()[0]
        assert json.loads(answer.splitlines()[-1])["missing"] == ["Another gateway (there) does it now."]
        await monitor.stop()

    asyncio.run(scenario())


def test_probes_of_a_door() -> None:
    async def scenario() -> None:
        missing: list[str] = ["No gateway leads at the moment."]
        traffic = Traffic(accepted=3, refused=1)
        doorway = Doorway(Trust("s" * 32), Capacity(1, traffic), 1, 1, traffic)
        counts = EpochCounts()
        counts.fenced[What.END] += 2
        counts.takeover_seconds.add(4.5)
        text = partial(metrics.door_text, doorway, lambda: 7, counts, None)
        status = replace(MEMBER, role=GatewayRole.DOOR).shown("gateway-2:10009")
        monitor = DoorMonitor("127.0.0.1", 0, text, lambda: missing, lambda: status)
        # A term of the gateway has the port in between.
        for _ in range(2):
            await monitor.start()
            assert monitor._server is not None
            port = monitor._server.port

            async def get(path: str, port: int = port) -> str:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(f"GET {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n".encode())
                answer = await reader.read()
                writer.close()
                return answer.decode()

            answer = await get("/readyz")
            assert " 503 " in answer.splitlines()[0]
            assert json.loads(answer.splitlines()[-1])["missing"] == missing
            assert " 200 " in (await get("/healthz")).splitlines()[0]
            shown = samples_of((await get("/metrics")).partition("\r\n\r\n")[2])
            names = "leader", "client_connections", "client_connections_accepted_total"
            assert [shown[f"freshgate_{name}", ()] for name in names] == [0, 0, 3]
            terms = "following", "epoch", "takeover_seconds_count", "epoch_check_seconds_count"
            assert [shown[f"freshgate_{name}", ()] for name in terms] == [0, 7, 1, 0]
            fenced = {
                labels[0][1]: value for (name, labels), value in shown.items() if name == "freshgate_fenced_total"
            }
            assert fenced == {"statement": 0, "end": 2, "change": 0}
            answer = await get("/leaderz")
            assert " 503 " in answer.splitlines()[0]
            assert json.loads(answer.splitlines()[-1])["leader"] == "gateway-2:10009"
            assert json.loads((await get("/status")).splitlines()[-1])["role"] == "DOOR"
            missing.clear()
            assert " 200 " in (await get("/readyz")).splitlines()[0]
            missing.append("No gateway leads at the moment.")
            await monitor.stop()

    asyncio.run(scenario())


def test_every_count_is_shown() -> None:
    audit = Audit()
    traffic = Traffic(
        accepted=1,
        refused=2,
        starved=15,
        half_read=14,
        from_clients=3,
        to_clients=4,
        from_spark=5,
        to_spark=6,
        repeated=7,
        pages_ahead=12,
        pages_ahead_taken=13,
        connects=8,
        connects_failed=9,
    )
    counted = {each.name: getattr(traffic, each.name) for each in fields(Traffic) if each.default == 0}
    assert all(counted.values())
    audit.counts.requests["GetOperationStatus"] += 10
    audit.counts.requests["other"] += 11
    refused = audit.begin(session_of("a"), "p", Understood("SELECT 1"))
    refused.refuse(NotAllowed("no"))
    audit.login("eve", "p", NotAllowed("no"))
    quotas = Quotas(LimitRules(["eve: sessions 1"]))
    places = Sessions(quotas=quotas)
    places.reserve(Principal("eve"))
    for _ in range(2):
        with pytest.raises(LimitReached):
            places.reserve(Principal("eve"))
    stage = Stage(catalog_of(1), audit, traffic, quotas)
    rewrites = stage.rewrites
    rewrites.considered, rewrites.matched, rewrites.proved, rewrites.used, rewrites.failed = 21, 22, 23, 24, 25
    rewrites.refused[WhyMissed.NOT_FRESH] = 26
    rewrites.saved_seconds = 27.5
    stage.sender.send(b"")
    stage.sender.counts["failed"] += 28
    stage.residency.counts.loads["not_held"] += 29
    stage.residency.counts.drops["room"] += 30
    samples = samples_of(stage.text())
    assert samples["freshgate_lineage_events_total", (("outcome", "failed"),)] == 28
    assert samples["freshgate_lineage_events_waiting", ()] == 1
    assert samples["freshgate_memory_loads_total", (("outcome", "not_held"),)] == 29
    assert samples["freshgate_memory_evictions_total", (("reason", "room"),)] == 30
    assert samples["freshgate_rewrite_refused_total", (("reason", "not fresh"),)] == 26
    assert samples["freshgate_rewrite_refused_total", (("reason", "session"),)] == 0
    limited = {
        (name, labels[0][1]): value for (name, labels), value in samples.items() if name.startswith("freshgate_limit")
    }
    assert limited == {
        ("freshgate_limit_refusals_total", "sessions"): 2,
        ("freshgate_limit_refusals_total", "statements"): 0,
        ("freshgate_limits_full", "sessions"): 1,
        ("freshgate_limits_full", "statements"): 0,
    }
    of_servers = [
        [samples[f"freshgate_spark_server_{what}", (("server", name),)] for what in ("up", "home", "sessions")]
        for name in "ab"
    ]
    assert of_servers == [[0, 0, 0], [1, 0, 3]]
    expected = {
        "rewrite_considered_total": 21,
        "rewrite_matched_total": 22,
        "rewrite_proved_total": 23,
        "rewrite_used_total": 24,
        "rewrite_failed_total": 25,
        "rewrite_saved_seconds_total": 27.5,
        "statements_waiting": 0,
        "client_connections": 5,
        "client_connections_accepted_total": 1,
        "client_connections_refused_total": 2,
        "client_connections_starved_total": 15,
        "client_half_read_bytes": 14,
        "client_received_bytes_total": 3,
        "client_sent_bytes_total": 4,
        "upstream_received_bytes_total": 5,
        "upstream_sent_bytes_total": 6,
        "repeated_answers_total": 7,
        "pages_ahead_total": 12,
        "pages_ahead_taken_total": 13,
        "upstream_connects_total": 8,
        "upstream_connect_failures_total": 9,
        "upstream_up": 0,
        "sessions": 7,
        "operations": 8,
        "refreshes_running": 2,
        "refreshes_waiting": 3,
        "leftovers": 4,
        "leader": 1,
        "registered": 1,
        "relayed_connections": 0,
        "superseded": 0,
        "epoch": 12,
        "memory_answers_total": 31,
        "memory_saved_seconds_total": 33.5,
        "memory_distrusted": 34,
        "memory_learned_total": 32,
        "memory_views": 6,
        "memory_bytes": 4096,
        "memory_load_seconds_count": 0,
        "takeover_seconds_count": 0,
        "statement_duration_seconds_count": 1,
    }
    assert {name: samples[f"freshgate_{name}", ()] for name in expected} == expected
    assert set(counted.values()) <= set(samples.values())
    methods = {
        dict(labels)["method"]: value for (name, labels), value in samples.items() if name.endswith("requests_total")
    }
    assert methods.keys() == {*METHODS, "other"}
    assert (methods["GetOperationStatus"], methods["other"], len(METHODS)) == (17, 11, 25)
    assert samples["freshgate_statements_total", (("outcome", "refused"), ("taken_for", "refused"))] == 1
    assert samples["freshgate_logins_total", (("outcome", "refused"),)] == 1
    assert samples["process_open_fds", ()] > 0


def door_text() -> str:
    doorway = Doorway(Trust("s" * 32), Capacity(1, Traffic()), 1, 1, Traffic())
    return metrics.door_text(doorway, lambda: 0, EpochCounts(), lambda: False).decode()


def metrics_of_all() -> set[str]:
    """The names of a leader's metrics and of a door's."""
    text = Stage(catalog_of(NAMES)).text() + door_text()
    return {name for name in re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE) if name.startswith("freshgate_")}


def test_every_metric_is_documented() -> None:
    assert set(re.findall(r"^\| `(freshgate_\w+)` \|", PAGE, re.MULTILINE)) == metrics_of_all()


def test_views_with_something_wrong_have_rows() -> None:
    catalog = catalog_of(4)
    for number, status in enumerate([TaskStatus.SUCCESS, TaskStatus.FAILED, TaskStatus.FAILED]):
        catalog.entry("v1").history.tasks.append((number, task_of(status, 1)))
    catalog.entry("v2").doubt()
    samples = samples_of(Stage(catalog).text())
    streaks = {labels: value for (name, labels), value in samples.items() if name == "freshgate_view_failures_in_a_row"}
    assert streaks == {(("database", "d"), ("view", "v1")): 2}
    wrong = {dict(labels)["view"]: dict(labels)["what"] for name, labels in samples if name == "freshgate_view_trouble"}
    assert wrong == {"v1": "failing", "v2": "unknown"}


def test_refreshes_are_timed_by_method() -> None:
    stage = Stage(catalog_of(1))
    stage.tasks.tally.seconds[RefreshMode.INCREMENTAL].add(2.0)
    samples = samples_of(stage.text())
    counts = {
        dict(labels)["method"]: value
        for (name, labels), value in samples.items()
        if name == "freshgate_refresh_duration_seconds_count"
    }
    assert counts == {"complete": 0, "incremental": 1, "partial": 0}


def test_a_statement_ends_once() -> None:
    lines = KeptLines()
    audit = Audit(lines.keep, 5)
    statement = audit.begin(session_of("alice"), "1.2.3.4:5", Understood("SELECT 12345"))
    statement.understood(
        Mentions(frozenset({TableName("d", "v")}), frozenset({TableName("d", f"t{i}") for i in range(200)}))
    )
    statement.started(Handle(b"\1" * 16, bytes(16)))
    statement.end(End.SUCCEEDED)
    statement.cancel()
    statement.end(End.UNKNOWN)
    (line,) = lines
    assert json.loads(json.dumps(line)) == line
    assert (line["taken_for"], line["outcome"], line["text"], line["characters"]) == ("read", "succeeded", "SELEC", 12)
    assert line["views"] == ["d.v"]
    assert cast(list[str], line["reads"])[-1] == "and 100 more"
    assert line["operation"] == "01010101-0101-0101-0101-010101010101"
    assert "spark_operation" not in line
    assert "sqlstate" not in line


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (asyncio.CancelledError(), Outcome.CANCELLED),
        (NotAllowed("no\nmore"), Outcome.FAILED),
        (ValueError("a fault"), Outcome.FAILED),
    ],
)
def test_a_statement_that_never_reached_spark_is_recorded(error: BaseException, outcome: Outcome) -> None:
    lines = KeptLines()
    statement = Audit(lines.keep, 5).begin(session_of("alice"), "p", Understood("SELECT 1"))
    statement.broke(error)
    (line,) = lines
    assert line["outcome"] == outcome
    assert "\n" not in str(line.get("error"))


def test_the_end_of_a_session_has_a_cause() -> None:
    """Sessions that end because the gateway stops are not counted as lost."""
    lines = KeptLines()
    sessions = Sessions(on_end=Audit(lines.keep).closed)

    def opened(user: str, number: int) -> Session:
        session = session_of(user)
        session.handle = Handle(bytes([number]) * 16, bytes(16))
        session.lost = True  # so that the session is not closed at Spark
        sessions.add(session, sessions.reserve(Principal(user)), loose=user == "web")
        return session

    async def scenario() -> None:
        done, gone, here, _ = (opened(user, number) for number, user in enumerate(("done", "gone", "here", "web")))
        done.closed = True
        sessions.remove(done)
        await sessions.end_all([gone])
        sessions.ending = True
        await sessions.end_all([here])
        await sessions.close()

    asyncio.run(scenario())
    assert {line["user"]: line["outcome"] for line in lines} == {
        "done": "closed",
        "gone": "lost",
        "here": "stopped",
        "web": "stopped",
    }
