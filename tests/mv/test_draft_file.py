"""Drafts of the catalog in files: what was kept comes back, and nothing else does."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

import pytest
from views import view_of

from gateway.mv.catalog import naming
from gateway.mv.catalog.draft_file import DraftFile, StoredDraft
from gateway.mv.model.contents import Contents
from gateway.mv.model.marks import Fold
from gateway.mv.model.view import MaterializedView, Version
from sql.names import TableName

LISTED = {"d": frozenset({"v0", "of a user"}), "e": frozenset[str]()}


def view(number: int) -> MaterializedView:
    storage = TableName("s", f"d__v{number}__1")
    version = replace(Version.whole(number + 1, 1, 1, {}), files=Fold(1, 2, 3))
    return replace(
        view_of(version),
        id=storage.table,
        name=TableName("d", f"v{number}"),
        storage=storage,
        definition=naming.definition_of(storage),
        query=f"SELECT '\n', {number}",
        paused=number % 2 == 0,
        job_since=number,
    )


def without_contents(view: MaterializedView) -> MaterializedView:
    return replace(view, current=replace(view.current, contents=Contents(), files=None))


def test_what_was_kept_comes_back(tmp_path: Path) -> None:
    # More than one block.
    views = tuple(map(view, range(2_000)))
    file = DraftFile(tmp_path / "new", "s")

    async def run() -> StoredDraft | None:
        assert await file.read() is None
        await file.write(StoredDraft(views[:1], LISTED))
        await file.write(StoredDraft(views, LISTED))
        return await file.read()

    assert asyncio.run(run()) == StoredDraft(tuple(map(without_contents, views)), LISTED)
    (kept,) = (tmp_path / "new").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("cut", [0, 1, 100, -1])
def test_a_file_that_is_not_complete_is_not_used(cut: int, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = DraftFile(tmp_path, "s")
    asyncio.run(file.write(StoredDraft(tuple(map(view, range(50))), LISTED)))
    (kept,) = tmp_path.iterdir()
    kept.write_bytes(kept.read_bytes()[:cut])
    with caplog.at_level(logging.WARNING):
        assert asyncio.run(file.read()) is None
    assert "is not used" in caplog.text


def test_a_file_of_another_storage_database_is_not_used(tmp_path: Path) -> None:
    asyncio.run(DraftFile(tmp_path, "s").write(StoredDraft((view(1),), LISTED)))
    (kept,) = tmp_path.iterdir()
    kept.rename(tmp_path / "other.draft")
    assert asyncio.run(DraftFile(tmp_path, "other").read()) is None


def test_a_directory_that_cannot_be_written_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    file = DraftFile(tmp_path / "file", "s")
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            asyncio.run(file.write(StoredDraft((), {})))
        assert caplog.text.count("no draft of the catalog is kept") == 1
        assert asyncio.run(file.read()) is None
