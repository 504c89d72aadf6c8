"""The embedded engine's data directory: only the account that runs the gateway reads what lies in it.

The rows of every table and view are there, so other accounts of the machine must not get past Spark's port.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

LOCK = "lock"
SCRATCH = "scratch"
WAREHOUSE = "warehouse"
DIRECTORIES = ("metastore", WAREHOUSE, SCRATCH)
FILES = (LOCK, "engine.log", "engine.out", "derby.log", "log4j2.properties")
OWNER_ONLY = 0o700
OTHERS = 0o077
"""What a group and all others may do."""


def prepare(directory: Path) -> None:
    """Creates the directory if it is missing, takes the rights of others away, and checks that it can be written.

    Raises OSError, whose `filename` is what cannot be used.
    """
    if not directory.is_dir():
        directory.mkdir(mode=OWNER_ONLY, parents=True)
    make_private(directory)
    # Also opens a file for writing on a read-only file system, where rights tell nothing.
    os.close(open_private(directory / LOCK, os.O_RDWR))


def make_private(directory: Path) -> None:
    """Takes the rights of others away: of what the engine stores in the directory, and of the directory itself if
    nothing else is there, because other programs may need that.

    What belongs to another account, such as the directory of a mounted volume, keeps its rights. Symbolic links are
    not followed: their targets may be shared on purpose.
    """
    foreign = False
    with os.scandir(directory) as entries:
        for entry in entries:
            # Rolled logs are engine.log.1, ...
            rolled, draft = entry.name.startswith("engine.log."), entry.name.endswith(".draft")
            if entry.name in DIRECTORIES or entry.name in FILES or rolled or draft:
                _restrict(entry)
            else:
                foreign = True
    if not foreign:
        _restrict(directory)


def open_private(path: Path, flags: int) -> int:
    """Opens a file that nobody else can read, and creates it if it is missing. Returns the descriptor.

    Raises OSError.
    """
    return os.open(path, flags | os.O_CREAT, 0o600)


def _restrict(found: Path | os.DirEntry[str]) -> None:
    if found.is_symlink():
        return
    status = found.stat()
    if status.st_uid == os.geteuid() and status.st_mode & OTHERS:
        os.chmod(found, stat.S_IMODE(status.st_mode) & ~OTHERS)
