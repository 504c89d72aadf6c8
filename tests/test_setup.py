"""Tests of `scripts/setup` where programs are missing. Stand-ins take the places of Python, Java and apt-get."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from processes import ROOT

PYTHON = """#!/bin/sh
case "$*" in
"-c import ensurepip") test -e "$FOLDER/installed" ;;
"-c import sys"*) echo python3.11-venv ;;
"-m venv "*)
    mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && test -e "$FOLDER/installed" && touch "$FOLDER/has-pip" ;;
"-m pip "*) test -e "$FOLDER/has-pip" && echo "$*" >>"$FOLDER/pip.log" ;;
esac
"""
"""Debian's: `-m venv` leaves half an environment, without pip, until apt-get has installed python3.11-venv."""
PROGRAMS = {
    "python3.11": PYTHON,
    "java": """#!/bin/sh\necho 'openjdk version "17.0.1"' >&2\n""",
    "sudo": """#!/bin/sh\nexec "$@"\n""",
    "apt-get": """#!/bin/sh\ncase "$*" in install*python3.11-venv*) touch "$FOLDER/installed" ;; esac\n""",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout in which the setup runs with stand-ins."""
    (tmp_path / "scripts").mkdir()
    for name in ("scripts/setup", "requirements.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in PROGRAMS.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    return tmp_path


def set_up(checkout: Path) -> subprocess.CompletedProcess[str]:
    path = f"{checkout / 'programs'}:/usr/bin:/bin"
    return subprocess.run(
        ["scripts/setup", "--without-tests"],
        cwd=checkout,
        env={"PATH": path, "FOLDER": str(checkout), "HOME": os.environ.get("HOME", "/")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_installs_what_debians_python_lacks(checkout: Path) -> None:
    done = set_up(checkout)
    assert done.returncode == 0, done.stderr
    assert "setup: installing python3.11-venv\n" in done.stdout
    assert "requirements.lock" in (checkout / "pip.log").read_text()


def test_completes_an_environment_without_pip(checkout: Path) -> None:
    (checkout / "programs" / "apt-get").write_text("#!/bin/sh\nexit 0\n")
    failed = set_up(checkout)
    assert failed.returncode != 0
    assert (checkout / ".venv" / "bin" / "python").exists()
    (checkout / "installed").touch()
    done = set_up(checkout)
    assert done.returncode == 0, done.stderr
    assert "requirements.lock" in (checkout / "pip.log").read_text()


def test_does_nothing_a_second_time(checkout: Path) -> None:
    (checkout / "installed").touch()
    assert set_up(checkout).returncode == 0
    (checkout / "pip.log").unlink()
    done = set_up(checkout)
    assert (done.returncode, done.stdout) == (0, "")
    assert not (checkout / "pip.log").exists()
