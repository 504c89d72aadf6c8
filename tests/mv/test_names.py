"""What is said of names that do not name a materialized view, or no longer."""

from __future__ import annotations

import pytest
from fake_spark import named
from fakes import Site
from views import given

from gateway.errors import NoSuchView
from gateway.mv.statements.free_names import Names


async def stage() -> Site:
    site = Site()
    site.table("s.t")
    site.spark_view("s.v", "SELECT 1")
    await site.view("s.mv", "SELECT count(*) n FROM s.t")
    return site


@pytest.mark.parametrize(
    ("name", "verb", "said"),
    [
        ("s.t", "REFRESH", "but a TABLE. REFRESH applies only to materialized views; REFRESH TABLE s.t renews"),
        ("s.v", "REFRESH", "a VIEW. REFRESH applies only to materialized views; a view always shows the current rows"),
        ("s.t", "DROP", "Use DROP TABLE s.t."),
        ("s.v", "ALTER", "Use ALTER VIEW s.v."),
        ("s.v", "SHOW CREATE", "Use SHOW CREATE TABLE s.v."),
        ("s.t", "", "SHOW MATERIALIZED VIEWS IN s lists the materialized views."),
        ("s.x", "REFRESH", "There is no materialized view s.x. See SHOW MATERIALIZED VIEWS IN s."),
        ("lake.s.t", "DROP", "There is no materialized view lake.s.t: they are in Spark's own catalog, not in lake."),
    ],
)
async def test_a_statement_about_something_else(name: str, verb: str, said: str) -> None:
    site = await stage()
    error = await Names(site.catalog, site.metastore).no_such_view(named(name), verb)
    assert said in str(error)
    assert ("DROP" in str(error)) == ("DROP" in said)


async def test_a_view_that_is_gone_is_named_and_told_from_one_that_was_replaced() -> None:
    site = await stage()
    first = site.entry("s.mv")
    await site.view("s.mv", "SELECT 2 n FROM s.t")
    with pytest.raises(NoSuchView, match=r"^The materialized view s\.mv was replaced in the meantime\."):
        site.catalog.entry(first.view.id)
    second = site.entry("s.mv")
    site.catalog.remove(second)
    for gone in (first, second):
        with pytest.raises(NoSuchView, match=r"^The materialized view s\.mv was dropped in the meantime\.$"):
            site.catalog.entry(gone.view.id)
    with pytest.raises(NoSuchView, match=r"s\.old was dropped") as other:
        site.catalog.entry("s__old__0f1aba1b")
    assert "0f1aba1b" not in str(other.value)


async def test_a_view_above_one_that_was_replaced_says_so() -> None:
    site = await stage()
    upper = await site.view("s.upper", "SELECT n FROM s.mv")
    names = site.catalog.names_of(upper.views)
    entry = site.entry("s.upper")
    given(entry, view_names=names)
    await site.view("s.mv", "SELECT 2 n FROM s.t")
    staleness = site.catalog.staleness(upper.id)
    assert staleness is not None
    assert staleness.reason == "the materialized view s.mv, which it reads, was replaced"
    assert "the materialized view s.mv was replaced" in await site.schemas.changes(site.entry("s.upper").view)
    site.catalog.remove(site.entry("s.mv"))
    staleness = site.catalog.staleness(upper.id)
    assert staleness is not None
    assert staleness.reason == "the materialized view s.mv, which it reads, was dropped"
