"""Pages that are asked for ahead, before a Spark whose iterator moves as its own does: the clients never notice."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from TCLIService import ttypes

from gateway.wire import reply
from gateway.wire.frame import WireError, frame
from gateway.wire.page import FETCH_FIRST, FETCH_NEXT, FETCH_PRIOR
from gateway.wire.reading import Ahead, Reading
from tests.wire import calls
from tests.wire.spark_result import ROW_WISE, SparkResult, fetch, results

LENGTHS = st.lists(st.integers(0, 700), max_size=60)


@dataclass
class Connection:
    """One connection to Spark: what it was asked, and what of its answers was not read yet."""

    spark: SparkResult
    sent: deque[bytes] = field(default_factory=deque)
    unread: bytes = b""
    ahead: Ahead | None = None

    def send(self, request: bytes) -> None:
        self.unread += frame(self.spark.answer(request))

    def read(self, size: int) -> bytes:
        piece, self.unread = self.unread[:size], self.unread[size:]
        return piece


@dataclass
class Gateway:
    """Reads over several connections as the relay and the dispatcher do."""

    reading: Reading
    connections: list[Connection]
    taken: int = 0

    def fetch(self, which: int, request: bytes, size: int) -> bytes:
        """The client's answer, of bytes that come in pieces of `size`."""
        connection = self.connections[which]
        while (elsewhere := self.reading.asked_elsewhere(connection)) is not None:
            elsewhere.drop()
            other = next(each for each in self.connections if each.ahead is elsewhere)
            while not elsewhere.over:
                assert elsewhere.receive(other.read(size)) == []
            other.ahead = None
        page = self.reading.page(request, connection)
        assert page is not None
        if connection.ahead is not None and connection.ahead.over:
            connection.ahead = None
        pieces = []
        if page.claims is not None:
            assert page.claims is connection.ahead
            self.taken += 1
            page.claims.claim(request)
            pieces = self._received(connection, b"")
        else:
            connection.send(page.request)
        answer = b""
        while True:
            for piece in pieces:
                passed, again = page.receive(piece)
                answer += passed
                if again is not None:
                    connection.send(again)
            if len(answer) >= 4 and len(answer) == 4 + int.from_bytes(answer[:4], "big"):
                break
            data = connection.read(size)
            assert data, "Spark was not asked"
            pieces = self._received(connection, data)
        assert not self.reading.unsure
        ahead = page.ended(may_read_ahead=connection.ahead is None)
        if ahead is not None:
            connection.ahead = ahead
            connection.send(ahead.request)
        return answer[4:]

    def _received(self, connection: Connection, data: bytes) -> list[bytes]:
        if connection.ahead is None:
            return [data]
        pieces = connection.ahead.receive(data)
        if connection.ahead.over:
            connection.ahead = None
        return pieces

    def let_come(self, which: int, size: int) -> None:
        """Something of the page that was asked for ahead comes."""
        connection = self.connections[which]
        if connection.ahead is not None and not connection.ahead.complete:
            assert connection.ahead.receive(connection.read(size)) == []


def gateway_of(spark: SparkResult, connections: int = 1) -> Gateway:
    return Gateway(Reading(), [Connection(spark) for _ in range(connections)])


STEPS = st.lists(
    st.tuples(
        st.sampled_from([FETCH_NEXT] * 12 + [FETCH_PRIOR, FETCH_FIRST]),
        st.sampled_from([3] * 12 + [0, 1, 2, 5, 100]),
        st.sampled_from([0] * 8 + [1]),
        st.sampled_from([0, 1, 20, 600, 10_000]),
    ),
    max_size=30,
)


@given(LENGTHS, STEPS, st.sampled_from([1, 7, 300, 100_000]), st.booleans())
def test_each_client_has_what_spark_would_have_answered(
    lengths: list[int], steps: list[tuple[int, int, int, int]], size: int, gives_up: bool
) -> None:
    plain, gateway = SparkResult(lengths), gateway_of(SparkResult(lengths), 2)
    for number, (orientation, rows_max, which, comes) in enumerate(steps):
        request = fetch(orientation, rows_max, number)
        assert gateway.fetch(which, request, size) == plain.answer(request)
        gateway.let_come(which, comes)
        if gives_up and number % 7 == 6 and (ahead := gateway.connections[which].ahead) is not None:
            ahead.drop()  # Nobody came for it for a while.


@given(st.integers(10, 60), st.integers(1, 5))
def test_a_client_that_reads_on_finds_its_pages_made(rows: int, rows_max: int) -> None:
    spark, gateway, found = SparkResult([5] * rows), None, []
    gateway = gateway_of(spark)
    while page := results(gateway.fetch(0, fetch(FETCH_NEXT, rows_max, len(found)), 100)):
        found += page
    assert found == spark.rows
    assert set(spark.asked) == {(FETCH_NEXT, rows_max)}
    assert gateway.taken == len(spark.asked) - 2  # The third one is the first that is expected.


def test_nobody_guesses_about_a_first_page_or_behind_the_last() -> None:
    gateway = gateway_of(SparkResult([5] * 3))
    for _ in range(4):
        gateway.fetch(0, fetch(FETCH_NEXT, 2), 100)
    assert gateway.connections[0].spark.asked == [(FETCH_NEXT, 2)] * 4
    assert gateway.reading.ahead is None


def test_nobody_guesses_twice_about_a_client_that_strays() -> None:
    gateway = gateway_of(SparkResult([5] * 50))
    for rows_max in (3, 3, 4, *[3] * 5):
        gateway.fetch(0, fetch(FETCH_NEXT, rows_max), 100)
    asked = gateway.connections[0].spark.asked
    three = (FETCH_NEXT, 3)
    assert asked == [three, three, three, (FETCH_PRIOR, 0), (FETCH_NEXT, 4), *[three] * 5]


def test_rows_that_are_not_in_columns_pass() -> None:
    plain, gateway = SparkResult([5] * 9, ROW_WISE), gateway_of(SparkResult([5] * 9, ROW_WISE))
    for number in range(6):
        request = fetch(FETCH_NEXT, 2, number)
        assert gateway.fetch(0, request, 50) == plain.answer(request)


def test_the_operations_log_is_none_of_it() -> None:
    request = calls.call("FetchResults", ttypes.TFetchResultsReq(calls.operation(), FETCH_NEXT, 10, 1))
    assert Reading().page(request, None) is None


def begun() -> tuple[Gateway, Ahead]:
    gateway = gateway_of(SparkResult([5] * 50))
    for _ in range(2):
        gateway.fetch(0, fetch(FETCH_NEXT, 3), 100)
    assert gateway.reading.ahead is not None
    return gateway, gateway.reading.ahead


@pytest.mark.parametrize(
    "answer",
    [
        frame(b""),
        frame(b"x"),
        frame(b"x" * 30),
        frame(reply.closed("CloseOperation", 7)),
        frame(reply.error("FetchResults", 8, "of another request", "HY000")),
    ],
)
def test_what_is_no_page_is_refused(answer: bytes) -> None:
    _, ahead = begun()
    with pytest.raises(WireError, match="something else"):
        ahead.receive(answer)


@pytest.mark.parametrize("sequence", [7, 9])
def test_an_error_passes_as_its_request_asked_for_it(sequence: int) -> None:
    gateway, ahead = begun()
    failed = reply.error("FetchResults", 7, "it failed", "HY000")
    assert ahead.receive(frame(failed)[:15]) == []
    page = gateway.reading.page(fetch(FETCH_NEXT, 3, sequence), ahead.reader)
    assert page is not None
    assert page.claims is ahead
    ahead.claim(page.payload)
    assert ahead.receive(b"") == []
    told = frame(reply.error("FetchResults", sequence, "it failed", "HY000"))
    assert b"".join(ahead.receive(frame(failed)[15:])) == told
    assert ahead.over
    assert page.receive(told) == (told, None)
    assert page.ended(may_read_ahead=True) is None


def test_after_a_lost_connection_nobody_knows_where_spark_stands() -> None:
    gateway, ahead = begun()
    ahead.lose()
    assert ahead.over
    assert gateway.reading.unsure
    page = gateway.reading.page(fetch(FETCH_NEXT, 3), ahead.reader)
    assert page is not None
    assert page.request is page.payload
    assert gateway.reading.unsure
    gateway.reading.page(fetch(FETCH_FIRST, 3), ahead.reader)
    assert not gateway.reading.unsure


def test_a_page_that_came_before_the_loss_is_known() -> None:
    gateway, ahead = begun()
    connection = gateway.connections[0]
    ahead.receive(connection.read(10_000))
    assert ahead.held > 0
    ahead.lose()
    assert not gateway.reading.unsure
    assert ahead.held == 0
    page = gateway.reading.page(fetch(FETCH_NEXT, 3), object())
    assert page is not None
    assert page.request == fetch(FETCH_PRIOR, 0)


@pytest.mark.parametrize("answer", [frame(b"x" * 20), frame(reply.error("FetchResults", 7, "no way back", "HYC00"))])
def test_where_spark_does_not_go_back_the_reading_ends(answer: bytes) -> None:
    gateway, ahead = begun()
    ahead.drop()
    page = gateway.reading.page(fetch(FETCH_NEXT, 3), ahead.reader)
    assert page is not None
    assert page.receive(answer[:9]) == (b"", None)
    with pytest.raises(WireError, match="going back"):
        page.receive(answer[9:])
    assert gateway.reading.unsure


def test_a_closed_operation_wants_no_page() -> None:
    gateway, ahead = begun()
    told = []
    ahead.on_drop = lambda: told.append("dropped")
    ahead.on_over.append(lambda: told.append("over"))
    gateway.reading.close()
    assert told == ["dropped"]
    assert ahead.receive(gateway.connections[0].read(10_000) + b"behind") == [b"behind"]
    assert told == ["dropped", "over"]
    assert gateway.reading.ahead is None
