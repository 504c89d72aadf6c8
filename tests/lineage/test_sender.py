"""Events reach a receiver in their order, and one that is down, slow or unwilling stops nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from lineage_receiver import LineageReceiver
from processes import wait_until

from gateway.lineage import sender as module
from gateway.lineage.sender import ENDPOINT, Sender, with_endpoint


@pytest.fixture
def receiver() -> Iterator[LineageReceiver]:
    made = LineageReceiver()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_WAIT_SECONDS", 0.001)
    monkeypatch.setattr(module, "STOP_SECONDS", 0.2)


async def test_events_are_sent_in_their_order(receiver: LineageReceiver) -> None:
    sender = Sender(receiver.url, "key-1")
    sender.start()
    for number in range(5):
        sender.send(b'{"n": %d}' % number)
    wait_until(lambda: sender.counts["sent"] == 5)
    await sender.stop()
    assert receiver.events == [{"n": number} for number in range(5)]
    path, headers, _ = receiver.taken[0]
    assert (path, headers["Authorization"], headers["Content-Type"]) == (ENDPOINT, "Bearer key-1", "application/json")
    assert sender.waiting == 0


async def test_an_event_is_sent_again_until_it_is_taken(
    receiver: LineageReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.answers = [500, 503, 429, 200]
    sender = Sender(receiver.url)
    sender.start()
    sender.send(b"{}")
    wait_until(lambda: sender.counts["sent"] == 1)
    await sender.stop()
    assert len(receiver.taken) == 4
    assert "Authorization" not in receiver.taken[0][1]
    assert [record.message.rpartition(": ")[2] for record in caplog.records] == [
        f"<urlopen error it answers {code}>" for code in (500, 503, 429)
    ]


@pytest.mark.parametrize("answer", [400, 401, 404, 422])
async def test_an_event_that_is_refused_is_counted(receiver: LineageReceiver, answer: int) -> None:
    receiver.answers = [answer]
    sender = Sender(receiver.url)
    sender.start()
    sender.send(b"{}")
    sender.send(b"{}")
    wait_until(lambda: sender.counts["failed"] == 2)
    await sender.stop()
    assert len(receiver.taken) == 2


async def test_nothing_follows_a_redirect(receiver: LineageReceiver) -> None:
    receiver.answers = [302, 200]
    sender = Sender(receiver.url, "key-1")
    sender.start()
    sender.send(b"{}")
    wait_until(lambda: sender.counts["sent"] == 1)
    await sender.stop()
    assert {path for path, _, _ in receiver.taken} == {ENDPOINT}


async def test_an_event_is_given_up_in_the_end() -> None:
    now = [0.0]

    def clock() -> float:
        now[0] += 100
        return now[0]

    sender = Sender("http://127.0.0.1:9/", clock=clock)
    sender.start()
    sender.send(b"{}")
    wait_until(lambda: sender.counts["failed"] == 1)
    await sender.stop()


async def test_a_receiver_that_does_not_answer_holds_nothing_up(receiver: LineageReceiver) -> None:
    receiver.open.clear()
    sender = Sender(receiver.url, waiting_max=3)
    sender.start()
    began = time.monotonic()
    for _ in range(10):
        sender.send(b"{}")
    wait_until(lambda: len(receiver.taken) == 1)
    await sender.stop()
    assert time.monotonic() - began < 5
    assert sender.counts == {"sent": 0, "failed": 0, "dropped": 10}
    sender.send(b"{}")
    assert sender.counts["dropped"] == 11


async def test_a_stop_sends_what_waits(receiver: LineageReceiver) -> None:
    sender = Sender(receiver.url)
    for number in range(20):
        sender.send(b'{"number": %d}' % number)
    sender.start()
    await sender.stop()
    assert [event["number"] for event in receiver.events] == list(range(20))


async def test_a_sender_that_was_never_started_stops() -> None:
    sender = Sender("http://127.0.0.1:9/")
    sender.send(b"{}")
    await sender.stop()
    assert sender.counts["dropped"] == 1


def test_an_address_without_a_path_gets_the_usual_one() -> None:
    assert with_endpoint("http://m:5000") == with_endpoint("http://m:5000/") == "http://m:5000/api/v1/lineage"
    assert with_endpoint("https://d/openapi/openlineage/api/v1/lineage") == (
        "https://d/openapi/openlineage/api/v1/lineage"
    )
    assert with_endpoint("http://m/x?key=1") == "http://m/x?key=1"
