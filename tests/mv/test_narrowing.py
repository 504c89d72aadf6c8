"""Small changes of tables that are joined with large ones."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, cast

import pytest
from fake_spark import Answer, Answers

from gateway.mv.formats.table_format import Change
from gateway.mv.model.marks import Mark
from gateway.mv.refresh.narrowing import VALUES_MAX, Narrowing

INT, TEXT, DOUBLE = '{"name": "int"}', '{"name": "string"}', '{"name": "double"}'
LOWER = '{"name": "string", "collation": "UTF8_LCASE"}'
CHANGE = Change(Mark("d", "2"), "SELECT * FROM new", "SELECT * FROM old", "SELECT * FROM before", 7)


class Session:
    """Answers with the values of joined columns."""

    def __init__(self, *rows: tuple[object, ...]) -> None:
        self.answers = Answers()
        self.answers.say("^SELECT CAST", Answer(list(rows)))

    async def run(self, statement: str) -> Answer:
        return self.answers.to(statement)


def narrowing(*kinds: str, joined: tuple[str, ...] = ("a",)) -> Narrowing:
    return Narrowing(tuple(zip("abc", kinds, strict=False)), joined)


def test_rows_that_left_and_came_again_do_not_count() -> None:
    found = narrowing(INT, TEXT).net(CHANGE)
    assert found.added == "(SELECT * FROM new) EXCEPT ALL (SELECT * FROM old)"
    assert found.removed == "(SELECT * FROM old) EXCEPT ALL (SELECT * FROM new)"
    assert (found.mark, found.before, found.bytes) == (CHANGE.mark, CHANGE.before, CHANGE.bytes)


@pytest.mark.parametrize("kind", [DOUBLE, LOWER, "", '{"name": "struct"}', '{"name": "char", "length": 3}'])
def test_values_may_be_equal_and_yet_differ(kind: str) -> None:
    assert narrowing(INT, kind).net(CHANGE) is CHANGE


async def test_few_values_are_constants() -> None:
    session = Session(("1", "int"), (None, "int"))
    found = await narrowing(INT, TEXT).named(CHANGE, cast(Any, session))
    condition = "WHERE ((`a`) IN (CAST('1' AS INT)) OR (`a`) IS NULL)"
    assert found.added == f"SELECT * FROM (SELECT * FROM new) AS `freshgate_changed` {condition}"
    assert found.removed == f"SELECT * FROM (SELECT * FROM old) AS `freshgate_changed` {condition}"


async def test_only_columns_whose_values_have_one_text() -> None:
    session = Session(("x", "string"))
    found = await narrowing(DOUBLE, TEXT, LOWER, joined=("a", "b", "c")).named(CHANGE, cast(Any, session))
    assert re.findall(r"`[abc]`", str(found.added)) == ["`b`"]
    assert await narrowing(DOUBLE).named(CHANGE, cast(Any, session)) is CHANGE
    assert await narrowing(INT, joined=()).named(CHANGE, cast(Any, session)) is CHANGE


async def test_types_that_only_the_rows_tell() -> None:
    """As of a view below."""
    assert await narrowing("").named(CHANGE, cast(Any, Session(("1.5", "double")))) is CHANGE
    assert "IN (CAST('2' AS INT))" in str((await narrowing("").named(CHANGE, cast(Any, Session(("2", "int"))))).added)


async def test_many_values_are_not_named() -> None:
    session = Session(*((str(number), "int") for number in range(VALUES_MAX + 1)))
    assert await narrowing(INT).named(CHANGE, cast(Any, session)) is CHANGE


async def test_rows_that_are_known_in_one_query() -> None:
    fed = replace(CHANGE, signed="SELECT *, true AS freshgate_removed FROM feed")
    found = await narrowing(INT).named(fed, cast(Any, Session(("1", "int"))))
    assert found.signed == f"SELECT * FROM ({fed.signed}) AS `freshgate_changed` WHERE ((`a`) IN (CAST('1' AS INT)))"
    assert narrowing(INT).net(fed).signed == (await narrowing(INT).named(fed, cast(Any, Session()))).signed == ""


async def test_no_rows_are_no_change() -> None:
    found = await narrowing(INT).named(CHANGE, cast(Any, Session()))
    assert (found.added, found.removed, found.mark) == (None, None, CHANGE.mark)
