"""Lists of Spark views that something changes while Spark makes them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from gateway.mv.observation.relations import Relations
from sql.names import TableName


class Metastore:
    """Has one database with a Spark view; a listing waits until it is let go."""

    def __init__(self) -> None:
        self.asked, self.answer = asyncio.Event(), asyncio.Event()

    async def databases(self) -> frozenset[str]:
        return frozenset({"shop"})

    async def views(self, _: str, pattern: str = "*") -> frozenset[str]:
        self.asked.set()
        await self.answer.wait()
        return frozenset({"orders_of_today"})

    async def functions(self, _: str) -> frozenset[str]:
        return frozenset()


CHANGES: list[tuple[Callable[[Relations], None], bool]] = [
    (Relations.forget_sources, True),
    (lambda relations: relations.forget("shop"), False),
    (lambda relations: relations.forget("other"), False),
]


@pytest.mark.parametrize(("change", "lasts"), CHANGES, ids=["a name moves", "a view is made there", "or elsewhere"])
def test_who_waited_for_a_list_has_it(change: Callable[[Relations], None], lasts: bool) -> None:
    """Without it a read would not be taken for one of a view; whether the next statement has to ask again is another
    question."""

    async def story() -> None:
        metastore = Metastore()
        relations = Relations(SimpleNamespace(), metastore, 3_600)  # type: ignore[arg-type]  # asked nothing else
        learning = asyncio.create_task(relations.learn("shop", frozenset()))
        await metastore.asked.wait()
        change(relations)
        metastore.answer.set()
        await learning
        assert relations.view_words == {"orders_of_today"}
        assert relations.known("shop", frozenset()) is lasts

    asyncio.run(story())


def test_a_list_is_kept_for_those_who_have_it_while_another_is_made() -> None:
    async def story() -> None:
        metastore = Metastore()
        metastore.answer.set()
        relations = Relations(SimpleNamespace(), metastore, 3_600)  # type: ignore[arg-type]  # asked nothing else
        await relations.learn("shop", frozenset())
        relations.forget("shop")
        assert relations.view_words == {"orders_of_today"}
        assert not relations.known("shop", frozenset())

    asyncio.run(story())


def test_what_another_program_has_just_created_is_known_if_everything_is_listed_anew() -> None:
    class Growing(Metastore):
        names = frozenset({"shop"})

        async def databases(self) -> frozenset[str]:
            return self.names

    async def story() -> None:
        metastore, view = Growing(), TableName("new", "orders_of_today")
        metastore.answer.set()
        relations = Relations(SimpleNamespace(), metastore, 3_600)  # type: ignore[arg-type]  # asked nothing else
        await relations.learn("shop", frozenset())
        metastore.names = frozenset({"shop", "new"})
        await relations.learn("shop", frozenset({"new"}))
        assert not relations.is_listed(view)
        relations.forget_lists()
        await relations.learn("shop", frozenset({"new"}))
        assert relations.is_listed(view)

    asyncio.run(story())
