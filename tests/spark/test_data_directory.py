"""Tests that nobody but the gateway's account gets at the embedded engine's data directory."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gateway.spark import data_directory, host


def rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def options(directory: Path) -> host.HostOptions:
    return host.HostOptions(directory, os.getpid(), {})


def old_directory(place: Path) -> Path:
    """As a gateway with a usual umask left it."""
    directory = place / "data"
    for name in data_directory.DIRECTORIES:
        (directory / name / "below").mkdir(parents=True)
        (directory / name).chmod(0o755)
    for name in (*data_directory.FILES, "engine.log.1"):
        (directory / name).touch()
        (directory / name).chmod(0o644)
    directory.chmod(0o755)
    return directory


def test_a_new_directory_is_private(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "data"
    data_directory.prepare(directory)
    lock = host.lock_data_dir(options(directory))
    try:
        host.prepare_data_dir(options(directory))
    finally:
        os.close(lock)
    assert rights(directory) == 0o700
    found = {path.name: rights(path) for path in directory.iterdir()}
    assert found == {"lock": 0o600, "log4j2.properties": 0o600, "scratch": 0o700, "warehouse": 0o700}


def test_an_existing_directory_becomes_private(tmp_path: Path) -> None:
    directory = old_directory(tmp_path)
    data_directory.prepare(directory)
    found = [directory, *directory.iterdir()]
    assert [path.name for path in found if rights(path) & data_directory.OTHERS] == []
    assert rights(directory / "warehouse") == 0o700


def test_a_directory_with_other_things_keeps_its_rights(tmp_path: Path) -> None:
    """`--data-dir .` must not shut a project's directory."""
    directory = old_directory(tmp_path)
    others = directory / "notebook.ipynb"
    others.touch()
    others.chmod(0o644)
    data_directory.prepare(directory)
    assert rights(directory) == 0o755
    assert rights(others) == 0o644
    own = [path for path in directory.iterdir() if path != others]
    assert [path.name for path in own if rights(path) & data_directory.OTHERS] == []


def test_the_target_of_a_link_keeps_its_rights(tmp_path: Path) -> None:
    shared = tmp_path / "disk"
    shared.mkdir(mode=0o755)
    directory = tmp_path / "data"
    directory.mkdir()
    (directory / "warehouse").symlink_to(shared)
    data_directory.prepare(directory)
    assert rights(shared) == 0o755
    assert rights(directory) == 0o700


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    with pytest.raises(IsADirectoryError) as raised:
        data_directory.prepare(tmp_path)
    assert raised.value.filename == str(tmp_path / "lock")
