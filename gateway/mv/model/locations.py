"""Below which directories a view's LOCATION may lie: those of `storage.locations`, and in no other view's storage."""

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
"""Some readers of a path decode %-escapes and take backslashes for borders, others do not."""
_LOCAL = ("", "file:")


@dataclass(frozen=True, slots=True)
class Place:
    """A directory. `root`: scheme and authority as written, "" where the path has none."""

    root: str
    parts: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Place:
        """Reads a directory of which every reader of paths has the same idea. Raises ValueError, which says why not."""
        if _FORBIDDEN.search(text):
            raise ValueError("it has a %, a backslash or a control character in it")
        root, path = "", text
        if (found := _ROOT.match(text)) is not None:
            authority = found[2] or ""
            root, path = f"{found[1]}:{'' if authority == '//' else authority}", text[found.end() :]
            path = path or ("/" if authority.strip("/") else "")  # A bucket's root.
        if not path.startswith("/") or (path.startswith("//") and not root):
            raise ValueError("it is not an absolute path, with or without a scheme such as hdfs://host")
        parts = tuple(path.strip("/").split("/")) if path.strip("/") else ()
        if "" in parts or path.startswith("//"):
            raise ValueError("it has an empty step, //, in it")
        if {".", ".."} & set(parts):
            raise ValueError("it has a step . or .. in it")
        return cls(root, parts)

    def is_below(self, other: Place) -> bool:
        """Below the other one, or the same."""
        return self.root == other.root and self.parts[: len(other.parts)] == other.parts

    def resolved(self) -> Place:
        """Where symbolic links of this machine lead to. Takes as long as its file systems do."""
        if self.root not in _LOCAL:
            return self
        real = os.path.realpath("/" + "/".join(self.parts))
        return Place(self.root, tuple(filter(None, real.split("/"))))


class Locations:
    """What `storage.locations` allows."""

    def __init__(self, allowed: Iterable[str]) -> None:
        """Raises FreshgateError for a directory that could be read in two ways."""
        self._allowed: list[Place] = []
        for text in allowed:
            try:
                self._allowed.append(Place.parse(text))
            except ValueError as error:
                raise FreshgateError(f"storage.locations: {text!r} cannot be used: {error}.") from None

    async def check(self, name: TableName, location: str, storages: Collection[str]) -> None:
        """`storages` are the names of the storage tables there are. Raises NotAllowed."""
        if not self._allowed:
            raise _refused(
                name,
                location,
                "storage.locations names no directory. Leave LOCATION out, or have an administrator list one there",
            )
        try:
            place = Place.parse(location)
        except ValueError as error:
            raise _refused(name, location, f"{error}. Write it without") from None
        resolved = None
        if any(place.is_below(each) for each in self._allowed):
            # In a thread: a file system that does not answer must not hold everybody.
            resolved = await asyncio.to_thread(self._resolved, place)
        if resolved is None:
            raise _refused(
                name,
                location,
                "it is not below a directory of storage.locations, written as there. Name one that is, or leave "
                "LOCATION out",
            )
        known = {storage.lower() for storage in storages}
        if any(part.lower() in known for part in (*place.parts, *resolved.parts)):
            raise _refused(name, location, "rows of another materialized view lie there. Name another directory")

    def _resolved(self, place: Place) -> Place | None:
        """Where the place is in truth; None where a symbolic link leads out of what is allowed."""
        resolved = place.resolved()
        return resolved if any(resolved.is_below(each.resolved()) for each in self._allowed) else None


def _refused(name: TableName, location: str, why: str) -> NotAllowed:
    return NotAllowed(f"The materialized view {name} cannot lie in {location!r}: {why}.", "42501")
