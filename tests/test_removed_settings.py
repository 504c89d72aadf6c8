"""Tests that settings of earlier releases are named with what replaces them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway import settings_file
from gateway.__main__ import main
from gateway.config import ConfigError, Settings
from gateway.removed_settings import REMOVED


def spelled(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_a_removed_setting_is_none_of_the_present_ones() -> None:
    assert not REMOVED.keys() & settings_file.SETTINGS.keys()


@pytest.mark.parametrize("name", REMOVED)
def test_a_removed_setting_with_its_former_default_changes_nothing(name: str) -> None:
    reading = settings_file.read(None, [f"{name}={spelled(REMOVED[name].default)}"])
    assert reading.problems == ()
    assert reading.settings == Settings()
    (warning,) = reading.warnings
    assert f"'{name}' is no longer a setting: {REMOVED[name].now}." in warning


def test_a_file_with_removed_settings_is_checked_and_its_lines_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "old.toml"
    path.write_text("[limits]\nstall_seconds = 60\n[views]\nscan_interval = 5\n", encoding="utf-8")
    assert main(["config", "--check", str(path)]) == 0
    shown = capsys.readouterr()
    first, second = shown.err.splitlines()
    assert first.startswith(f"freshgate: {path}:2: 'limits.stall_seconds' is no longer a setting: ")
    assert second.startswith(f"freshgate: {path}:4: 'views.scan_interval' is no longer a setting: ")
    assert "no problems found" in shown.out


def test_a_removed_setting_has_its_former_type(tmp_path: Path) -> None:
    path = tmp_path / "old.toml"
    path.write_text('[limits]\nstall_seconds = "long"\n', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"'limits.stall_seconds' must be a number"):
        settings_file.load(path)


@pytest.mark.parametrize("given", ["listen.http_cookie_seconds=60", "listen.http_cookie_seconds=0"])
def test_a_value_that_protects_more_than_the_gateway_is_refused(given: str) -> None:
    with pytest.raises(ConfigError, match=r"is no longer a setting: .* That protects less than"):
        settings_file.load(None, [given])


def test_the_command_line_warns_of_removed_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["user", "list", "--set", f"authentication.users_file={tmp_path / 'none'}", "--set", "versions.wait=1"])
    assert "freshgate: --set versions.wait=1: 'versions.wait' is no longer a setting" in capsys.readouterr().err
