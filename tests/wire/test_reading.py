"""Tests pages fetched in advance, with a fake of Spark's result iterator: clients notice no difference."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from TCLIService import ttypes
from wire import calls
from wire.spark_result import ROW_WISE, SparkResult, fetch, results

from gateway.wire import reading, reply
from gateway.wire.frame import WireError, frame
from gateway.wire.message import FETCH_FIRST, FETCH_NEXT, FETCH_PRIOR
from gateway.wire.reading import Ahead, ResultReading

LENGTHS = st.lists(st.integers(0, 700), max_size=60)


@dataclass
class Connection:
    """One connection to Spark, with the bytes of its answers that were not read yet."""

    spark: SparkResult
    unread: bytes = b""
    ahead: Ahead | None = None

    def send(self, request: bytes) -> None:
        self.unread += frame(self.spark.answer(request))

    def read(self, size: int) -> bytes:
        piece, self.unread = self.unread[:size], self.unread[size:]
        return piece


@dataclass
class Gateway:
    """Reads a result over several connections as the relay and the dispatcher do."""

    reading: ResultReading
    connections: list[Connection]
    taken: int = 0

    def fetch(self, which: int, request: bytes, size: int) -> bytes:
        """The client's answer, from bytes that arrive in pieces of `size`."""
        connection = self.connections[which]
        call = self.reading.call(request)
        if (elsewhere := self.reading.asked_elsewhere(connection)) is not None:
            elsewhere.drop()
            other = next(each for each in self.connections if each.ahead is elsewhere)
            while not elsewhere.over:
                assert self._received(other, other.read(size)) == []
        page = self.reading.page(request, call, connection)
        pieces = []
        if page.claims is not None:
            assert page.claims is connection.ahead
            self.taken += 1
            page.claims.claim(request)
            pieces = self._received(connection, b"")
        else:
            if connection.ahead is not None and not connection.ahead.complete:
                connection.ahead.drop()
            connection.send(request)
        answer = b""
        while True:
            for piece in pieces:
                answer += page.receive(piece)[0]
            if len(answer) >= 4 and len(answer) == 4 + int.from_bytes(answer[:4], "big"):
                break
            data = connection.read(size)
            assert data, "Spark got no request"
            pieces = self._received(connection, data)
        assert not self.reading.lost
        ahead = page.ended(may_read_ahead=connection.ahead is None)
        if ahead is not None:
            connection.ahead = ahead
            ahead.on_drop = partial(self._dropped, connection)
            connection.send(ahead.request)
        return answer[4:]

    def _dropped(self, connection: Connection) -> None:
        assert connection.ahead is not None
        if (back := connection.ahead.go_back()) is not None:
            connection.send(back)
        if connection.ahead.over:
            connection.ahead = None

    def _received(self, connection: Connection, data: bytes) -> list[bytes]:
        if connection.ahead is None:
            return [data]
        pieces = connection.ahead.receive(data)
        if connection.ahead.over:
            connection.ahead = None
        return pieces

    def let_come(self, which: int, size: int) -> None:
        """Receives `size` bytes of the page that was requested in advance."""
        connection = self.connections[which]
        if connection.ahead is not None and not connection.ahead.complete:
            assert self._received(connection, connection.read(size)) == []


def gateway_of(spark: SparkResult, connections: int = 1) -> Gateway:
    return Gateway(ResultReading(), [Connection(spark) for _ in range(connections)])


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
def test_each_client_gets_the_answer_of_spark(
    lengths: list[int], steps: list[tuple[int, int, int, int]], size: int, gives_up: bool
) -> None:
    plain, gateway = SparkResult(lengths), gateway_of(SparkResult(lengths), 2)
    for number, (orientation, rows_max, which, received) in enumerate(steps):
        request = fetch(orientation, rows_max, number)
        assert gateway.fetch(which, request, size) == plain.answer(request)
        gateway.let_come(which, received)
        if gives_up and number % 7 == 6 and (ahead := gateway.connections[which].ahead) is not None:
            ahead.drop()  # No client requested it for a while.


@given(st.integers(10, 60), st.integers(1, 5))
def test_a_client_that_reads_on_gets_pages_fetched_in_advance(rows: int, rows_max: int) -> None:
    spark = SparkResult([5] * rows)
    gateway, found = gateway_of(spark), list[tuple[Any, ...]]()
    while page := results(gateway.fetch(0, fetch(FETCH_NEXT, rows_max, len(found)), 100)):
        found += page
    assert found == spark.rows
    assert set(spark.asked) == {(FETCH_NEXT, rows_max)}
    assert gateway.taken == len(spark.asked) - 2  # The third page is the first one fetched in advance.


def test_no_page_is_fetched_in_advance_at_the_beginning_or_the_end() -> None:
    gateway = gateway_of(SparkResult([5] * 3))
    for _ in range(4):
        gateway.fetch(0, fetch(FETCH_NEXT, 2), 100)
    assert gateway.connections[0].spark.asked == [(FETCH_NEXT, 2)] * 4
    assert gateway.reading.ahead is None


def test_no_page_is_fetched_in_advance_after_a_wrong_guess() -> None:
    gateway = gateway_of(SparkResult([5] * 50))
    for rows_max in (3, 3, 4, *[3] * 5):
        gateway.fetch(0, fetch(FETCH_NEXT, rows_max), 100)
    asked = gateway.connections[0].spark.asked
    three = (FETCH_NEXT, 3)
    assert asked == [three, three, three, (FETCH_PRIOR, 3), (FETCH_NEXT, 4), *[three] * 5]


def test_no_page_is_fetched_in_advance_for_two_reading_connections() -> None:
    gateway = gateway_of(SparkResult([5] * 50), 2)
    for which in (0, 1, *[0] * 5, *[1] * 5):
        gateway.fetch(which, fetch(FETCH_NEXT, 3), 100)
    assert gateway.connections[0].spark.asked == [(FETCH_NEXT, 3)] * 12


def test_row_wise_pages_are_forwarded() -> None:
    plain, gateway = SparkResult([5] * 9, ROW_WISE), gateway_of(SparkResult([5] * 9, ROW_WISE))
    for number in range(6):
        request = fetch(FETCH_NEXT, 2, number)
        assert gateway.fetch(0, request, 50) == plain.answer(request)


def wide(fields: dict[str, Any]) -> bytes:
    request = ttypes.TFetchResultsReq(calls.operation(), FETCH_NEXT, 3, 0)
    for name, value in fields.items():
        setattr(request, name, value)
    return calls.call("FetchResults", request)


def test_a_request_without_an_orientation_is_not_repeated_in_advance() -> None:
    """It means FETCH_NEXT, but has no field to turn into FETCH_PRIOR."""
    gateway = gateway_of(SparkResult([5] * 50))
    for _ in range(4):
        gateway.fetch(0, wide({"orientation": None}), 100)
    assert gateway.connections[0].spark.asked == [(FETCH_NEXT, 3)] * 4


def test_a_long_request_is_not_kept() -> None:
    long = fetch(FETCH_NEXT, 3)[:-1] + b"\x0b\x00\x63" + (1000).to_bytes(4, "big") + b"x" * 1000 + b"\0"
    gateway = gateway_of(SparkResult([5] * 50))
    for _ in range(4):
        gateway.fetch(0, long, 100)
    assert gateway.connections[0].spark.asked == [(FETCH_NEXT, 3)] * 4
    assert gateway.reading._tail == b""


def test_a_long_page_is_not_fetched_in_advance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other requests of the client would have to wait for it."""
    monkeypatch.setattr(reading, "PAGE_BYTES_MAX", 1000)
    gateway = gateway_of(SparkResult([10] * 6 + [2000] * 2 + [10] * 9))
    asked = gateway.connections[0].spark.asked
    lengths = []
    for _ in range(7):
        gateway.fetch(0, fetch(FETCH_NEXT, 2), 100)
        lengths.append(len(asked))
    assert lengths == [1, 3, 4, 4, 6, 7, 8]


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
@pytest.mark.parametrize("dropped", [False, True])
def test_an_answer_without_a_page_is_refused(answer: bytes, dropped: bool) -> None:
    _, ahead = begun()
    if dropped:
        ahead.drop()
    with pytest.raises(WireError, match="does not match"):
        ahead.receive(answer)


@pytest.mark.parametrize("sequence", [7, 9])
def test_an_error_has_the_sequence_id_of_the_clients_request(sequence: int) -> None:
    gateway, ahead = begun()
    failed = reply.error("FetchResults", 7, "it failed", "HY000")
    assert ahead.receive(frame(failed)[:15]) == []
    payload = fetch(FETCH_NEXT, 3, sequence)
    page = gateway.reading.page(payload, gateway.reading.call(payload), gateway.connections[0])
    assert page.claims is ahead
    ahead.claim(page.payload)
    assert ahead.receive(b"") == []
    expected = frame(reply.error("FetchResults", sequence, "it failed", "HY000"))
    assert b"".join(ahead.receive(frame(failed)[15:])) == expected
    assert ahead.over
    assert page.receive(expected) == (expected, None)
    assert page.ended(may_read_ahead=True) is None


def test_a_lost_connection_ends_the_reading() -> None:
    """Spark's position in the result is unknown then."""
    gateway, ahead = begun()
    called = []
    ahead.on_over.append(lambda: called.append("over"))
    ahead.lose()
    ahead.lose()
    assert called == ["over"]
    assert gateway.reading.lost
    assert gateway.reading.ahead is None


@pytest.mark.parametrize("comes_first", [False, True])
def test_a_dropped_error_ends_the_reading(comes_first: bool) -> None:
    """Spark's position in the result is unknown then."""
    gateway, ahead = begun()
    gateway.connections[0].unread = b""
    failed = frame(reply.error("FetchResults", 7, "it failed", "HY000"))
    if comes_first:
        ahead.receive(failed)
    ahead.drop()
    if not comes_first:
        ahead.receive(failed)
    assert gateway.reading.lost
    assert not ahead.over, "the step back was not answered yet"
    assert ahead.receive(gateway.connections[0].read(10_000)) == []
    assert ahead.over


@pytest.mark.parametrize(
    "answer",
    [
        frame(reply.error("FetchResults", 7, "no way back", "HYC00")),
        frame(reply.closed("CloseOperation", 7)),
        frame(SparkResult([5] * 50).answer(fetch(FETCH_NEXT, 2))),
    ],
)
def test_a_failed_step_back_ends_the_reading(answer: bytes) -> None:
    gateway, ahead = begun()
    ahead.receive(gateway.connections[0].read(10_000))
    ahead.drop()
    assert ahead.receive(answer[:9]) == []
    assert not gateway.reading.lost
    assert ahead.receive(answer[9:] + b"behind") == [b"behind"]
    assert gateway.reading.lost
    assert ahead.over


def test_a_step_back_waits_for_its_turn() -> None:
    """While the client waits for another reply, no request may be sent, because the next bytes belong to that reply."""
    gateway, ahead = begun()
    ahead.on_drop = lambda: None
    ahead.receive(gateway.connections[0].read(10_000))
    ahead.drop()
    assert not ahead.over
    assert ahead.receive(b"another's") == [b"another's"]
    assert ahead.go_back() == fetch(FETCH_PRIOR, 3)
    assert ahead.go_back() is None
    back = frame(SparkResult([5] * 50).answer(fetch(FETCH_NEXT, 3)))
    assert ahead.receive(back) == []
    assert ahead.over
    assert not gateway.reading.lost


@pytest.mark.parametrize("dropped", [False, True])
def test_a_closed_operation_drops_the_page_without_a_step_back(dropped: bool) -> None:
    gateway, ahead = begun()
    called = []
    ahead.on_drop = lambda: called.append("dropped")
    ahead.on_over.append(lambda: called.append("over"))
    if dropped:
        ahead.drop()
    gateway.reading.close()
    assert set(called) == {"dropped"}
    assert ahead.go_back() is None
    assert gateway.reading.lost, "a further fetch must fail"
    del called[:]
    assert ahead.receive(gateway.connections[0].read(10_000) + b"behind") == [b"behind"]
    assert called == ["over"]
    assert gateway.reading.ahead is None


def test_a_closed_operation_cancels_a_pending_step_back() -> None:
    gateway, ahead = begun()
    ahead.receive(gateway.connections[0].read(10_000))
    ahead.on_drop = lambda: None
    ahead.drop()
    assert not ahead.over
    gateway.reading.close()
    assert ahead.over
