"""Tests that the rows of a version which follow from those of an earlier one are those that a full load has."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from views import view_of

from gateway.mv.memory.version_changes import KEYS_MAX, version_changes
from gateway.mv.model.contents import NEVER_BUILT
from gateway.mv.model.view import Manifest, MaterializedView, Version
from sql.memory.engine_types import engine_type
from sql.memory.kept_partitions import partitions_condition
from sql.texts import public_view
from sql.texts.storage_layout import UNPARTITIONED, PartitionKey, Shown, StorageLayout

KEYS: dict[str, tuple[PartitionKey, ...]] = {
    "string": ("a", "b ", "it's", "ß", "A", "", None),
    "int": ("0", "-7", "12", "2147483647", None),
    "bigint": ("9223372036854775807", "-1", None),
    "date": ("2024-02-29", "0001-01-01", "9999-12-31", None),
    "boolean": ("true", "false", None),
}


def kept(layout: StorageLayout) -> MaterializedView:
    return replace(view_of(Version.whole(1, 0, 0, {})), layout=layout)


@dataclass
class Storage:
    """The storage table of a view with partitions: rows by version and partition, each with a number of its own."""

    view: MaterializedView
    rows: dict[tuple[int, PartitionKey], list[int]] = field(default_factory=dict)
    numbers: int = 0

    def write(self, version: int, keys: frozenset[PartitionKey], count: int) -> None:
        for key in keys:
            self.rows[version, key] = list(range(self.numbers, self.numbers + count))
            self.numbers += count

    def shown(self, *conditions: tuple[Shown, bool]) -> list[tuple[PartitionKey, int]]:
        """The rows that each of these shows, or does not."""
        return [
            (key, number)
            for (version, key), numbers in self.rows.items()
            if all(shown.shows(version, key) == wanted for shown, wanted in conditions)
            for number in numbers
        ]


@st.composite
def histories(draw: st.DrawFn) -> tuple[Storage, list[Version]]:
    """Versions of a view: the first one has all of its partitions, each later one writes some, and drops others."""
    kind = draw(st.sampled_from(sorted(KEYS)))
    keys = st.frozensets(st.sampled_from(KEYS[kind]))
    made = Storage(kept(StorageLayout("day", kind, holds_column=True)))
    made.write(1, draw(keys), 2)
    versions = [Version.whole(1, 0, 0, {})]
    for number in range(2, draw(st.integers(2, 5)) + 1):
        before, written, left = versions[-1], draw(keys), draw(keys)
        made.write(number, written - left, draw(st.integers(0, 3)))
        manifest = before.manifest.rewritten(number, written).rewritten(NEVER_BUILT, left)
        shown = manifest.shown(before.shown.followed_by(number), made.rows)
        versions.append(Version(number, 0, 0, {}, manifest=manifest, shown=shown))
    return made, versions


@given(histories(), st.data())
def test_what_follows_from_an_earlier_version_is_the_later_one(
    history: tuple[Storage, list[Version]], data: st.DataObject
) -> None:
    made, versions = history
    before, after = sorted(data.draw(st.tuples(*[st.integers(0, len(versions) - 1)] * 2)))
    earlier, later = versions[before], versions[after]
    found = version_changes(made.view, earlier, later)
    assert found is not None
    assert found.added == public_view.rows_beyond(
        made.view.storage, made.view.columns, later.shown, earlier.shown, made.view.layout
    )
    with duckdb.connect() as engine:
        kind = engine_type(made.view.layout.kind)
        engine.execute(f"CREATE TABLE t (day {kind}, n BIGINT)")
        _insert(engine, made.shown((earlier.shown, True)))
        if found.without:
            engine.execute(f"DELETE FROM t WHERE {found.without}")
        _insert(engine, made.shown((later.shown, True), (earlier.shown, False)))
        expected = {number for _, number in made.shown((later.shown, True))}
        assert sorted(row[0] for row in engine.execute("SELECT n FROM t").fetchall()) == sorted(expected)


def _insert(engine: duckdb.DuckDBPyConnection, rows: list[tuple[PartitionKey, int]]) -> None:
    if rows:
        engine.executemany("INSERT INTO t VALUES (?, ?)", rows)


def whole(number: int, shown: Shown) -> Version:
    return Version.whole(number, 0, 0, {}, shown=shown)


def test_added_rows_of_a_view_without_partitions_follow() -> None:
    view = kept(UNPARTITIONED)
    first = whole(1, Shown.only(1))
    second, fourth = (whole(number, Shown(number, ((1, 2), (4, number)))) for number in (5, 7))
    found = version_changes(view, first, second)
    assert found is not None
    assert (found.without, "AND NOT (freshgate_version = 1)" in found.added) == ("", True)
    assert version_changes(view, second, fourth) is not None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Shown.only(1), Shown.only(2)),
        (Shown(3, ((1, 3),)), Shown(4, ((2, 4),))),
        (replace(Shown.only(1), flagged=True), replace(Shown.only(1).followed_by(2), flagged=True)),
        (Shown.only(1), replace(Shown.only(1).followed_by(2), flagged=True)),
    ],
)
def test_a_version_with_other_rows_is_loaded_anew(before: Shown, after: Shown) -> None:
    assert version_changes(kept(UNPARTITIONED), whole(1, before), whole(after.number, after)) is None


def test_a_version_is_loaded_anew_if_what_it_keeps_cannot_be_told() -> None:
    own, key = StorageLayout("day", "string", holds_column=True), StorageLayout("day", "timestamp")
    first = Version.whole(1, 0, 0, {})
    manifest = first.manifest.rewritten(2, {"a"})
    second = Version(2, 0, 0, {}, manifest=manifest, shown=Shown.only(1).followed_by(2))
    assert version_changes(kept(own), first, second) is not None
    assert version_changes(kept(key), first, second) is None
    assert version_changes(kept(own), first, replace(second, manifest=Manifest(2, {"a": 1}))) is None
    many = first.manifest.rewritten(2, map(str, range(KEYS_MAX + 1)))
    assert version_changes(kept(own), first, replace(second, manifest=many)) is None
    unbuilt = Version.whole(NEVER_BUILT, 0, 0, {})
    assert version_changes(kept(own), unbuilt, second) is None


@pytest.mark.parametrize(
    ("kind", "key"),
    [("int", "x"), ("date", "soon"), ("date", "12024-01-01"), ("boolean", "yes"), ("string", "\0"), ("double", "1.0")],
)
def test_a_key_without_a_certain_value_has_no_condition(kind: str, key: str) -> None:
    assert partitions_condition("day", kind, [key]) is None
