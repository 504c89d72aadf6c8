"""Reads a result of Spark's from its first to its last row, if it is small."""

from __future__ import annotations

import logging

from gateway.loops import in_thread
from gateway.mv.refresh.habits import Habits
from gateway.service.clients.session import Session
from gateway.service.clients.side_connections import SideConnection
from gateway.service.results.recorded import Recorded
from gateway.wire import columnar, message, request
from gateway.wire.frame import WireError
from gateway.wire.message import FETCH_FIRST, FETCH_NEXT, STATUS_ERROR, Handle
from gateway.wire.rowset import COLUMNAR_PROTOCOL

log = logging.getLogger(__name__)

FIRST_ROWS = 16
"""Rows of the first page: it tells how long rows are, before many are requested."""
ROWS_MAX = 10_000
TEXT_BYTES = 8
"""A short text takes about so many bytes of a reply."""


def unrecordable(session: Session, habits: Habits) -> str | None:
    """Why no result of the session can be read to its end before its client reads it; None if one can."""
    if session.collects_in_parts or not habits.collects_whole:
        return "Spark computes the rows of the session only when they are fetched"
    if session.protocol < COLUMNAR_PROTOCOL:
        return "the session's protocol has rows instead of columns"
    return None


async def record(side: SideConnection, handle: Handle, status: bytes, bytes_max: int) -> Recorded | None:
    """The result of an operation that has ended; None if it has more than `bytes_max` bytes, or a form that cannot be
    repeated. Then its next row is the first one again. Raises UpstreamLost."""
    try:
        recorded = await _read(side, handle, status, bytes_max)
    except (WireError, IndexError) as error:
        log.info("a result is not kept: %s", error)
        recorded = None
    if recorded is None:
        await side.forward(request.fetch(handle, FETCH_FIRST, 0))
    return recorded


async def _read(side: SideConnection, handle: Handle, status: bytes, bytes_max: int) -> Recorded | None:
    """Raises WireError."""
    metadata = await side.forward(request.result_metadata(handle))
    if message.reply_status(metadata).code == STATUS_ERROR:
        raise WireError("Spark does not tell its columns")
    pages: list[columnar.ColumnarPage] = []
    taken, rows_max = len(status) + len(metadata), FIRST_ROWS
    while True:
        answer = await side.forward(request.fetch(handle, FETCH_NEXT, rows_max))
        if message.reply_status(answer).code == STATUS_ERROR:
            raise WireError("Spark does not give its rows")
        page = await in_thread(len(answer) // TEXT_BYTES, columnar.ColumnarPage, answer)
        if page.rows == 0:
            return Recorded(status, metadata, pages or [page], taken)
        pages.append(page)
        taken += page.bytes
        if taken > bytes_max:
            return None
        # Not more than would be too large, and a row beyond.
        rows_max = max(1, min(ROWS_MAX, (bytes_max - taken) * page.rows // page.bytes + 1))
