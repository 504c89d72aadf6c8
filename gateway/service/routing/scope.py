"""Resolves the names of a statement in its session, as far as they lead to materialized views."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Set
from functools import partial

from gateway.errors import FreshgateError
from gateway.mv.catalog.index import Catalog
from gateway.mv.model.damage import damaged
from gateway.mv.observation.relations import Relations
from gateway.service.clients.session import Session
from gateway.service.clients.temporary_views import Change, Made, Reachable, Reads, TemporaryViews
from gateway.service.clients.unseen import Unseen
from gateway.service.operations.operation import End
from gateway.service.routing.outcomes import Route
from gateway.service.routing.stale_reads import Read
from sql.definition.bases import function_name
from sql.names import Namespace, TableName
from sql.statement import Forwarded, Glance, Parts
from sql.words import Words

RELATION_WORDS = frozenset({"view", "database", "schema", "namespace", "function", "databases"})
"""A text without any of these words changes no Spark view, database or function, permanent or temporary."""


class Scope:
    """Resolves names to materialized views, also through permanent and temporary Spark views."""

    def __init__(self, catalog: Catalog, relations: Relations) -> None:
        self._catalog = catalog
        self._relations = relations
        self._changing: dict[Unseen, frozenset[str]] = {}
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
        if session.namespace_uncertain and catalog.stores(words):
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

    async def views_read(
        self, session: Session, namespace: Namespace, statement: Forwarded, *, composed: bool = False
    ) -> Read:
        """The materialized views that a statement reads. `composed`: it also has names that are not in its text.

        Only names that may lead to a view are resolved, because a text that is not understood may have very many names.
        A temporary view hides a table; it is not always known which of the two a name means."""
        direct: set[str] = set()
        perhaps: set[str] = set()
        names: set[TableName] = set()
        temporary = self.temporary(session)
        reads = Reads(anything=composed)
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
                    reads |= Reads(perhaps=frozenset({name}))
        for parts in temporary.among(statement.calls, frozenset()):
            reads |= temporary.reads(parts)
        called = self._functions_called(namespace, statement)
        reads |= Reads(called) if statement.exact else Reads(perhaps=called)
        elsewhere = self._read_elsewhere(session, statement)
        # A script that changes the database names it.
        chosen = {parts[0] for parts in _folded_reads(statement)} if elsewhere and not statement.exact else set()
        said = {name for name in elsewhere if name.database in chosen}
        below = (await self._relations.sources_of(names | reads.surely | said)).views
        perhaps |= await self._views_behind(reads.perhaps | elsewhere, anything=reads.anything)
        return Read(frozenset(direct), below, frozenset(perhaps - direct - below))

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
        return len(parts) == 1 and session.namespace_uncertain

    def _read_elsewhere(self, session: Session, statement: Forwarded) -> set[TableName]:
        """The views in other databases that the statement's names may mean."""
        if not self.moves(session, statement):
            return set()
        names = _folded_reads(statement)
        views = {view.name for view in self._catalog.views() if not names.isdisjoint(view.name.ends)}
        return views.union(self._relations.called(names))

    def moves(self, session: Session, statement: Forwarded) -> bool:
        """Whether another database or catalog may be current when Spark resolves a name."""
        return session.namespace_uncertain or (not statement.exact and statement.changes_namespace)

    def names_read(
        self, session: Session, namespace: Namespace, statement: Forwarded, *, composed: bool = False
    ) -> Reads:
        """What a view that the statement creates reads, also through temporary views and functions."""
        temporary = self.temporary(session)
        names = {TableName.resolve(reference.parts, namespace) for reference in statement.reads}
        names |= self._functions_called(namespace, statement)
        elsewhere = frozenset(self._read_elsewhere(session, statement))
        reads = Reads(frozenset(names), elsewhere, anything=composed)
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

    def note(
        self,
        route: Route,
        session: Session,
        namespace: Namespace,
        statement: Forwarded,
        look: Glance,
        suspected: Set[Parts],
        *,
        composed: bool,
    ) -> None:
        """Notes changes of the current database, temporary views and Spark views. `suspected`: the temporary views that
        a text that is not understood may create."""
        if statement.changes_namespace or composed:
            watch(route, session, moves=True, words=look.words)
        if suspected:
            reads = self.names_read(session, namespace, statement, composed=composed)
            route.sends.append(partial(self.temporary(session).suspect, suspected, reads))
            watch(route, session)
        if statement.temporary and statement.creates_view:
            self._note_made(route, session, namespace, statement)
            return
        if statement.drops or look.keyword == "alter":
            self._note_temporary(route, session, namespace, statement, look)
        if not look.words.isdisjoint(RELATION_WORDS):
            self._note_relations(route, session, namespace, statement, look)

    def _note_made(self, route: Route, session: Session, namespace: Namespace, statement: Forwarded) -> None:
        """Notes the creation of a temporary view or function."""
        assert statement.creates_view is not None
        place = self.temporary(session).place(statement.creates_view, shared=statement.shared)
        reads = self.names_read(session, namespace, statement)
        made = Made(statement.creates_view[-1], reads, statement.creates_function)
        _change(route, session, place, Change(made=(made,)))

    def _note_temporary(
        self, route: Route, session: Session, namespace: Namespace, statement: Forwarded, look: Glance
    ) -> None:
        """Notes DROP, ALTER and RENAME of what may be a temporary view, which may not exist afterwards."""
        temporary = self.temporary(session)
        name = statement.drops or (statement.writes[0] if statement.exact and statement.writes else None)
        place = temporary.of(name) if name is not None and temporary.may_be(name) else None
        if place is None or name is None or statement.drops_database:
            return
        if statement.drops:
            _change(route, session, place, Change(dropped=(name[-1].lower(),)))
            return
        after = statement.writes[-1] if statement.creates_view is None else name
        reads = temporary.reads(name)
        if statement.creates_view is not None:
            reads |= self.names_read(session, namespace, statement)
        route.sends.append(partial(place.suspect, after[-1].lower(), reads))
        watch(route, session)

    def _note_relations(
        self, route: Route, session: Session, namespace: Namespace, statement: Forwarded, look: Glance
    ) -> None:
        function = statement.changes_function
        changed = (*statement.writes, function) if function else statement.writes
        databases = frozenset(TableName.resolve(parts, namespace).database for parts in changed)
        route.ends.append(lambda _: self._forget(databases))
        changes = statement.creates_view or statement.drops or function or not statement.exact
        if changes or look.keyword in {"alter", "create"}:
            changing = unseen(route, session)
            route.sends.append(lambda: self._changing.update({changing: databases}))
            route.ends.append(partial(self._changed, changing))

    def _changed(self, statement: Unseen, _: End) -> None:
        self._changing.pop(statement, None)

    def _changing_in(self, namespace: Namespace, words: Words) -> dict[Unseen, frozenset[str]]:
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
        if not views.nameless or session.unseen:
            return
        try:
            sql = await session.sql()
            listed = (await sql.run(f"SHOW VIEWS IN `{session.shared.database}`")).rows
            functions = (await sql.run("SHOW USER FUNCTIONS")).rows
        except FreshgateError:
            return
        if views.nameless and not session.unseen:
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


def unseen(route: Route, session: Session) -> Unseen:
    """The route's `Unseen`, by which other statements can find out whether this one has ended."""
    if route.unseen is None:
        route.unseen = Unseen(session.spare)
        route.ends.append(route.unseen.end)
    return route.unseen


def watch(route: Route, session: Session, *, moves: bool = False, words: Words = frozenset()) -> None:
    """The session's next statement waits for the outcome of this one, which changes the meaning of names, or a setting
    of the gateway. `moves`: it may change the current database or catalog."""
    statement = unseen(route, session)
    route.sends.append(partial(session.watch, statement))
    route.ends.append(partial(session.ended, statement))
    if moves:
        statement.moves, statement.words = True, words


def _change(route: Route, session: Session, place: TemporaryViews, change: Change) -> None:
    """Notes that the statement changes temporary views, which may happen as soon as it is sent."""
    route.sends.append(partial(place.begin, change))
    route.ends.append(partial(place.end, change))
    watch(route, session)
