"""What Spark is asked before a view shows a user rows of tables that the user may not read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from fake_spark import Answer
from views import view_of

from gateway.errors import StatementFailed, UpstreamLost
from gateway.mv.model.view import MaterializedView, Version
from gateway.mv.ports import SqlSession
from gateway.mv.rewriting.permission import REFUSED_SECONDS, TRIED, Permission, refusal_of_view
from sql.mentioned import Mentioned
from sql.names import Namespace

SECONDS = 100.0
ANYTHING = Mentioned(frozenset(), anything=True)
DENIED = "ada does not have [select] privilege on [d/orders]"


class Asked:
    """Whoever is in `denied` may create no view of anything."""

    def __init__(self) -> None:
        self.denied: set[str] = set()
        self.failing: str = ""
        """The first word of statements that fail."""
        self.ran: list[str] = []
        self.now = 0.0
        self.permission = Permission(SECONDS, lambda: self.now)
        self.view: MaterializedView = replace(
            view_of(Version.whole(1, 1, 1, {})),
            query="SELECT n FROM orders",
            namespace=Namespace("d"),
            settings={"spark.sql.ansi.enabled": "false"},
        )

    @asynccontextmanager
    async def session(self, user: str) -> AsyncIterator[SqlSession]:
        yield _Session(self, user)

    async def ask(self, user: str) -> str | None:
        return await self.permission.refusal(self.view, user, lambda: self.session(user))

    @property
    def tried(self) -> list[str]:
        return [text for text in self.ran if text.startswith("CREATE")]


class _Session:
    def __init__(self, spark: Asked, user: str) -> None:
        self._spark, self._user = spark, user

    async def run(self, sql: str, *, on_start: object = None) -> Answer:
        self._spark.ran.append(sql)
        if self._spark.failing and sql.startswith(self._spark.failing):
            raise StatementFailed(f"no {self._spark.failing}")
        if sql.startswith("CREATE") and self._user in self._spark.denied:
            raise StatementFailed(DENIED)
        return Answer()

    def spoil(self) -> None: ...


async def test_spark_is_asked_of_the_definition_as_it_was_written() -> None:
    """In its database and with its settings, and of no view of Spark's, which users may read without its tables."""
    spark = Asked()
    assert await spark.ask("bob") is None
    assert spark.ran == [
        "USE `spark_catalog`.`d`",
        "SET `spark.sql.ansi.enabled`=`false`",
        f"CREATE OR REPLACE TEMPORARY VIEW `{TRIED}` AS SELECT n FROM `d`.orders",
        "RESET `spark.sql.ansi.enabled`",
    ]


async def test_each_user_is_asked_of_apart() -> None:
    spark = Asked()
    spark.denied = {"ada"}
    assert [await spark.ask(user) for user in ("ada", "bob", "ada", "bob")] == [DENIED, None, DENIED, None]
    assert len(spark.tried) == 2


async def test_a_refusal_is_believed_for_a_short_time_and_a_consent_for_the_usual_one() -> None:
    spark = Asked()
    spark.denied = {"ada"}
    await spark.ask("ada")
    await spark.ask("bob")
    spark.now, spark.denied = REFUSED_SECONDS + 1.0, {"bob"}
    assert [await spark.ask(user) for user in ("ada", "bob")] == [None, None]
    spark.now = SECONDS + 1.0
    assert [await spark.ask(user) for user in ("ada", "bob")] == [None, DENIED]


async def test_a_change_of_rights_ends_what_is_known() -> None:
    spark = Asked()
    await spark.ask("ada")
    spark.denied = {"ada"}
    spark.permission.forget(Mentioned(frozenset({"elsewhere"})))
    assert await spark.ask("ada") is None
    spark.permission.forget(ANYTHING)
    assert await spark.ask("ada") == DENIED


@pytest.mark.parametrize(("failing", "found"), [("USE", None), ("SET", "no SET")])
async def test_what_cannot_be_tried_is_refused(failing: str, found: str | None) -> None:
    """A user may lack the right to use the database of a query all of whose names are qualified."""
    spark = Asked()
    spark.failing = failing
    assert await spark.ask("bob") == found


async def test_a_lost_connection_is_no_refusal() -> None:
    spark = Asked()

    @asynccontextmanager
    async def lost() -> AsyncIterator[SqlSession]:
        raise UpstreamLost("gone")
        yield

    with pytest.raises(UpstreamLost):
        await spark.permission.refusal(spark.view, "bob", lost)
    spark.denied = {"bob"}
    assert await spark.ask("bob") == DENIED


async def test_a_view_is_tried_by_its_name() -> None:
    spark = Asked()
    for denied, found in ((set[str](), None), ({"ada"}, DENIED)):
        spark.denied = denied
        async with spark.session("ada") as session:
            assert await refusal_of_view(session, spark.view) == found
    assert spark.tried[0] == f"CREATE OR REPLACE TEMPORARY VIEW `{TRIED}` AS SELECT * FROM {spark.view.name.quoted}"
