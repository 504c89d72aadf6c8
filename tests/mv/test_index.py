"""The catalog's indexes follow each change; they are compared with what all views together say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st
from views import given as given_fields
from views import view_of

from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.entry import Entry
from gateway.mv.model.damage import NO_VIEW, Damage
from gateway.mv.model.history import History
from gateway.mv.model.view import MaterializedView, Version
from sql.names import TableName

IDS = st.integers(0, 5)
NAMES = st.integers(0, 3).map(lambda number: TableName("d", f"n{number}"))
TABLES = st.frozensets(
    st.sampled_from(
        [
            TableName("d", "t1"),
            TableName("d", "t2"),
            TableName("e", "t1"),
            TableName("d", "t1", "lake"),
            TableName("d.t1", "files", "lake"),
        ]
    ),
    max_size=3,
)
VIEWS = st.frozensets(IDS.map(lambda number: f"v{number}"), max_size=2)
EXCLUDED = st.sampled_from(["", "d.t1", "d.n1, d.t2"])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "build", "drop", "damage", "rename", "read"]), IDS, NAMES, TABLES, VIEWS, EXCLUDED
    ),
    max_size=25,
)


class Free:
    """A fence that nobody else has taken."""

    lost: str | None = None


def view(number: int, name: TableName, tables: frozenset[TableName], views: frozenset[str], excluded: str) -> Any:
    view_id = f"v{number}"
    return replace(
        view_of(Version.whole(1, 0, 0, {})),
        id=view_id,
        name=name,
        storage=TableName("s", view_id),
        tables=tables,
        views=views,
        properties={"excluded_trigger_tables": excluded} if excluded else {},
    )


class Indexes:
    """A catalog, and the tables of which it has said that no view reads them any longer."""

    def __init__(self) -> None:
        self.catalog = Catalog("s", cast(Any, Free()), lambda: 0)
        self.unread: set[TableName] = set()
        self.catalog.news.unread.add(self.unread.update)

    def step(self, what: str, found: MaterializedView) -> None:
        """Changes the catalog, if it allows that now."""
        catalog, entry = self.catalog, self.catalog.find(found.id)
        named = catalog.entry_named(found.name)
        if what == "add" and entry is None and named is None:
            catalog.add(found, History())
        elif what == "build" and entry is None:
            catalog.show(catalog.reserve(found))
        elif what == "drop" and entry is not None:
            catalog.remove(entry)
        elif what == "damage":
            self._damage(entry, found)
        elif what == "rename" and entry is not None:
            catalog.rename({found.name: entry} if named is None else {found.name: entry, entry.view.name: named})
        elif what == "read" and entry is not None:
            given_fields(entry, tables=found.tables, views=found.views, properties=found.properties)

    def _damage(self, entry: Entry | None, found: MaterializedView) -> None:
        if entry is not None:
            self.catalog.report_damage(entry, NO_VIEW)
        elif found.name in self.catalog.damaged:
            self.catalog.forget_damage(found.name)
        else:
            self.catalog.add_damage(Damage(found.name, found.storage, None, NO_VIEW))

    def check(self) -> None:
        """Compares the indexes with what the entries say one by one."""
        catalog = self.catalog
        views = [entry.view for entry in catalog.entries()]
        names = sorted(each.name for each in views)
        assert [each.name for each in catalog.views()] == names
        assert all(catalog.named(each.name) is each for each in views)
        assert catalog.view_words == {"s", *(name.table for name in [*names, *catalog.damaged])}
        triggers = {table for each in views for table in each.triggers}
        assert set(catalog.tables()) == triggers
        assert catalog.table_words == {word for table in triggers for stem in table.stems for word in stem}
        read = {table for each in views for table in each.tables}
        for table in read | self.unread:
            assert catalog.is_read(table) == (table in read)
            assert [each.view.id for each in catalog.dependents([table])] == sorted(
                each.id for each in views if table in each.triggers
            )
            stems = set(table.stems)
            assert catalog.changed_with([table], exact=False) >= {
                other for other in triggers if other.stems[0] == table.stems[0] or other.stems[0] in stems
            }
        for number in range(6):
            base = catalog.find(f"v{number}")
            assert catalog.above(f"v{number}") == {
                each.id
                for each in views
                if f"v{number}" in each.views and (base is None or not each.excludes(base.view.name))
            }


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_the_indexes_are_what_all_views_say(steps: list[Any]) -> None:
    indexes = Indexes()
    for what, *fields in steps:
        read = {table for entry in indexes.catalog.entries() for table in entry.view.tables}
        revision = indexes.catalog.revision
        before = [(entry.view, entry.visible) for entry in indexes.catalog.entries()]
        indexes.unread.clear()
        indexes.step(what, view(*fields))
        indexes.check()
        now = {table for entry in indexes.catalog.entries() for table in entry.view.tables}
        assert read - now <= indexes.unread
        assert indexes.unread.isdisjoint(now)
        if before != [(entry.view, entry.visible) for entry in indexes.catalog.entries()]:
            assert indexes.catalog.revision > revision


def test_a_view_may_have_a_name_already() -> None:
    """An ALTER is giving it, or its end is not known. Until then, reads of the name are reads of the view."""
    catalog = Catalog("s", cast(Any, Free()))
    old, new = TableName("d", "old"), TableName("d", "new")
    catalog.add(view(1, old, frozenset(), frozenset(), ""), History())
    entry = catalog.entry("v1")
    words = catalog.view_words
    catalog.expect({new: entry})
    assert catalog.entry_named(new) is catalog.entry_named(old) is entry
    assert catalog.view_words == words | {"new"}
    assert [each.name for each in catalog.views()] == [old]
    catalog.settle_names(entry)
    assert catalog.entry_named(new) is None
    assert catalog.view_words == words
    catalog.expect({new: entry})
    catalog.rename({new: entry})
    assert catalog.entry_named(old) is None
    assert catalog.view_words == words - {"old"} | {"new"}
    catalog.expect({old: entry})
    # Another view gets that name for certain.
    catalog.show(catalog.reserve(view(2, old, frozenset(), frozenset(), "")))
    assert catalog.entry("v1") is entry
    catalog.remove(entry)
    assert catalog.view_words == words
