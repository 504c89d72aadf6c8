"""The numbers of versions: none is used twice, and none is kept of a view that is no more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from views import view_of

from gateway.mv.catalog.index import Catalog
from gateway.mv.model.view import MaterializedView, Version
from gateway.mv.refresh.tasks import RefreshLimits, Tasks
from gateway.mv.versions.version_numbers import VersionNumbers
from sql.names import TableName

NOBODY = cast(Any, None)


class NumberedViews:
    def __init__(self) -> None:
        self.catalog = Catalog("s", NOBODY)
        self.numbers = VersionNumbers(self.catalog, NOBODY)
        self.tasks = Tasks(self.catalog, NOBODY, NOBODY, self.numbers, NOBODY, NOBODY, RefreshLimits(0, 0, 0))

    def refresh(self, view: MaterializedView) -> int:
        """The number that it takes."""
        return self.numbers.take(view)


def view(view_id: str, reserved: int) -> MaterializedView:
    any_view = view_of(Version.whole(1, 0, 0, {}))
    return replace(any_view, id=view_id, name=TableName("d", view_id), versions_reserved=reserved)


def test_no_number_is_kept_of_a_view_that_is_no_more() -> None:
    numbered = NumberedViews()
    numbered.catalog.show(numbered.catalog.reserve(view("stays", 9)))
    assert numbered.refresh(view("stays", 9)) == 9
    for number in range(50):
        entry = numbered.catalog.reserve(view(f"v{number}", 9))
        numbered.catalog.show(entry)
        numbered.refresh(entry.view)
        numbered.catalog.remove(entry)
        numbered.tasks.forget_dropped()
    assert numbered.numbers._next.keys() == {"stays"}
    # Those that a failed refresh has used up are not used again.
    assert numbered.refresh(view("stays", 9)) == 10


def test_a_view_that_was_damaged_goes_on_from_what_is_reserved() -> None:
    numbered = NumberedViews()
    entry = numbered.catalog.reserve(view("v", 9))
    numbered.catalog.show(entry)
    taken = numbered.refresh(entry.view)
    numbered.catalog.remove(entry)
    # While the refresh is under way the number may not be reserved yet, and the view may be found again.
    numbered.numbers.forget_dropped({"v"})
    assert numbered.refresh(view("v", 9)) == taken + 1
    numbered.numbers.forget_dropped(())
    assert numbered.refresh(view("v", 25)) == 25
