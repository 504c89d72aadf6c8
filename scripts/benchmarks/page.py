"""Measures the page for browsers with thousands of views and many viewers, and what clients notice of it."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from clients import pyhive, rows
from page_site import PageSite
from processes import Gateway, free_port, wait_until

from benchmarks import many_views
from benchmarks.figures import UNITS, Figure, in_turn, shown, timed
from benchmarks.stand import Stand
from benchmarks.turns import Watch
from gateway.login import user_file
from gateway.mv.catalog.loading import OUTLINED_FROM
from gateway.mv.model.view import Cause, RefreshMode, Task, TaskStatus, TriggerMode
from gateway.proxy.heap import settle

VIEWS = 5_000
VIEWERS = 20
POLL_SECONDS = 2.0
FIRST_PAGE_MS = 100.0
TURN_MS = 20.0
FIRST_PAGES = 15
PICTURE_SECONDS = 1.5
"""After so long a page needs a new picture of the catalog."""
ROUNDS = 8
QUERIES = 100
"""`SELECT 1` of each round."""
PROBE_SECONDS = 0.005
SCREENS = ("/", "/views", "/activity", "/savings")
USER, PASSWORD = "ada", "of the bench"
LOADED_SECONDS = 900.0
FAILED = Task(
    1_000,
    Cause(TriggerMode.MANUAL, "ada"),
    "asked for",
    1,
    TaskStatus.FAILED,
    RefreshMode.COMPLETE,
    2,
    1_002,
    error="Table gone not found. " * 20,
)


# --- through `freshgate serve` -----------------------------------------------------------------------------------


def figures(stand: Stand) -> Iterator[Figure]:
    """First pages, polls, `SELECT 1` and the gateway's other answers with and without viewers."""
    views = stand.runs(VIEWS)
    with _gateway(stand, views) as (gateway, page, probes):
        watcher = Viewer(page)
        for screen in SCREENS:
            taken = [watcher.first(screen) for _ in range(FIRST_PAGES)]
            yield Figure("page", f"{screen}, first, {views} views", _ms(taken), "ms", FIRST_PAGE_MS, runs=len(taken))
        with (
            Viewers(page) as viewers,
            pyhive(gateway.host, gateway.port, user=USER, password=PASSWORD, auth="LDAP") as cursor,
        ):
            yield from _beside(viewers, cursor, probes, views)


def _beside(viewers: Viewers, cursor: Any, probes: int, views: int) -> Iterator[Figure]:
    """Pairs of rounds, without viewers and with them."""
    select, waits = dict[bool, list[float]](), dict[bool, list[float]]()

    def one_round(*, looking: bool) -> None:
        viewers.looking = looking
        with Probe(probes) as probe:
            for _ in range(QUERIES):
                select.setdefault(looking, []).append(timed(lambda: rows(cursor, "SELECT 1")))
        waits.setdefault(looking, []).extend(probe.taken)

    in_turn(partial(one_round, looking=False), partial(one_round, looking=True), ROUNDS)
    without, within = (_ms(select[looking]) for looking in (False, True))
    yield Figure(
        "page",
        f"SELECT 1 beside {VIEWERS} viewers, {views} views",
        within / without,
        "ratio",
        1.05,
        f"{without:.3g} ms alone",
        f"{within:.3g} ms",
        len(select[True]),
    )
    for name, share in (("99th percentile", 0.99), ("longest", 1.0)):
        alone, beside = (_at(waits[looking], share) for looking in (False, True))
        yield Figure(
            "page",
            f"another answer of the event loop, {name}",
            beside * UNITS["ms"],
            "ms",
            None,
            f"{shown(alone, 'ms')} alone",
            shown(beside, "ms"),
            len(waits[True]),
        )
    polls = viewers.polls
    yield Figure("page", f"polls of {VIEWERS} viewers, median", _ms([each[0] for each in polls]), "ms", runs=len(polls))
    known = sum(status == http.client.NOT_MODIFIED for _, status in polls) / len(polls)
    yield Figure("page", "polls that are answered by 304", known, "ratio", at_least=0.5, runs=len(polls))


@contextlib.contextmanager
def _gateway(stand: Stand, views: int) -> Iterator[tuple[Gateway, int, int]]:
    """A gateway with so many views; the ports of its page and its probes."""
    upstream = f"{stand.engine.host}:{stand.engine.port}"
    if (many_views.DATABASE,) not in stand.query("SHOW DATABASES", direct=True):
        many_views.create_tables(stand.engine)
        storage: dict[str, Any] = {"storage.database": many_views.STORAGE}
        first = Gateway(stand.directory / "page-first.log", upstream=upstream, settings=storage)
        many_views.create_views(stand.engine, first, views)
        first.stop()
    users = stand.directory / "page-users"
    user_file.write(users, f"{USER}:{user_file.hash_of(PASSWORD)}\n")
    page, probes = free_port(), free_port()
    settings: dict[str, Any] = {
        "storage.database": many_views.STORAGE,
        "authentication.method": "file",
        "authentication.users_file": users,
        "page.port": page,
        "metrics.port": probes,
    }
    log = stand.directory / "page.log"
    gateway = Gateway(log, upstream=upstream, settings=settings)
    try:
        if views >= OUTLINED_FROM:
            wait_until(partial(_is_described, log), LOADED_SECONDS, "the views")
        yield gateway, page, probes
    finally:
        gateway.stop()


def _is_described(log: Path) -> bool:
    return "were described" in log.read_text(encoding="utf-8")


class Viewer:
    """A browser that has logged in, with one connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self._headers: dict[str, str] = {}
        form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://127.0.0.1:{port}"}
        self._connection.request("POST", "/login", urlencode({"user": USER, "password": PASSWORD}), form)
        answer = self._connection.getresponse()
        answer.read()
        if answer.status != http.client.SEE_OTHER:
            raise AssertionError(f"the login was answered by {answer.status}")
        self._headers["Cookie"] = (answer.getheader("Set-Cookie") or "").partition(";")[0]

    def ask(self, screen: str) -> int:
        """The status. Sends the ETag of the last answer."""
        try:
            answer = self._answer(screen)
        except (http.client.RemoteDisconnected, ConnectionError):
            # It was idle for too long.
            self._connection.close()
            answer = self._answer(screen)
        answer.read()
        self._headers["If-None-Match"] = answer.getheader("ETag") or ""
        return answer.status

    def _answer(self, screen: str) -> http.client.HTTPResponse:
        self._connection.request("GET", screen, headers=self._headers)
        return self._connection.getresponse()

    def first(self, screen: str) -> float:
        """Seconds of a page after nobody has looked for a while."""
        time.sleep(PICTURE_SECONDS)
        self._headers.pop("If-None-Match", None)
        return timed(lambda: self.ask(screen))


class Viewers:
    """Browsers in threads, which ask again every two seconds while they are `looking`. A context manager."""

    def __init__(self, port: int) -> None:
        self.looking = False
        self.polls: list[tuple[float, int]] = []
        """Seconds and status of each."""
        self._over = threading.Event()
        viewers = [Viewer(port) for _ in range(VIEWERS)]
        self._threads = [
            threading.Thread(target=self._look, args=(viewer, SCREENS[number % len(SCREENS)], number))
            for number, viewer in enumerate(viewers)
        ]

    def __enter__(self) -> Viewers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _look(self, viewer: Viewer, screen: str, number: int) -> None:
        pause = POLL_SECONDS * number / VIEWERS
        while not self._over.wait(pause):
            pause = POLL_SECONDS
            if self.looking:
                began = time.perf_counter()
                status = viewer.ask(screen)
                self.polls.append((time.perf_counter() - began, status))


class Probe:
    """Asks the gateway for its health all the time: how long an answer takes shows how long its event loop was busy
    with other work. A context manager."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self.taken: list[float] = []

    def __enter__(self) -> Probe:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _ask(self) -> None:
        while not self._over.wait(PROBE_SECONDS):
            began = time.perf_counter()
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
            connection.request("GET", "/healthz")
            connection.getresponse().read()
            connection.close()
            self.taken.append(time.perf_counter() - began)


def _ms(seconds: Sequence[float]) -> float:
    return statistics.median(seconds) * UNITS["ms"]


def _at(seconds: Sequence[float], share: float) -> float:
    return sorted(seconds)[min(len(seconds) - 1, int(share * len(seconds)))]


# --- turns, in this process ----------------------------------------------------------------------------------------


def turns() -> Iterator[Figure]:
    """The longest turn of the event loop in processor time while all viewers ask at once for each screen."""
    for state in ("fresh", "failing and stale"):
        for screen, seconds in asyncio.run(_turns(failing=state != "fresh")).items():
            yield Figure("page-turns", f"{screen}, {VIEWS} views, {state}", seconds * UNITS["ms"], "ms", TURN_MS)


async def _turns(*, failing: bool) -> dict[str, float]:
    page = PageSite()
    page.site.table("s.t")
    for number in range(VIEWS):
        await page.site.view(f"s.v{number:04}", "SELECT n FROM s.t")
    if failing:
        for entry in page.site.catalog.entries():
            entry.history.end(entry.history.begin(FAILED), replace(FAILED))
        page.site.write("s.t")
    browsers = [await page.browser("ada") for _ in range(VIEWERS)]
    # As after the start of a gateway.
    settle()
    watch, found = Watch(), {}
    for screen in (*SCREENS, "/views?sort=stale", "/views?q=49", "/views/s/v0001", "/?format=json"):
        await asyncio.sleep(0)
        watch.take()
        await asyncio.gather(*(browser.get(screen) for browser in browsers))
        await asyncio.sleep(0)
        found[screen] = watch.take()
    return found
