"""Tests that progress is computed from Spark's jobs and stages, and that Spark's UI is read."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from processes import wait_until

from gateway.config import Address
from gateway.mv.ports import JobProgress
from gateway.spark.engine import ExternalEngine
from gateway.spark.stages import job_progress
from gateway.spark.ui import ASKED_MAX, SparkUi

GROUP = "5f0b1f4e-6f1c-4c0e-9f0a-1d2c3b4a5968"


def job(stages: list[int], done: int, tasks: int, status: str = "RUNNING", **rest: Any) -> dict[str, Any]:
    figures = {
        "jobGroup": GROUP,
        "stageIds": stages,
        "status": status,
        "numTasks": tasks,
        "numActiveTasks": 0,
        "numCompletedIndices": done,
        "numSkippedTasks": 0,
        "numFailedTasks": 0,
        "numCompletedStages": 0,
    }
    return {**figures, **rest}


def stage(number: int, status: str, tasks: int) -> dict[str, Any]:
    return {"stageId": number, "status": status, "numTasks": tasks}


def test_without_a_job_there_is_no_progress() -> None:
    assert job_progress([], [stage(1, "ACTIVE", 3)]) is None


def test_finished_jobs_count_only_their_own_tasks() -> None:
    """Spark's adaptive execution runs a job per shuffle, and each job lists the earlier stages too."""
    done = [
        job([0], 200, 200, "SUCCEEDED", numCompletedStages=1),
        job([1, 2], 10, 210, "SUCCEEDED", numCompletedStages=1, numSkippedTasks=200, numFailedTasks=1),
    ]
    assert job_progress(done, []) == JobProgress(2, 2, 210, 210, 0, 1)


def test_a_pending_stage_of_an_earlier_job_counts_as_skipped() -> None:
    first = job([0], 200, 200, "SUCCEEDED", numCompletedStages=1)
    second = job([2, 1, 3], 4, 260, numActiveTasks=2)
    stages = [stage(1, "PENDING", 200), stage(2, "ACTIVE", 10), stage(3, "PENDING", 50), stage(9, "ACTIVE", 70)]
    assert job_progress([first, second], stages) == JobProgress(3, 1, 260, 204, 2, 0)


def test_a_job_without_active_stages_counts_no_tasks() -> None:
    assert job_progress([job([4], 0, 8)], [stage(4, "PENDING", 8)]) == JobProgress(0, 0, 0, 0, 0, 0)


def test_inconsistent_figures_are_limited_to_the_totals() -> None:
    """Spark updates its figures at different times."""
    found = job_progress([job([4, 5], 8, 9)], [stage(4, "PENDING", 8), stage(5, "ACTIVE", 1)])
    assert found == JobProgress(1, 0, 8, 8, 0, 0)


class Ui(ThreadingHTTPServer):
    """Spark's UI of one application; the test sets its jobs and stages."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.application = "app-1"
        self.jobs: list[dict[str, Any]] = []
        self.stages: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.broken: bytes | None = None
        """Sent instead of every answer, if set."""
        self.open = threading.Event()
        """Answers wait for it."""
        self.open.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Ui

    def do_GET(self) -> None:
        ui = self.server
        ui.asked.append(self.path)
        ui.open.wait()
        below = f"/api/v1/applications/{ui.application}"
        answers: dict[str, Any] = {
            "/api/v1/applications": [{"id": ui.application}],
            f"{below}/jobs": ui.jobs,
            f"{below}/stages?status=ACTIVE&status=PENDING": ui.stages,
        }
        if self.path not in answers:
            self.send_error(404)
            return
        body = ui.broken or json.dumps(answers[self.path]).encode("utf-8")
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing, to keep the test's output clean."""


@pytest.fixture
def ui() -> Iterator[Ui]:
    server = Ui()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server
    server.open.set()
    server.shutdown()
    thread.join()
    server.server_close()


def ask(ui: Ui, *, limit_seconds: float = 10.0) -> JobProgress | None:
    return asyncio.run(SparkUi(ui.url + "/", limit_seconds).of_statement(GROUP))


def test_the_ui_reports_the_progress_of_one_statement(ui: Ui) -> None:
    ui.jobs = [job([1, 2], 4, 18, numActiveTasks=2), job([7], 1, 1, jobGroup="another"), {"jobId": 3}]
    ui.stages = [stage(1, "ACTIVE", 10), stage(2, "PENDING", 8)]
    assert ask(ui) == JobProgress(2, 0, 18, 4, 2, 0)
    ui.jobs[0].update(status="SUCCEEDED", numCompletedIndices=18, numCompletedStages=2, numActiveTasks=0)
    del ui.asked[:]
    assert ask(ui) == JobProgress(2, 2, 18, 18, 0, 0)
    assert ui.asked == ["/api/v1/applications", "/api/v1/applications/app-1/jobs"]
    ui.jobs = []
    assert ask(ui) is None


def test_after_a_restart_of_spark_the_new_application_is_read(ui: Ui) -> None:
    async def check() -> None:
        engine = ExternalEngine([Address("127.0.0.1", 1)], [ui.url])
        ui.jobs = [job([1], 1, 1, "SUCCEEDED", numCompletedStages=1)]
        assert await engine.of_statement(GROUP) == JobProgress(1, 1, 1, 1, 0, 0)
        ui.application = "app-2"
        assert await engine.of_statement(GROUP) is None
        assert await engine.of_statement(GROUP) == JobProgress(1, 1, 1, 1, 0, 0)

    asyncio.run(check())


def test_without_a_ui_there_is_no_stage_progress() -> None:
    assert asyncio.run(ExternalEngine([Address("127.0.0.1", 1)]).of_statement(GROUP)) is None


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b"[1]", b'[{"jobGroup": "%s"}]' % GROUP.encode(), b"\xff"])
def test_an_invalid_answer_of_the_ui_means_no_progress(ui: Ui, body: bytes) -> None:
    ui.broken = body
    assert ask(ui) is None


def test_an_unreachable_ui_is_logged_once(ui: Ui, caplog: pytest.LogCaptureFixture) -> None:
    async def check() -> None:
        gone = SparkUi("http://127.0.0.1:1", 10.0)
        assert [await gone.of_statement(GROUP) for _ in range(3)] == [None] * 3

    asyncio.run(check())
    assert len(caplog.records) == 1


def test_a_hanging_ui_gets_a_limited_number_of_requests(ui: Ui) -> None:
    async def check() -> None:
        slow = SparkUi(ui.url, 0.2)
        ui.open.clear()
        assert await asyncio.gather(*(slow.of_statement(GROUP) for _ in range(3 * ASKED_MAX))) == [None] * 3 * ASKED_MAX
        assert len(ui.asked) <= ASKED_MAX
        ui.open.set()
        ui.jobs = [job([1], 1, 1, "SUCCEEDED", numCompletedStages=1)]
        patient = SparkUi(ui.url, 10.0)
        assert await patient.of_statement(GROUP) is not None
        await asyncio.to_thread(wait_until, lambda: slow._asking == 0, what="the abandoned requests to end")
        assert await slow.of_statement(GROUP) is not None

    asyncio.run(check())
