"""Sends events to their receiver, one after another, from a thread of its own.

Tests: `test_sender`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import urllib.request
from collections import Counter, deque
from collections.abc import Callable
from http.client import HTTPException
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit, urlunsplit

from gateway.no_redirects import NoRedirects

log = logging.getLogger(__name__)

ENDPOINT = "/api/v1/lineage"
"""Where receivers of OpenLineage expect events, if the address says nothing else."""
WAITING_MAX = 1_000
"""Events that wait; further ones are dropped, and counted."""
ANSWER_SECONDS = 10.0
KEPT_SECONDS = 600.0
"""How long an event is tried, so that a receiver may be restarted. Each is tried once at least."""
FIRST_WAIT_SECONDS, WAIT_MAX_SECONDS = 1.0, 30.0
"""The wait doubles after each try."""
STOP_SECONDS = 3.0
"""How long the gateway's stop waits for events to be sent. What still waits then is lost."""


class _NotTaken(Exception):
    """The receiver will not take it at another time, either."""


class Sender:
    def __init__(
        self,
        url: str,
        api_key: str = "",
        clock: Callable[[], float] = time.monotonic,
        answer_seconds: float = ANSWER_SECONDS,
        waiting_max: int = WAITING_MAX,
    ) -> None:
        self.counts: Counter[str] = Counter(sent=0, failed=0, dropped=0)
        self._url = with_endpoint(url)
        self._headers = {"Content-Type": "application/json"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._clock = clock
        self._answer_seconds = answer_seconds
        self._waiting_max = waiting_max
        self._waiting: deque[tuple[float, bytes]] = deque()
        self._changed = threading.Condition()
        self._ending = False
        self._problem = ""
        """What was logged last: a receiver that is down would fill the log."""
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), NoRedirects())
        # A daemon, because a receiver that does not answer must not keep the process.
        self._thread = threading.Thread(target=self._work, name="lineage", daemon=True)

    @property
    def waiting(self) -> int:
        """How many events wait, with the one that is being sent."""
        return len(self._waiting)

    def start(self) -> None:
        self._thread.start()

    def send(self, body: bytes) -> None:
        """Queues an event. Never blocks for longer than the thread needs to take one out."""
        with self._changed:
            if self._ending or len(self._waiting) >= self._waiting_max:
                self.counts["dropped"] += 1
                return
            self._waiting.append((self._clock(), body))
            self._changed.notify()

    async def stop(self) -> None:
        """Gives what waits a moment to be sent."""
        with self._changed:
            self._ending = True
            self._changed.notify()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, STOP_SECONDS)
        with self._changed:
            self.counts["dropped"] += len(self._waiting)
            self._waiting.clear()

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._ending:
                    self._changed.wait()
                if not self._waiting:
                    return
                since, body = self._waiting[0]
            outcome = self._deliver(since, body)
            with self._changed:
                if self._waiting:  # Otherwise `stop` has counted it.
                    self._waiting.popleft()
                    self.counts[outcome] += 1

    def _deliver(self, since: float, body: bytes) -> str:
        """Returns how it ended."""
        pause = FIRST_WAIT_SECONDS
        while True:
            try:
                self._post(body)
            except _NotTaken as error:
                self._tell(str(error))
                return "failed"
            except (OSError, HTTPException) as error:
                self._tell(str(error) or repr(error))
            else:
                self._problem = ""
                return "sent"
            if self._clock() - since + pause > KEPT_SECONDS:
                return "failed"
            with self._changed:
                if self._ending or (self._changed.wait_for(lambda: self._ending, pause)):
                    return "failed"
            pause = min(2 * pause, WAIT_MAX_SECONDS)

    def _post(self, body: bytes) -> None:
        sent = urllib.request.Request(self._url, body, self._headers, method="POST")
        try:
            with self._opener.open(sent, timeout=self._answer_seconds):
                pass
        except HTTPError as error:
            with error:
                if error.code < 500 and error.code not in (408, 429):
                    raise _NotTaken(f"it answers {error.code}") from error
                raise URLError(f"it answers {error.code}") from error

    def _tell(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            log.warning("the receiver of lineage at %s does not take an event: %s", self._url, problem)


def with_endpoint(url: str) -> str:
    """The address that events are sent to."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=ENDPOINT)) if parts.path in ("", "/") else url
