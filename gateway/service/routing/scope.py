"""Resolves the names of a statement in its session, as far as they lead to materialized views.

Tests: `test_router`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Set

from gateway.errors import FreshgateError
from gateway.mv.catalog.index import Catalog
from gateway.mv.model.damage import damaged
from gateway.mv.observation.relations import Relations
from gateway.service.clients.pending_statement import PendingStatement
from gateway.service.clients.session import Session
from gateway.service.clients.temporary_views import Made, Reachable, UncertainChange, Underlying
from gateway.service.routing.facts import Facts, ViewsRead
from gateway.service.routing.ways import (
    Effect,
    MeaningsMove,
    SparkViewsChanged,
    TemporaryViewsChanged,
    TemporaryViewsDoubted,
)
from sql.definition.bases import function_name
from sql.names import Namespace, Parts, TableName
from sql.statement import Forwarded
from sql.understood import Understood
from sql.words import Words

RELATION_WORDS = frozenset({"view", "database", "schema", "namespace", "function", "databases"})
"""A text without any of these words changes no Spark view, database or function, permanent or temporary."""
USE_CHARACTERS_MAX = 300
"""A longer USE is not one that only names a database."""


class ViewScope:
    """Resolves names to materialized views, also through permanent and temporary Spark views."""

    def __init__(self, catalog: Catalog, relations: Relations) -> None:
        self._catalog = catalog
        self._relations = relations
        self._changing: dict[PendingStatement, frozenset[str]] = {}
        """Statements whose end has not been noticed and that change Spark views or databases, with these databases."""

    def temporary(self, session: Session) -> Reachable:
        """The temporary views that a statement of the session can name."""
        return Reachable(session.temporary, session.shared)

    def of_interest(self, session: Session, words: Words, *, writes: bool) -> bool:
        """Whether a statement with these identifiers may concern materialized views. A cheap check."""
        catalog = self._catalog
        if session.namespace is None or self._changing_in(session.namespace, words):
            return True
        if session.namespace.database == catalog.storage_database:
            return True
        if session.namespace_doubtful and catalog.stores(words):
            return True
        return not (
            words.isdisjoint(catalog.view_words)
            and words.isdisjoint(self._relations.view_words)
            and (not writes or words.isdisjoint(catalog.table_words))
            and not self.temporary(session).mentioned(words)
            and self._relations.known(session.namespace.database, words)
        )

    async def learn(self, session: Session, namespace: Namespace, words: Words) -> None:
        """Lists the Spark views of the databases that a statement may refer to."""
        if changing := self._changing_in(namespace, words):
            # Spark may have executed them. A statement that ends during `look` calls `_forget` itself.
            await asyncio.gather(*(each.look() for each in changing))
            self._forget(frozenset().union(*changing.values()))
        for mentioned in (words, *session.moving_words):
            await self._relations.learn(namespace.database, mentioned)

    async def views_read(self, facts: Facts) -> ViewsRead:
        """The materialized views that a statement reads.

        Only names that may lead to a view are resolved, because a text that is not understood may have very many names.
        A temporary view hides a table; it is not always known which of the two a name means."""
        session, namespace, statement = facts.session, facts.namespace, facts.statement
        direct: set[str] = set()
        perhaps: set[str] = set()
        names: set[TableName] = set()
        temporary = self.temporary(session)
        reads = Underlying(anything=facts.composed)
        leading = self._catalog.view_words | self._relations.view_words
        sure = {each.parts for each in statement.reads if not each.perhaps}
        for parts in temporary.among((each.parts for each in statement.reads), leading):
            found = temporary.reads(parts)
            reads |= found if parts in sure else found.doubted
            if parts[-1].lower() in leading:
                name = TableName.resolve(parts, namespace)
                view = self._catalog.named(name)
                if name in self._catalog.damaged:
                    await self._refuse_damaged(name)
                is_sure = parts in sure and not self._is_unsure(session, parts)
                if view is not None:
                    (direct if is_sure else perhaps).add(view.id)
                elif parts in sure:
                    names.add(name)
                else:
                    reads |= Underlying(perhaps=frozenset({name}))
        for parts in temporary.among(statement.calls, frozenset()):
            reads |= temporary.reads(parts)
        called = self._functions_called(namespace, statement)
        reads |= Underlying(called) if statement.exact else Underlying(perhaps=called)
        elsewhere = self._read_elsewhere(session, statement)
        # A script that changes the database names it.
        chosen = {parts[0] for parts in _folded_reads(statement)} if elsewhere and not statement.exact else set()
        said = {name for name in elsewhere if name.database in chosen}
        sources = await self._relations.sources_of(names | reads.surely | said)
        below = sources.views | self._invokers_stored_in(sources.tables)
        perhaps |= await self._views_behind(reads.perhaps | elsewhere, anything=reads.anything)
        return ViewsRead(frozenset(direct), below, frozenset(perhaps - direct - below))

    def _invokers_stored_in(self, tables: Iterable[TableName]) -> frozenset[str]:
        """The views with SECURITY INVOKER of which these tables are the storage: a Spark view may read it."""
        if not (invokers := self._catalog.invokers):
            return frozenset()
        database = self._catalog.storage_database
        return invokers & {table.table for table in tables if table.database == database}

    async def _views_behind(self, names: Iterable[TableName], *, anything: bool) -> frozenset[str]:
        """The views that names lead to if they mean these relations. Errors are ignored."""
        if not anything:
            try:
                return (await self._relations.sources_of(names)).views
            except FreshgateError:
                pass
        return frozenset(view.id for view in self._catalog.views())

    def _is_unsure(self, session: Session, parts: Parts) -> bool:
        """Whether the name of a materialized view may mean something else."""
        if self.temporary(session).may_be(parts):
            return True
        return len(parts) == 1 and session.namespace_doubtful

    def _read_elsewhere(self, session: Session, statement: Forwarded) -> set[TableName]:
        """The views in other databases that the statement's names may mean."""
        if not self.moves(session, statement):
            return set()
        names = _folded_reads(statement)
        views = {view.name for view in self._catalog.views() if not names.isdisjoint(view.name.ends)}
        return views.union(self._relations.called(names))

    def moves(self, session: Session, statement: Forwarded) -> bool:
        """Whether another database or catalog may be current when Spark resolves a name."""
        return session.namespace_doubtful or (not statement.exact and statement.changes_namespace)

    def names_read(self, facts: Facts, *, anything: bool = False) -> Underlying:
        """What a view that the statement creates reads, also through temporary views and functions."""
        session, namespace, statement = facts.session, facts.namespace, facts.statement
        temporary = self.temporary(session)
        names = {TableName.resolve(reference.parts, namespace) for reference in statement.reads}
        names |= self._functions_called(namespace, statement)
        elsewhere = frozenset(self._read_elsewhere(session, statement))
        reads = Underlying(frozenset(names), elsewhere, anything=anything)
        for parts in (*(reference.parts for reference in statement.reads), *statement.calls):
            reads |= temporary.reads(parts)
        return reads

    def may_call_others(self, statement: Forwarded) -> bool:
        """Whether a function that it calls may be one that a user has made, which may hide one of Spark's."""
        return any(parts[-1].lower() in self._relations.view_words for parts in statement.calls)

    def _functions_called(self, namespace: Namespace, statement: Forwarded) -> frozenset[TableName]:
        """The functions that it may call and whose bodies may read views."""
        known = self._relations.view_words
        return frozenset(function_name(parts, namespace) for parts in statement.calls if parts[-1].lower() in known)

    # --- what a statement changes about names ------------------------------------------------------

    def effects(self, facts: Facts, doubted: Set[Parts]) -> Iterator[Effect]:
        """The changes of the current database, temporary views and Spark views. `doubted`: the temporary views that
        a text that is not understood may create."""
        statement, look = facts.statement, facts.look
        if statement.changes_namespace or facts.composed:
            yield may_move(facts.known)
        if doubted:
            yield from self._doubted(facts, doubted)
        if statement.temporary and statement.creates_view:
            yield from self._made(facts, statement.creates_view)
            return
        if statement.drops or look.keyword == "alter":
            yield from self._changed_temporary(facts)
        if not look.words.isdisjoint(RELATION_WORDS):
            yield self._changed_views(facts)

    def _doubted(self, facts: Facts, doubted: Set[Parts]) -> Iterator[Effect]:
        temporary, reads = self.temporary(facts.session), self.names_read(facts, anything=facts.composed)
        shared = {parts for parts in doubted if temporary.is_made_for_all(parts)}
        for among, names in ((temporary.own, doubted - shared), (temporary.shared.views, shared)):
            if names:
                yield TemporaryViewsDoubted(among, frozenset(parts[-1].lower() for parts in names), reads)
        yield MeaningsMove()

    def _made(self, facts: Facts, name: Parts) -> Iterator[Effect]:
        """The creation of a temporary view or function."""
        among = self.temporary(facts.session).place(name, shared=facts.statement.shared)
        made = Made(name[-1], self.names_read(facts), facts.statement.creates_function)
        yield TemporaryViewsChanged(among, UncertainChange(made=(made,)))
        yield MeaningsMove()

    def _changed_temporary(self, facts: Facts) -> Iterator[Effect]:
        """DROP, ALTER and RENAME of what may be a temporary view, which may not exist afterwards."""
        temporary, statement = self.temporary(facts.session), facts.statement
        name = statement.drops or (statement.writes[0] if statement.exact and statement.writes else None)
        among = temporary.of(name) if name is not None and temporary.may_be(name) else None
        if among is None or name is None or statement.drops_database:
            return
        if statement.drops:
            yield TemporaryViewsChanged(among, UncertainChange(dropped=(name[-1].lower(),)))
        else:
            after = statement.writes[-1] if statement.creates_view is None else name
            reads = temporary.reads(name)
            if statement.creates_view is not None:
                reads |= self.names_read(facts)
            yield TemporaryViewsDoubted(among, frozenset({after[-1].lower()}), reads)
        yield MeaningsMove()

    def _changed_views(self, facts: Facts) -> Effect:
        statement, function = facts.statement, facts.statement.changes_function
        changed = (*statement.writes, function) if function else statement.writes
        databases = frozenset(TableName.resolve(parts, facts.namespace).database for parts in changed)
        changes = statement.creates_view or statement.drops or function or not statement.exact
        return SparkViewsChanged(databases, bool(changes) or facts.look.keyword in {"alter", "create"})

    def begin_change(self, statement: PendingStatement, databases: frozenset[str]) -> None:
        """A statement is sent that may change the lists of Spark views in these databases."""
        self._changing[statement] = databases

    def end_change(self, statement: PendingStatement | None, databases: frozenset[str]) -> None:
        """A statement has ended that may have changed Spark views in these databases."""
        self._forget(databases)
        if statement is not None:
            self._changing.pop(statement, None)

    def _changing_in(self, namespace: Namespace, words: Words) -> dict[PendingStatement, frozenset[str]]:
        """The entries of `_changing` that concern a statement with these words."""
        return {
            each: names
            for each, names in self._changing.items()
            if namespace.database in names or not words.isdisjoint(names)
        }

    def _forget(self, databases: Iterable[str]) -> None:
        for database in databases:
            self._relations.forget(database)

    async def name_temporary(self, session: Session) -> None:
        """Asks Spark for the names of the session's temporary views and functions if the name of one was built at run
        time."""
        views = session.temporary
        if not views.nameless or session.pending:
            return
        try:
            sql = await session.sql()
            listed = (await sql.run(f"SHOW VIEWS IN `{session.shared.database}`")).rows
            functions = (await sql.run("SHOW USER FUNCTIONS")).rows
        except FreshgateError:
            return
        if views.nameless and not session.pending:
            names = {str(row[1]).lower() for row in listed if not row[0]}
            views.tell(names.union(str(row[0]).lower() for row in functions if "." not in str(row[0])))

    async def sources(self, names: Iterable[TableName]) -> frozenset[TableName]:
        """All that reading these relations, or calling these functions, reads: by the way, they themselves as far as
        they exist, and materialized views by their names. Raises FreshgateError."""
        found = await self._relations.sources_of(names)
        return found.tables.union(self._catalog.names_of(found.views).values())

    async def _refuse_damaged(self, name: TableName) -> None:
        """Refuses the read of a damaged view, unless its name belongs to another relation by now."""
        damage = self._catalog.damaged[name]
        if await self._relations.shows(name, damage.storage):
            raise damaged(damage)


def folded(names: Iterable[Parts]) -> set[Parts]:
    """Names in lower case, for comparison."""
    return {tuple(part.lower() for part in parts) for parts in names}


def _folded_reads(statement: Forwarded) -> set[Parts]:
    return folded(reference.parts for reference in statement.reads)


def may_move(known: Understood) -> MeaningsMove:
    """The effect of a statement that may change the current database."""
    is_use = known.look.keyword == "use" and len(known.text) <= USE_CHARACTERS_MAX
    return MeaningsMove(moves=True, words=known.look.words, use=known.text if is_use else "")
