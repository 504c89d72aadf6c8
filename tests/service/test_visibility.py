"""Who is shown versions of a view: users to whom Spark shows the rows as they are stored."""

from __future__ import annotations

import pytest
from explanations import explained
from fake_spark import Answer
from fakes import Client, Site
from views import given

from gateway.errors import NotAllowed, StatementFailed
from gateway.mv.model.view import MaterializedView, Version
from gateway.service.clients.visibility import COMPARED_MAX, StoredRows, may_describe

SECONDS = 10.0


class Readers:
    """A site with the view s.mv, and a clock."""

    def __init__(self, site: Site, view: MaterializedView, client: Client) -> None:
        self.site, self.view, self.session = site, view, client.session
        self.now = 0.0
        self.stored = StoredRows(site.catalog, SECONDS, lambda: self.now)

    def explain(self, *, named: str, stored: str) -> None:
        """What is special in the plan of a read by the view's name, and in the plan of what it stores."""
        self.site.spark.answers.say("^EXPLAIN EXTENDED .*FROM `spark_catalog`", Answer([(explained("", named),)]))
        self.site.spark.answers.say("^EXPLAIN EXTENDED .*FROM [(]", Answer([(explained("", stored),)]))

    async def is_shown(self) -> bool:
        try:
            await self.stored.check(self.session, [self.view.id])
        except NotAllowed as error:
            return "does not show ada the materialized view s.mv as it is stored" not in str(error)
        return True


async def readers() -> Readers:
    site = Site()
    site.table("s.t")
    view = await site.view("s.mv", "SELECT n FROM s.t", owner="bob")
    return Readers(site, view, await site.client())


async def test_plans_that_differ_only_in_what_differs_each_time_are_the_same() -> None:
    shown = await readers()
    shown.explain(named="parquet n#12L", stored="parquet n#345L")
    assert await shown.is_shown()


@pytest.mark.parametrize("named", ["Filter (region#3 = 1)", "", "parquet, n#1 * 0"])
async def test_a_filter_or_a_mask_of_the_view_shows(named: str) -> None:
    shown = await readers()
    shown.explain(named=named, stored="parquet")
    assert not await shown.is_shown()
    assert not shown.stored.are_known(shown.session, [shown.view.id])


@pytest.mark.parametrize(
    "refusal", [StatementFailed("no right"), Answer([("Error occurred during query planning: no right",)])]
)
async def test_a_refused_read_shows_no_versions(refusal: Answer | StatementFailed) -> None:
    shown = await readers()
    shown.site.spark.answers.say("^EXPLAIN EXTENDED", refusal)
    assert not await shown.is_shown()


async def test_an_answer_counts_for_its_user_and_for_a_while() -> None:
    shown = await readers()
    assert await shown.is_shown()
    assert shown.stored.are_known(shown.session, [shown.view.id])
    other = await shown.site.client("eve")
    assert not shown.stored.are_known(other.session, [shown.view.id])
    shown.now += SECONDS
    assert not shown.stored.are_known(shown.session, [shown.view.id])
    shown.site.spark.answers.say("^EXPLAIN EXTENDED", StatementFailed("no right"))
    assert not await shown.is_shown()


async def test_a_version_that_is_published_meanwhile_is_compared_anew() -> None:
    shown = await readers()
    numbers = iter(range(2, 100))

    def publish(text: str) -> Answer:
        """Each time another version is shown when the view's text is planned."""
        number = next(numbers)
        if number <= COMPARED_MAX:
            given(shown.site.entry("s.mv"), current=Version.whole(number, 1, 1, {}))
        return Answer([(explained("", f"version {number}"),)])

    shown.site.spark.answers.say("^EXPLAIN EXTENDED .*FROM [(]", publish)
    shown.site.spark.answers.say(
        "^EXPLAIN EXTENDED .*FROM `spark_catalog`", Answer([(explained("", f"version {COMPARED_MAX}"),)])
    )
    assert await shown.is_shown()


async def test_what_may_not_be_described() -> None:
    shown = await readers()
    assert await may_describe(shown.view, shown.session)
    shown.site.spark.answers.say("^DESCRIBE", StatementFailed("no right"))
    assert not await may_describe(shown.view, shown.session)
