"""Reads the progress of a statement from the REST API of Spark's UI."""

from __future__ import annotations

import asyncio
import json
import logging
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

from gateway.mv.ports import JobProgress
from gateway.spark.stages import ACTIVE, PENDING, RUNNING, job_progress

log = logging.getLogger(__name__)

ANSWER_BYTES_MAX = 64 * 1024 * 1024
"""Spark keeps 1,000 jobs by default, with about a kilobyte each; a server may be configured to keep more."""
ASKED_MAX = 4
"""Concurrent requests. A thread whose request was given up runs until its own time limit."""


class SparkUi:
    """The UI of one Spark application."""

    def __init__(self, url: str, limit_seconds: float) -> None:
        self._url = url.rstrip("/")
        self._limit_seconds = limit_seconds
        self._application = ""
        """The application's id, read by the first request and again after a failure, because a restarted Spark has
        another one."""
        self._asking = 0
        self._warned = False

    async def of_statement(self, statement: str) -> JobProgress | None:
        """Implements `mv.ports.StageProgress`. Every failure returns None; the first of a series is logged."""
        if self._asking >= ASKED_MAX:
            return None
        self._asking += 1
        asked = asyncio.ensure_future(asyncio.to_thread(self._ask, statement))
        asked.add_done_callback(self._ended)
        try:
            async with asyncio.timeout(self._limit_seconds):
                progress = await asyncio.shield(asked)
        except (OSError, HTTPException, ValueError, LookupError, TypeError, AttributeError) as error:
            self._application = ""
            if not self._warned:
                log.warning("cannot read the progress of statements from Spark's UI at %s: %r", self._url, error)
            self._warned = True
            return None
        self._warned = False
        return progress

    def _ended(self, asked: asyncio.Future[JobProgress | None]) -> None:
        self._asking -= 1
        if not asked.cancelled():
            asked.exception()  # Marks it as retrieved: nobody may wait for it any more.

    def _ask(self, statement: str) -> JobProgress | None:
        if not self._application:
            self._application = str(self._get("applications")[0]["id"])
        application = f"applications/{quote(self._application, safe='')}"
        jobs = [job for job in self._get(f"{application}/jobs") if job.get("jobGroup") == statement]
        if not any(job["status"] == RUNNING for job in jobs):
            return job_progress(jobs, ())
        return job_progress(jobs, self._get(f"{application}/stages?status={ACTIVE}&status={PENDING}"))

    def _get(self, path: str) -> Any:
        try:
            with urlopen(f"{self._url}/api/v1/{path}", timeout=self._limit_seconds) as response:
                body = response.read(ANSWER_BYTES_MAX + 1)
        except HTTPError as error:
            with error:  # The error holds the connection.
                raise ValueError(f"{error.code} {error.reason} for {path}") from error
        if len(body) > ANSWER_BYTES_MAX:
            raise ValueError(f"the answer has more than {ANSWER_BYTES_MAX} bytes")
        return json.loads(body)
