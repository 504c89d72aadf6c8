"""Sends alerts to an address, signed, and again if nobody takes them.

Tests: `test_webhook`.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import time
import urllib.request
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from http.client import HTTPException
from urllib.error import HTTPError, URLError

from gateway.loops import Loop
from gateway.monitoring.alerts import Alert, Alerts
from gateway.no_redirects import NoRedirects

log = logging.getLogger(__name__)

WAITING_MAX = 1_000
"""Alerts that wait; further ones are dropped, and counted."""
ANSWER_SECONDS = 10.0
TRIES, FIRST_WAIT_SECONDS = 6, 1.0
"""The wait doubles after each try: half a minute in all."""
SIGNATURE, TIMESTAMP = "X-Freshgate-Signature", "X-Freshgate-Timestamp"


class _Refused(Exception):
    """The receiver will not take it at another time, either."""


class Webhook:
    """Runs from `loop.start` to `loop.stop`. One alert after another, in their order."""

    def __init__(
        self,
        url: str,
        secret: str,
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.counts: Counter[str] = Counter(sent=0, failed=0, dropped=0)
        self.loop = Loop("notifications", self._turn)
        self._url = url
        self._secret = secret
        self._wait = wait
        self._clock = clock
        self._waiting: asyncio.Queue[Alert] = asyncio.Queue(WAITING_MAX)
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), NoRedirects())

    def send(self, alert: Alert) -> None:
        """Queues an alert. Never blocks."""
        try:
            self._waiting.put_nowait(alert)
        except asyncio.QueueFull:
            self.counts["dropped"] += 1

    async def _turn(self) -> None:
        alert = await self._waiting.get()
        body, pause, problem = _body(alert), FIRST_WAIT_SECONDS, ""
        for number in range(TRIES):
            if number:
                await self._wait(pause)
                pause *= 2
            try:
                await asyncio.to_thread(self._post, body)
            except _Refused as error:
                problem = str(error)
                break
            except (OSError, HTTPException) as error:
                problem = str(error)
            else:
                self.counts["sent"] += 1
                return
        self.counts["failed"] += 1
        log.warning("nobody has taken the notification %s of %s: %s", alert.kind.value, alert.view, problem)

    def _post(self, body: bytes) -> None:
        stamp = str(int(self._clock()))
        headers = {"Content-Type": "application/json", TIMESTAMP: stamp}
        if self._secret:
            headers[SIGNATURE] = f"sha256={signature(self._secret, stamp, body)}"
        sent = urllib.request.Request(self._url, body, headers, method="POST")
        try:
            with self._opener.open(sent, timeout=ANSWER_SECONDS):
                pass
        except HTTPError as error:
            if error.code < 500 and error.code not in (408, 429):
                raise _Refused(f"it answers {error.code}") from error
            raise URLError(f"it answers {error.code}") from error


class Alarm:
    """Finds alerts, and sends them if there is an address."""

    def __init__(self, alerts: Alerts, webhook: Webhook | None) -> None:
        self.alerts = alerts
        self.webhook = webhook
        if webhook is not None:
            alerts.told.add(webhook.send)

    def start(self) -> None:
        self.alerts.loop.start()
        if self.webhook is not None:
            self.webhook.loop.start()

    async def stop(self) -> None:
        await self.alerts.loop.stop()
        if self.webhook is not None:
            await self.webhook.loop.stop()


def signature(secret: str, stamp: str, body: bytes) -> str:
    """HMAC-SHA-256 of `TIMESTAMP.BODY` in hexadecimal digits."""
    return hmac.new(secret.encode(), stamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def _body(alert: Alert) -> bytes:
    told = {
        "event": alert.kind.value,
        "view": str(alert.view),
        "time": _moment(alert.at),
        "since": _moment(alert.since),
        "text": alert.text,
    }
    return json.dumps(told, ensure_ascii=False).encode("utf-8", "replace")


def _moment(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
