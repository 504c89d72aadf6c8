"""Measures from the start of a gateway until a read of one of thousands of views has its rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from clients import pyhive, rows
from processes import Gateway, wait_until

from benchmarks import many_views
from benchmarks.figures import Figure
from benchmarks.stand import Stand
from gateway.mv.catalog.loading import OUTLINED_FROM

VIEWS = 500
DRAFTED_SECONDS = 10.0
"""The goal with a draft."""
DESCRIBED = "of a draft were described"
DESCRIBED_SECONDS = 600.0


def starts(stand: Stand) -> Iterator[Figure]:
    """Without a draft, with the one that the gateway before has kept when it was stopped, and after it was killed."""
    views, upstream = stand.runs(VIEWS), f"{stand.engine.host}:{stand.engine.port}"
    settings: dict[str, Any] = {"storage.database": many_views.STORAGE}
    many_views.create_tables(stand.engine)
    first = Gateway(stand.directory / "many.log", upstream=upstream, settings=settings)
    many_views.create_views(stand.engine, first, views)
    first.stop()
    settings["data_dir"] = stand.directory / "starts"
    for number, (how, limit) in enumerate(
        {"no draft": None, "a draft": DRAFTED_SECONDS, "a draft, the one before killed": DRAFTED_SECONDS}.items()
    ):
        began = time.perf_counter()
        log = stand.directory / f"starts-{number}.log"
        gateway = Gateway(log, upstream=upstream, settings=settings)
        try:
            with pyhive(gateway.host, gateway.port) as cursor:
                # Another view each time: of none is anything known.
                rows(cursor, f"SELECT * FROM {many_views.DATABASE}.v{views - 1 - number}")
                yield Figure("start until a read", f"{views} views, {how}", time.perf_counter() - began, "s", limit)
                if number == 0 and views >= OUTLINED_FROM:
                    # Of views that are not all described yet, no draft is kept.
                    wait_until(partial(_is_described, log), DESCRIBED_SECONDS, "a draft")
                (listed,) = rows(cursor, f"SELECT count(*) FROM mv_infos('database'='{many_views.DATABASE}')")
                assert listed == (views,)
        finally:
            gateway.kill() if number == 1 else gateway.stop()


def _is_described(log: Path) -> bool:
    return DESCRIBED in log.read_text(encoding="utf-8")
