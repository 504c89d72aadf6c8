"""Texts as BI tools send them: which view serves each, and by which text."""

from __future__ import annotations

import pytest
from sqlglot import exp
from star import SHOP, VIEWS, columns_of, outcome, proposed
from statement_cases import load

from sql.names import TableName
from sql.rewriting.blocks import inlined
from sql.rewriting.dialect import parsed
from sql.rewriting.labels import label_of
from sql.rewriting.matching import Proposal
from sql.rewriting.shape import shape_of

CASES = [(text, *expected.split(": ", 1)) for text, expected in load("rewriting/dashboards.sql")]
SERVED = [(text, view) for text, view, expected in CASES if not expected.startswith("- ")]


@pytest.mark.parametrize(("text", "view", "expected"), CASES)
def test_a_view_serves_a_dashboard(text: str, view: str, expected: str) -> None:
    assert proposed(text, view) == expected


def test_the_corpus_is_served() -> None:
    assert len(SERVED) >= 60


def _outermost(text: str) -> exp.Expr:
    tree = inlined(parsed(shape_of(text)))
    while isinstance(tree, exp.SetOperation | exp.Subquery):
        tree = tree.this
    return tree


@pytest.mark.parametrize(("text", "view"), SERVED)
def test_a_proposal_has_the_same_columns_and_no_table_of_the_view(text: str, view: str) -> None:
    rewritten = proposed(text, view)
    mine, its = (_outermost(each) for each in (text, rewritten))
    assert [label_of(item) for item in its.expressions] == [label_of(item) for item in mine.expressions]
    tables = {TableName.resolve(tuple(map(str, map(_name, each.parts))), SHOP) for each in its.find_all(exp.Table)}
    assert TableName("shop", view) in tables
    assert tables.isdisjoint(VIEWS[view].bases)
    assert all(columns_of(table) is not None for table in tables if table.table != view)


def _name(part: exp.Expr) -> str:
    return part.name


@pytest.mark.parametrize(
    ("text", "view"),
    [
        *SERVED,
        # What ORDER BY has in common with an item is said once, so that both literals must be as they are.
        ("SELECT l_linestatus AS s, count(*) + 7 AS n FROM lineitem GROUP BY 1 ORDER BY count(*) + 7", "daily"),
        ("SELECT DISTINCT concat(l_returnflag, 'x') AS f FROM lineitem ORDER BY concat(l_returnflag, 'x')", "daily"),
    ],
)
def test_a_proposal_is_a_template(text: str, view: str) -> None:
    """Each literal that is not pinned may be another one: the template of the other text is the same."""
    found = outcome(text, view)
    assert isinstance(found, Proposal)
    shape = shape_of(text)
    changed = shape.changed()
    for free in set(range(len(changed))) - found.pinned:
        literals = (*shape.literals[:free], changed[free], *shape.literals[free + 1 :])
        other = outcome(_filled(text, literals), view)
        assert isinstance(other, Proposal)
        assert (other.template, other.pinned) == (found.template, found.pinned)


def _filled(text: str, literals: tuple[str, ...]) -> str:
    shape = shape_of(text)
    rest = iter(literals)
    other = " ".join(next(rest) if piece[0] == "\ue000" else piece for piece in shape.pieces)
    assert shape_of(other).key == shape.key
    assert shape_of(other).literals == literals
    return other
