"""Tests how a gateway determines whether another one is alive."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
from processes import wait_until

from gateway.mv.catalog.presence import (
    BEAT_OF_SEVERAL_SECONDS,
    BEAT_SECONDS,
    SILENT_SECONDS,
    SUSPECTED_SECONDS,
    Presence,
    PresenceMark,
    Process,
    Vigil,
)

ELSEWHERE = Process("0" * 16, 1, 1)
MARK = PresenceMark("m", "host, port 1", ELSEWHERE, "1", leaving=False, ended=False)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as running:
        yield running
        running.kill()


def of_child(child: subprocess.Popen[bytes]) -> Process:
    """What the child would say of itself."""
    told = subprocess.run(
        [sys.executable, "-c", f"from gateway.mv.catalog import presence; print(presence._start_of({child.pid}))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return replace(Process.own(), number=child.pid, started=int(told.stdout))


def test_a_process_on_this_machine_is_known_to_be_dead(child: subprocess.Popen[bytes]) -> None:
    own, other = Process.own(), of_child(child)
    assert not own.is_dead(other)
    assert own.is_dead(replace(other, started=other.started + 1)), "another process got its number"
    child.kill()
    # Also while nobody has waited for it.
    wait_until(lambda: own.is_dead(other), what="the child to be a zombie")
    child.wait()
    assert own.is_dead(other)


def test_nothing_is_known_of_another_machine() -> None:
    own = Process.own()
    assert not own.is_dead(ELSEWHERE)
    assert not own.is_dead(None)
    assert not own.is_dead(own)


def test_a_process_is_stored_as_a_word() -> None:
    own = Process.own()
    assert own.number == os.getpid()
    assert str(own).replace("_", "").isalnum()
    assert Process.parse(str(own)) == own
    assert Process.parse("") is None


def test_a_pod_that_is_started_again_is_the_only_one_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    before, again = Process.own(), Process.own()
    assert again.is_dead(before)
    monkeypatch.setattr("socket.gethostname", lambda: "another-pod")
    assert not Process.own().is_dead(before)


class Watched:
    """A vigil, and the time."""

    def __init__(self) -> None:
        self.now = 100.0
        self.vigil = Vigil(Process.own(), lambda: self.now)

    def after(self, seconds: float, found: PresenceMark | None, patience: float = SILENT_SECONDS) -> Presence:
        self.now += seconds
        return self.vigil.note(found, patience)


def test_a_gateway_that_gives_signs_of_life_is_alive() -> None:
    watched = Watched()
    assert watched.after(0, MARK) is Presence.UNKNOWN
    assert watched.after(BEAT_SECONDS, MARK) is Presence.UNKNOWN
    assert watched.after(1, replace(MARK, beat="2")) is Presence.ALIVE
    assert watched.after(SILENT_SECONDS - 1, replace(MARK, beat="2")) is Presence.UNKNOWN
    assert watched.after(2, replace(MARK, beat="2")) is Presence.GONE
    assert watched.after(2, replace(MARK, beat="3")) is Presence.ALIVE


def test_two_late_signs_of_life_are_forgiven() -> None:
    assert SILENT_SECONDS > 2 * BEAT_SECONDS + 5
    assert SUSPECTED_SECONDS > 3 * BEAT_OF_SEVERAL_SECONDS


def test_one_that_is_suspected_is_gone_sooner() -> None:
    watched = Watched()
    assert watched.after(0, MARK) is Presence.UNKNOWN
    assert watched.after(SUSPECTED_SECONDS + 1, MARK) is Presence.UNKNOWN
    assert watched.after(0, MARK, SUSPECTED_SECONDS) is Presence.GONE


def test_a_new_mark_is_a_sign_of_life() -> None:
    watched = Watched()
    assert watched.after(0, MARK) is Presence.UNKNOWN
    assert watched.after(1, replace(MARK, mark="n")) is Presence.ALIVE


@pytest.mark.parametrize(
    "found", [None, replace(MARK, ended=True), replace(MARK, process=replace(Process.own(), started=1))]
)
def test_a_gateway_that_has_ended_is_gone_at_once(found: PresenceMark | None) -> None:
    assert Watched().after(0, found) is Presence.GONE
