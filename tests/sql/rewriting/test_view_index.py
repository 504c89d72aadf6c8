"""Which views are considered for a text."""

from __future__ import annotations

from sql.classify import glance
from sql.lexed import Lexed
from sql.rewriting.view_index import ViewIndex
from sql.words import ManyWords
from tests.sql.rewriting.star import VIEWS

INDEX = ViewIndex(VIEWS.values())


def _names(text: str) -> list[str]:
    return [view.name.table for view in INDEX.fitting(glance(Lexed(text)).words)]


def test_a_foreign_text_has_none_of_the_words() -> None:
    assert glance(Lexed("SELECT count(*) FROM elsewhere.invoices")).words.isdisjoint(INDEX.words)


def test_views_fit_whose_tables_are_all_mentioned() -> None:
    assert _names("SELECT 1 FROM Orders") == ["recent"]
    assert _names("SELECT 1 FROM orders JOIN `shop`.`lineitem` ON true") == ["daily", "shipped", "recent"]
    assert _names("SELECT 1 FROM `shop.customer`, orders") == ["segments", "recent"]


def test_many_words() -> None:
    words = ManyWords(frozenset({"select", "orders", "customer"}))
    assert [view.name.table for view in INDEX.fitting(words)] == ["segments", "recent"]


def test_no_views() -> None:
    assert frozenset({"select"}).isdisjoint(ViewIndex().words)
    assert ViewIndex().fitting(frozenset({"select"})) == []
