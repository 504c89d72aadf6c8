"""The pages of results that the gateway makes itself."""

from __future__ import annotations

from typing import Any

import pytest
from wire import calls

from gateway.service.operations.operation import ROW_VALUES_MAX, ROWS_MAX, VALUES_MAX, Operation, Result, new_handle
from gateway.wire.message import FETCH_FIRST, FetchCall
from gateway.wire.rowset import COLUMNAR_PROTOCOL, ResultColumn, rows_of

FETCH_NEXT = 0


async def of_rows(rows: list[tuple[int, ...]], protocol: int) -> Operation:
    async def work() -> Result:
        return Result(
            tuple(ResultColumn(f"c{place}") for place in range(len(rows[0]))), [tuple(map(str, r)) for r in rows]
        )

    operation = Operation(new_handle(), protocol)
    operation.start(work())
    await operation.settle()
    return operation


def page(operation: Operation, orientation: int, rows_max: int) -> list[tuple[Any, ...]]:
    return rows_of(calls.read_reply(operation.fetch(1, FetchCall(operation.handle, orientation, rows_max, 0))).results)


@pytest.mark.parametrize(
    ("columns", "protocol", "longest"),
    [
        (1, COLUMNAR_PROTOCOL, ROWS_MAX),
        (20, COLUMNAR_PROTOCOL, VALUES_MAX // 20),
        (20, COLUMNAR_PROTOCOL - 1, ROW_VALUES_MAX // 20),
    ],
)
async def test_a_page_is_no_longer_than_one_turn_can_write(columns: int, protocol: int, longest: int) -> None:
    """Whatever the client asks for. Nothing is lost: what is left is the next page."""
    operation = await of_rows([(number,) * columns for number in range(longest + 5)], protocol)
    assert len(page(operation, FETCH_NEXT, 1_000_000)) == longest
    assert [row[0] for row in page(operation, FETCH_NEXT, 1_000_000)] == [str(longest + each) for each in range(5)]
    assert page(operation, FETCH_NEXT, 10) == []
    assert len(page(operation, FETCH_FIRST, 3)) == 3
