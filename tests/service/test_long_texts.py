"""Long texts hold nobody up: they are read in a process of their own, and what is kept of them is bounded."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import inspect
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from types import FunctionType
from typing import Any

import hostile_texts
import psutil
import pytest
from fake_spark import Answer
from fakes import Client, Site
from processes import environment, wait_until
from views import given

from gateway.errors import FreshgateError, LimitReached
from gateway.service.routing import long_texts
from gateway.service.routing.fair_turns import FairTurns
from gateway.service.routing.long_text_process import ANSWER_BYTES_MAX
from gateway.service.routing.long_texts import APART_CHARACTERS, LONG_CHARACTERS, LongTexts, parts_bounded
from sql import classify, understood
from sql.classify import NAMES_MAX
from sql.grammar.cursor import SyntaxProblem
from sql.lexed import Lexed
from sql.understood import LOOK_BYTES_MAX, Understood
from sql.words import WORDS_MAX, ManyWords, bounded, may_hold_path

SIZE = 2 * APART_CHARACTERS
TEXTS = {kind: text for kind, text in hostile_texts.texts(SIZE).items() if len(text) > APART_CHARACTERS}
MIB = 1 << 20


@pytest.fixture
def nothing_long_is_read_here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every function of `sql` that is called in this process with a text longer than APART_CHARACTERS, but for those
    that cut and join, and every expression that the gateway's own modules look for in one: their names."""
    called: list[str] = []
    cutting = {"splice", "blanked"}
    beginnings = {"_SHOW_DATABASES"}
    """Expressions that are matched against the beginning."""

    def note(name: str, arguments: Iterable[object]) -> None:
        here = threading.current_thread() is threading.main_thread()
        texts = (each.text if isinstance(each, Lexed) else each for each in arguments)
        if here and any(isinstance(each, str) and len(each) > APART_CHARACTERS for each in texts):
            called.append(name)

    def watched(function: FunctionType) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            note(f"{function.__module__}.{function.__name__}", arguments)
            return function(*arguments, **named)

        return call

    class Searched:
        """A pattern, which tells what it is asked."""

        def __init__(self, name: str, pattern: re.Pattern[str]) -> None:
            self.name, self.pattern = name, pattern

        def __getattr__(self, method: str) -> Callable[..., Any]:
            def call(*arguments: Any) -> Any:
                note(self.name, arguments)
                return getattr(self.pattern, method)(*arguments)

            return call

    for name, module in list(sys.modules.items()):
        if not name.startswith(("sql.", "gateway.service", "gateway.mv")):
            continue
        for key, value in list(vars(module).items()):
            if inspect.isfunction(value) and value.__module__.startswith("sql.") and value.__name__ not in cutting:
                monkeypatch.setattr(module, key, watched(value))
            if isinstance(value, re.Pattern) and name.startswith("gateway.") and key not in beginnings:
                monkeypatch.setattr(module, key, Searched(f"{name}.{key}", value))
    # What goes to the child must be found there by its name.
    monkeypatch.setattr(pickle, "dumps", lambda work: _dumps(_plain(work)))
    return called


_dumps = pickle.dumps


def _plain(work: Any) -> Any:
    if not (isinstance(work, tuple) and work and inspect.isfunction(work[0])):
        return work
    function, *rest = work
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    # By its name in its module, where the watched one stands now.
    return (_Named(function.__module__, function.__qualname__), *rest)


class _Named:
    def __init__(self, module: str, name: str) -> None:
        self.of = module, name

    def __reduce__(self) -> tuple[Any, ...]:
        module, name = self.of
        return getattr, (_Module(module), name)


class _Module:
    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> tuple[Any, ...]:
        return importlib.import_module, (self.name,)


@contextlib.asynccontextmanager
async def long_texts_of_a_test() -> AsyncIterator[LongTexts]:
    made = LongTexts()
    try:
        yield made
    finally:
        await made.close()


PROCESS = "__import__('os').getpid()" + " " * SIZE
SLEEP = "__import__('time').sleep(60)" + " " * SIZE
"""For `eval`, which the child has, too: it can import nothing of this module."""


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)


async def read_here(client: Client, kinds: Iterable[str], called: list[str]) -> dict[str, list[str]]:
    """What was called here of each of these kinds, those left out of which nothing was."""
    found = {}
    for kind in kinds:
        # What is refused, and what this site has no answer to, has been read by then.
        with contextlib.suppress(FreshgateError, AssertionError, AttributeError):
            executed = await client.execute(TEXTS[kind])
            await executed.poll()
            await executed.close()
        if called:
            found[kind] = called.copy()
            called.clear()
    return found


async def stage() -> Site:
    site = Site()
    site.table("s.t")
    await site.view("s.mv", "SELECT count(*) n FROM s.t")
    return site


@pytest.mark.parametrize("group", ["writes", "queries", "nests", "scripts", "commands", "odd"])
async def test_the_router_reads_no_long_text_itself(group: str, nothing_long_is_read_here: list[str]) -> None:
    kinds = [kind for kind in getattr(hostile_texts, group)(SIZE) if kind in TEXTS]
    site = await stage()
    try:
        assert await read_here(await site.client("bob"), kinds, nothing_long_is_read_here) == {}
    finally:
        await site.router.close()


REWRITTEN = ("an IN list", "a string", "a union", "a view again and again", "back quotes", "a version", "line ends")
"""Kinds in which something may take the view's place."""


async def test_nor_one_in_which_a_version_or_a_definition_takes_a_views_place(
    nothing_long_is_read_here: list[str],
) -> None:
    site = await stage()
    bob = await site.client("bob")
    try:
        await bob.execute("BEGIN TRANSACTION")
        assert await read_here(bob, REWRITTEN, nothing_long_is_read_here) == {}
        assert "freshgate_version = 1" in site.spark.texts[-1]
        await bob.execute("COMMIT")
        given(site.entry("s.mv"), properties={"when_stale": "INLINE"})
        for kind in REWRITTEN:
            site.write("s.t")
            assert await read_here(bob, [kind], nothing_long_is_read_here) == {}
        assert "__definition`" in site.spark.texts[-1]
        assert site.refreshed == []
    finally:
        await site.router.close()


async def test_nor_one_that_execute_immediate_runs(nothing_long_is_read_here: list[str]) -> None:
    site = await stage()
    asked: list[str] = []
    inner = f"SELECT n FROM s.mv WHERE '{'a' * SIZE}' <> ''"

    def run(text: str) -> Answer:
        asked.append(text[:12])
        return Answer([(inner,)])

    site.spark.answers.say(r"^SELECT \(", run)
    bob = await site.client("bob")
    try:
        for text in ("EXECUTE IMMEDIATE x", "EXECUTE IMMEDIATE x USING 1 AS a"):
            site.write("s.t")
            executed = await bob.execute(text)
            assert executed.error is None
            assert nothing_long_is_read_here == []
        assert site.refreshed == ["s.mv", "s.mv"]
        assert asked == ["SELECT (x)", "SELECT ('SEL"] * 2, "its text, and whether a literal stands for it"
    finally:
        await site.router.close()


async def test_a_long_write_and_a_long_read_are_known_for_what_they_are() -> None:
    site = await stage()
    site.table("s.u")
    bob = await site.client("bob")
    try:
        await (await bob.execute(TEXTS["with words of queries"].replace("s.t", "s.u"))).poll()
        await bob.execute("SELECT n FROM s.mv")
        await (await bob.execute(TEXTS["with the word jobs"])).poll()
        assert len(site.refreshed) <= 1
        before = len(site.refreshed)
        await bob.execute(TEXTS["an IN list"])
        assert len(site.refreshed) == before + 1
    finally:
        await site.router.close()


async def test_a_reading_of_eight_megabytes_comes_back_small() -> None:
    async with long_texts_of_a_test() as texts:
        text = f"SELECT '{'a' * (8 * MIB)}' AS a FROM s.mv"
        known = Understood(text)
        await texts.read(known)
        assert [reference.parts for reference in known.sparks.reads] == [("s", "mv")]


async def test_an_error_of_the_grammar_comes_back_as_it_is() -> None:
    async with long_texts_of_a_test() as texts:
        with pytest.raises(SyntaxProblem, match="expected the view's name") as here:
            Understood("DROP MATERIALIZED VIEW (").statement  # noqa: B018
        with pytest.raises(SyntaxProblem) as there:
            await texts.read(Understood("DROP MATERIALIZED VIEW (" + " " * SIZE))
        assert str(there.value) == str(here.value)
        assert (there.value.position, there.value.sqlstate) == (here.value.position, here.value.sqlstate)


async def test_an_answer_that_is_too_long_to_take_over_is_an_error() -> None:
    async with long_texts_of_a_test() as texts:
        with pytest.raises(LimitReached, match="too many names"):
            await texts.apply(str.upper, "a" * (ANSWER_BYTES_MAX + 1))
        assert await texts.apply(str.count, "a" * SIZE, "a") == SIZE


async def test_a_part_that_is_too_large_fails_only_those_who_need_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(understood, "PART_BYTES_MAX", 2_000)
    text = "SELECT 1 FROM s.mv" + ", s.mv" * 1_000
    assert APART_CHARACTERS > len(text) > LONG_CHARACTERS  # read in a thread, where the patch applies
    site = await stage()
    bob = await site.client("bob")
    assert "too many names" in str((await bob.execute(text)).error)
    async with long_texts_of_a_test() as texts:
        known = Understood(text)
        await texts.read(known)
        assert known.look.keyword == "select"
        with pytest.raises(LimitReached), parts_bounded():
            known.statement  # noqa: B018


async def test_a_process_that_is_killed_is_started_again() -> None:
    async with long_texts_of_a_test() as texts:
        first = await texts.apply(eval, PROCESS)
        working = asyncio.create_task(texts.apply(eval, SLEEP))
        await until(lambda: texts._long._turns.busy)
        os.kill(first, signal.SIGKILL)
        with pytest.raises(LimitReached, match="memory"):
            await working
        assert await texts.apply(eval, PROCESS) not in {first, os.getpid()}


async def test_a_reading_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async with long_texts_of_a_test() as texts:
        await texts.apply(str.count, "a" * SIZE, "a")
        monkeypatch.setattr(long_texts, "READ_SECONDS", 0.05)
        with pytest.raises(LimitReached, match="within"):
            await texts.apply(eval, SLEEP)


async def test_who_gives_up_gets_nobody_elses_answer() -> None:
    async with long_texts_of_a_test() as texts:
        await texts.apply(str.count, "a" * SIZE, "a")
        left = asyncio.create_task(texts.apply(str.count, "a" * SIZE, "a"))
        await asyncio.sleep(0)
        left.cancel()
        assert await texts.apply(str.count, "b" * SIZE, "a") == 0


async def test_a_process_that_nobody_needs_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async with long_texts_of_a_test() as texts:
        assert texts._long._child is None
        monkeypatch.setattr(long_texts, "IDLE_SECONDS", 0.01)
        child = await texts.apply(eval, PROCESS)
        await until(lambda: texts._long._child is None)
        monkeypatch.setattr(long_texts, "IDLE_SECONDS", 60.0)
        assert await texts.apply(eval, PROCESS) != child


async def test_too_many_that_wait_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async with long_texts_of_a_test() as texts:
        monkeypatch.setattr(long_texts, "WAITING_MAX", 2)
        first = [asyncio.create_task(texts.apply(str.count, "a" * SIZE, "a")) for _ in range(2)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        with pytest.raises(LimitReached, match="wait to be parsed"):
            await texts.apply(str.count, "a" * SIZE, "a")
        assert await asyncio.gather(*first) == [SIZE, SIZE]


# --- bounded space -----------------------------------------------------------------------------------------


def test_a_statement_of_very_many_names_counts_as_everything() -> None:
    text = "SELECT * FROM " + ", ".join(f"t{number}" for number in range(NAMES_MAX + 1))
    found = Understood(text).sparks
    assert (found.exact, found.everything, found.reads) == (False, True, ())


async def test_everything_is_read_and_written_by_what_names_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classify, "NAMES_MAX", 3)
    site = Site()
    site.table("s.t")
    await site.view("s.mv", "SELECT count(*) n FROM s.t")
    bob = await site.client("bob")
    await (await bob.execute("BEGIN INSERT INTO s.a SELECT 1; INSERT INTO s.b SELECT mv; END")).poll()
    await bob.execute("SELECT n FROM s.mv")
    assert site.refreshed == ["s.mv"]


def test_very_many_words_say_of_each_that_they_have_it() -> None:
    many = frozenset(f"word{number}" for number in range(WORDS_MAX + 1))
    words = bounded(many)
    assert isinstance(words, ManyWords)
    assert all(word in words for word in many)
    others = frozenset(f"other{number}" for number in range(10_000))
    assert len(words & others) < 100
    assert words & frozenset({"word7", "ä"}) == {"word7"}
    assert not words.isdisjoint({"word7"})
    assert words.isdisjoint({"mv", "jobs", "drop"})
    assert not may_hold_path(words)
    assert may_hold_path(bounded(many | {"/data/x"}))


def test_any_number_of_words_can_be_taken_over_from_the_process() -> None:
    """An IN list of 140,000 values has as many words."""
    words = ManyWords(frozenset(map(str, range(300_000))))
    assert len(pickle.dumps(words)) < LOOK_BYTES_MAX
    assert "299999" in words
    assert sum(f"other{number}" in words for number in range(10_000)) < 200


def test_few_words_stay_a_set() -> None:
    words = frozenset({"a"})
    assert bounded(words) is words


async def test_a_short_script_of_many_statements_is_read_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its statements is read by itself, which takes as long as reading a long text."""
    read_by: list[int] = []

    def packed(*recipe: Any) -> understood.Packed:
        read_by.append(threading.get_ident())
        return understood.packed(*recipe)

    monkeypatch.setattr(long_texts, "packed", packed)
    async with long_texts_of_a_test() as texts:
        many, few = Understood("BEGIN " + "x;" * 1_900 + "END"), Understood("BEGIN " + "x;" * 300 + "END")
        for known in (many, few):
            assert len(known.text) < LONG_CHARACTERS
            await texts.read(known)
        assert (len(many.steps), len(few.steps)) == (1_901, 301)
    assert len(read_by) == 1
    assert read_by != [threading.get_ident()]


KILLED = """
import asyncio, os, sys
from gateway.service.routing.long_texts import LongTexts
async def main():
    texts = LongTexts()
    print(await texts.apply(eval, "__import__('os').getpid()" + " " * 40_000), file=sys.stderr, flush=True)
    reading = asyncio.ensure_future(texts.apply(eval, "any(iter(int, 1))" + " " * 40_000))
    while not texts._long._turns.busy:
        await asyncio.sleep(0)
    os._exit(0)
asyncio.run(main())
"""


def test_a_reading_ends_with_the_gateway() -> None:
    """It does not notice the end of its input before it has read the text."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED], env=environment(), stderr=subprocess.PIPE, text=True, timeout=60, check=True
    )
    child = int(done.stderr.split()[0])
    wait_until(lambda: not psutil.pid_exists(child), what="the reading process to end")


async def test_users_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    of = FairTurns.of

    def noted(turns: FairTurns, who: tuple[str, str]) -> contextlib.AbstractAsyncContextManager[None]:
        asked.append(who[0])
        return of(turns, who)

    monkeypatch.setattr(FairTurns, "of", noted)
    site = await stage()
    try:
        for user in ("bob", "eve"):
            client = await site.client(user)
            await (await client.execute(TEXTS["a string"])).poll()
        assert asked == ["bob", "eve"]
    finally:
        await site.router.close()
