"""Scripts that read a materialized view after their own write to its tables; it cannot be refreshed in between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from gateway.errors import NotAllowed
from gateway.loops import Turn
from gateway.mv.catalog.index import Catalog
from gateway.service.routing.stale_reads import Read
from sql.grammar.cursor import NOT_SUPPORTED
from sql.names import Namespace, TableName
from sql.scripts import Step
from sql.statement import Forwarded, WhenStale

ViewsRead = Callable[[Forwarded], Awaitable[Read]]
"""The views that a statement reads."""
Writes = Callable[[Forwarded, list[TableName], bool], set[TableName]]
"""The base tables that a statement with these targets may change; all if it builds names at run time."""


@dataclass(frozen=True, slots=True)
class Script:
    whole: Forwarded
    steps: Sequence[Step]
    namespace: Namespace


async def check(catalog: Catalog, script: Script, views_read: ViewsRead, writes: Writes) -> None:
    """Raises NotAllowed if a step reads a view that must be fresh after a step that may have changed its tables.

    A step that builds names at run time could read any view. It is allowed because it most probably reads none.
    """
    holding = {view.name.database for view in catalog.views()}
    databases = [each for each in script.whole.reads if len(each.parts) == 1 and each.parts[0].lower() in holding]
    written: set[TableName] = set()
    turn = Turn()
    made: dict[str, frozenset[str]] = {}
    """The views that the script creates, perhaps temporary ones, with the materialized views that they read."""
    for statement, composed in script.steps:
        await turn.pause()  # There may be tens of thousands of steps.
        if script.whole.changes_namespace:  # The current database may be any that the script names.
            reads = (*statement.reads, *databases)
            statement = replace(statement, reads=reads, exact=False, changes_namespace=True)
        if statement.touches_rows and not composed:
            read = await views_read(statement)
            named = {reference.parts[-1].lower() for reference in statement.reads}
            views = (read.direct | read.below).union(*(made[name] for name in named & made.keys()))
            if (view := statement.creates_view) is not None:
                made[view[-1].lower()] = views
            else:
                for view_id in sorted(views) if written else ():
                    _check(catalog, view_id, written)
        targets = [TableName.resolve(parts, script.namespace) for parts in statement.writes]
        written |= writes(statement, targets, composed)


def _check(catalog: Catalog, view_id: str, written: set[TableName]) -> None:
    entry = catalog.find(view_id)
    if entry is None or (entry.view.built and (entry.view.when_stale is WhenStale.SERVE or entry.view.grace_ms)):
        return
    tables = {table for below in catalog.reads(view_id) for table in catalog.entry(below).view.tables}
    if changed := written & tables:
        raise NotAllowed(
            f"The script reads the materialized view {entry.view.name} after it may have changed {min(changed)}; the "
            f"view cannot be refreshed within a script. Run the statements one by one, or read the view first.",
            NOT_SUPPORTED,
        )
