"""Checks LOCATION: it must lie below a directory of `storage.locations` and outside the storage of other views."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from gateway.errors import FreshgateError, NotAllowed
from sql.names import TableName

_ROOT = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):(//[^/]*)?")
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f%\\]")
"""Some readers of paths decode %-escapes and treat backslashes as separators; others do not."""
_LOCAL = ("", "file:")


@dataclass(frozen=True, slots=True)
class Location:
    """A directory. `root` is the scheme and authority as written, or "" if the path has none."""

    root: str
    parts: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Location:
        """Parses a directory that all readers of paths interpret alike. Raises ValueError with the reason."""
        if _FORBIDDEN.search(text):
            raise ValueError("it contains a %, a backslash or a control character")
        root, path = "", text
        if (found := _ROOT.match(text)) is not None:
            authority = found[2] or ""
            root, path = f"{found[1]}:{'' if authority == '//' else authority}", text[found.end() :]
            path = path or ("/" if authority.strip("/") else "")  # The root of a bucket.
        if not path.startswith("/") or (path.startswith("//") and not root):
            raise ValueError("it is not an absolute path, with or without a scheme such as hdfs://host")
        parts = tuple(path.strip("/").split("/")) if path.strip("/") else ()
        if "" in parts or path.startswith("//"):
            raise ValueError("it contains //")
        if {".", ".."} & set(parts):
            raise ValueError("it contains a component . or ..")
        return cls(root, parts)

    def is_below(self, other: Location) -> bool:
        """Whether this directory is `other` or lies below it."""
        return self.root == other.root and self.parts[: len(other.parts)] == other.parts

    def resolved(self) -> Location:
        """The directory with this machine's symbolic links resolved. Blocks as long as the file systems do."""
        if self.root not in _LOCAL:
            return self
        real = os.path.realpath("/" + "/".join(self.parts))
        return Location(self.root, tuple(filter(None, real.split("/"))))


class Locations:
    """The directories that `storage.locations` allows."""

    def __init__(self, allowed: Iterable[str]) -> None:
        """Raises FreshgateError for a directory that is ambiguous."""
        self._allowed: list[Location] = []
        for text in allowed:
            try:
                self._allowed.append(Location.parse(text))
            except ValueError as error:
                raise FreshgateError(f"storage.locations: {text!r} cannot be used: {error}. Correct it.") from None

    async def check(self, name: TableName, location: str, storages: Collection[str]) -> None:
        """Raises NotAllowed. `storages` are the names of all storage tables."""
        if not self._allowed:
            raise _refused(
                name,
                location,
                "storage.locations names no directory. Omit LOCATION, or have an administrator add a directory there",
            )
        try:
            place = Location.parse(location)
        except ValueError as error:
            raise _refused(name, location, f"{error}. Write it without") from None
        resolved = None
        if any(place.is_below(each) for each in self._allowed):
            # In a thread, because a file system that does not respond must not block the event loop.
            resolved = await asyncio.to_thread(self._resolved, place)
        if resolved is None:
            raise _refused(
                name,
                location,
                "it is not below a directory of storage.locations, written as there. Name one that is, or omit "
                "LOCATION",
            )
        known = {storage.lower() for storage in storages}
        if any(part.lower() in known for part in (*place.parts, *resolved.parts)):
            raise _refused(name, location, "another materialized view is stored there. Name another directory")

    def _resolved(self, place: Location) -> Location | None:
        """The place with symbolic links resolved; None if a link leads out of the allowed directories."""
        resolved = place.resolved()
        return resolved if any(resolved.is_below(each.resolved()) for each in self._allowed) else None


def _refused(name: TableName, location: str, why: str) -> NotAllowed:
    return NotAllowed(f"The materialized view {name} cannot lie in {location!r}: {why}.", "42501")
