"""The directories that hold rows of materialized views, and whether a path that a statement writes to reaches them.

A path is interpreted in every way in which Hadoop may read it: with or without a scheme, with `..` and `//` resolved,
with URL escapes decoded, in any case. A path that cannot be interpreted for certain counts as one that reaches them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from urllib.parse import unquote

from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.index import Catalog

_SCHEME = re.compile(r"([a-z][a-z0-9+.\-]*):", re.IGNORECASE)
_STORES = frozenset({"s3", "s3a", "s3n", "gs", "abfs", "abfss", "wasb", "wasbs", "oss", "cosn", "obs", "swift"})
"""Schemes whose authority is part of the location. That of other schemes may be omitted or be one of several names."""
_WILDCARD = re.compile(r"[*?]")
_STARS = re.compile(r"\*+")
_CHOICE = re.compile(r"[\[{}]")
"""Patterns such as {a/b,c}: which paths they match is not worked out."""
_ESCAPES_MAX = 3
"""How often escapes are decoded: escapes may themselves be escaped."""
_SYSTEM = frozenset({"proc", "dev"})
"""System directories through which every other directory can be reached: /proc/self/root."""


class Reach(Enum):
    WITHIN = "within"
    """The path is the directory itself, or inside it."""
    ABOVE = "above"
    """The path is a directory that contains it, so emptying the path empties it as well."""


@dataclass(frozen=True, slots=True)
class _Place:
    """One interpretation of a path."""

    segments: tuple[str, ...]
    store: str = ""
    """The name of the store without its scheme, if the path names one."""
    absolute: bool = True


@dataclass(frozen=True, slots=True)
class Directory:
    """A protected directory. `unique`: no other directory has its name, wherever it is."""

    location: str
    segments: tuple[str, ...]
    store: str
    unique: bool

    @classmethod
    def at(cls, location: str, *, unique: bool) -> Directory:
        place = next(_readings(location))
        return cls(location, place.segments, place.store, unique)

    def reached_by(self, path: str) -> Reach | None:
        """How a path reaches this directory; None if it does not."""
        return self._reached_by(list(_readings(path)))

    def _reached_by(self, places: Sequence[_Place]) -> Reach | None:
        found = {self._reached(place) for place in places}
        return Reach.WITHIN if Reach.WITHIN in found else Reach.ABOVE if Reach.ABOVE in found else None

    def _reached(self, place: _Place) -> Reach | None:
        if place.store and self.store and place.store != self.store:
            return None
        own, other = self.segments, place.segments
        if self.unique and own[-1] in other:
            return Reach.WITHIN
        if place.absolute:
            return Reach.ABOVE if other[:1] and other[0] in _SYSTEM else _compared(own, other)
        # A relative path starts at an unknown directory: Spark's own, or that of a database.
        found = {_compared(own[begin:], other) for begin in range(len(own))}
        return Reach.WITHIN if Reach.WITHIN in found else Reach.ABOVE if Reach.ABOVE in found else None


class _Known:
    """Directories, with a quick check for paths that reach none of them. `key`: what they were computed from."""

    def __init__(self, key: object, directories: Sequence[Directory]) -> None:
        self.key = key
        self.directories = directories
        self._names = frozenset(directory.segments[-1] for directory in directories if directory.unique)
        self._segments = frozenset(segment for directory in directories for segment in directory.segments)

    def may_lead(self, place: _Place) -> bool:
        """Whether a path may reach one of them. It cannot if its first directory is not part of any of theirs."""
        if not (segments := place.segments):
            return True
        first = segments[0]
        if first in self._segments or first in _SYSTEM or not self._names.isdisjoint(segments):
            return True
        return _CHOICE.search(first) is not None or _WILDCARD.search(first) is not None


class Directories:
    """The directories of the storage database, and of views with a LOCATION of their own."""

    def __init__(self, catalog: Catalog, fence: Fence) -> None:
        self._catalog = catalog
        self._fence = fence
        self._known = _Known(None, ())

    def all(self) -> Sequence[Directory]:
        return self._all().directories

    def reached_by(self, path: str) -> list[tuple[Directory, Reach]]:
        """The directories that a path reaches. Must be fast: a statement may contain tens of thousands of possible
        paths."""
        known, places = self._all(), list(dict.fromkeys(_readings(path)))
        if not any(map(known.may_lead, places)):
            return []
        found = ((directory, directory._reached_by(places)) for directory in known.directories)
        return [(directory, reach) for directory, reach in found if reach is not None]

    def _all(self) -> _Known:
        locations = frozenset(self._fence.locations)
        if self._known.key != (key := (self._catalog.revision, locations)):
            self._known = _Known(key, (*self._of_storage(locations), *self._of_views()))
        return self._known

    def _of_storage(self, locations: Iterable[str]) -> Iterator[Directory]:
        """Until the location is known, the directory is identified by the name that Spark gives it."""
        name = self._catalog.storage_database
        for location in sorted(locations) or [f"{name}.db"]:
            yield Directory.at(location, unique=name in location.rstrip("/").rpartition("/")[2])

    def _of_views(self) -> Iterator[Directory]:
        for view in self._catalog.views():
            if (location := view.clauses.location) is not None:
                yield Directory.at(f"{location.rstrip('/')}/{view.storage.table}", unique=True)
            if view.layout.open is not None:
                yield Directory.at(f"/{view.rows_table.table}", unique=True)


def _compared(own: tuple[str, ...], other: tuple[str, ...]) -> Reach | None:
    if not all(map(_same, other, own)):
        return None
    return Reach.WITHIN if len(other) >= len(own) else Reach.ABOVE


def _same(segment: str, own: str) -> bool:
    """Whether a segment, which may be a pattern, matches a segment of the directory."""
    if segment == own:
        return True
    if _CHOICE.search(segment) is not None:
        return True
    if _WILDCARD.search(segment) is None:
        return False
    # Every character but * matches exactly one. (Spark, and fnmatch, spend minutes on a pattern of megabytes.)
    return len(segment) - segment.count("*") <= len(own) and fnmatchcase(own, _STARS.sub("*", segment))


def _readings(path: str) -> Iterator[_Place]:
    """The possible meanings of a path, with its escapes decoded repeatedly."""
    for text in {path: None, path.replace("\\", ""): None}:
        for _ in range(_ESCAPES_MAX):
            yield from _places(text.strip())
            if (decoded := unquote(text)) == text:
                break
            text = decoded


def _places(text: str) -> Iterator[_Place]:
    scheme = _SCHEME.match(text)
    rest = text[scheme.end() :] if scheme else text
    absolute = rest.startswith("/")
    if rest.startswith("//") and not rest.startswith("///"):
        authority, _, inner = rest[2:].partition("/")
        store = authority.lower() if scheme and scheme[1].lower() in _STORES else ""
        yield _Place(_resolved(inner), store)
        if scheme:
            return
    yield _Place(_resolved(rest), absolute=absolute)


def _resolved(path: str) -> tuple[str, ...]:
    """The segments, case-folded, with `.` and `..` resolved; a leading `..` is dropped."""
    found: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            if found:
                found.pop()
        elif plain := segment.rstrip(". ").casefold():
            found.append(plain)
    return tuple(found)
