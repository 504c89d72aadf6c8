"""Tells whether clients should connect: asked often, answered from the last check of Spark."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable

from gateway import loops
from gateway.errors import FreshgateError

log = logging.getLogger(__name__)

CHECK_SECONDS = 5.0
"""Between two checks whether Spark answers."""
CHECK_SECONDS_MAX = 10.0
"""How long Spark may take to answer the smallest statement. It takes a few hundredths of a second, but Spark may be
collecting garbage."""

Ask = Callable[[float], Awaitable[None]]
"""Lets Spark run a statement within this many seconds. Raises FreshgateError or TimeoutError if it does not."""


class Readiness:
    """Tracks whether clients can be served. There is one check of Spark at a time, whoever asks and however often."""

    def __init__(self, ask: Ask, interval: float = CHECK_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self.catalog_loaded = False
        self.draining = False
        """The gateway is stopping, and accepts no more clients."""
        self._ask = ask
        self._interval = interval
        self.loop = loops.Loop("readiness", self.check, every=interval)
        self._clock = clock
        self._problem: str | None = "it has not been checked yet"
        self._checked_at = clock()

    @property
    def spark_problem(self) -> str | None:
        """Why Spark counts as unavailable; None if it has just answered."""
        age = self._clock() - self._checked_at
        if self._problem is None and age > 2 * (self._interval + CHECK_SECONDS_MAX):
            return f"the last check is {age:.0f} s old"
        return self._problem

    @property
    def missing(self) -> list[str]:
        """What is missing, as sentences; empty if clients can be served."""
        problem = self.spark_problem
        return [*([f"Spark does not answer: {problem}"] if problem is not None else []), *self.missing_here]

    @property
    def missing_here(self) -> list[str]:
        """What is missing at this gateway, as sentences, wherever Spark is."""
        return [
            *([] if self.catalog_loaded else ["The catalog of materialized views is not loaded yet."]),
            *(["The gateway is being stopped."] if self.draining else []),
        ]

    async def check(self) -> None:
        """Checks Spark and keeps the result."""
        try:
            await self._ask(CHECK_SECONDS_MAX)
        except TimeoutError:
            problem: str | None = f"it did not within {CHECK_SECONDS_MAX:g} seconds."
        except FreshgateError as error:
            problem = str(error)
        except Exception as error:  # Whatever failed, Spark did not answer, and the next check must run.
            log.exception("the check whether Spark answers failed")
            problem = repr(error)
        else:
            problem = None
        if (problem is None) != (self._problem is None):
            log.info("Spark answers" if problem is None else "Spark does not answer: %s", *filter(None, [problem]))
        self._problem, self._checked_at = problem, self._clock()
