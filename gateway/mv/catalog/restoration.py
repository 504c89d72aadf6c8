"""Restores public views that were dropped or forged outside the gateway.

Tests: `test_confirmation`.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from gateway.errors import StatementFailed
from gateway.mv.catalog import naming
from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.entry import Entry
from gateway.mv.freshness.pending import ViewsEndangered
from gateway.mv.model import properties as stored
from gateway.mv.model.view import MaterializedView
from gateway.mv.ports import Metastore, Relation, RelationKind
from sql.names import TableName
from sql.texts import maintenance, public_view

log = logging.getLogger(__name__)

NAMES_MAX = 50
"""How many names of a statement are checked when looking for a view that it has renamed."""
UNKNOWN = "unknown, not through this gateway"
SHOWN_CHARACTERS = 200
"""How much of a statement's text a log line contains."""


@dataclass(frozen=True, slots=True)
class Restored:
    """A restored view, and the statements that may have changed it."""

    view: TableName
    problem: str
    by: tuple[ViewsEndangered, ...]


class Restoration:
    """Restores the text, comment and properties of a public view from the catalog. The caller holds the lock of the
    view's entry."""

    def __init__(self, catalog: Catalog, metastore: Metastore, report: Callable[[Restored], None]) -> None:
        """`report` is called for each restored view."""
        self._catalog = catalog
        self._endangered = catalog.endangered
        self._metastore = metastore
        self._report = report

    async def restore(self, entry: Entry, created: str = "") -> bool:
        """Restores a view that no name shows, or whose name shows it with another text. Returns whether it did.
        `created`: when the metastore said last that the public view was created.

        Whoever drops a view outside the gateway does so on purpose: only a watched view is created again, and the name
        of one that was created since is another one's. A view that is being dropped, replaced or renamed is not
        restored either, nor one whose name another view has just taken: it bears that one's name until it is removed.
        """
        view = entry.view
        relation = await self._metastore.relation(view.name)
        if relation is not None and public_view.shows(relation.view_text, view.published_text):
            return False
        shown = public_view.read_published(relation.view_text) if relation is not None else None
        if shown != (view.storage, view.current.number):
            altered = relation is not None and relation.kind is RelationKind.VIEW and relation.created == created != ""
            if view.id not in self._endangered and not altered:
                return False
            if shown is not None and self._catalog.find(shown[0].table) is not None:
                return False
        properties = await self._metastore.properties(view.storage)
        if not stored.was_published(properties) or stored.read_move(properties) is not None:
            return False
        if stored.read_name(properties) != view.name:
            return False
        await self.restore_text(view, relation)
        return True

    async def restore_text(self, view: MaterializedView, relation: Relation | None) -> None:
        """Publishes the view's current version again. `relation` is the object that now has the view's name."""
        problem, by = _problem(view, relation), self._endangered.effects_on(view.id)
        if relation is not None and relation.kind is RelationKind.TABLE:
            await self._set_aside(view.name)
            relation = None
        if relation is None:
            await self._metastore.run(naming.create_public(view))
            await self._drop_renamed(view, by)
        else:
            await self._metastore.run(naming.publish(view.name, view, view.current.shown))
            await self._restore_differences(view)
        self._catalog.news.moved.tell([view.name])
        self._tell(view, problem, by)

    async def restore_properties(self, view: MaterializedView) -> None:
        """Restores comment and properties."""
        await self._restore_differences(view)
        self._tell(view, "had other properties", self._endangered.effects_on(view.id))

    async def has_other_properties(self, view: MaterializedView) -> bool:
        """Whether comment or properties of the public view differ from the catalog's."""
        return any(_differences(view, await self._metastore.properties(view.name)))

    async def _restore_differences(self, view: MaterializedView) -> None:
        extra, missing = _differences(view, await self._metastore.properties(view.name))
        if extra:
            await self._metastore.run(maintenance.unset_view_properties(view.name, extra))
        if missing:
            await self._metastore.run(maintenance.set_view_properties(view.name, view.properties, view.comment))

    async def _set_aside(self, name: TableName) -> None:
        """Renames a user's table that has the view's name. Its rows are kept."""
        aside = TableName(name.database, f"{name.table}__{secrets.token_hex(4)}", name.catalog)
        await self._metastore.run(maintenance.rename_table(name, aside))
        log.error("the table %s had the name of a materialized view and was renamed to %s", name, aside)

    async def _drop_renamed(self, view: MaterializedView, by: Iterable[ViewsEndangered]) -> None:
        """Drops the view under the name that a statement gave it: nothing would keep it fresh there."""
        try:
            there = await self._metastore.views(view.name.database)
            names = sorted(frozenset[str]().union(*(effect.words & there for effect in by)))
            for name in [TableName(view.name.database, each, view.name.catalog) for each in names[:NAMES_MAX]]:
                if self._catalog.named(name) is None and await naming.shown_as(self._metastore, name) == view.id:
                    await self._metastore.run(maintenance.drop_view(name))
        except StatementFailed as error:
            log.warning("%s may have been renamed and may also exist under another name: %s", view.name, error)

    def _tell(self, view: MaterializedView, problem: str, by: tuple[ViewsEndangered, ...]) -> None:
        if not problem:
            log.warning("the materialized view %s was published again: its text dated from before a restart", view.name)
            return
        who = "; ".join(f"{each.user}: {each.text[:SHOWN_CHARACTERS]}" for each in by)
        log.error(
            "the materialized view %s %s and has been restored; statements that may have done this: %s",
            view.name,
            problem,
            who or UNKNOWN,
        )
        self._report(Restored(view.name, problem, by))


def _problem(view: MaterializedView, relation: Relation | None) -> str:
    """What has happened to the public view. Empty if it was possibly not changed: a text that was shortened is not
    stored with the version."""
    if relation is None:
        return "was dropped"
    if relation.kind is RelationKind.TABLE:
        return "was replaced by a table"
    shown = public_view.read_published(relation.view_text)
    if shown == (view.storage, view.current.number):
        alike = public_view.selects_alike(relation.view_text, view.published_text)
        return "" if alike else "did not have its published text"
    return "showed something else" if shown is None else f"showed version {shown[1]} of {shown[0]}"


def _differences(view: MaterializedView, shown: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The keys of properties that the public view should not have, and of those that should have other values. Spark
    lists a comment among the properties only if ALTER has set it."""
    extra = [key for key in shown if key not in view.properties and not public_view.is_spark_property(key)]
    missing = [key for key, value in view.properties.items() if shown.get(key) != value]
    if shown.get("comment", view.comment or "") != (view.comment or ""):
        missing.append("comment")
    return sorted(extra), missing
