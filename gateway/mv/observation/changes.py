"""Finds the rows that were added to a base table, or removed from it, since a mark, by statements alone, which list
files and read logs. No row is read here; the answer is a query for the rows.

Tests: `test_added_rows`, `test_added_rows_on_spark`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from gateway.errors import FreshgateError
from gateway.mv.formats.table_format import Change, Moment, TableFormat
from gateway.mv.model.marks import Mark
from gateway.mv.model.snapshot import Snapshot, Unobserved
from gateway.mv.observation.look import Look
from gateway.mv.observation.observer import Observer
from gateway.mv.ports import Relation
from sql.increments.reasons import NotIncremental, Reason
from sql.names import TableName
from sql.releases import NEWEST, Speaking

SIZE_SECONDS = 600.0
"""For how long a size is remembered: only its order matters."""
SIZES_MAX = 10_000
"""Tables whose sizes are remembered; many may have been dropped meanwhile."""


class Changes:
    """Every method may raise NotIncremental, and what Spark raises."""

    def __init__(
        self,
        observer: Observer,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        *,
        dialect: Speaking = lambda: NEWEST,
    ) -> None:
        self._observer = observer
        self._dialect = dialect
        self._now_ms = now_ms
        self._sizes: dict[TableName, tuple[float, int | None]] = {}
        """When the bytes of a table were asked for, and how many these were."""

    async def size(self, table: TableName, look: Look) -> int | None:
        """About how many bytes the table has; None if that is unknown. Never raises what Spark raises."""
        listed, relation = self._observer.size(table), look.relation
        if listed is not None or relation is None or look.is_view:
            return listed
        known = self._sizes.get(table)
        if known is None or known[0] < time.monotonic() - SIZE_SECONDS:
            try:
                known = time.monotonic(), await self._ask_size(relation)
            except (FreshgateError, TimeoutError, ValueError):
                return None
            if len(self._sizes) >= SIZES_MAX:
                self._sizes.clear()
            self._sizes[table] = known
        return known[1]

    def known_size(self, table: TableName) -> int:
        """As `size`, as far as it is known without a statement; 0 if it is not."""
        _, asked = self._sizes.get(table, (0.0, None))
        return self._observer.size(table) or asked or 0

    async def _ask_size(self, relation: Relation) -> int | None:
        found = self._observer.formats.of(relation)
        return None if found is None else await found.size(relation)

    def check(self, table: TableName, look: Look, is_on: Callable[[str], bool]) -> None:
        """Raises NotIncremental if changes of the table, as it is and as Spark reads it, can never be found. `is_on`:
        whether a setting of the gateway's own sessions is true."""
        found, relation, _ = self._plain(table, look)
        if (hindrance := found.hindrance(relation, is_on)) is not None:
            raise hindrance

    async def mark(self, table: TableName, look: Look) -> Mark:
        """The state of the table: now, or at the look, if it has a history."""
        found, relation, snapshot = self._plain(table, look)
        with _refusals(table):
            return await found.mark(relation, snapshot, self._now())

    async def since(self, table: TableName, look: Look, mark: Mark) -> Change:
        """What happened to the table since the mark."""
        found, relation, snapshot = self._plain(table, look)
        if snapshot.identity != mark.identity:
            raise NotIncremental(Reason.BASE_REPLACED, f"{table} was replaced, or its columns have changed")
        with _refusals(table):
            return await found.since(relation, snapshot, mark, self._now())

    def rows(self, table: TableName, look: Look, mark: Mark) -> str:
        """As `TableFormat.rows`."""
        found, relation, _ = self._plain(table, look)
        return found.rows(relation, mark)

    async def holding(self, table: TableName, look: Look, mark: Mark) -> bool:
        """As `TableFormat.holding`."""
        found, relation, _ = self._plain(table, look)
        with _refusals(table):
            return await found.holding(relation, mark)

    def _now(self) -> Moment:
        return Moment(self._now_ms(), self._dialect())

    def _plain(self, table: TableName, look: Look) -> tuple[TableFormat, Relation, Snapshot]:
        """The table with its format. Raises NotIncremental if its changes cannot be found."""
        relation, snapshot = look.relation, look.observed
        if isinstance(snapshot, Unobserved):
            raise NotIncremental(Reason.PROVIDER, snapshot.reason)
        if relation is None or not isinstance(snapshot, Snapshot) or table.aspect or table.path or look.root:
            raise NotIncremental(Reason.PROVIDER, f"{table} is not a plain table")
        found = self._observer.formats.of(relation)
        if found is None:
            raise NotIncremental(Reason.PROVIDER, f"changes of {table} cannot be found ({relation.provider})")
        found.check(relation)
        return found, relation, snapshot


@contextlib.contextmanager
def _refusals(table: TableName) -> Iterator[None]:
    """Raises NotIncremental where Spark cannot be asked, or does not answer in time."""
    try:
        yield
    except ValueError as error:
        raise NotIncremental(Reason.PROVIDER, str(error)) from error
    except TimeoutError as error:
        why = f"a look at {table} took too long"
        raise NotIncremental(Reason.PROVIDER, why) from error
