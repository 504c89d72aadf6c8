"""What a refresh must write, and that after it nothing differs: against a model of tables and contents."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from views import SALES, SHOPS, view_of

from gateway.mv.freshness.drift import drift, next_contents, next_manifest, reason, selection, unobserved
from gateway.mv.model.contents import NEVER_BUILT, Contents
from gateway.mv.model.snapshot import GONE, MISSING, Observed, PartitionValues, Snapshot, Unobserved
from gateway.mv.model.view import Manifest, MaterializedView, Version, base_key
from sql.texts.storage_layout import ALL, PartitionKey, Selection, Shown

DAYS: list[PartitionValues] = [("1", "a"), ("1", "b"), ("2", "a"), (None, "a"), ("3", "c")]
KEYS: list[PartitionKey] = ["1", "2", "3", None, "all others"]
"""The last stands for partitions that no change names: the manifest's default always has some."""
STATES = ["", "x", "y"]
Today = dict[str, Snapshot]


def sales(partitions: dict[PartitionValues, str], identity: str = "1") -> Snapshot:
    there = {values: state for values, state in partitions.items() if state}
    return Snapshot(identity, repr(sorted(there.items(), key=repr)), "", there)


def built(today: Today) -> MaterializedView:
    blank = view_of(Version.whole(1, 0, 0, {}))
    return replace(blank, current=replace(blank.current, contents=next_contents(blank, 1, ALL, today, {})))


def refreshed(
    view: MaterializedView, number: int, chosen: Selection, today: Today, keys: dict[PartitionValues, PartitionKey]
) -> MaterializedView:
    manifest = next_manifest(view.current.manifest, number, chosen)
    contents = next_contents(view, number, chosen, today, keys)
    version = Version(number, 0, 0, {}, "", manifest, Shown.only(number), contents)
    return replace(view, current=version)


class Model:
    """The tables, and of each partition of the view from what it was computed."""

    def __init__(self) -> None:
        self.days: dict[PartitionValues, str] = dict.fromkeys(DAYS, "x")
        self.shops = "x"
        self.computed = {key: self.inputs(key) for key in KEYS}

    def look(self) -> Today:
        return {base_key(SALES): sales(self.days), base_key(SHOPS): Snapshot("2", self.shops)}

    def inputs(self, key: PartitionKey) -> object:
        days = sorted(self.days.items(), key=repr)
        return self.shops, [(values, state) for values, state in days if values[0] == key and state]

    @property
    def differing(self) -> set[PartitionKey]:
        return {key for key in KEYS if self.computed[key] != self.inputs(key)}


writes = st.one_of(
    st.tuples(st.sampled_from(DAYS), st.sampled_from(STATES)),
    st.tuples(st.none(), st.sampled_from(STATES)),
)
refreshes = st.none() | st.frozensets(st.sampled_from(KEYS[:-1]), max_size=2)


@given(st.lists(st.tuples(st.lists(writes, max_size=3), refreshes), max_size=6))
def test_exactly_what_differs_is_written(
    steps: list[tuple[list[tuple[PartitionValues | None, str]], frozenset[PartitionKey] | None]],
) -> None:
    """Writes, then a refresh of what has changed (None), or of partitions by name."""
    model = Model()
    view = built(model.look())
    for number, (written, named) in enumerate([*steps, ([], None)], 2):
        for day, state in written:
            if day is None:
                model.shops = state
            else:
                model.days[day] = state
        today = model.look()
        found = drift(view, today)
        assert found.none == (not model.differing)
        # Keys of partitions that do not differ may come along.
        keys = {values: values[0] for values in (DAYS if number % 2 else found.partitions)}
        chosen = selection(view, found, keys) if named is None else Selection(named, all_but=False)
        rewritten = {key for key in KEYS if (key in chosen.keys) != chosen.all_but}
        if named is None:
            assert rewritten == model.differing
        view = refreshed(view, number, chosen, today, keys)
        model.computed |= {key: model.inputs(key) for key in rewritten}
        assert all((view.current.manifest.writer(key) == number) == (key in rewritten) for key in KEYS)
    assert drift(view, model.look()).none


@pytest.mark.parametrize("missing", [set(), {base_key(SALES)}, {base_key(SHOPS)}, {base_key(SALES), base_key(SHOPS)}])
def test_what_was_not_seen_when_a_version_was_written(missing: set[str]) -> None:
    today = {base: look for base, look in Model().look().items() if base not in missing}
    found = unobserved(built(today))
    assert set(found.unobserved if found else ()) == missing


def test_of_a_view_that_was_never_built_nothing_is_missed() -> None:
    assert unobserved(view_of(Version.whole(NEVER_BUILT, 0, 0, {}))) is None


@given(st.frozensets(st.sampled_from(DAYS)), st.booleans())
def test_a_table_that_was_made_again_differs_wholly(partitions: frozenset[PartitionValues], same: bool) -> None:
    before = {base_key(SALES): sales(dict.fromkeys(partitions, "x")), base_key(SHOPS): Snapshot("2", "x")}
    again = sales(dict.fromkeys(partitions, "x"), "1" if same else "other")
    found = drift(built(before), {**before, base_key(SALES): again})
    assert found.none == same
    assert same or selection(built(before), found, {}) == ALL


def test_a_partition_that_came_and_went_between_changes_nothing() -> None:
    first = {base_key(SALES): sales({("1",): "x"}), base_key(SHOPS): Snapshot("2", "x")}
    second = {**first, base_key(SALES): sales({("1",): "y", ("2",): "x"})}
    third = {**first, base_key(SALES): sales({("1",): "y"})}
    view = refreshed(built(first), 2, Selection(frozenset({"1"}), all_but=False), second, {("1",): "1", ("2",): "2"})
    assert drift(view, second).partitions == {("2",)}
    assert drift(view, third).none


def test_what_cannot_be_observed_is_never_fresh() -> None:
    before = {base_key(SALES): sales({("1",): "x"}), base_key(SHOPS): Snapshot("2", "x")}
    today: dict[str, Observed] = {**before, base_key(SHOPS): Unobserved("no listing")}
    found = drift(built(before), today)
    assert not found.none
    assert selection(built(before), found, {}) == ALL
    assert "no listing" in reason(built(before), found)


def test_the_reason_names_tables_and_counts_partitions() -> None:
    view = built({base_key(SALES): sales({("1",): "x", ("2",): "x"}), base_key(SHOPS): Snapshot("2", "x")})
    one = {base_key(SALES): sales({("1",): "y", ("2",): "x"}), base_key(SHOPS): Snapshot("2", "x")}
    assert reason(view, drift(view, one)) == "d.sales has changed in 1 partition"
    both = {base_key(SALES): sales({}), base_key(SHOPS): Snapshot("2", "y")}
    assert reason(view, drift(view, both)) == "d.sales, d.shops have changed"


def test_the_reason_does_not_say_that_a_table_has_changed_which_is_only_in_doubt() -> None:
    looks = {base_key(SALES): sales({("1",): "x"}), base_key(SHOPS): Snapshot("2", "x")}
    view = built(looks)
    doubtful = view.current.contents.doubtful(view.current.number)
    view = replace(view, current=replace(view.current, contents=doubtful))
    found = drift(view, looks)
    assert found.tables == looks.keys()
    assert reason(view, found) == "d.sales, d.shops may have changed while a refresh read the rows"


few = st.sampled_from(["a", "b", None])


@given(
    st.integers(1, 5),
    st.dictionaries(few, st.integers(0, 5), max_size=3),
    st.frozensets(st.tuples(st.integers(1, 5), few)),
)
def test_a_view_shows_what_the_manifest_says(
    default: int, exceptions: dict[PartitionKey, int], present: frozenset[tuple[int, PartitionKey]]
) -> None:
    manifest = Manifest(default, exceptions)
    shown = manifest.shown(Shown(5, ((1, 5),)).followed_by(6), present)
    assert shown.ranges == ((1, 6),)
    for version, key in present:
        assert shown.shows(version, key) == (manifest.writer(key) == version)
    assert shown.shows(6, "new")
    assert not shown.shows(NEVER_BUILT, None)


def test_versions_that_were_never_published_are_not_shown() -> None:
    """Version 3 failed: its rows may come late."""
    shown = Shown.only(1).followed_by(2).followed_by(4)
    assert shown.ranges == ((1, 2), (4, 4))
    assert [version for version in range(6) if shown.has(version)] == [1, 2, 4]


def test_a_version_without_contents_is_not_taken_for_fresh() -> None:
    """An earlier Freshgate stored none."""
    view = replace(built({}), current=replace(built({}).current, contents=Contents()))
    assert not drift(view, {base_key(SALES): sales({}), base_key(SHOPS): Snapshot("2", "x")}).none


def test_what_was_never_there_is_neither_fresh_nor_changed() -> None:
    """Spark has taken the definition, so something has that name; one that was there and is gone has changed."""
    seen = {base_key(SALES): sales({("1",): "x"}), base_key(SHOPS): Snapshot("2", "x")}
    gone = {**seen, base_key(SHOPS): MISSING}
    assert drift(built(seen), gone).tables == {base_key(SHOPS)}
    for before in ({base_key(SALES): seen[base_key(SALES)]}, {**seen, base_key(SHOPS): GONE}):
        found = drift(built(before), gone)
        assert (found.none, found.tables, set(found.unobserved)) == (False, frozenset(), {base_key(SHOPS)})
    without_sales: dict[str, Observed] = {**seen, base_key(SALES): MISSING}
    assert drift(built(seen), without_sales).tables == {base_key(SALES)}
    assert set(drift(built({base_key(SHOPS): seen[base_key(SHOPS)]}), without_sales).unobserved) == {base_key(SALES)}
