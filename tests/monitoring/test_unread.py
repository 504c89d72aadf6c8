"""Tests that the audit finds the names in statements that were forwarded unread."""

from __future__ import annotations

import pytest

from gateway.monitoring.unread import names
from gateway.service.clients.audit import NAMES_MAX, Unread
from sql.names import Namespace
from sql.understood import Understood

HERE = Namespace("here")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT 1", {}),
        ("SELECT * FROM T JOIN other.u USING (a)", {"reads": ["here.t", "other.u"]}),
        ("WITH c AS (SELECT * FROM t) SELECT * FROM c", {"reads": ["here.t"]}),
        ("INSERT INTO lake.d.t SELECT * FROM u", {"reads": ["here.u"], "writes": ["lake.d.t"]}),
        ("DROP TABLE IF EXISTS `t`", {"writes": ["here.t"]}),
        ("DROP DATABASE d CASCADE", {}),
        ("CREATE MATERIALIZED VIEW m AS SELECT a FROM t", {"views": ["here.m"], "reads": ["here.t"]}),
        ("EXPLAIN REFRESH MATERIALIZED VIEW d.m", {"views": ["d.m"]}),
        ("CANCEL MATERIALIZED VIEW TASK 1 ON m", {"views": ["here.m"]}),
        ("EXPLAIN REWRITE SELECT * FROM t", {"reads": ["here.t"]}),
        ("EXPLAIN REWRITE EXPLAIN REWRITE SELECT 1", {}),
        ("SHOW MATERIALIZED VIEWS", {}),
        ("SHOW GATEWAYS", {}),
        ("SELECT * FROM t WHERE (((", {}),
        ("CREATE MATERIALIZED VIEW m AS", {}),
        ("SELECT " + "(" * 5_000 + "1 FROM t", {}),
    ],
)
def test_names_in_a_statement_are_found(text: str, found: dict[str, list[str]]) -> None:
    assert {key: value for key, value in names(Unread(Understood(text), HERE)).items() if value} == found


def test_names_in_an_unknown_database_are_not_qualified() -> None:
    assert names(Unread(Understood("SELECT * FROM T, d.U"), None)) == {"reads": ["d.u", "t"], "writes": []}


def test_a_list_of_names_is_bounded() -> None:
    tables = ", ".join(f"t{number}" for number in range(NAMES_MAX + 5))
    reads = names(Unread(Understood(f"SELECT * FROM {tables}"), HERE))["reads"]
    assert isinstance(reads, list)
    assert len(reads) == NAMES_MAX + 1
    assert reads[-1] == "and 5 more"
