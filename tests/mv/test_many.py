"""Very many things are sorted and decoded as few are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.mv import many
from gateway.mv.many import decoded, in_order

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES, st.sampled_from([0, 1_000_000]))
def test_a_long_text_is_decoded_as_a_short_one(value: Any, at_once: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(many, "DECODED_AT_ONCE", at_once)
        assert decoded(json.dumps(value)) == value


@pytest.mark.parametrize("text", ["[1 2]", "[1", '{"a" 1}', "[1] 2", "{1: 2}", "nul", ""])
def test_what_is_no_json_is_an_error(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many, "DECODED_AT_ONCE", -1)
    with pytest.raises(json.JSONDecodeError):
        decoded(text)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers())), st.integers(1, 4))
def test_things_are_in_the_order_of_sorted(things: list[tuple[int, int]], at_once: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(many, "SORTED_AT_ONCE", at_once)
        assert in_order(things, lambda thing: thing[0]) == sorted(things, key=lambda thing: thing[0])
