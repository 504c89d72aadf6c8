"""Views with SECURITY INVOKER: which of them a session must not be shown as they are stored; and why a refresh failed.

A view whose definition has other rows for the session's user than those that are stored is withheld: its definition
takes the place of its name. Where that is impossible, the statement is refused.

A refresh fails with what Spark says, which may quote a row. Whoever may not refresh the view, and is shown other rows
of its definition than the refresh was, is told that it failed, but not why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gateway.errors import FreshgateError, NotAllowed, RefreshFailed, without_cause
from gateway.loops import in_thread
from gateway.mv.catalog.directories import Directories
from gateway.mv.catalog.index import Catalog
from gateway.mv.model.view import MaterializedView
from gateway.mv.observation.inspection import Inspector
from gateway.mv.refresh.surroundings import Surroundings
from gateway.mv.rewriting.permission import Forbidden
from gateway.mv.rewriting.readers_rights import ReadersRights
from gateway.mv.statements.rights import Rights
from gateway.service.clients.session import Session
from gateway.service.routing.facts import Facts
from sql.names import Parts, TableName
from sql.words import Words, may_hold_path

ASKED_MAX = 50
"""Of how many views a statement that may read any view is asked."""


class Invokers:
    """Decides for a session what it may be shown."""

    def __init__(
        self,
        catalog: Catalog,
        rights: ReadersRights,
        surroundings: Surroundings,
        directories: Directories,
        inspector: Inspector,
        owners: Rights,
    ) -> None:
        self._catalog = catalog
        self._owners = owners
        self._rights = rights
        self._surroundings = surroundings
        self._directories = directories
        self._inspector = inspector

    # --- reads by the views' names -----------------------------------------------------------------

    def must_ask(self, session: Session, views: Iterable[str]) -> bool:
        """Whether one of these views is withheld, or may be."""
        return any(self._rights.known(view, session.user) != "" for view in self._catalog.invoking(views))

    async def withheld(self, session: Session, views: Iterable[str]) -> Mapping[str, str]:
        """Those of these views, and of the views that they read, that are withheld, by id, each with the reason. Raises
        NotAllowed if Spark does not let the user run the definition of one: kept as a view of Spark's, it may show rows
        all the same."""
        found: dict[str, str] = {}
        for number, view in enumerate(self._catalog.invoking(views)):
            if number < ASKED_MAX:
                reason = await self._rights.difference(view, session.user, session.twin)
            else:
                reason = "too many views with SECURITY INVOKER would have to be asked of"
            if isinstance(reason, Forbidden):
                raise _forbidden(view, reason)
            if reason:
                found[view.id] = reason
        return found

    async def check(self, session: Session, views: Iterable[str], what: str) -> None:
        """Raises NotAllowed if one of these views is withheld. `what` cannot be had of its definition."""
        for view_id, reason in (await self.withheld(session, views)).items():
            raise refused(self._catalog.entry(view_id).view, reason, what)

    async def check_named(self, session: Session, parts: Parts, what: str) -> None:
        """As `check`, for the view that has this name in the session, if there is one."""
        if self._catalog.invokers:
            view = self._catalog.named(TableName.resolve(parts, await session.resolve_namespace()))
            await self.check(session, () if view is None else (view.id,), what)

    async def foreign(self, session: Session, views: Iterable[MaterializedView]) -> frozenset[str]:
        """The ids of those views whose definitions would read other rows in this session than in their creators': the
        rows of files depend on its time zone and other settings."""
        sql = await session.sql()
        return frozenset([view.id for view in views if not await self._surroundings.reads_alike(view, sql)])

    # --- why a refresh failed ----------------------------------------------------------------------

    async def error_told(self, error: FreshgateError, view_id: str, session: Session) -> FreshgateError:
        """What the session's user is told of an error of the view's refresh."""
        told = await self.told(str(error), view_id, session)
        return error if told == str(error) else RefreshFailed(told, sqlstate=error.sqlstate)

    async def told(self, message: str, view_id: str, session: Session) -> str:
        """The same of an error's message."""
        if (shown := without_cause(message)) == message or await self._may_know(view_id, session):
            return message
        return f'{shown} The cause is shown to users who may refresh it: SELECT ErrorMsg FROM tasks("type"="mv").'

    async def _may_know(self, view_id: str, session: Session) -> bool:
        """Whether the user may refresh the view and those below it, or is shown what their refreshes read."""
        for each in sorted({view_id, *self._catalog.reads(view_id)}):
            if (entry := self._catalog.find(each)) is None or self._owners.may_refresh(session.who, entry.view):
                continue
            if await self._rights.difference(entry.view, session.user, session.twin):
                return False
        return True

    # --- reads past the views' names ---------------------------------------------------------------

    def may_bypass(self, words: Words) -> bool:
        """Whether a statement with these words may read stored rows by another name than a view's. A cheap check."""
        return bool(self._catalog.invokers or self._catalog.drafts) and (
            may_hold_path(words) or self._catalog.stores(words)
        )

    async def check_names(self, facts: Facts) -> None:
        """Raises NotAllowed if the statement reads a storage table, or files, of a view with SECURITY INVOKER."""
        statement, words = facts.statement, facts.look.words
        if not (statement.touches_rows or statement.creates_view is not None):
            return
        locations = {parts[-1] for parts in (each.parts for each in statement.reads) if "/" in parts[-1]}
        # An earlier draft may not know of the security of a view.
        await self._inspector.read_drafted([each for each in self._catalog.drafts if locations or each in words])
        if not (invokers := self._catalog.invokers):
            return
        for view_id in sorted(each for each in invokers if each in words):
            raise _bypassed(self._catalog.entry(view_id).view)
        for path in sorted(locations):
            for directory, _ in await in_thread(len(path), self._directories.reached_by, path):
                raise NotAllowed(
                    f"The path {path[:200]} leads to {directory.location}, where rows of materialized views are "
                    f"stored, some of which have SECURITY INVOKER. Read the views.",
                    sqlstate="42501",
                )


def refused(view: MaterializedView, reason: str, what: str) -> NotAllowed:
    return NotAllowed(
        f"The materialized view {view.name} has SECURITY INVOKER, and its stored rows are not shown to you ({reason}). "
        f"{what}. Name {view.name} in a query of its own, which runs its definition.",
        sqlstate="42501",
    )


def _forbidden(view: MaterializedView, reason: Forbidden) -> NotAllowed:
    return NotAllowed(
        f"The materialized view {view.name} has SECURITY INVOKER, and Spark does not let you run its definition: "
        f"{reason}",
        sqlstate="42501",
    )


def _bypassed(view: MaterializedView) -> NotAllowed:
    return NotAllowed(
        f"{TableName(view.storage.database, view.storage.table)} holds the rows of the materialized view {view.name}, "
        f"which has SECURITY INVOKER. Read {view.name}.",
        sqlstate="42501",
    )
