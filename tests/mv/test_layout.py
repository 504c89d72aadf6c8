"""How partitions are kept apart that Hive's metastore takes for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.mv.model.layout import marked, taken_for_one
from sql.texts.storage_layout import MARK, MARKED, StorageLayout, unmarked

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
