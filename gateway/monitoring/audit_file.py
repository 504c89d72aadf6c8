"""Writes audit lines in a thread, so that a slow disk delays no statement."""

from __future__ import annotations

import json
import logging
import os
import queue
import sys
import threading

from gateway.monitoring.unread import names
from gateway.service.clients.audit import ERROR_CHARACTERS_MAX, Line, Unread
from sql.redaction import redact

log = logging.getLogger(__name__)

STANDARD_ERROR = "-"
MODE = 0o640
WAITING_MAX = 10_000
"""Lines that wait for the disk; further ones are lost, and counted."""
CLOSE_SECONDS = 5.0


class AuditFile:
    """Writes lines, each at once, from its creation until `close`.

    A file that was renamed or removed, for example by logrotate, is created again. Raises OSError if it cannot be
    opened at first.
    """

    def __init__(self, target: str) -> None:
        self.lost = 0
        """Lines that could not be written."""
        self._path = None if target == STANDARD_ERROR else target
        self._descriptor = sys.stderr.fileno() if self._path is None else _open(self._path)
        self._torn = False
        """The last line was only partly written."""
        self._report_lock = threading.Lock()
        self._reported = False
        self._waiting: queue.Queue[tuple[Line, Unread | None] | None] = queue.Queue(WAITING_MAX)
        self._thread = threading.Thread(target=self._work, name="audit", daemon=True)
        self._thread.start()

    def write(self, line: Line, unread: Unread | None = None, /) -> None:
        """Queues a line. Never blocks or fails."""
        try:
            self._waiting.put_nowait((line, unread))
        except queue.Full:
            self._lose(f"{WAITING_MAX} lines already wait for the disk")

    def close(self) -> None:
        """Writes the waiting lines, if that takes no more than a few seconds."""
        try:
            self._waiting.put(None, timeout=CLOSE_SECONDS)
        except queue.Full:
            return
        self._thread.join(CLOSE_SECONDS)

    def _work(self) -> None:
        while (waited := self._waiting.get()) is not None:
            line, unread = waited
            try:
                self._append(encoded(line if unread is None else _completed(line, unread)))
            except Exception as error:  # Whatever failed, the next line may be written.
                self._lose(repr(error))
            else:
                self._report_recovery()
        if self._path is not None:
            os.close(self._descriptor)

    def _append(self, line: bytes) -> None:
        if self._path is not None and not _is_at(self._path, self._descriptor):
            fresh = _open(self._path)
            os.close(self._descriptor)
            self._descriptor, self._torn = fresh, False
        if self._torn:
            line = b"\n" + line
        written = os.write(self._descriptor, line)
        self._torn = 0 < written < len(line) or (self._torn and not written)
        if written < len(line):
            raise OSError("the disk had room for only a part of the line")

    def _lose(self, problem: str) -> None:
        with self._report_lock:
            self.lost += 1
            reported, self._reported = self._reported, True
        if not reported:
            log.error("the audit file cannot be written, so its lines are lost: %s", problem)

    def _report_recovery(self) -> None:
        if self._reported:
            with self._report_lock:
                self._reported = False
            log.warning("the audit file is written again; %d lines were lost since the start", self.lost)


def encoded(line: Line) -> bytes:
    """The line as JSON, without passwords."""
    shown = dict(line)
    for key in ("text", "rewritten", "error"):
        if isinstance(value := shown.get(key), str):
            whole = len(value) == line.get("characters") if key == "text" else len(value) < ERROR_CHARACTERS_MAX
            shown[key] = redact(value, cut=not whole)
    for key in ("views", "reads", "writes"):
        if isinstance(found := shown.get(key), list):
            # A table may be a path: SELECT * FROM csv.`s3a://KEY:SECRET@bucket/file`.
            shown[key] = [redact(name) for name in found]
    return (json.dumps(shown, ensure_ascii=False) + "\n").encode("utf-8", "replace")


def _completed(line: Line, unread: Unread) -> Line:
    found = {key: value for key, value in names(unread).items() if value}
    # The last keys stay last, because the text may be long.
    last = {key: line[key] for key in ("characters", "text", "rewritten") if key in line}
    return {key: value for key, value in line.items() if key not in last} | found | last


def _open(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, MODE)


def _is_at(path: str, descriptor: int) -> bool:
    """Whether the path still refers to the open file."""
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return False
    here = os.fstat(descriptor)
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)
