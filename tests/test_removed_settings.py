"""Tests that settings of earlier releases are named with what replaces them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from processes import environment

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
    assert set(reading.settings.healing) == set(Settings().healing)
    assert replace(reading.settings, healing=Settings().healing, engine=Settings().engine) == Settings()
    assert reading.settings.engine.master == Settings().engine.master
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


@pytest.mark.parametrize(
    ("old", "now"),
    [
        (["healing.get_info=false"], ["healing=key_calls,star_patterns,leaked_sessions,lost_cancels,show_tables"]),
        (
            ["healing.show_tables=on", "healing.page_bytes=5000", "healing.ddl_columns=true"],
            [
                "healing=ddl_columns,get_info,key_calls,star_patterns,leaked_sessions,lost_cancels,show_tables_for_all,"
                "long_pages"
            ],
        ),
        (["upstream.address=a:1", "upstream.transport=nosasl"], ["upstream.address=jdbc:hive2://a:1/;auth=noSasl"]),
        (
            ["upstream.address=a:1", "upstream.transport=http", "upstream.http_path=/x", "upstream.tls=true"],
            ["upstream.address=jdbc:hive2://a:1/;transportMode=http;httpPath=x;ssl=true"],
        ),
        (
            ["upstream.address=jdbc:hive2://a:1/;transportMode=http", "upstream.tls=true"],
            ["upstream.address=jdbc:hive2://a:1/;transportMode=http;httpPath=cliservice;ssl=true"],
        ),
        (["engine.master=yarn"], ["engine.spark.master=yarn"]),
        (["engine.driver_memory=3g", "engine.spark.driver.memory=4g"], ["engine.spark.driver.memory=4g"]),
        (["rewrite.proof_seconds=60", "result_cache.seconds=30"], ["access.rights_seconds=30"]),
        (["rewrite.proof_seconds=60", "access.rights_seconds=90"], ["access.rights_seconds=90"]),
        (["ldap.user_membership_key=memberOf"], ["ldap.group_membership_key=memberOf"]),
        (["ldap.base_dn=dc=a", "ldap.guid_key=cn"], ["ldap.base_dn=dc=a", "ldap.user_dn_pattern=cn=%s,dc=a"]),
    ],
)
def test_a_replaced_setting_still_applies(old: list[str], now: list[str]) -> None:
    before, after = settings_file.read(None, old), settings_file.read(None, now)
    assert (before.problems, after.problems, after.warnings) == ((), (), ())
    assert set(before.settings.healing) == set(after.settings.healing)
    assert replace(before.settings, healing=()) == replace(after.settings, healing=())
    assert all("Its value applies for now." in warning for warning in before.warnings)


@pytest.mark.parametrize(
    "given",
    [
        *("listen.http_cookie_seconds=60", "listen.http_cookie_seconds=0"),
        *("ldap.user_membership_key=isMemberOf", "ldap.group_class_key=securityGroup"),
    ],
)
def test_a_value_that_protects_more_than_the_gateway_is_refused(given: str) -> None:
    with pytest.raises(ConfigError, match=r"is no longer a setting: .* That protects less than"):
        settings_file.load(None, [given])


def test_the_command_line_warns_of_removed_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["user", "list", "--set", f"authentication.users_file={tmp_path / 'none'}", "--set", "versions.wait=1"])
    assert "freshgate: --set versions.wait=1: 'versions.wait' is no longer a setting" in capsys.readouterr().err


def test_a_start_logs_the_removed_settings(tmp_path: Path) -> None:
    """In the format of the log, which other programs may read."""
    options = ["--set", "log.format=json", "--set", "versions.wait=1", "--set", "tls.certificate=/nonexistent"]
    command = [sys.executable, "-m", "gateway", "serve", "--port", "0", "--upstream", "127.0.0.1:1", *options]
    ended = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    first = json.loads(ended.stderr.splitlines()[0])
    assert first["level"] == "WARNING"
    assert "'versions.wait' is no longer a setting" in first["message"]
