"""Tests the audit file: lines are written immediately, it may be rotated, and a full disk blocks nothing."""

from __future__ import annotations

import errno
import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from processes import wait_until

from gateway.monitoring import audit_file
from gateway.monitoring.audit_file import AuditFile, encoded


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def test_lines_are_written_immediately(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    audit = AuditFile(str(path))
    audit.write({"a": 1})
    wait_until(lambda: _lines(path) == [{"a": 1}])
    assert stat.S_IMODE(path.stat().st_mode) & ~0o640 == 0
    audit.write({"b": "é\n"})
    audit.close()
    assert _lines(path) == [{"a": 1}, {"b": "é\n"}]
    assert audit.lost == 0


def test_an_existing_file_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    for number in range(2):
        audit = AuditFile(str(path))
        audit.write({"run": number})
        audit.close()
    assert _lines(path) == [{"run": 0}, {"run": 1}]


def test_a_rotated_file_is_reopened(tmp_path: Path) -> None:
    path, old = tmp_path / "audit", tmp_path / "audit.1"
    audit = AuditFile(str(path))
    audit.write({"a": 1})
    wait_until(lambda: _lines(path) == [{"a": 1}])
    path.rename(old)
    audit.write({"a": 2})
    wait_until(lambda: _lines(path) == [{"a": 2}])
    path.unlink()
    audit.write({"a": 3})
    audit.close()
    assert (_lines(old), _lines(path)) == ([{"a": 1}], [{"a": 3}])


def test_an_unwritable_path_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        AuditFile(str(tmp_path / "missing" / "audit"))


def test_a_full_disk_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its end is logged once, too. A partly written line does not damage the next one."""
    path = tmp_path / "audit"
    audit = AuditFile(str(path))
    write = os.write
    room = [0]

    def full(descriptor: int, data: bytes) -> int:
        if room[0] == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data[: room[0]])

    monkeypatch.setattr(os, "write", full)
    for number in range(3):
        audit.write({"lost": number})
    wait_until(lambda: audit.lost == 3)
    room[0] = 4
    audit.write({"torn": 1})
    wait_until(lambda: audit.lost == 4)
    room[0] = 1000
    audit.write({"kept": 1})
    audit.close()
    text = path.read_text(encoding="utf-8").splitlines()
    assert text == ['{"to', '{"kept": 1}']
    logged = [record.message for record in caplog.records]
    assert [("cannot be written" in each, "written again" in each) for each in logged] == [(True, False), (False, True)]


def test_a_hanging_disk_blocks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_file, "WAITING_MAX", 5)
    path = tmp_path / "audit"
    audit = AuditFile(str(path))
    hanging, going_on = threading.Event(), threading.Event()
    write = os.write

    def hang(descriptor: int, data: bytes) -> int:
        hanging.set()
        assert going_on.wait(30)
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", hang)
    audit.write({"n": 0})
    assert hanging.wait(30)
    for number in range(1, 10):
        audit.write({"n": number})
    assert audit.lost == 4
    going_on.set()
    audit.close()
    assert [line["n"] for line in _lines(path)] == [0, 1, 2, 3, 4, 5]


def test_passwords_in_lines_are_redacted() -> None:
    text = "CREATE TABLE t OPTIONS (user 'bob', url 'jdbc:x://bob:hunter2@db', password 'hunter2')"
    line = encoded({"text": text, "error": f"bad: {text}", "characters": len(text)}).decode()
    assert "hunter2" not in line
    assert "bob" in line
    (name,) = json.loads(encoded({"reads": ["csv.s3a://bob:hunter2@bucket/file"]}))["reads"]
    assert name == "csv.s3a://bob:***@bucket/file"
    cut = encoded({"text": text[: text.index("er2@")], "characters": len(text)}).decode()
    assert "hunt" not in cut
