"""What the commits of a Delta table did to its files, as far as a refresh by rows needs it.

Tests: `test_added_rows`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

from gateway.mv.ports import SqlSession
from sql.texts import delta_texts

RESTORE = "RESTORE"
"""An operation of Delta's."""
PROBED_MAX = 8
"""How many files are looked for. Delta's VACUUM deletes those first that were removed first."""


@dataclass(frozen=True, slots=True)
class DeltaFile:
    """A file that commits have added, removed, or both."""

    path: str
    """Relative to the table's location, or absolute if the file is elsewhere (a clone)."""
    added: bool
    """Whether its rows were new. Others were added before, or have rows of other files."""
    removed: bool
    """Whether its rows were removed, and did not just move to other files."""
    gone: int | None
    """The version that no longer has it; None if the last one has it."""
    feeds: bool = False
    """Whether it has rows of the change data feed."""
    bytes: int = 0
    vector: bool = False
    """Whether it has been added or removed with some of its rows deleted."""
    values: Mapping[str, str | None] | None = None
    """The values of its partition, if it was added, by the columns' physical names."""
    balanced: bool = False
    """Whether as many commits added its rows as removed them."""
    plus: int | None = None
    """The version that added the rows that it has had since; None: its rows were there before, or were removed."""
    minus: int | None = None
    """A version with the rows that it had before they were removed; None: it had none, or has them still."""
    moved_in: bool = False
    """Whether it came after the first version, with rows of other files."""

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class DeltaLog:
    """The sum of some commits."""

    commits: int
    described: bool
    """Whether the table's columns or properties were set."""
    files: tuple[DeltaFile, ...]

    @property
    def changed(self) -> list[DeltaFile]:
        """The files whose rows came or went."""
        return [file for file in self.files if file.added or file.removed]

    @property
    def appends(self) -> bool:
        """Whether no row was removed."""
        return not any(file.removed or file.feeds or (file.added and file.vector) for file in self.files)

    @property
    def net(self) -> DeltaLog:
        """Without the files whose rows came and left again, or left and came again, as a RESTORE makes them."""
        kept = (file for file in self.files if not file.balanced or file.feeds or file.vector)
        return replace(self, files=tuple(kept))

    @property
    def changes(self) -> bool:
        """Whether rows were added or removed."""
        return any(file.added or file.removed for file in self.files)

    @property
    def needed(self) -> list[DeltaFile]:
        """The files that have the changed rows and that VACUUM may have deleted."""
        if self.appends:
            return first_gone(file for file in self.files if file.added)
        if not any(file.feeds for file in self.files):
            return first_gone(file for file in self.files if file.plus is not None or file.minus is not None)
        feeding = [file for file in self.files if file.feeds][:PROBED_MAX]
        return feeding + first_gone(file for file in self.files if file.added or file.removed)

    @property
    def before(self) -> list[DeltaFile]:
        """The files that an earlier version has and that VACUUM may have deleted."""
        return first_gone(file for file in self.files if not file.added)


def first_gone(files: Iterable[DeltaFile]) -> list[DeltaFile]:
    gone = [(file.gone, file.path, file) for file in files if file.gone is not None]
    return [file for _, _, file in sorted(gone, key=lambda each: each[:2])[:PROBED_MAX]]


def log_of(rows: Iterable[Sequence[Any]]) -> DeltaLog:
    """Reads the answer to `delta_actions`."""
    commits, described, files = 0, False, list[DeltaFile]()
    for summed, versions, metadata, *told in rows:
        if summed:
            commits, described = int(versions), bool(metadata)
        else:
            files.append(_file(*told))
    return DeltaLog(commits, described, tuple(files))


def _file(path: str, added: Any, removed: Any, gone: Any, feeds: Any, size: Any, *more: Any) -> DeltaFile:
    vector, values, balanced, first_added, first_removed, first_there = more
    # A file that was removed may have been added again, with other rows deleted; both in one commit.
    left = None if gone is None or (added is not None and int(added) >= int(gone)) else int(gone)
    stays = added is not None and (removed is None or int(added) >= int(removed))
    had = first_removed is not None and (first_added is None or int(first_removed) <= int(first_added))
    return DeltaFile(
        unquote(str(path)),
        added is not None,
        removed is not None,
        left,
        feeds is not None,
        int(size or 0),
        bool(vector),
        None if values is None else json.loads(values),
        bool(balanced) and (added is not None or removed is not None),
        int(added) if stays else None,
        int(first_removed) - 1 if had else None,
        had and first_there is not None and int(first_there) < int(first_removed),
    )


async def keeps_columns(
    session: SqlSession, location: str, position: int, last: int, harmless: Collection[str] = ()
) -> bool:
    """Whether a table's columns and properties are the same at the version `last` as at `position`, up to what commits
    with `harmless` operations have set. Raises what Spark raises.

    Every RESTORE sets them again, to those of the version that it goes back to. They are the same if no other commit
    between the earliest of these versions and the last has set any.
    """
    first, earliest = position, -1
    while earliest != first:
        if last - first > delta_texts.COMMITS_MAX:
            return False
        rows = (await session.run(delta_texts.descriptions(location, first + 1, last))).rows
        described = [(operation, to) for is_described, operation, to in rows if is_described]
        if len(rows) < last - first or not {operation for operation, _ in described} <= {RESTORE, *harmless}:
            return False
        # A RESTORE to a time may go back to any version.
        earliest, first = first, min([first, *(int(to or 0) for operation, to in described if operation == RESTORE)])
    return True
