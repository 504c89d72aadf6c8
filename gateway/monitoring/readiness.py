"""Whether clients should come here: asked often, answered from the last look at Spark."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable

from gateway import loops
from gateway.errors import FreshgateError

log = logging.getLogger(__name__)

LOOK_SECONDS_MAX = 10.0
"""For Spark to answer the smallest statement. It does so in some hundredths of a second, but it may be collecting
garbage."""

Ask = Callable[[float], Awaitable[None]]
"""Has Spark run a statement within so many seconds. Raises FreshgateError or TimeoutError where it does not."""


class Readiness:
    """What is missing for clients to be served. One look at Spark at a time, whoever asks and however often."""

    def __init__(self, ask: Ask, interval: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.catalog_loaded = False
        self.draining = False
        """The gateway is about to end, and takes no more clients."""
        self._ask = ask
        self._interval = interval
        self.loop = loops.Loop("readiness", self.look, every=interval)
        self._clock = clock
        self._problem: str | None = "nobody has asked it yet"
        self._looked = clock()

    @property
    def spark_problem(self) -> str | None:
        """Why Spark counts as away; None where it has just answered."""
        age = self._clock() - self._looked
        if self._problem is None and age > 2 * (self._interval + LOOK_SECONDS_MAX):
            return f"the last look is {age:.0f} s old"
        return self._problem

    @property
    def missing(self) -> list[str]:
        """What is missing, in words; nothing: clients are welcome."""
        problem = self.spark_problem
        return [
            *([f"Spark does not answer: {problem}"] if problem is not None else []),
            *([] if self.catalog_loaded else ["The catalog of materialized views is not loaded yet."]),
            *(["The gateway is being stopped."] if self.draining else []),
        ]

    async def look(self) -> None:
        """Asks Spark, and keeps what comes of it."""
        try:
            await self._ask(LOOK_SECONDS_MAX)
        except TimeoutError:
            problem: str | None = f"it did not within {LOOK_SECONDS_MAX:g} seconds."
        except FreshgateError as error:
            problem = str(error)
        except Exception as error:  # whatever it is, Spark was not seen to answer, and the next look must come
            log.exception("looking whether Spark answers failed")
            problem = repr(error)
        else:
            problem = None
        if (problem is None) != (self._problem is None):
            log.info("Spark answers" if problem is None else "Spark does not answer: %s", *filter(None, [problem]))
        self._problem, self._looked = problem, self._clock()
