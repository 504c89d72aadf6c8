"""Tests how pages that are too long for a client are split, with a fake of Spark's result iterator."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from TCLIService import ttypes
from wire import calls
from wire.spark_result import COLUMNAR, ROW_WISE, SparkResult, fetch, results

from gateway.wire import message, reply
from gateway.wire.frame import HEADER_BYTES, WireError, frame
from gateway.wire.message import FETCH_FIRST, FETCH_NEXT, FETCH_PRIOR
from gateway.wire.page import Fit, FittedPage, rows_in

LIMIT = 2000
LENGTHS = st.lists(st.integers(0, 3000), max_size=40)
CUTS = st.lists(st.integers(0, 10_000), max_size=4)


def exchange(spark: SparkResult, payload: bytes, fit: Fit, cuts: list[int], limit: int = LIMIT) -> bytes:
    """The reply that the client gets, without the frame."""
    page = FittedPage(payload, limit, fit)
    request: bytes | None = page.request
    got = b""
    while request is not None:
        following = None
        for piece in calls.pieces_of(frame(spark.answer(request)), cuts):
            assert following is None, "requested before the reply had ended"
            passed, following = page.receive(piece)
            got += passed
        request = following
    assert int.from_bytes(got[:HEADER_BYTES], "big") == len(got) - HEADER_BYTES
    return got[HEADER_BYTES:]


@given(LENGTHS, st.integers(1, 60), CUTS, st.sampled_from([COLUMNAR, ROW_WISE]))
def test_every_row_is_delivered_once_and_in_order(
    lengths: list[int], rows_max: int, cuts: list[int], protocol: int
) -> None:
    spark, fit = SparkResult(lengths, protocol), Fit()
    for first in (FETCH_NEXT, FETCH_FIRST):
        orientation = first
        found: list[tuple[str, int]] = []
        while True:
            answer = exchange(spark, fetch(orientation, rows_max), fit, cuts)
            assert message.peek(answer).seqid == 7
            orientation = FETCH_NEXT
            page = results(answer)
            assert len(page) <= rows_max
            assert len(answer) <= LIMIT or len(page) == 1
            assert calls.read_reply(answer).results.startRowOffset == len(found)
            if not page:
                break
            found += page
        assert found == spark.rows


@given(LENGTHS, st.integers(1, 60), CUTS)
def test_pages_that_fit_are_forwarded_unchanged(lengths: list[int], rows_max: int, cuts: list[int]) -> None:
    spark, plain = SparkResult(lengths), SparkResult(lengths)
    fit = Fit()
    for orientation in (FETCH_NEXT, FETCH_NEXT, FETCH_PRIOR, FETCH_NEXT, FETCH_FIRST):
        payload = fetch(orientation, rows_max)
        assert exchange(spark, payload, fit, cuts, 1 << 30) == plain.answer(payload)
    assert spark.asked == plain.asked
    assert FittedPage(payload, 1 << 30, fit).request is payload


def test_the_fitting_number_of_rows_is_remembered_and_grows_again() -> None:
    spark, fit = SparkResult([150] * 200 + [0] * 400), Fit()
    exchange(spark, fetch(FETCH_NEXT, 100), fit, [])
    assert spark.asked == [(FETCH_NEXT, 100), (FETCH_PRIOR, 0), (FETCH_NEXT, fit.rows)]
    assert fit.rows is not None
    fitted = fit.rows
    assert 8 <= fitted <= 13
    for _ in range(5):
        exchange(spark, fetch(FETCH_NEXT, 100), fit, [])
    assert spark.asked[3:] == [(FETCH_NEXT, fitted)] * 5
    exchange(spark, fetch(FETCH_NEXT, 5), fit, [])
    assert spark.asked[-1] == (FETCH_NEXT, 5)
    while spark.position < 450:
        exchange(spark, fetch(FETCH_NEXT, 100), fit, [])
    assert fit.rows > 2 * fitted


def test_a_fetch_backwards_begins_at_the_right_row() -> None:
    spark, fit = SparkResult([150] * 60), Fit()
    while spark.position < 50:
        exchange(spark, fetch(FETCH_NEXT, 10), fit, [])
    begun = spark.start
    back = results(exchange(spark, fetch(FETCH_PRIOR, 30), fit, []))
    assert back == spark.rows[begun - 30 : begun - 30 + len(back)]
    assert 0 < len(back) < 30


def test_a_too_long_row_is_delivered_alone() -> None:
    spark, fit = SparkResult([10, 5000, 10]), Fit()
    found = [results(exchange(spark, fetch(FETCH_NEXT, 100), fit, [])) for _ in range(4)]
    assert [[number for _, number in page] for page in found] == [[0], [1], [2], []]


def test_an_error_of_spark_is_forwarded() -> None:
    error = reply.error("FetchResults", 7, "it failed", "HY000")
    page = FittedPage(fetch(FETCH_NEXT, 10), LIMIT, Fit())
    assert page.receive(frame(error)) == (frame(error), None)


def test_an_error_of_the_step_back_is_forwarded() -> None:
    page = FittedPage(fetch(FETCH_NEXT, 10), LIMIT, Fit())
    passed, again = page.receive(frame(SparkResult([500] * 10).answer(page.request)))
    assert passed == b""
    assert again == fetch(FETCH_PRIOR, 0)
    error = frame(reply.error("FetchResults", 7, "no way back", "HYC00"))
    assert page.receive(error[:20]) == (b"", None)
    assert page.receive(error[20:]) == (error, None)


@pytest.mark.parametrize(
    "answer", [frame(b"x" * 20), b"\x7f\xff\xff\xff", frame(reply.closed("CloseOperation", 7)) * 2]
)
def test_an_unexpected_answer_to_the_step_back_is_refused(answer: bytes) -> None:
    page = FittedPage(fetch(FETCH_NEXT, 10), LIMIT, Fit())
    page.receive(frame(SparkResult([500] * 10).answer(page.request)))
    with pytest.raises(WireError):
        page.receive(answer)


def test_bytes_after_a_page_are_refused() -> None:
    page = FittedPage(fetch(FETCH_NEXT, 10), LIMIT, Fit())
    with pytest.raises(WireError, match="after a page"):
        page.receive(frame(SparkResult([500] * 10).answer(page.request)) + b"x")


@given(st.lists(st.integers(0, 50), max_size=30), st.sampled_from([COLUMNAR, ROW_WISE]), st.integers(0, 400))
def test_the_number_of_rows_is_read_from_the_beginning(lengths: list[int], protocol: int, cut: int) -> None:
    answer = SparkResult(lengths, protocol).answer(fetch(FETCH_NEXT, 100))
    assert rows_in(answer[:120]) == (len(lengths) if lengths or protocol == COLUMNAR else None)
    assert rows_in(answer[:cut]) in (None, len(lengths))


@given(st.binary(max_size=60))
def test_an_invalid_beginning_has_no_number_of_rows(garbage: bytes) -> None:
    assert rows_in(garbage) is None or garbage.startswith(b"\x80\x01")
    rows_in(calls.reply("FetchResults", ttypes.TFetchResultsResp(ttypes.TStatus(0)))[:-1] + garbage)
