"""A fake of a result at Spark: an iterator that fetches move."""

from __future__ import annotations

from typing import Any

from TCLIService import ttypes
from wire import calls

from gateway.wire import message, reply
from gateway.wire.message import FETCH_FIRST, FETCH_NEXT, FETCH_PRIOR
from gateway.wire.rowset import ResultColumn, Type, row_set, rows_of

COLUMNAR, ROW_WISE = 9, 4
COLUMNS = [ResultColumn("a"), ResultColumn("b", Type.INT)]


def fetch(orientation: int, rows_max: int, seqid: int = 7) -> bytes:
    return calls.call("FetchResults", ttypes.TFetchResultsReq(calls.operation(), orientation, rows_max, 0), seqid)


def results(answer: bytes) -> list[tuple[Any, ...]]:
    rows = calls.read_reply(answer).results
    if rows.columns is None:
        return [(row.colVals[0].stringVal.value, row.colVals[1].i32Val.value) for row in rows.rows]
    return rows_of(rows)


class SparkResult:
    """A result with rows of given lengths, and the position of its iterator."""

    def __init__(self, lengths: list[int], protocol: int = COLUMNAR) -> None:
        self.rows = [("x" * length, number) for number, length in enumerate(lengths)]
        self.protocol = protocol
        self.position = self.start = 0
        self.asked: list[tuple[int, int]] = []

    def answer(self, request: bytes) -> bytes:
        call = message.fetch_call(request)
        self.asked.append((call.orientation, call.rows_max))
        begins = {FETCH_NEXT: self.position, FETCH_PRIOR: self.start - call.rows_max, FETCH_FIRST: 0}
        self.start = max(0, begins[call.orientation])
        page = self.rows[self.start : self.start + max(0, call.rows_max)]
        self.position = self.start + len(page)
        rows = row_set(COLUMNS, page, self.protocol, self.start)
        return reply.fetch(message.peek(request).seqid, rows)
