"""What statements may write, as far as materialized views depend on it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from gateway.errors import NotAllowed
from gateway.loops import Turn
from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.ledger import TablesWritten
from gateway.mv.model.view import WrittenBy
from gateway.service.clients.session import Session
from gateway.service.routing.facts import Facts
from gateway.service.routing.long_texts import LONG_CHARACTERS
from gateway.service.routing.scope import ViewScope, folded
from sql.definition.bases import function_name
from sql.grammar.cursor import NOT_SUPPORTED
from sql.names import Namespace, TableName
from sql.statement import Forwarded, Glance, WhenStale
from sql.understood import Understood

NAMED_MAX = 20
"""The maximum number of views in a warning."""
WRITER_CHARACTERS_MAX = 200
"""How much of a statement's text is kept to tell later what made a view stale."""
_OF_COLUMNS = frozenset({"rename", "column", "columns", "change", "replace"})
"""Words of an ALTER after which a definition may fail, or mean something else."""
_KEEPING_FILES = frozenset({"insert", "merge", "update", "delete", "truncate", "alter", "drop", "with", "from", "map"})
_FILE_WORDS = frozenset({"inpath", "location", "path", "directory"})


class Writes:
    """Determines the tables that statements may write to."""

    def __init__(self, catalog: Catalog, scope: ViewScope) -> None:
        self._catalog = catalog
        self._scope = scope

    def of(self, facts: Facts) -> TablesWritten | None:
        """None if the statement changes no rows that a view depends on."""
        statement, look = facts.statement, facts.look
        if statement.keeps_rows:
            return None
        tables = self._tables(facts)
        anything = _writes_anything(facts) or (not statement.exact and moves_files(look))
        if anything:
            tables.update(self._catalog.tables())
        if not tables and not anything:
            return None
        writer = _writer(facts.session, facts.known)
        return TablesWritten(look.words, frozenset(tables), anything, writer=writer)

    def unread(self, session: Session, known: Understood) -> TablesWritten:
        """The write of a statement that concerns no view. It is read if a view is created meanwhile that it may
        concern."""
        namespace = None if session.namespace_doubtful else session.namespace
        targets = partial(self._targets, session, namespace, known)
        return TablesWritten(known.look.words, None, moves_files(known.look), targets, _writer(session, known))

    def _targets(self, session: Session, namespace: Namespace | None, known: Understood) -> frozenset[TableName] | None:
        if namespace is None or len(known.text) > LONG_CHARACTERS or known.composes:
            return None
        statement = known.statement
        if not isinstance(statement, Forwarded) or not statement.exact or statement.drops_database:
            return None
        facts = Facts.of(session, namespace, known)
        if _writes_anything(facts) or self._scope.moves(session, statement):
            return None
        return frozenset(self._tables(facts))

    def _tables(self, facts: Facts) -> set[TableName]:
        statement = facts.statement
        if statement.keeps_rows:
            return set()
        tables = set(facts.targets)
        if statement.drops_database:
            tables.update(*(self._catalog.tables_in(target.table) for target in facts.targets))
        if statement.changes_function:
            tables.add(function_name(statement.changes_function, facts.namespace))
        if _writes_anything(facts):
            tables.update(self._catalog.tables())
        elif self._scope.moves(facts.session, statement):
            names = folded(statement.writes)
            tables.update(table for table in self._catalog.tables() if not names.isdisjoint(table.ends))
        return tables.union(self._catalog.changed_with(tables, exact=statement.exact))

    # --- scripts -----------------------------------------------------------------------------------

    async def check_script(self, script: Facts) -> None:
        """Raises NotAllowed if a step reads a view that must be fresh after a step that may have changed its tables:
        the view cannot be refreshed in between.

        A step that builds names at run time could read any view. It is allowed because it most probably reads none.
        """
        holding = {view.name.database for view in self._catalog.views()}
        whole = script.statement
        databases = [each for each in whole.reads if len(each.parts) == 1 and each.parts[0].lower() in holding]
        written: set[TableName] = set()
        turn = Turn()
        made: dict[str, frozenset[str]] = {}
        """The views that the script creates, perhaps temporary ones, with the materialized views that they read."""
        for statement, composed in script.known.steps:
            await turn.pause()  # There may be tens of thousands of steps.
            if whole.changes_namespace:  # The current database may be any that the script names.
                reads = (*statement.reads, *databases)
                statement = replace(statement, reads=reads, exact=False, changes_namespace=True)
            step = script.step(statement, composed=composed)
            if statement.touches_rows and not composed:
                read = await self._scope.views_read(step)
                named = {reference.parts[-1].lower() for reference in statement.reads}
                views = (read.direct | read.below).union(*(made[name] for name in named & made.keys()))
                if (view := statement.creates_view) is not None:
                    made[view[-1].lower()] = views
                else:
                    for view_id in sorted(views) if written else ():
                        self._check_read(view_id, written)
            written |= self._tables(step)

    def _check_read(self, view_id: str, written: set[TableName]) -> None:
        entry = self._catalog.find(view_id)
        if entry is None or (entry.view.built and (entry.view.when_stale is WhenStale.SERVE or entry.view.grace_ms)):
            return
        tables = {table for below in self._catalog.reads(view_id) for table in self._catalog.entry(below).view.tables}
        if changed := written & tables:
            raise NotAllowed(
                f"The script reads the materialized view {entry.view.name} after it may have changed {min(changed)}; "
                f"the view cannot be refreshed within a script. Run the statements one by one, or read the view first.",
                NOT_SUPPORTED,
            )

    # --- dropped tables ----------------------------------------------------------------------------

    def warning(self, look: Glance, targets: Iterable[TableName]) -> str:
        """Names the views that read what the statement drops or alters; empty if there are none."""
        if look.keyword != "drop" and not (look.keyword == "alter" and look.words & _OF_COLUMNS):
            return ""
        said = []
        for table in targets:
            if views := [str(entry.view.name) for entry in self._catalog.dependents([table]) if entry.visible]:
                more = f" and {len(views) - NAMED_MAX} more" if len(views) > NAMED_MAX else ""
                said.append(f"{table} is read by {', '.join(views[:NAMED_MAX])}{more}")
        return f"Warning: materialized views depend on it: {'; '.join(said)}" if said else ""


def moves_files(look: Glance) -> bool:
    """Whether a statement that writes may write or move files by path, which may be those of any table."""
    return look.keyword not in _KEEPING_FILES and not look.words.isdisjoint(_FILE_WORDS)


def _writes_anything(facts: Facts) -> bool:
    """Whether it may write to any table, for example through a path, as in delta.`/lake/sales`."""
    statement = facts.statement
    if statement.writes_files or any("/" in target.table for target in facts.targets):
        return True
    return facts.composed and (statement.everything or bool(statement.writes))


def _writer(session: Session, known: Understood) -> WrittenBy:
    return WrittenBy(session.user, known.text[:WRITER_CHARACTERS_MAX])
