"""Public views that statements have dropped or forged past what was understood of them, and the net below that."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from fake_spark import Answer, named
from fakes import Site
from views import given

from gateway.errors import UpstreamLost
from gateway.mv.catalog import confirmation
from gateway.mv.catalog.confirmation import Confirmation
from gateway.mv.catalog.fence import Superseded
from gateway.mv.catalog.restoration import Restored
from gateway.mv.freshness.pending import ViewsEndangered
from gateway.mv.model import properties as stored
from gateway.mv.model.view import MaterializedView
from gateway.mv.ports import Relation, RelationKind
from sql.names import TableName
from sql.texts.public_view import shown_rows


class Stage:
    """ada's s.mv, before a metastore that carries out what the gateway runs."""

    def __init__(self) -> None:
        self.site = Site()
        self.confirmation: Confirmation = self.site.confirmation
        self.metastore = self.site.metastore
        self.restored: list[Restored] = self.site.restored
        self.metastore.answers.say(r"^(CREATE|ALTER) VIEW .* AS SELECT", self._show)
        self.metastore.answers.say(r"^DROP VIEW", self._drop)
        self.metastore.answers.say(r"^ALTER TABLE .* RENAME TO", self._rename)

    async def view(self, dotted: str = "s.mv", **properties: str) -> MaterializedView:
        if named("s.t") not in self.metastore.relations:
            self.site.table("s.t")
        view = await self.site.view(dotted, "SELECT count(*) n FROM s.t", properties=properties)
        self.metastore.stored[view.storage] = {**stored.write_published(), **stored.write_name(view.name)}
        self.metastore.stored[view.name] = dict(properties)
        return view

    def text(self, dotted: str = "s.mv") -> str | None:
        relation = self.metastore.relations.get(named(dotted))
        return None if relation is None else relation.view_text

    def forge(self, text: str = "SELECT 666", dotted: str = "s.mv") -> None:
        self.metastore.add(Relation(named(dotted), RelationKind.VIEW, view_text=text))

    def is_right(self, view: MaterializedView) -> bool:
        return self.text(str(view.name)) == shown_rows(view.storage, view.columns, view.current.shown, view.layout)

    def endanger(self, views: Iterable[str]) -> ViewsEndangered:
        """mallory's statement is sent, which may change these views."""
        by, words = ("mallory", "session", 7, "EXECUTE IMMEDIATE x"), frozenset({"immediate", "other"})
        effect = ViewsEndangered(frozenset(views), *by, words, changes_properties=True)
        self.confirmation.begin(effect)
        return effect

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():  # noqa: ASYNC110 - what is waited for sets no event
                await asyncio.sleep(0)

    def _show(self, text: str) -> Answer:
        name, shown = _name(text), text[text.index(" AS SELECT") + 4 :]
        self.metastore.add(Relation(name, RelationKind.VIEW, view_text=shown))
        return Answer()

    def _drop(self, text: str) -> Answer:
        self.metastore.relations.pop(_name(text), None)
        return Answer()

    def _rename(self, text: str) -> Answer:
        before = self.metastore.relations.pop(_name(text))
        after = replace(before.name, table=re.findall(r"`(\w+)`", text)[-1])
        self.metastore.add(replace(before, name=after))
        return Answer()


async def turns() -> None:
    """Lets everybody go as far as he can."""
    for _ in range(50):
        await asyncio.sleep(0)


def _name(text: str) -> TableName:
    found = re.search(r"(?:VIEW|TABLE) (?:IF EXISTS )?(?:`spark_catalog`\.)?`(\w+)`\.`(\w+)`", text)
    assert found is not None, text
    return named(f"{found[1]}.{found[2]}")


async def test_a_dropped_view_is_put_back_when_its_statement_has_ended(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    view = await stage.view(a="b")
    effect = stage.endanger([view.id])
    stage.metastore.drop(view.name)
    with caplog.at_level(logging.ERROR):
        stage.confirmation.end(effect)
        await stage.until(lambda: not stage.confirmation.active)
    assert stage.is_right(view)
    assert stage.restored == [Restored(view.name, "was dropped", (effect,))]
    assert "s.mv was dropped" in caplog.text
    assert "mallory: EXECUTE IMMEDIATE x" in caplog.text
    (created,) = [text for text in stage.metastore.answers.heard if text.startswith("CREATE VIEW")]
    assert "'a' = 'b'" in created


@pytest.mark.parametrize("text", ["SELECT 666 AS n", "SELECT `n` FROM `storage`.`other` WHERE freshgate_version = 1"])
async def test_a_forged_view_is_put_back_before_it_is_read(text: str) -> None:
    stage = Stage()
    view = await stage.view()
    stage.endanger([view.id])
    stage.forge(text)
    assert stage.confirmation.must_confirm([view.id])
    await stage.confirmation.confirm([view.id])
    assert stage.is_right(view)
    assert [each.problem for each in stage.restored]
    stage.forge("SELECT 667")  # the same statement again, which has not ended
    await stage.confirmation.confirm([view.id])
    assert stage.is_right(view)


async def test_a_text_that_only_looks_like_a_published_one_is_forged() -> None:
    stage = Stage()
    view = await stage.view()
    effect = stage.endanger([view.id])
    stage.forge(f"SELECT `m` AS `n` FROM {view.storage.quoted} WHERE freshgate_version = 1")
    stage.confirmation.end(effect)
    await stage.until(lambda: not stage.confirmation.active)
    assert stage.is_right(view)
    assert [each.problem for each in stage.restored] == ["did not have its published text"]


async def test_an_earlier_release_left_the_catalog_out() -> None:
    stage = Stage()
    view = await stage.view()
    stage.forge(str(stage.text()).replace("`spark_catalog`.", ""))
    before = stage.text()
    stage.confirmation.end(stage.endanger([view.id]))
    await stage.until(lambda: not stage.confirmation.active)
    assert (stage.restored, stage.text()) == ([], before)


async def test_a_table_in_its_place_is_set_aside() -> None:
    stage = Stage()
    view = await stage.view()
    effect = stage.endanger([view.id])
    stage.metastore.add(Relation(view.name, RelationKind.TABLE))
    stage.confirmation.end(effect)
    await stage.until(lambda: not stage.confirmation.active)
    assert stage.is_right(view)
    assert [name for name in stage.metastore.relations if name.table.startswith("mv__")]


async def test_a_renamed_view_is_not_left_under_its_other_name() -> None:
    stage = Stage()
    view = await stage.view()
    effect = stage.endanger([view.id])
    stage.forge(str(stage.text()), "s.other")
    stage.metastore.drop(view.name)
    stage.confirmation.end(effect)
    await stage.until(lambda: not stage.confirmation.active)
    assert stage.is_right(view)
    assert stage.text("s.other") is None


async def test_properties_are_put_back() -> None:
    stage = Stage()
    view = await stage.view(a="b")
    stage.metastore.stored[view.name] = {"a": "c", "x": "y", "transient_lastDdlTime": "1"}
    stage.confirmation.end(stage.endanger([view.id]))
    await stage.until(lambda: not stage.confirmation.active)
    changed = [text for text in stage.metastore.answers.heard if "TBLPROPERTIES" in text]
    assert [("UNSET" in text, "'x'" in text, "'a' = 'b'" in text) for text in changed] == [
        (True, True, False),
        (False, False, True),
    ]
    assert [each.problem for each in stage.restored] == ["had other properties"]


async def test_of_many_views_only_the_forged_ones_are_asked_for() -> None:
    stage = Stage()
    views = [await stage.view(f"s.v{number}") for number in range(50)]
    stage.metastore.answers.say(
        "^SHOW TABLE EXTENDED",
        lambda _: Answer(
            [
                ("s", name.table, False, f"Type: VIEW\nView Text: {each.view_text}\nView Original Text: x\n")
                for name, each in stage.metastore.relations.items()
            ]
        ),
    )
    effect = stage.endanger([view.id for view in views])
    stage.forge("SELECT 666", "s.v7")
    stage.metastore.drop(named("s.v8"))
    stage.metastore.asked.clear()
    stage.confirmation.end(effect)
    await stage.until(lambda: not stage.confirmation.active)
    assert all(map(stage.is_right, views))
    assert {str(each.view) for each in stage.restored} == {"s.v7", "s.v8"}
    assert len([method for method, _ in stage.metastore.asked if method == "relation"]) <= 4


async def test_what_may_still_be_done_is_looked_at_again() -> None:
    stage = Stage()
    view = await stage.view()
    effect = stage.endanger([view.id])
    stage.confirmation.end(effect, surely=False)
    await stage.until(lambda: ("relation", view.name) in stage.metastore.asked)
    assert stage.confirmation.must_confirm([view.id])
    stage.metastore.drop(view.name)  # by a statement that was cancelled
    stage.confirmation.end(effect)
    await stage.until(lambda: not stage.confirmation.active)
    assert stage.is_right(view)


async def test_a_view_whose_refresh_is_published_meanwhile_is_right() -> None:
    stage = Stage()
    view = await stage.view()
    entry = stage.site.entry("s.mv")
    effect = stage.endanger([view.id])
    async with entry.lock:
        stage.confirmation.end(effect)
        newer = replace(view.current, number=2, shown=type(view.current.shown).only(2))
        stage.forge(shown_rows(view.storage, view.columns, newer.shown, view.layout))
        await turns()
        assert stage.confirmation.active
        given(entry, current=newer, versions_reserved=3)
    await stage.until(lambda: not stage.confirmation.active)
    assert stage.restored == []


async def test_a_view_that_is_dropped_in_order_stays_so() -> None:
    stage = Stage()
    view = await stage.view()
    effect = stage.endanger([view.id])
    entry = stage.site.entry("s.mv")
    async with entry.lock:  # as DROP MATERIALIZED VIEW holds it
        stage.metastore.drop(view.name)
        stage.confirmation.end(effect)
        await turns()
        stage.site.catalog.remove(entry)
    await stage.until(lambda: not stage.confirmation.active)
    assert stage.text() is None


async def test_a_drop_whose_end_nobody_heard_is_not_taken_back() -> None:
    stage = Stage()
    view = await stage.view()
    stage.endanger([view.id])
    entry = stage.site.entry("s.mv")
    stage.metastore.stored[view.storage] = {}  # DROP MATERIALIZED VIEW has begun
    stage.metastore.drop(view.name)
    assert not await stage.confirmation._restoration.restore(entry)
    assert stage.text() is None


async def test_a_view_is_not_put_back_under_the_name_of_the_one_that_took_its_place() -> None:
    """REPLACE WITH was interrupted: until the replaced view is removed, the catalog has it under the other's name."""
    stage = Stage()
    replaced, other = await stage.view(), await stage.view("s.other")
    stage.endanger([replaced.id])
    stage.site.catalog.rename({other.name: stage.site.entry("s.mv"), replaced.name: stage.site.entry("s.other")})
    stage.metastore.drop(other.name)
    assert not await stage.confirmation._restoration.restore(stage.site.entry("s.other"))
    assert stage.text("s.other") is None


async def test_what_nobody_watches_is_not_put_back() -> None:
    stage = Stage()
    view = await stage.view()
    stage.metastore.drop(view.name)
    await stage.confirmation.confirm([view.id])
    assert not await stage.confirmation._restoration.restore(stage.site.entry("s.mv"))
    assert stage.text() is None


async def test_a_superseded_gateway_puts_nothing_back() -> None:
    stage = Stage()
    view = await stage.view()

    async def check() -> None:
        raise Superseded("another gateway")

    stage.site.fence.check = check  # type: ignore[method-assign]
    stage.endanger([view.id])
    stage.forge()
    with pytest.raises(Superseded):
        await stage.confirmation.confirm([view.id])
    assert stage.text() == "SELECT 666"


async def test_a_spark_that_does_not_answer_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confirmation, "PAUSE_SECONDS", 0.01)
    stage = Stage()
    view = await stage.view()
    relation, lost = stage.metastore.relation, [UpstreamLost("gone"), UpstreamLost("gone")]

    async def answer(name: object) -> Relation | None:
        if lost:
            raise lost.pop()
        return await relation(name)  # type: ignore[arg-type]

    monkeypatch.setattr(stage.metastore, "relation", answer)
    effect = stage.endanger([view.id])
    stage.forge()
    stage.confirmation.end(effect)
    await stage.until(lambda: not stage.confirmation.active)
    assert stage.is_right(view)


async def test_one_look_serves_all_readers_that_wait() -> None:
    stage = Stage()
    view = await stage.view()
    stage.endanger([view.id])
    stage.metastore.answering.clear()
    readers = [asyncio.create_task(stage.confirmation.confirm([view.id])) for _ in range(20)]
    await turns()
    stage.metastore.asked.clear()
    readers += [asyncio.create_task(stage.confirmation.confirm([view.id])) for _ in range(20)]
    await turns()
    stage.metastore.answering.set()
    await asyncio.gather(*readers)
    assert len([method for method, _ in stage.metastore.asked if method == "relation"]) == 1
