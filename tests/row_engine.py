"""An engine for rows in memory that keeps nothing but their number, and does what a test lets it do."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Sequence

from gateway.mv.ports import KeptRows, LoadedTable, MemoryAnswer, MemoryUnavailable
from sql.memory.columns import MemoryColumn


class FakeRowEngine:
    """Implements `mv.ports.RowEngine`. A part is the text of a number: of rows, each of ROW_BYTES."""

    ROW_BYTES = 10

    def __init__(self) -> None:
        self.tables: dict[str, LoadedTable] = {}
        self.loads: Counter[str] = Counter()
        self.refuses: MemoryUnavailable | None = None
        self.runs = False
        self.left_out = 0
        """The rows that any condition leaves out."""
        self.added: list[int] = []
        """How many rows came from Spark, load by load."""

    async def start(self) -> None:
        assert not self.runs
        self.runs = True

    async def stop(self) -> None:
        self.runs = False
        self.tables.clear()

    async def load(
        self,
        table: str,
        columns: Sequence[MemoryColumn],
        parts: AsyncGenerator[bytes, None],
        *,
        kept: KeptRows | None = None,
    ) -> LoadedTable:
        assert self.runs
        self.loads[table] += 1
        before = 0 if kept is None else self.tables[kept.table].rows - self.left_out
        added = sum([int(part) async for part in parts])
        self._check()
        self.added.append(added)
        rows = before + added
        loaded = self.tables[table] = LoadedTable(tuple(columns), rows, rows * self.ROW_BYTES, {})
        return loaded

    async def drop(self, table: str) -> None:
        self._check()
        self.tables.pop(table, None)

    async def run(
        self, text: str, columns: Sequence[MemoryColumn], rows_max: int, bytes_max: int, seconds: float
    ) -> MemoryAnswer:
        raise MemoryUnavailable("failed", text)

    def _check(self) -> None:
        if self.refuses is not None:
            raise self.refuses
