"""Alerts reach an address, signed, and again if nobody takes them."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gateway.monitoring.alerts import Alert, AlertKind
from gateway.monitoring.webhook import SIGNATURE, TIMESTAMP, TRIES, WAITING_MAX, Webhook
from sql.names import TableName

ALERT = Alert(AlertKind.FAILING, TableName("s", "dä\u202eily"), 1_764_000_000_000, 1_763_999_999_000, "It has failed.")
SECRET = "s" * 32


class Receiver:
    """Answers with these codes, one after another, and the last one from then on."""

    def __init__(self) -> None:
        self.answers = [200]
        self.taken: list[tuple[dict[str, str], bytes]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.taken.append((dict(self.headers), body))
                code = receiver.answers.pop(0) if len(receiver.answers) > 1 else receiver.answers[0]
                self.send_response(code)
                if code == 302:
                    self.send_header("Location", receiver.url + "elsewhere")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook?room=1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


async def sent(webhook: Webhook, *alerts: Alert) -> None:
    for alert in alerts:
        webhook.send(alert)
    for _ in alerts:
        await asyncio.wait_for(webhook._turn(), 30)


def webhook_to(url: str, waits: list[float]) -> Webhook:
    async def wait(seconds: float) -> None:
        waits.append(seconds)

    return Webhook(url, SECRET, wait, lambda: 1_764_000_001.5)


async def test_an_alert_is_signed(receiver: Receiver) -> None:
    webhook = webhook_to(receiver.url, [])
    await sent(webhook, ALERT)
    ((headers, body),) = receiver.taken
    told = json.loads(body)
    assert (told["event"], told["view"]) == ("view_failing", "s.dä\u202eily")
    assert told["time"] == "2025-11-24T16:00:00.000+00:00"
    stamp = headers[TIMESTAMP]
    wanted = hmac.new(SECRET.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
    assert headers[SIGNATURE] == f"sha256={wanted}"
    assert webhook.counts["sent"] == 1


async def test_an_alert_is_sent_again_until_it_is_taken(receiver: Receiver) -> None:
    receiver.answers = [500, 503, 429, 200]
    waits: list[float] = []
    webhook = webhook_to(receiver.url, waits)
    await sent(webhook, ALERT)
    assert waits == [1, 2, 4]
    assert webhook.counts == {"sent": 1, "failed": 0, "dropped": 0}


@pytest.mark.parametrize(("answer", "tries"), [(400, 1), (404, 1), (302, TRIES), (500, TRIES)])
async def test_an_alert_that_nobody_takes_is_counted(receiver: Receiver, answer: int, tries: int) -> None:
    receiver.answers = [answer]
    webhook = webhook_to(receiver.url, [])
    await sent(webhook, ALERT, ALERT)
    assert len(receiver.taken) == 2 * tries
    assert webhook.counts["failed"] == 2


async def test_a_receiver_that_is_not_there_stops_nothing(receiver: Receiver) -> None:
    receiver.server.shutdown()
    receiver.server.server_close()
    webhook = webhook_to(receiver.url, [])
    await sent(webhook, ALERT)
    assert webhook.counts["failed"] == 1


async def test_alerts_that_wait_are_bounded() -> None:
    webhook = webhook_to("http://127.0.0.1:9/", [])
    for _ in range(WAITING_MAX + 3):
        webhook.send(ALERT)
    assert webhook.counts["dropped"] == 3
