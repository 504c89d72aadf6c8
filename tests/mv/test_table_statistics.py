"""Statistics are those that the metastore has; none is computed."""

from __future__ import annotations

import pytest
from fake_spark import Answer, FakeMetastore, named

from gateway.errors import StatementFailed
from gateway.mv.observation.table_statistics import Statistics, statistics_of


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        ('{"statistics": {"num_rows": 9, "size_in_bytes": 300}}', Statistics(9, 300, {"a": 4})),
        ('{"statistics": {"size_in_bytes": 300}}', Statistics(None, 300)),
        ("{}", Statistics()),
    ],
)
async def test_what_the_metastore_knows(described: str, expected: Statistics) -> None:
    metastore = FakeMetastore()
    metastore.answers.say("AS JSON$", Answer([(described,)]))
    metastore.answers.say("`a`$", Answer([("col_name", "a"), ("distinct_count", "4")]))
    metastore.answers.say("`b`$", Answer([("col_name", "b"), ("distinct_count", "NULL")]))
    metastore.answers.say("`c`$", StatementFailed("There is no such column.", "42703"))
    assert await statistics_of(metastore, named("s.t"), ["a", "b", "c"]) == expected
    assert all(text.startswith("DESCRIBE ") for text in metastore.answers.heard)


async def test_a_table_of_another_kind_has_none() -> None:
    metastore = FakeMetastore()
    metastore.answers.say("AS JSON$", StatementFailed("Not supported.", "0A000"))
    assert await statistics_of(metastore, named("s.t"), ["a"]) == Statistics()
