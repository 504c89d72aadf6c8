"""Tests that with pages fetched in advance a client gets exactly the replies that Spark would have sent."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import pytest
from http_caller import Caller
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from processes import Engine, wait_until
from raw_session import FIRST, NEXT, PRIOR, RawConnection, RawSession, encoded, texts
from seen_gateway import Seen, start
from TCLIService import ttypes
from tiers import EVERYTHING

SHORT = "SELECT CAST(id AS STRING) AS n, id, IF(id % 7 = 0, NULL, id / 3) AS d FROM range(60)"
WIDE = "SELECT CAST(id AS STRING) AS n, repeat('x', 400000) AS wide FROM range(60)"
"""Its pages are larger than the gateway keeps."""


@pytest.fixture(scope="module")
def seen(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    directory = tmp_path_factory.mktemp("ahead")
    running = start(
        directory,
        f"{engine.host}:{engine.port}",
        settings={"storage.database": "ahead_storage", "listen.http_port": 0},
    )
    yield running
    running.gateway.stop()


class HttpConnection(RawConnection):
    """Calls over HTTP; the connection may be closed between calls."""

    def __init__(self, seen: Seen) -> None:
        self.caller = Caller(seen.gateway.http_port)

    def exchange(self, message: bytes) -> bytes:
        status, body = self.caller.post(message)
        assert status == 200, body
        return body

    def leave(self) -> None:
        """Closes the connection; the next call opens another."""
        self.caller.close()

    close = leave


class HttpSession(HttpConnection, RawSession):
    """A session over HTTP. It must be closed explicitly: the end of its connection does not close it."""

    def __init__(self, seen: Seen) -> None:
        super().__init__(seen)
        self.handle = self.open()

    def close(self) -> None:
        self.list("CloseSession")
        super().close()


def fetched(connection: RawConnection, operation: Any, rows_max: int, orientation: int, number: int) -> bytes:
    return connection.exchange(
        encoded("FetchResults", ttypes.TFetchResultsReq(operation, orientation, rows_max, 0), number)
    )


STEPS = st.lists(
    st.tuples(
        st.sampled_from([NEXT] * 15 + [PRIOR, FIRST]),
        st.sampled_from([8] * 15 + [0, 3, 100]),
        st.sampled_from(["fetch"] * 12 + ["other statement", "other connection", "status", "metadata", "leave"]),
    ),
    min_size=3,
    max_size=14,
)


@settings(
    max_examples=200 if EVERYTHING else 12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from([SHORT, WIDE]), STEPS)
def test_each_page_equals_sparks(engine: Engine, seen: Seen, sql: str, steps: list[Any]) -> None:
    with contextlib.ExitStack() as stack:
        sides: list[tuple[RawSession, RawConnection, Any]] = []
        for server in (engine, seen.gateway):
            session = stack.enter_context(RawSession(server))
            other = stack.enter_context(RawConnection(server.host, server.port))
            sides.append((session, other, session.execute(sql)))
        by_http = stack.enter_context(HttpSession(seen))
        sides.append((by_http, stack.enter_context(HttpConnection(seen)), by_http.execute(sql)))
        for number, (orientation, rows_max, kind) in enumerate(steps):
            answers = []
            for session, other, operation in sides:
                if kind == "other statement":
                    assert texts(session.fetch(session.execute("SELECT 'x'"))) == [("x",)]
                elif kind == "status":
                    session.ask("GetOperationStatus", ttypes.TGetOperationStatusReq(operation))
                elif kind == "metadata":
                    session.metadata(operation)
                elif kind == "leave" and isinstance(session, HttpSession):
                    session.leave()
                connection = other if kind == "other connection" else session
                answers.append(fetched(connection, operation, rows_max, orientation, number))
            assert answers[0] == answers[1] == answers[2], (number, orientation, rows_max, kind)


def test_pages_are_fetched_in_advance(seen: Seen) -> None:
    taken, asked = seen.metric("pages_ahead_taken_total"), seen.metric("pages_ahead_total")
    with RawSession(seen.gateway) as session:
        operation = session.execute(SHORT)
        while texts(session.fetch(operation, 10)):
            pass
    assert seen.metric("pages_ahead_total") == asked + 5
    assert seen.metric("pages_ahead_taken_total") == taken + 5


def test_one_connection_can_read_several_results_in_turn(engine: Engine, seen: Seen) -> None:
    chance = random.Random(7)
    with RawSession(engine) as direct, RawSession(seen.gateway) as session:
        pairs = [[each.execute(sql) for each in (direct, session)] for sql in (SHORT, WIDE, SHORT)]
        for _ in range(60):
            pair = chance.choice(pairs)
            first, second = (each.fetch(found, 5) for each, found in zip((direct, session), pair, strict=True))
            assert first == second


@pytest.mark.parametrize("how", ["SET spark.sql.thriftServer.incrementalCollect=true", "configuration"])
def test_nothing_is_fetched_in_advance_if_spark_would_run_the_query_again(seen: Seen, how: str) -> None:
    asked = seen.metric("pages_ahead_total")
    with RawSession(seen.gateway) as session:
        if how == "configuration":
            configuration = {"set:hiveconf:spark.sql.thriftServer.incrementalCollect": "true"}
            opened = session.ask("OpenSession", ttypes.TOpenSessionReq(5, "tester", None, configuration))
            session.handle = opened.sessionHandle
        else:
            session.execute(how)
        operation = session.execute(SHORT)
        for number in range(6):
            assert texts(session.fetch(operation, 10))[0] == (str(10 * number),)
    assert seen.metric("pages_ahead_total") == asked


def test_pages_are_fetched_in_advance_over_http(seen: Seen) -> None:
    taken = seen.metric("pages_ahead_taken_total")
    with HttpSession(seen) as session:
        operation = session.execute(SHORT)
        for number in range(6):
            assert texts(session.fetch(operation, 10))[0] == (str(10 * number),)
    assert seen.metric("pages_ahead_taken_total") == taken + 4


def test_rows_continue_over_another_connection_if_one_ends_during_a_fetch(seen: Seen) -> None:
    """The first connection fetches one page in advance before it ends; the later ones fetch none."""
    asked = seen.metric("pages_ahead_total")
    with HttpSession(seen) as session:
        operation = session.execute(WIDE)
        for number in range(12):
            if number % 2 == 0:
                session.leave()
            assert texts(session.fetch(operation, 5))[0][0] == str(5 * number)
    assert seen.metric("pages_ahead_total") == asked + 1


def test_the_session_of_a_client_that_ends_during_a_fetch_is_closed(seen: Seen) -> None:
    sessions = seen.metric("sessions")
    with RawSession(seen.gateway) as session:
        operation = session.execute(WIDE)
        for _ in range(2):
            session.fetch(operation, 10)
    wait_until(lambda: seen.metric("sessions") == sessions, what="the session to be closed")
