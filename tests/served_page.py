"""A page with views of every kind that listens on a free port, for browsers."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine, Iterable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, TypeVar

from page_site import PageSite, Passwords

from gateway.config import Address
from gateway.mv.model.view import Cause, RefreshMode, Task, TaskStatus, TriggerMode
from gateway.mv.rewriting.usage import WhyMissed
from gateway.page.page_server import PageServer
from sql.names import Namespace

T = TypeVar("T")
VIEW = "/views/shop/daily"
CAUSE = Cause(TriggerMode.MANUAL, "ada")
DONE = Task(1_000, CAUSE, "asked for", 1, TaskStatus.SUCCESS, RefreshMode.COMPLETE, 2, 1_002, 1, rows=5)
HOUR_MS = 3_600_000
TOOK = (900, 1_400, 700, 2_600, 800, 1_100, 950)
"""Milliseconds of the refreshes of shop.daily."""


class ServedPage:
    """Runs in a thread of its own, from its creation until `stop`. `names`: of further views that read shop.daily."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.page, self.server = self.run(self._start(names))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self.loop)
        return future.result(60)

    async def _start(self, names: Iterable[str]) -> tuple[PageSite, PageServer]:
        page = PageSite(authenticator=Passwords())
        for table in ("shop.orders", "shop.customers"):
            page.site.table(table)
        daily = "SELECT day, region, sum(amount) AS n FROM shop.orders GROUP BY day, region"
        for name, query in (
            ("daily", daily),
            ("weekly", "SELECT n FROM shop.daily"),
            ("late", "SELECT n FROM shop.orders JOIN shop.customers USING (id)"),
            *((name, "SELECT n FROM shop.daily") for name in names),
        ):
            await page.site.view(f"shop.{name}", query)
        client = await page.site.client("ada")
        await (await client.execute("SELECT n FROM shop.daily")).poll()
        now = time.time_ns() // 1_000_000
        for name in ("daily", "weekly", "late"):
            entry: Any = page.site.entry(f"shop.{name}")
            entry._view = replace(entry.view, current=replace(entry.view.current, published_at=now - HOUR_MS))
        for number, took in enumerate(TOOK):
            began = now - (len(TOOK) - number) * HOUR_MS
            task = replace(DONE, id=1_000 + number, started_at=began, finished_at=began + took, rows=5 * number)
            self.ended(page, "daily", task)
        failed = replace(
            DONE,
            id=1_100,
            finished_at=now - HOUR_MS,
            status=TaskStatus.FAILED,
            error="Table customers not found",
            version=0,
        )
        self.ended(page, "late", failed)
        self.rewritten(page)
        server = PageServer(Address("127.0.0.1", 0), page.app, None)
        await server.start()
        return page, server

    def ended(self, page: PageSite, view: str, task: Task) -> None:
        history = page.site.entry(f"shop.{view}").history
        history.end(history.begin(task), task)

    def rewritten(self, page: PageSite) -> None:
        """Queries on shop.orders that shop.daily has answered, and others that no view could."""
        database, counts = Namespace("shop"), page.site.usages.counts
        for shape, own, answered, hits in (
            ("SELECT region, sum(amount) FROM shop.orders GROUP BY region", 9.5, 0.4, 120),
            ("SELECT day, count(*) FROM shop.orders WHERE day > ? GROUP BY day", 7.0, 0.3, 31),
        ):
            usage = page.site.usages.of(shape, database, "ada")
            usage.own.add(own)
            for _ in range(hits):
                usage.used((page.site.entry("shop.daily").view.name,))
                usage.took(answered)
            usage.missed(WhyMissed.NOT_FRESH)
        usage = page.site.usages.of("SELECT id, amount FROM shop.orders WHERE id = ?", database, "ada")
        for _ in range(12):
            usage.missed(WhyMissed.NO_VIEW)
        counts.considered, counts.answers_compared = 3, 15

    def stop(self) -> None:
        self.run(self.server.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


def visit(chromium: Any, served: ServedPage, user: str = "ada", **options: Any) -> Any:
    """A tab in which the user has logged in, as a person would."""
    tab = chromium.new_context(base_url=served.server.address, **options).new_page()
    tab.problems = []
    tab.on("console", lambda message: tab.problems.append(message.text) if message.type == "error" else None)
    tab.on("pageerror", lambda error: tab.problems.append(str(error)))
    tab.goto("/")
    tab.get_by_label("User").fill(user)
    tab.get_by_label("Password").fill(user[::-1])
    tab.get_by_role("button", name="Log in").click()
    tab.wait_for_url("**/")
    return tab
