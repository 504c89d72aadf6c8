"""Random clients, with answers in memory: each gets what Spark would answer him now."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

import pytest
from fakes import Client, SparkOperation, SparkSession, World, decoded, named
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import EVERYTHING
from views import given as changed

from gateway.config import ResultCache
from gateway.mv.catalog.watches import Suspect
from gateway.mv.model.view import Version
from gateway.service import executions
from gateway.service.clients.session_settings import SessionSettings
from gateway.service.clients.temporary_views import Reachable
from gateway.service.results.key import Key
from gateway.service.routing.known_answers import KnownAnswers
from gateway.wire.rowset import rows_of
from sql.names import Namespace, TableName

USERS = ("ada", "ada", "bob")
DATABASES = ("s", "u")
TEXTS = (
    "SELECT k, n FROM s.mv",
    "SELECT k, n FROM mv",
    "SELECT k, x AS n FROM mv",
    "SELECT k, n FROM mv WHERE k > current_user()",
    "SELECT k, f(n) AS n FROM s.mv",
    "SELECT mv.k, o.n FROM s.mv JOIN u.mv AS o USING (k)",
    "SELECT k, n FROM s.other",
    "SELECT k, n FROM mv LIMIT 3",
)
HIDING = "CREATE TEMPORARY VIEW mv AS SELECT 1 AS k, 2 AS n"
ROWS = 5
BYTES = 20_000
"""Room for some answers."""
Action = tuple[Any, ...]


@dataclass
class Session:
    """What the answers of a session at Spark depend on, besides the views."""

    settings: tuple[str, ...] = ()
    hidden: int = 0
    """The number of the statement that made its temporary view `mv`; 0: there is none."""


class Truth:
    """What Spark answers a text in a session now."""

    def __init__(self, world: World, *, shared: bool) -> None:
        self._world = world
        self._shared = shared
        self._sessions: dict[SparkSession, Session] = {}
        self._answers: dict[SparkOperation, str] = {}
        self._number = 0
        world.spark.on_start = self._started
        world.spark.rows = lambda operation: self.rows(self._answers[operation])

    def _started(self, operation: SparkOperation) -> None:
        self._number += 1
        text, session = operation.text, self._of(operation.session)
        self._answers[operation] = self.now(operation.session, text)
        if text.startswith(("SET", "DECLARE")):
            # A variable has another value each time.
            session.settings += (text if text.startswith("SET spark") else f"{text} {self._number}",)
        elif text.startswith("CREATE TEMPORARY"):
            session.hidden = self._number
        elif text.startswith("DROP VIEW"):
            session.hidden = 0

    def _of(self, session: SparkSession) -> Session:
        return self._sessions.setdefault(session, Session())

    def now(self, at_spark: SparkSession, text: str) -> str:
        session = self._of(at_spark)
        views = [
            f"temporary {session.hidden}"
            if session.hidden and name == "mv"
            else self._version(name, at_spark.namespace)
            for name in ("mv", "s.mv", "u.mv", "s.other")
            if name in text.replace(",", " ").split()
        ]
        user = "" if self._shared else at_spark.user
        # The gateway cannot know the functions of others, and what they do.
        every = f"run {self._number}" if "f(" in text else ""
        return " | ".join([text, user, *session.settings, *views, every])

    def _version(self, name: str, namespace: Namespace) -> str:
        view = self._world.catalog.named(TableName.resolve(tuple(name.split(".")), namespace))
        return "no such view" if view is None else f"{view.id} {view.current.number} {dict(view.properties)}"

    @staticmethod
    def rows(answer: str) -> list[tuple[str | None, int]]:
        return [(answer if number % 2 else None, number) for number in range(ROWS)]


class Play:
    def __init__(self, *, shared: bool) -> None:
        self.world = World(results=ResultCache(shared=shared, seconds=100, bytes=BYTES))
        self.truth = Truth(self.world, shared=shared)
        self.clients: list[Client] = []

    async def begin(self) -> None:
        self.world.table("s.t")
        self.world.table("u.t")
        for database in DATABASES:
            await self.world.view(f"{database}.mv", f"SELECT k, n FROM {database}.t")
        await self.world.view("s.other", "SELECT k, n FROM s.t")
        for user in USERS:
            self.clients.append(await self.world.client(user, {"use:database": "s"}))

    async def act(self, action: Action) -> None:
        await getattr(self, f"_{action[0]}")(*action[1:])

    # --- clients

    async def _read(self, who: int, text: str, size: int, how: str) -> None:
        client = self.clients[who]
        executed = await client.execute(text, run_async=how != "sync")
        if executed.error is not None:
            return
        expected = self.truth.rows(self.truth.now(client.at_spark, text)) if "f(" not in text else None
        if how == "polls":
            await executed.poll()
        await executed.metadata()
        pages = 1 if how == "half" else ROWS + 1
        found: list[Any] = []
        for _ in range(pages):
            page = decoded(await executed.fetch(size))
            found += rows_of(page.results)
        if how != "leaves open":
            await executed.close()
        if expected is not None:
            assert found == expected[: len(found)]
            assert len(found) == ROWS or (how == "half" and len(found) == min(size, ROWS)) or size * pages < ROWS

    async def _run(self, who: int, text: str, polls: bool) -> None:
        executed = await self.clients[who].execute(text)
        if executed.error is None and polls:
            await executed.poll()

    async def _open(self, who: int, configuration: dict[str, str]) -> None:
        await self.clients[who].open({"use:database": "s", **configuration})

    # --- views

    async def _write(self, table: str) -> None:
        self.world.write(table)

    async def _publish(self, name: str, told: bool) -> None:
        if self.world.catalog.named(named(name)) is None:
            return
        entry = self.world.entry(name)
        number = entry.view.current.number + 1
        changed(entry, current=Version.whole(number, 1, 1, {}), versions_reserved=number + 1)
        if told:
            self.world.catalog.news.published.tell(entry.view.id)

    async def _alter(self, name: str, value: str) -> None:
        if self.world.catalog.named(named(name)) is not None:
            changed(self.world.entry(name), properties={"when_stale": value})
            self.world.catalog.reindex()

    async def _drop(self, name: str) -> None:
        if self.world.catalog.named(named(name)) is not None:
            self.world.catalog.remove(self.world.entry(name))
            self.world.metastore.drop(named(name))
            self.world.relations.forget(named(name).database)

    async def _create(self, name: str) -> None:
        if self.world.catalog.named(named(name)) is None:
            await self.world.view(name, f"SELECT k, n FROM {named(name).database}.t")

    async def _suspect(self, name: str) -> None:
        if self.world.catalog.named(named(name)) is not None:
            watch = self.world.guard.begin(Suspect("eve", "", 1, "?"), [self.world.entry(name).view.id])
            self.world.guard.end(watch)

    async def _wait(self, seconds: int) -> None:
        self.world.now += seconds


WHO = st.integers(0, len(USERS) - 1)
NAMES = st.sampled_from(["s.mv", "u.mv", "s.other"])
STATEMENTS = st.sampled_from(
    [
        "SET spark.sql.ansi.enabled=true",
        "SET spark.sql.ansi.enabled=false",
        "SET VAR x = rand()",
        "DECLARE VARIABLE x INT DEFAULT 1",
        "SET freshgate.result_cache=off",
        "SET freshgate.result_cache=on",
        HIDING,
        "DROP VIEW mv",
        "USE s",
        "USE u",
        "INSERT INTO s.t SELECT k, n FROM u.mv",
        "INSERT INTO u.t VALUES (1, 2)",
        "GRANT SELECT ON s.mv TO bob",
    ]
)
HOW = st.sampled_from(["polls", "polls", "sync", "half", "does not ask", "leaves open"])
READS = st.tuples(st.just("read"), WHO, st.sampled_from(TEXTS), st.sampled_from([1, 2, 3, 5, 100]), HOW)
ACTIONS = st.one_of(
    READS,
    READS,
    READS,
    st.tuples(st.just("run"), WHO, STATEMENTS, st.booleans()),
    st.tuples(st.just("open"), WHO, st.sampled_from([{}, {}, {"set:hiveconf:a": "b"}])),
    st.tuples(st.just("write"), st.sampled_from(["s.t", "u.t"])),
    st.tuples(st.just("publish"), NAMES, st.booleans()),
    st.tuples(st.just("suspect"), NAMES),
    st.tuples(st.just("alter"), NAMES, st.sampled_from(["REFRESH", "SERVE", "FAIL"])),
    st.tuples(st.just("drop"), NAMES),
    st.tuples(st.just("create"), NAMES),
    st.tuples(st.just("wait"), st.sampled_from([1, 60, 200])),
)
EXAMPLES = 2_000 if EVERYTHING else 150


async def play(actions: list[Action], *, shared: bool) -> World:
    playing = Play(shared=shared)
    await playing.begin()
    for action in actions:
        await playing.act(action)
        assert playing.world.results.bytes <= BYTES
    for client in playing.clients:
        await client.leave()
    playing.world.results.clear()
    assert playing.world.results.bytes == 0
    return playing.world


@settings(max_examples=EXAMPLES)
@given(st.lists(ACTIONS, max_size=25), st.booleans())
def test_each_answer_is_what_spark_would_say_now(actions: list[Action], shared: bool) -> None:
    asyncio.run(play(actions, shared=shared))


def test_such_clients_are_answered_from_memory() -> None:
    """Otherwise the test above would show nothing."""
    reads = [("read", who, text, 2, "polls") for text in TEXTS for who in (0, 1, 2, 1)]
    assert asyncio.run(play(reads, shared=False)).results.counts.hits > 4


ONE, OTHER, BOB = (("read", who, TEXTS[1], 2, "polls") for who in (0, 1, 2))


@pytest.mark.parametrize(
    ("part", "value", "actions"),
    [
        ("user", "", [ONE, BOB]),
        ("settings", "", [ONE, ("run", 1, "SET spark.sql.ansi.enabled=true", True), OTHER]),
        ("text", "", [ONE, ("read", 0, TEXTS[0], 2, "polls")]),
        ("views", frozenset(), [ONE, ("publish", "s.mv", False), ONE]),
        ("views", frozenset(), [ONE, ("alter", "s.mv", "SERVE"), ONE]),
    ],
)
def test_a_key_that_lacks_something_is_found(
    monkeypatch: pytest.MonkeyPatch, part: str, value: Any, actions: list[Action]
) -> None:
    asyncio.run(play(actions, shared=False))
    key = KnownAnswers.key

    def lacking(*arguments: Any) -> Key | None:
        found = key(*arguments)
        return None if found is None else replace(found, **{part: value})

    monkeypatch.setattr(KnownAnswers, "key", lacking)
    monkeypatch.setattr(executions, "_is_as", lambda *_: True)
    with pytest.raises(AssertionError, match="assert"):
        asyncio.run(play(actions, shared=False))


@pytest.mark.parametrize(
    ("rule", "actions"),
    [
        ("opaque", [ONE, ("run", 0, "SET VAR x = rand()", True), ("run", 1, "SET VAR x = rand()", True), ONE, OTHER]),
        ("temporary", [("run", 0, HIDING, True), ("run", 1, HIDING, True), ONE, OTHER]),
    ],
)
def test_a_rule_that_is_left_out_is_found(monkeypatch: pytest.MonkeyPatch, rule: str, actions: list[Action]) -> None:
    asyncio.run(play(actions, shared=False))
    if rule == "opaque":
        monkeypatch.setattr(SessionSettings, "note", _noted)
    else:
        monkeypatch.setattr(KnownAnswers, "_reads_only", lambda *_: True)
        monkeypatch.setattr(Reachable, "mentioned", lambda *_: False)
    with pytest.raises((AssertionError, IndexError)):
        asyncio.run(play(actions, shared=False))


def _noted(settings: SessionSettings, text: str, *, constant: bool) -> None:
    """Does not tell variables from constants."""
    del constant
    settings.id = f"{settings.id} {text}"
