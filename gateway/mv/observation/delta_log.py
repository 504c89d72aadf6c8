"""What the commits of a Delta table did to its files, as far as a refresh by rows needs it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

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
    """Whether it has been added with some of its rows deleted."""
    values: Mapping[str, str | None] | None = None
    """The values of its partition, if it was added, by the columns' physical names."""

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
    def added(self) -> list[DeltaFile]:
        return [file for file in self.files if file.added]

    @property
    def appends(self) -> bool:
        """Whether no row was removed."""
        return not any(file.removed or file.feeds or (file.added and file.vector) for file in self.files)

    @property
    def needed(self) -> list[DeltaFile]:
        """The files that have the changed rows and that VACUUM may have deleted."""
        if self.appends:
            return first_gone(file for file in self.files if file.added)
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
    for summed, versions, metadata, path, added, removed, gone, feeds, size, vector, values in rows:
        if summed:
            commits, described = int(versions), bool(metadata)
            continue
        # A file that was removed may have been added again, with other rows deleted.
        left = None if gone is None or (added is not None and int(added) >= int(gone)) else int(gone)
        partition = None if values is None else json.loads(values)
        files.append(
            DeltaFile(
                unquote(str(path)),
                added is not None,
                removed is not None,
                left,
                feeds is not None,
                int(size or 0),
                bool(vector),
                partition,
            )
        )
    return DeltaLog(commits, described, tuple(files))
