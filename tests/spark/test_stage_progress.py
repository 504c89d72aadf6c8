"""Tests that the process that hosts Spark reports the progress of a statement."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from jvm import JAVA_OPTIONS, spark_java_options
from processes import Engine, descendants, none_alive, wait_until

from gateway import settings_file
from gateway.config import Address
from gateway.mv.ports import JobProgress
from gateway.mv.refresh.progress import Lines, Progress, followed
from gateway.spark.client import Connection, ServerSession
from gateway.spark.engine import EmbeddedEngine
from gateway.spark.host import REQUESTS_MAX
from gateway.spark.ui import SparkUi
from gateway.wire.endpoint import Endpoint
from sql.names import TableName

DEADLINE_SECONDS = 60.0
TASKS = 8
# Two stages: the slow tasks, and one that combines their results.
SLOW = f"SELECT max(s) FROM (SELECT reflect('java.lang.Thread', 'sleep', 150L) AS s FROM range(0, 40, 1, {TASKS}))"


class Parent:
    """Sends requests to the engine as its parent process does."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._asked = 0

    def send(self, line: str) -> None:
        stdin = self._engine.program.process.stdin
        assert stdin is not None
        stdin.write(line + "\n")
        stdin.flush()

    def progress(self, group: str) -> dict[str, int] | None:
        self._asked += 1
        self.send(json.dumps({"id": self._asked, "group": group}))
        while (answer := self.answer())["id"] != self._asked:
            pass
        progress: dict[str, int] | None = answer["progress"]
        return progress

    def answer(self) -> dict[str, Any]:
        """Returns the next answer, to any request."""
        answer: dict[str, Any] = json.loads(self._engine.program.line(DEADLINE_SECONDS))
        return answer


@pytest.fixture(scope="module")
def parent(engine: Engine) -> Parent:
    return Parent(engine)


@contextlib.asynccontextmanager
async def session_at(address: Address) -> AsyncIterator[ServerSession]:
    async with asyncio.timeout(DEADLINE_SECONDS):
        connection = await Connection.open(Endpoint(address.host, address.port), "tester")
        try:
            yield await connection.open_session()
        finally:
            await connection.close()


async def started(session: ServerSession, sql: str) -> tuple[asyncio.Task[object], str]:
    """Starts a statement; returns its task and its id."""
    statement: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    task: asyncio.Task[object] = asyncio.create_task(session.run(sql, on_start=statement.set_result))
    return task, await statement


async def until(condition: Callable[[], object], what: str) -> None:
    await asyncio.to_thread(wait_until, condition, DEADLINE_SECONDS, what)


def test_stages_and_tasks_of_a_running_statement_are_counted(engine: Engine, parent: Parent) -> None:
    seen: list[dict[str, int]] = []

    def observe(statement: str) -> dict[str, int]:
        progress = parent.progress(statement)
        seen.extend([progress] if progress is not None else [])
        return progress or {"tasks": 0, "tasks_done": 0}

    async def check() -> None:
        async with session_at(Address(engine.host, engine.port)) as session:
            task, statement = await started(session, SLOW)
            await until(lambda: 0 < observe(statement)["tasks_done"] < TASKS, "some tasks to be done")
            assert not task.done()
            await task
            last = parent.progress(statement)
            assert last == {
                "stages": 2,
                "stages_done": 2,
                "tasks": TASKS + 1,
                "tasks_done": TASKS + 1,
                "tasks_running": 0,
                "tasks_failed": 0,
            }

    asyncio.run(check())
    done = [progress["tasks_done"] for progress in seen]
    assert done == sorted(done)
    assert any(progress["tasks_running"] for progress in seen)
    middle = seen[-1]
    assert (middle["stages"], middle["tasks"]) == (1, TASKS), "the second stage is not planned before the first ends"


def test_unknown_statements_have_no_progress(engine: Engine, parent: Parent) -> None:
    assert parent.progress(str(uuid.uuid4())) is None
    assert parent.progress("") is None
    assert parent.progress("'; \n ä") is None


def test_a_cancelled_statement_keeps_its_last_state(engine: Engine, parent: Parent) -> None:
    async def check() -> None:
        async with session_at(Address(engine.host, engine.port)) as session:
            task, statement = await started(session, SLOW)
            await until(lambda: (parent.progress(statement) or {}).get("tasks_running"), "the first tasks")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until(lambda: (parent.progress(statement) or {}).get("tasks_running") == 0, "the tasks to end")
            last = parent.progress(statement)
            assert last is not None
            assert last["tasks_done"] < TASKS
            assert last["stages"] == last["stages_done"] == 0

    asyncio.run(check())


def test_invalid_and_excess_requests_are_ignored(engine: Engine, parent: Parent) -> None:
    for line in ("", "nonsense", "[]", "7", '{"id": 1}', '{"group": "g"}', "\x00"):
        parent.send(line)
    assert parent.progress("none") is None
    parent.send('{"id": "odd", "group": ["a", 1]}')
    assert parent.answer() == {"id": "odd", "progress": None}
    # When too many requests are waiting, further ones are dropped; the others are answered in order.
    parent.send("\n".join(json.dumps({"id": number, "group": "g"}) for number in range(-1000, 0)))
    answers = [parent.answer() for _ in range(REQUESTS_MAX)]
    assert answers == [{"id": number, "progress": None} for number in range(-1000, -1000 + REQUESTS_MAX)]


@pytest.mark.thorough
@pytest.mark.usefixtures("spark_server")
def test_stage_progress_of_an_embedded_engine_reaches_the_progress_line(tmp_path: Path) -> None:
    """While Spark hangs or restarts, only the stages are missing from the line."""

    async def check() -> None:
        ui = ("engine.spark.ui.enabled=true", "engine.spark.ui.port=0")
        java = f"engine.{JAVA_OPTIONS}={spark_java_options()}"
        engine = EmbeddedEngine(
            settings_file.load(None, [f"data_dir={tmp_path}", "engine.spark.driver.memory=1g", *ui, java])
        )
        assert await engine.of_statement("not started") is None
        address = await engine.start()
        try:
            await follow_one(engine, address)
            java = java_of(engine)
            before = [psutil.Process(engine.pid), java]
            java.send_signal(signal.SIGSTOP)
            assert await asyncio.gather(*(engine.of_statement("hangs") for _ in range(3))) == [None] * 3
            asked = asyncio.create_task(engine.of_statement("dies"))
            await asyncio.sleep(0)
            java.kill()
            assert await asked is None
            child = engine.pid
            await until(lambda: none_alive(before), "the child to follow its JVM")
            await until(lambda: engine.pid not in {child, None}, "another child")
            await follow_one(engine, await engine.address())
            after = [psutil.Process(engine.pid), *descendants(engine.pid or 0)]
            # Closing its input ends the child even while it waits for an answer from Spark.
            java_of(engine).send_signal(signal.SIGSTOP)
            asked = asyncio.create_task(engine.of_statement("waits"))
            await asyncio.sleep(0)
        finally:
            await engine.stop()
        assert await asked is None
        await until(lambda: none_alive(after), "a stopped JVM to die")
        assert await engine.of_statement("stopped") is None

    asyncio.run(check())


def java_of(engine: EmbeddedEngine) -> psutil.Process:
    (java,) = [process for process in descendants(engine.pid or 0) if process.name() == "java"]
    return java


async def follow_one(engine: EmbeddedEngine, address: Address) -> None:
    lines: list[str] = []
    progress = Progress(TableName("sales", "daily"))
    progress.plan("COMPLETE", "it was never built")
    progress.begin_insert()
    async with session_at(address) as session:
        task, statement = await started(session, SLOW)
        progress.started(statement)
        async with followed(progress, engine, Lines(lines.append), 0.1):
            await task
            # Concurrent requests after the end each get the answer to their own question.
            asked = (engine.of_statement(each) for each in (statement, "another", statement))
            assert await asyncio.gather(*asked) == [known := JobProgress(2, 2, TASKS + 1, TASKS + 1, 0, 0), None, known]
            fraction = progress.fraction()
        # Spark's UI, at one of the ports, reports the same.
        connections = java_of(engine).net_connections(kind="tcp")
        ports = {each.laddr.port for each in connections if each.status == psutil.CONN_LISTEN}
        uis = [SparkUi(f"http://127.0.0.1:{port}", DEADLINE_SECONDS) for port in ports]
        assert known in await asyncio.gather(*(ui.of_statement(statement) for ui in uis))
    assert any(f"stage 1 of 1, {done} of {TASKS} tasks" in line for line in lines for done in range(1, TASKS)), lines
    assert all(line.startswith("sales.daily: running") for line in lines)
    assert 0 < fraction < 1
