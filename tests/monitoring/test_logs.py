"""Tests log lines as text and as JSON: they name the user and session, and contain no passwords."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from datetime import datetime
from typing import Any

import pytest

from gateway.monitoring.logs import JsonFormatter, TextFormatter
from gateway.service.clients.context import ORIGIN, WorkOrigin

ABOUT = WorkOrigin("alice", "0123456789abcdef", 7, "fedcba9876543210")


def _record(message: str, *arguments: object, error: BaseException | None = None) -> logging.LogRecord:
    info = (type(error), error, error.__traceback__) if error is not None else None
    return logging.LogRecord("gateway.x", logging.WARNING, "x.py", 1, message, arguments, info)


def _of_alice(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    async def work() -> str:
        ORIGIN.set(ABOUT)
        return await asyncio.create_task(inner())

    async def inner() -> str:
        return formatter.format(record)

    return asyncio.run(work())


def test_a_json_line_has_time_level_and_message() -> None:
    line: dict[str, Any] = json.loads(JsonFormatter().format(_record("%s is\n%d", "é", 5)))
    assert datetime.fromisoformat(line.pop("time")).utcoffset() is not None
    assert line == {"level": "WARNING", "logger": "gateway.x", "message": "é is\n5"}


def test_a_json_line_names_user_session_and_statement() -> None:
    text = _of_alice(JsonFormatter(), _record("done"))
    assert "\n" not in text
    line = json.loads(text)
    assert (line["user"], line["session"], line["statement"], line["operation"]) == (
        "alice",
        "0123456789abcdef",
        7,
        "fedcba9876543210",
    )
    # The names apply only to the lines of that task.
    assert "user" not in json.loads(JsonFormatter().format(_record("done")))


def test_a_text_line_names_user_session_and_statement() -> None:
    assert TextFormatter().format(_record("done")).endswith("WARNING gateway.x: done")
    about = "[user alice, session 01234567, statement 7, operation fedcba98]"
    assert _of_alice(TextFormatter(), _record("done")).endswith(f"WARNING gateway.x: done {about}")


def test_a_clients_text_cannot_forge_a_line() -> None:
    lines = TextFormatter().format(_record("%s is closed", "eve\r\n2026 INFO x: \x1b[2J\x9b1m")).split("\n")
    assert lines[0].endswith("gateway.x: eve\\x0d")
    assert lines[1:] == ["    2026 INFO x: \\x1b[2J\\x9b1m is closed"]


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_passwords_in_message_arguments_and_exception_are_redacted(formatter: logging.Formatter) -> None:
    try:
        raise ValueError("OPTIONS (password 'hunter2')")
    except ValueError as error:
        record = _record("statement not understood: %s", "OPTIONS (password 'hunter2", error=error)
    shown = formatter.format(record)
    assert "hunter2" not in shown
    assert "ValueError" in shown
    assert sys.exc_info() == (None, None, None)
