"""Tests all code that reads a peer's bytes with deliberately invalid bytes.

The outcome is always an event, a wait for more bytes, or a WireError. It does not depend on how the bytes are split,
and the memory for them stays within the limits.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any

import pytest
from fuzzing.mutation import mutated, pieces, reordered
from hypothesis import given
from hypothesis import strategies as st
from TCLIService import ttypes
from wire import calls

from gateway.service.answers import healing
from gateway.wire import message as messages
from gateway.wire import reply as replies
from gateway.wire import rowset
from gateway.wire.connection import NOSASL, ClientConnection, UpstreamConnection
from gateway.wire.frame import FrameReader, WireError, WireLimits, frame
from gateway.wire.http_connection import HTTP, HttpUpstreamConnection
from gateway.wire.message import Head, ValuePlace
from gateway.wire.repeat import Repeat
from gateway.wire.rowset import ResultColumn, row_set
from gateway.wire.sasl import COMPLETE, PLAIN, START, Login, LoginRefused, NegotiationReader, negotiation
from gateway.wire.scanner import MessageScanner, message_end

BOTH = frozenset({PLAIN, NOSASL})
LIMITS = WireLimits(request_bytes_max=20_000, reply_bytes_max=20_000, buffer_bytes_max=100_000, login_bytes_max=500)
UNBOUNDED = WireLimits()
ADA = Login("ada", "x", HTTP)
HANDSHAKE = negotiation(START, b"PLAIN") + negotiation(COMPLETE, b"\0ada\0x")
REQUESTS = [
    *calls.samples(),
    calls.call("GetColumns", ttypes.TGetColumnsReq(calls.session(), None, "*", "t", "%")),
    calls.call("GetCrossReference", ttypes.TGetCrossReferenceReq(calls.session(), None, None, "t", None, None, "t")),
    calls.call("GetFunctions", ttypes.TGetFunctionsReq(calls.session(), None, "d", "abs")),
]
PAGE = [("x", 1, True), ("ö" * 40, None, False), (None, 3, None)]
COLUMNS = [ResultColumn("a"), ResultColumn("b", rowset.Type.INT), ResultColumn("c", rowset.Type.BOOLEAN)]
OK = ttypes.TStatus(0)
REPLIES = [
    replies.fetch(7, row_set(COLUMNS, PAGE, 9)),
    replies.fetch(7, row_set(COLUMNS, PAGE, 4)),
    replies.fetch(7, ttypes.TRowSet(0, [], [])),
    replies.result_metadata(7, COLUMNS),
    replies.error("FetchResults", 7, "no such thing", "42000"),
    replies.exception("GetLog", 7, "unknown"),
    replies.execute_ok(7, calls.HANDLE),
    replies.operation_status(7, 5, "42000", "failed"),
    calls.reply("OpenSession", ttypes.TOpenSessionResp(OK, 9, calls.session(), {"a": "b"})),
]
SEEDS = st.integers(0, 1 << 32)
RANDOMS = SEEDS.map(Random)
TIMES = st.integers(1, 4)

Outcome = tuple[list[Any], str]
"""The events, and the text of the final error, if there is one."""


def outcome(receive: Callable[[bytes], list[Any]], chunks: Iterable[bytes]) -> Outcome:
    events: list[Any] = []
    for chunk in chunks:
        try:
            events += receive(chunk)
        except WireError as error:
            return events, str(error)
    return events, ""


def a_client(data: list[bytes]) -> Outcome:
    """The outcome for a client whose login is accepted immediately."""
    connection = ClientConnection(BOTH, LIMITS)

    def receive(chunk: bytes) -> list[Any]:
        events = list(connection.receive(chunk))
        if events and isinstance(events[0], Login) and events[0].mechanism == PLAIN:
            connection.accept_login()
            events += connection.receive(b"")
        return events

    return outcome(receive, data)


def wrong_session(random: Random, framed: bool) -> bytes:
    chosen = [random.choice(REQUESTS) for _ in range(random.randrange(1, 5))]
    chosen = [mutated(each, random, REQUESTS) if random.random() < 0.4 else each for each in chosen]
    chosen = reordered(chosen, random) if random.random() < 0.3 else chosen
    stream = b"".join(frame(each) if framed else each for each in chosen)
    stream = (HANDSHAKE if framed else b"") + stream
    return mutated(stream, random, REQUESTS, random.randrange(3))


# --- clients ---------------------------------------------------------------------------------------------


@given(RANDOMS, st.booleans())
def test_an_invalid_session_has_the_same_outcome_in_any_pieces(random: Random, framed: bool) -> None:
    data = wrong_session(random, framed)
    whole_events, whole_error = a_client([data])
    for chunks in (pieces(data, random), [bytes((byte,)) for byte in data]):
        events, error = a_client(chunks)
        # An error hides the events before it in the same piece. It is never found later than in several pieces.
        assert events[: len(whole_events)] == whole_events
        assert bool(error) == bool(whole_error)
    for event in whole_events:
        assert isinstance(event, Login | bytes)
        if isinstance(event, bytes):
            assert message_end(event, LIMITS.request_bytes_max) == len(event)


@given(RANDOMS, st.lists(st.sampled_from(REQUESTS), min_size=1, max_size=3))
def test_messages_may_share_or_span_frames(random: Random, requests: list[bytes]) -> None:
    stream = b"".join(requests)
    frames = b"".join(frame(piece) for piece in pieces(stream, random))
    events, error = a_client(pieces(HANDSHAKE + frames, random))
    assert (events[1:], error) == (requests, "")
    assert a_client(pieces(stream, random))[0][1:] == requests


@pytest.mark.parametrize("framed", [True, False])
@pytest.mark.parametrize(
    "endless",
    [
        b"\x0b\x00\x01\x00\x00\x10\x00" + b"x" * 4096,
        b"\x0f\x00\x01\x0b\x00\x00\x40\x00" + b"\x00\x00\x00\x00" * 1024,
        b"\x0c\x00\x01" * 30,
    ],
)
def test_the_memory_for_an_endless_request_is_limited(framed: bool, endless: bytes) -> None:
    """Each field has a new number, so that only the limit ends the request, and not a duplicate field."""
    head = b"\x80\x01\0\x01\0\0\0\x10ExecuteStatement\0\0\0\x05"
    connection = ClientConnection(BOTH, LIMITS)
    if framed:
        connection.receive(HANDSHAKE)
        connection.accept_login()
    fed = 0

    def chunks() -> Iterator[bytes]:
        nonlocal fed
        for number in range(1, 1 << 15):
            chunk = endless.replace(b"\x00\x01", number.to_bytes(2, "big"), 1)
            fed += len(chunk)
            yield frame(chunk) if framed else chunk

    connection.receive(frame(head) if framed else head)
    tracemalloc.start()
    try:
        _, error = outcome(lambda chunk: list(connection.receive(chunk)), chunks())
        assert error
        assert fed <= 2 * LIMITS.request_bytes_max
        assert tracemalloc.get_traced_memory()[1] < 20 * LIMITS.request_bytes_max
    finally:
        tracemalloc.stop()


@given(st.binary(max_size=30), st.integers(-(1 << 31), (1 << 31) - 1))
def test_a_frame_with_a_hostile_length_takes_no_memory(data: bytes, length: int) -> None:
    connection = ClientConnection(BOTH, LIMITS)
    connection.receive(HANDSHAKE)
    connection.accept_login()
    header = length.to_bytes(4, "big", signed=True)
    if 0 <= length <= LIMITS.request_bytes_max:
        outcome(lambda chunk: list(connection.receive(chunk)), [header, data])
    else:
        with pytest.raises(WireError, match="limit"):
            connection.receive(header + data)


@given(RANDOMS, SEEDS)
def test_only_the_same_bytes_get_a_repeated_answer(random: Random, seqid: int) -> None:
    request, reply = calls.status(7), replies.operation_status(7, 2)
    repeat = Repeat(request, reply, (frame(request), frame(reply)))
    other = mutated(frame(request), random, REQUESTS)
    answer = repeat.answer(other)
    if answer is not None:
        head = messages.peek(other[4:])
        assert messages.peek(answer[4:]).seqid == head.seqid
        assert messages.with_seqid(other[4:], 7) == request


# --- the handshake ---------------------------------------------------------------------------------------


@given(RANDOMS, TIMES)
def test_an_invalid_handshake_has_the_same_outcome_in_any_pieces(random: Random, times: int) -> None:
    data = mutated(HANDSHAKE * 2, random, REQUESTS, times)

    def read(chunks: list[bytes]) -> Outcome:
        reader = NegotiationReader(LIMITS.login_bytes_max)

        def receive(chunk: bytes) -> list[Any]:
            reader.feed(chunk)
            found = []
            while (message := reader.next()) is not None:
                found.append(message)
                assert len(message[1]) <= LIMITS.login_bytes_max
            assert len(reader.rest) < LIMITS.login_bytes_max + 5
            return found

        return outcome(receive, chunks)

    events, error = read([data])
    for chunks in (pieces(data, random), [bytes((byte,)) for byte in data]):
        other_events, other_error = read(chunks)
        assert other_error == error
        assert other_events[: len(events)] == events


@given(RANDOMS, st.sampled_from([negotiation(COMPLETE), negotiation(3, b"no"), negotiation(2, b"more")]))
def test_an_invalid_answer_to_a_login_is_read_or_refused(random: Random, answer: bytes) -> None:
    connection = UpstreamConnection(Login("ada", "x", PLAIN), LIMITS)
    connection.login()
    for piece in pieces(mutated(answer, random, REQUESTS), random):
        try:
            if connection.receive_login(piece):
                break
        except (WireError, LoginRefused):
            break


# --- frames ----------------------------------------------------------------------------------------------


@given(RANDOMS, TIMES)
def test_invalid_frames_have_the_same_outcome_in_any_pieces(random: Random, times: int) -> None:
    data = mutated(b"".join(map(frame, random.sample(REQUESTS, 3))), random, REQUESTS, times)

    def read(chunks: list[bytes]) -> tuple[bytes, int, str]:
        reader, counter = FrameReader(LIMITS.request_bytes_max), FrameReader(LIMITS.request_bytes_max)
        payload, ended, counted = b"", 0, 0
        for chunk in chunks:
            try:
                found = reader.feed(chunk)
            except WireError as error:
                with pytest.raises(WireError):
                    counter.skip(chunk)
                return payload, ended, str(error)
            payload += b"".join(piece for piece, _ in found)
            ended += sum(end for _, end in found)
            counted += counter.skip(chunk)
            assert counted == ended
            assert counter.at_border == reader.at_border
        return payload, ended, ""

    whole = read([bytes((byte,)) for byte in data])
    found = read(pieces(data, random))
    assert found[2] == whole[2]
    if not whole[2]:
        assert found == whole


# --- Spark's replies -------------------------------------------------------------------------------------


@given(RANDOMS, st.sampled_from([PLAIN, NOSASL]), TIMES)
def test_an_invalid_reply_is_streamed_collected_or_refused(random: Random, mechanism: str, times: int) -> None:
    reply = random.choice(REPLIES)
    data = mutated(frame(reply) if mechanism == PLAIN else reply, random, REPLIES, times)
    collecting = UpstreamConnection(Login("ada", "x", mechanism), LIMITS)
    collecting.send(calls.fetch())
    for piece in pieces(data, random):
        try:
            collected = collecting.collect(piece)
        except WireError:
            break
        if collected is not None:
            assert message_end(collected, 1 << 30) == len(collected)
            assert len(collected) <= LIMITS.reply_bytes_max
            break
    streaming = UpstreamConnection(Login("ada", "x", mechanism), LIMITS)
    streaming.send(calls.fetch())
    passed = b""
    for piece in pieces(data, random):
        try:
            chunk, ended = streaming.relay(piece, mechanism == PLAIN)
        except WireError:
            break
        passed += chunk
        if ended:
            break
    assert data.startswith(passed)


@given(RANDOMS, TIMES, st.booleans())
def test_an_invalid_reply_over_http_is_streamed_collected_or_refused(
    random: Random, times: int, in_chunks: bool
) -> None:
    """The outcome does not depend on how the bytes are split, and no bytes after the reply count as a part of it."""
    data = mutated(_response(random.choice(REPLIES), random, in_chunks), random, [b"HTTP/1.1 200 OK\r\n\r\n"], times)
    whole = _read_over_http([bytes((byte,)) for byte in data])
    found = _read_over_http(list(pieces(data, random)))
    if whole is None:
        assert found is None
    elif found is not None and found != whole:  # Bytes after the end are noticed only if they arrive with it.
        # In one piece, a complete message is recognized even if the end of the body is missing.
        assert (found, whole[1]) == ((whole[0], True), False)
        assert _is_whole(found[0])


def _response(body: bytes, random: Random, in_chunks: bool) -> bytes:
    if not in_chunks:
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces(body, random) if piece)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


def _read_over_http(chunks: list[bytes]) -> tuple[bytes, bool] | None:
    """The streamed bytes, and whether the reply has ended; None if it was refused.

    If the reply is collected instead, the outcome must be the same, or a refusal because of bytes after it in the body.
    A response with an HTTP status other than 200 is refused at its end.
    """
    passed = _given_out(chunks, lambda connection, chunk: connection.relay(chunk, False))
    collected = _given_out(chunks, _collect)
    if passed is None:
        assert collected in (None, (b"", False))
    elif passed[1]:
        assert collected in (passed, None)
    return passed


def _collect(connection: HttpUpstreamConnection, chunk: bytes) -> tuple[bytes, bool]:
    reply = connection.collect(chunk)
    return reply or b"", reply is not None


def _given_out(
    chunks: list[bytes], read: Callable[[HttpUpstreamConnection, bytes], tuple[bytes, bool]]
) -> tuple[bytes, bool] | None:
    connection = HttpUpstreamConnection(ADA, UNBOUNDED, "here", "/cliservice", early=True)
    connection.send(calls.fetch())
    given, ended = b"", False
    try:
        for chunk in chunks:
            if ended:  # The message was complete before the body had ended.
                assert connection.late(chunk, False) == b""
            else:
                piece, ended = read(connection, chunk)
                given += piece
    except WireError:
        return None
    return given, ended


REPLY_READERS: list[Callable[[bytes], Any]] = [
    messages.reply_status,
    messages.operation_state,
    messages.operation_sqlstate,
    messages.execute_handle,
    messages.results,
    messages.opened,
    messages.peek,
    healing.with_column,
    lambda reply: messages.with_seqid(reply, 3),
]


@given(RANDOMS, TIMES)
def test_invalid_replies_are_read_or_refused(random: Random, times: int) -> None:
    """Only replies that the scanner accepts are read."""
    reply = mutated(random.choice(REPLIES), random, REPLIES, times)
    if not _is_whole(reply):
        return
    for read in REPLY_READERS:
        try:
            read(reply)
        except WireError:
            continue


@given(RANDOMS, TIMES)
def test_invalid_rows_are_read_or_refused(random: Random, times: int) -> None:
    reply = mutated(random.choice(REPLIES[:3]), random, REPLIES, times)
    if not _is_whole(reply):
        return
    uses: list[Callable[[Any], Any]] = [
        rowset.count_rows,
        rowset.rows_of,
        lambda rows: rowset.texts_of(rows, 0),
        lambda rows: rowset.texts_of(rows, 3),
    ]
    try:
        place = messages.results(reply)
        rows = replies.read_rows(reply, place) if place is not None else None
    except WireError:
        return
    if rows is None:
        return
    for use in uses:
        try:
            use(rows)
        except WireError:
            continue


def _is_whole(data: bytes) -> bool:
    try:
        return message_end(data, 1 << 20) == len(data)
    except WireError:
        return False


# --- requests --------------------------------------------------------------------------------------------


def _healed(payload: bytes) -> bytes:
    head: Head = messages.peek(payload)
    settings = healing.Healing()
    return healing.metadata_call(settings, head.name, payload, None)


REQUEST_READERS: list[Callable[[bytes], Any]] = [
    messages.peek,
    messages.request_handle,
    messages.statement,
    messages.table_types,
    messages.open_session,
    messages.fetch_call,
    messages.wants_progress,
    messages.texts,
    messages.info_type,
]
SPLICES: list[Callable[[bytes], bytes]] = [
    lambda payload: messages.with_statement(payload, "select 'ü'"),
    lambda payload: messages.with_query_timeout(payload, 7),
    lambda payload: messages.with_handle(payload, calls.OTHER),
    lambda payload: messages.with_handle(payload, messages.Handle(b"short", b"")),
    lambda payload: messages.with_table_types(payload, ["VIEW"]),
    lambda payload: messages.with_fetch(payload, 4, 10),
    lambda payload: messages.with_texts(payload, {3: "ü", 4: ""}),
    lambda payload: messages.with_seqid(payload, -1),
    _healed,
]


@given(RANDOMS, TIMES)
def test_invalid_requests_are_read_or_refused(random: Random, times: int) -> None:
    """A spliced request is one valid message, so that Spark reads the same message as the gateway."""
    request = mutated(random.choice(REQUESTS), random, REQUESTS, times)
    if not _is_whole(request):
        return
    for read in REQUEST_READERS:
        try:
            read(request)
        except WireError:
            continue
    for splice in SPLICES:
        try:
            spliced = splice(request)
        except WireError:
            continue
        assert _is_whole(spliced)


@given(RANDOMS)
def test_located_fields_are_within_the_message(random: Random) -> None:
    request = mutated(random.choice([*REQUESTS, *REPLIES]), random, REQUESTS, 2)
    if not _is_whole(request):
        return
    for path in ((1,), (0,), (1, 1), (1, 1, 1), (0, 2, 1), (0, 3)):
        for kind in (11, 12, 13, 15):
            try:
                place: ValuePlace | None = messages.locate(request, path, kind)
            except WireError:
                continue
            assert place is None or 0 < place.start <= place.end <= len(request)


@given(RANDOMS, st.integers(1, 5000))
def test_the_number_of_values_is_bounded_in_any_pieces(random: Random, values_max: int) -> None:
    statement = random.choice(REQUESTS)
    scanner = MessageScanner(1 << 20, values_max)
    whole = MessageScanner(1 << 20, values_max)

    def end_of(reader: MessageScanner, chunks: list[bytes]) -> bool | str:
        for chunk in chunks:
            try:
                if reader.feed(chunk) is not None:
                    return True
            except WireError as error:
                return str(error)
        return False

    assert end_of(scanner, pieces(statement, random)) == end_of(whole, [statement])


LISTS = [
    (calls.open_session(), b"\x0d\0\x04\x0b\x0b", [b"\x0d\0\x04\x0a\x0a", b"\x0d\0\x04\x0b\x02"]),
    (calls.execute("SELECT 1"), b"\x0d\0\x03\x0b\x0b", [b"\x0d\0\x03\x0a\x0a", b"\x0d\0\x03\x0c\x0b"]),
    (
        calls.call("GetTables", ttypes.TGetTablesReq(calls.session(), None, "d", "t", ["TABLE", "VIEW"])),
        b"\x0f\0\x05\x0b",
        [b"\x0f\0\x05\x0a", b"\x0f\0\x05\x02", b"\x0f\0\x05\x0c", b"\x0e\0\x05\x0a"],
    ),
]


def test_lists_in_fields_unknown_to_hiveserver2_may_have_any_type() -> None:
    """Databricks' drivers send such fields, and Spark skips them by the types in the message."""
    asked = calls.open_session()
    infos = b"\x0f\x05\x01\x08\0\0\0\x02" + bytes(8)
    request_ = asked[:-2] + infos + asked[-2:]
    assert a_client([request_]) == ([Login("", "", NOSASL), request_], "")


@pytest.mark.parametrize(("request_", "begin", "others"), LISTS, ids=["settings", "overlay", "types of tables"])
@pytest.mark.parametrize("framed", [True, False])
def test_lists_of_other_types_than_strings_are_refused(
    request_: bytes, begin: bytes, others: list[bytes], framed: bool
) -> None:
    """Generated code reads the items as strings whatever type the message has, and so would find other fields after
    them."""
    assert request_.count(begin) == 1
    for header in [begin, *others]:
        payload = request_.replace(begin, header)
        events, error = a_client([HANDSHAKE + frame(payload) if framed else payload])
        assert (payload in events) == (header == begin)
        assert ("lists and maps may hold only strings" in error) == (header != begin)
