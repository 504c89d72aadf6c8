"""How partitions are kept apart that Hive's metastore takes for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.mv.model.layout import combined, marked, storage_layout, taken_for_one
from gateway.mv.model.partitions import Called, partition, stored_partition
from sql.statement import Partitioning
from sql.texts.iceberg_texts import partition_field
from sql.texts.storage_layout import MARK, MARKED, Selection, StorageLayout, divided, joined, selected, unmarked

HELD = StorageLayout("p", "string", "{}", holds_column=True)
KEPT_APART = StorageLayout("p", "string", MARKED)


def key_of(text: str) -> str:
    """What MARKED says in SQL."""
    return text + MARK if not text or text[-1] in {" ", MARK} else text


@given(st.lists(st.text("ab _", max_size=4), max_size=8))
def test_marked_texts_are_told_apart_and_read_back(texts: list[str]) -> None:
    keys = [key_of(text) for text in texts]
    assert taken_for_one(keys) is None
    assert len(set(keys)) == len(set(texts))
    assert [unmarked(KEPT_APART, key) for key in keys] == texts
    assert "" not in keys


@pytest.mark.parametrize(
    ("values", "marks"),
    [(["a", "b_", None], False), (["a", "a "], True), ([""], True), ([" "], True), ([], False)],
)
def test_only_a_view_that_needs_it_gives_up_filters_that_prune(values: list[str | None], marks: bool) -> None:
    assert marked(HELD, values) == (KEPT_APART if marks else HELD)


def test_what_is_no_text_is_never_marked() -> None:
    numbers = StorageLayout("p", "int", "{}", holds_column=True)
    assert marked(numbers, [""]) == numbers
    assert unmarked(HELD, "a_") == "a_"


@pytest.mark.parametrize(
    ("values", "found"),
    [(["a", "a "], ("a", "a ")), (["a ", "a  "], ("a ", "a  ")), (["a", "b ", None, None], None), (["a", "a"], None)],
)
def test_texts_that_differ_in_blanks_at_their_end(values: list[str | None], found: tuple[str, str] | None) -> None:
    assert taken_for_one(values) == found


# --- several columns ---------------------------------------------------------------------------------------------

BOTH = combined([HELD, StorageLayout("day", "date", "{}", holds_column=True)])


@given(st.lists(st.none() | st.text("a%2F5/", max_size=4), min_size=1, max_size=3))
def test_the_key_of_several_values_is_divided_again(values: list[str | None]) -> None:
    assert divided(joined(values), len(values)) == tuple(values)


@given(st.lists(st.tuples(st.none() | st.text("%/F", max_size=3), st.none() | st.text("%/F", max_size=3)), unique=True))
def test_partitions_of_several_columns_have_different_keys(values: list[tuple[str | None, str | None]]) -> None:
    assert len({joined(each) for each in values}) == len(values)


def test_a_stored_partition_of_several_columns() -> None:
    path = "freshgate_version=3/freshgate_partition=a%2Fb/freshgate_partition_2=__HIVE_DEFAULT_PARTITION__"
    assert stored_partition(path) == (3, joined(["a/b", None]))


def test_partitions_with_the_same_values_of_a_column_are_named_together() -> None:
    keys = frozenset(
        joined(each) for each in [("eu", "2024-01-01"), ("us", "2024-01-01"), ("us", None), (None, "2024-01-01")]
    )
    day = "`day` IN (CAST('2024-01-01' AS date))"
    assert selected(Selection(keys, all_but=False), BOTH) == (
        f"((`p` IN ('eu') OR `p` IS NULL) AND ({day}) OR (`p` IN ('us')) AND ({day} OR `day` IS NULL))"
    )
    assert selected(Selection(keys), BOTH).startswith("NOT coalesce((`p` IN ('eu')")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("p_eu_20240101_20240102", [0]),
        ("p=eu/day=2024-01-01", [0]),
        ("DAY=2024-01-01", [0, 1]),
        ("day=2024-01-01/p=us", [1]),
        ("p=eu", [0, 2]),
        ("p=cn/day=2024-01-01", []),
        ("p=eu/other=2024-01-01", []),
        ("eu", []),
    ],
)
def test_names_of_partitions_of_several_columns(name: str, found: list[int]) -> None:
    by = Partitioning("p", further=(Partitioning("day"),))
    values = [("eu", "2024-01-01"), ("us", "2024-01-01"), ("eu", None)]
    listed = [partition(by, each, ("string", "date"), 0) for each in values]
    assert [listed.index(each) for each in Called(listed, by.columns)[name]] == found


# --- transforms of Iceberg -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("described", "kind", "value", "text"),
    [
        ("hours(ts)", "timestamp", "473362", "2024-01-01 10:00:00Z"),
        ("hours(ts)", "timestamp_ntz", "-1", "1969-12-31 23:00:00"),
        ("days(`a b`)", "timestamp", "2024-01-01", "2024-01-01 00:00:00Z"),
        ("days(d)", "date", "2024-01-01", "2024-01-01"),
        ("months(d)", "date", "-1", "1969-12-01"),
        ("months(ts)", "timestamp", "649", "2024-02-01 00:00:00Z"),
        ("years(d)", "date", "54", "2024-01-01"),
        ("bucket(4, c)", "string", "3", "3"),
        ("truncate(2, `c``d`)", "string", "", ""),
        ("c", "int", "7", "7"),
        ("hours(ts)", "timestamp", None, None),
    ],
)
def test_values_of_a_transform_are_the_begin_of_their_unit(
    described: str, kind: str, value: str | None, text: str | None
) -> None:
    assert partition_field(described).text(value, kind) == text


def test_values_beyond_the_calendar_are_not_told() -> None:
    with pytest.raises((ValueError, OverflowError)):
        partition_field("months(d)").text("120000", "date")


def test_a_view_by_a_bucket_or_a_prefix() -> None:
    bucket = storage_layout(Partitioning("c", transform="bucket(4)"), "string", {}, "lake")
    prefix = storage_layout(Partitioning("c", transform="truncate(2)"), "varchar(9)", {}, "lake")
    assert selected(Selection(frozenset({"3"}), all_but=False), bucket) == (
        "(`lake`.system.bucket(4, `c`) IN (CAST('3' AS int)))"
    )
    # A prefix may end with a blank, or be empty.
    assert (prefix.kind, prefix.key, prefix.holds_column) == ("string", MARKED, False)
    assert "`lake`.system.truncate(2, `c`) = ''" in prefix.row_key
