"""Tests that the gateway stops when Spark hangs. (tests/end_to_end/test_faults covers it with a real Spark.)"""

from __future__ import annotations

import asyncio
import logging

import pytest

from gateway import server, settings_file
from gateway.config import Address
from gateway.mv.versions.janitor import Janitor
from gateway.spark.engine import ExternalEngine


def test_a_spark_that_hangs_at_the_stop_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def hang(_: Janitor) -> None:
        await asyncio.Event().wait()

    async def scenario() -> None:
        await server.Server(settings_file.load(None, []), ExternalEngine([Address("127.0.0.1", 1)])).stop()

    monkeypatch.setattr(server, "STOP_SECONDS", 0.01)
    monkeypatch.setattr(Janitor, "sweep", hang)
    with caplog.at_level(logging.INFO):
        asyncio.run(scenario())
    assert any(
        message.startswith("Spark took longer than 0.01 seconds to end the gateway's sessions")
        for message in caplog.messages
    )
