"""Formats the log on standard error: text for people, JSON for machines. Both are redacted of passwords."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

from gateway.service.clients.context import NOWHERE, ORIGIN, WorkOrigin
from sql.redaction import redact

JSON = "json"
TEXT_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
NAMESPACE = "freshgate."
"""The package above `gateway` and `sql`, if they are installed from a wheel."""
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
_SHOWN = {**_CONTROLS, ord("\n"): "\n    ", ord("\t"): "\t"}
"""Escapes for control characters. Clients choose names and texts: none may look like a log line, or control a
terminal."""


def set_up(level: str, form: str) -> None:
    """`form`: "text" or "json"."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == JSON else TextFormatter())
    handler.addFilter(_with_short_name)
    logging.basicConfig(level=level, handlers=[handler])


def _with_short_name(record: logging.LogRecord) -> bool:
    """An installed package logs under the same names as a checkout."""
    record.name = record.name.removeprefix(NAMESPACE)
    return True


class TextFormatter(logging.Formatter):
    """A line, followed in brackets by the user, session and statement that it concerns, if known."""

    def __init__(self) -> None:
        super().__init__(TEXT_FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:
        line, origin = super().formatMessage(record), ORIGIN.get()
        return (line if origin is NOWHERE else f"{line} [{_short(origin)}]").translate(_SHOWN)

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time (RFC 3339, UTC), level, logger and message; exception, user, session and statement
    if there are any."""

    def format(self, record: logging.LogRecord) -> str:
        origin = ORIGIN.get()
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")[:-6] + "Z",
            "level": record.levelname,
            "logger": record.name,
            "message": redact(record.getMessage()),
            "user": origin.user,
            "account": origin.account,
            "session": origin.session,
            "statement": origin.statement,
            "operation": origin.operation,
        }
        if record.exc_info:
            line["exception"] = redact(self.formatException(record.exc_info))
        if record.stack_info:
            line["stack"] = redact(self.formatStack(record.stack_info))
        return json.dumps({key: value for key, value in line.items() if value not in ("", 0)}, ensure_ascii=False)


def _short(origin: WorkOrigin) -> str:
    parts = [
        f"user {origin.user}" if origin.user else "",
        f"session {origin.session[:8]}" if origin.session else "",
        f"statement {origin.statement}" if origin.statement else "",
        f"operation {origin.operation[:8]}" if origin.operation else "",
    ]
    return ", ".join(filter(None, parts))
