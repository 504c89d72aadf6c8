"""What keys of GROUP BY mean."""

from __future__ import annotations

import pytest
from sqlglot import exp

from sql.lexed import Lexed
from sql.query.keys import KeyItems, NoSuchItem
from sql.reading.lineage import query_tree


def items_of(*names: str | None, columns: str = "") -> KeyItems:
    return KeyItems(names, lambda name: name.lower() in columns.split())


def group_of(keys: str) -> exp.Group:
    group = query_tree(Lexed(f"SELECT 1 FROM t GROUP BY {keys}")).args["group"]
    assert isinstance(group, exp.Group)
    return group


@pytest.mark.parametrize(
    ("key", "item"),
    [
        ("1", 0),
        ("(2)", 1),
        ("'1'", None),
        ("`1`", None),
        ("a", 0),
        ("((A))", 0),
        ("B", None),
        ("c", None),
        ("t.a", None),
        ("a + 1", None),
        ("-1", None),
        ("twice", 3),
    ],
)
def test_the_item_that_a_key_means(key: str, item: int | None) -> None:
    items = items_of("a", "b", None, "twice", "twice", columns="b")
    assert items.of(group_of(key).expressions[0]) == item


@pytest.mark.parametrize("key", ["0", "3", "(3)"])
def test_a_number_of_no_item(key: str) -> None:
    with pytest.raises(NoSuchItem, match=key.strip("()")):
        items_of("a", "b").of(group_of(key).expressions[0])


def test_all_items_or_a_column_of_that_name() -> None:
    assert items_of("a").are_all(group_of("ALL"))
    assert not items_of("a", columns="all").are_all(group_of("ALL"))
    assert not items_of("a").are_all(group_of("a"))
