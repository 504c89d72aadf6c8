"""Spark's UI, asked over its REST interface how far a statement is."""

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
"""Spark keeps 1,000 jobs by default, with about a kilobyte each; a server may be set to keep more."""
ASKED_MAX = 4
"""Questions at one time. A thread whose question was given up lives on until its own time limit is over."""


class SparkUi:
    """The UI of one Spark application."""

    def __init__(self, url: str, limit_seconds: float) -> None:
        self._url = url.rstrip("/")
        self._limit_seconds = limit_seconds
        self._application = ""
        """Found out by the first question, and again after a failure: a restarted Spark has another one."""
        self._asking = 0
        self._told = False

    async def of_statement(self, statement: str) -> JobProgress | None:
        """As `mv.ports.StageProgress` has it. Every failure is None; the first of several is logged."""
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
            if not self._told:
                log.warning("Spark's UI at %s does not tell how far statements are: %r", self._url, error)
            self._told = True
            return None
        self._told = False
        return progress

    def _ended(self, asked: asyncio.Future[JobProgress | None]) -> None:
        self._asking -= 1
        if not asked.cancelled():
            asked.exception()  # marks it as seen: nobody may wait for it any more

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
            with error:  # it holds the connection
                raise ValueError(f"{error.code} {error.reason} for {path}") from error
        if len(body) > ANSWER_BYTES_MAX:
            raise ValueError(f"the answer has more than {ANSWER_BYTES_MAX} bytes")
        return json.loads(body)
