"""Reads the keys that a table property declares, and makes the queries that check them."""

from __future__ import annotations

import pytest

from sql.names import Namespace
from sql.table_keys import ForeignKey, TableKeys, checks, keys_in, referring

SHOP = Namespace("shop")
ORDERS = "`spark_catalog`.`shop`.`orders`"


def test_keys_are_read() -> None:
    text = "PRIMARY KEY (a, `b c`); unique (D); NOT NULL (e);FOREIGN KEY (e, f) REFERENCES other.t (x, y);"
    assert keys_in(text, SHOP) == TableKeys(
        frozenset({frozenset({"a", "b c"}), frozenset({"d"})}),
        frozenset({"a", "b c", "e"}),
        (ForeignKey(("e", "f"), "`spark_catalog`.`other`.`t`", ("x", "y")),),
    )


@pytest.mark.parametrize(
    "text",
    ["PRIMARY KEY", "KEY (a)", "PRIMARY KEY (a) RELY", "FOREIGN KEY (a) REFERENCES t (x, y)", "PRIMARY KEY (a b)"],
)
def test_what_is_not_understood_is_told(text: str) -> None:
    with pytest.raises(ValueError, match=text.split(maxsplit=1)[0]):
        keys_in(f"NOT NULL (z); {text}", SHOP)


def test_keys_to_tables_that_are_not_observed_are_left_out() -> None:
    keys = keys_in("FOREIGN KEY (a) REFERENCES t (x); FOREIGN KEY (b) REFERENCES u (y)", SHOP)
    assert [each.columns for each in referring(keys, {"`spark_catalog`.`shop`.`u`"}).foreign] == [("b",)]


def test_each_key_has_a_query_that_finds_what_contradicts_it() -> None:
    keys = keys_in("PRIMARY KEY (a); FOREIGN KEY (b) REFERENCES t (x)", SHOP)
    found = list(checks(ORDERS, keys))
    assert [query for _, _, query in found] == [
        f"SELECT 1 FROM {ORDERS} WHERE `a` IS NOT NULL GROUP BY `a` HAVING count(*) > 1 LIMIT 1",
        f"SELECT 1 FROM {ORDERS} WHERE `a` IS NULL LIMIT 1",
        f"SELECT 1 FROM {ORDERS} AS one LEFT ANTI JOIN `spark_catalog`.`shop`.`t` AS other ON one.`b` = other.`x`"
        " WHERE one.`b` IS NOT NULL LIMIT 1",
    ]
    together = TableKeys()
    for key, _, _ in found:
        together |= key
    assert together == keys
