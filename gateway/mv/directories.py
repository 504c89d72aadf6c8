"""Where rows of materialized views lie, and whether a path that somebody writes to leads there.

A path is compared as widely as Hadoop may read it: with or without a scheme, `..` and `//` resolved, escapes of URLs
decoded, whatever the case. What cannot be told from a path into these directories counts as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from urllib.parse import unquote

from gateway.mv.catalog import Catalog
from gateway.mv.fence import Fence

_SCHEME = re.compile(r"([a-z][a-z0-9+.\-]*):", re.IGNORECASE)
_STORES = frozenset({"s3", "s3a", "s3n", "gs", "abfs", "abfss", "wasb", "wasbs", "oss", "cosn", "obs", "swift"})
"""Schemes whose authority is a part of the place; that of another may be left out, or be one of several names."""
_WILDCARD = re.compile(r"[*?]")
_CHOICE = re.compile(r"[\[{}]")
"""Of patterns such as {a/b,c} nobody here tries to tell what they match."""
_ESCAPES_MAX = 3
"""Escapes of escapes."""
_SYSTEM = frozenset({"proc", "dev"})
"""Directories of the machine's own in which any other can be reached: /proc/self/root."""


class Reach(Enum):
    WITHIN = "within"
    """The directory itself, or something in it."""
    ABOVE = "above"
    """A directory that holds it, so that whatever empties that empties it as well."""


@dataclass(frozen=True, slots=True)
class _Place:
    """One reading of a path."""

    segments: tuple[str, ...]
    store: str = ""
    """Scheme-independent name of the store, where the path names one."""
    absolute: bool = True


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory that is to be left alone. `unique`: nothing else has its own name, wherever it is."""

    location: str
    segments: tuple[str, ...]
    store: str
    unique: bool

    @classmethod
    def at(cls, location: str, *, unique: bool) -> Directory:
        place = next(_readings(location))
        return cls(location, place.segments, place.store, unique)

    def reached_by(self, path: str) -> Reach | None:
        """How a path leads there; None where it leads elsewhere."""
        found = {self._reached(place) for place in _readings(path)}
        return Reach.WITHIN if Reach.WITHIN in found else Reach.ABOVE if Reach.ABOVE in found else None

    def _reached(self, place: _Place) -> Reach | None:
        if place.store and self.store and place.store != self.store:
            return None
        own, other = self.segments, place.segments
        if self.unique and own[-1] in other:
            return Reach.WITHIN
        if place.absolute:
            return Reach.ABOVE if other[:1] and other[0] in _SYSTEM else _compared(own, other)
        # It counts from a directory that nobody knows: Spark's own, or that of a database.
        found = {_compared(own[begin:], other) for begin in range(len(own))}
        return Reach.WITHIN if Reach.WITHIN in found else Reach.ABOVE if Reach.ABOVE in found else None


class Directories:
    """Those of the storage database, and of views with a LOCATION of their own."""

    def __init__(self, catalog: Catalog, fence: Fence) -> None:
        self._catalog = catalog
        self._fence = fence
        self._known: tuple[object, list[Directory]] = None, []

    def all(self) -> list[Directory]:
        locations = frozenset(self._fence.locations)
        if self._known[0] != (key := (self._catalog.revision, locations)):
            self._known = key, [*self._of_storage(locations), *self._of_views()]
        return self._known[1]

    def _of_storage(self, locations: Iterable[str]) -> Iterator[Directory]:
        """Where nobody has said yet where it lies, it is known by the name that Spark gives it."""
        name = self._catalog.storage_database
        for location in sorted(locations) or [f"{name}.db"]:
            yield Directory.at(location, unique=name in location.rstrip("/").rpartition("/")[2])

    def _of_views(self) -> Iterator[Directory]:
        for view in self._catalog.views():
            if (location := view.clauses.location) is not None:
                yield Directory.at(f"{location.rstrip('/')}/{view.storage.table}", unique=True)


def _compared(own: tuple[str, ...], other: tuple[str, ...]) -> Reach | None:
    if not all(map(_same, other, own)):
        return None
    return Reach.WITHIN if len(other) >= len(own) else Reach.ABOVE


def _same(segment: str, own: str) -> bool:
    """Whether a segment, which may be a pattern, is one of the directory's."""
    if segment == own:
        return True
    if _CHOICE.search(segment) is not None:
        return True
    return _WILDCARD.search(segment) is not None and fnmatchcase(own, segment)


def _readings(path: str) -> Iterator[_Place]:
    """What a path may mean, its escapes resolved as often as there are any."""
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
    """The segments, folded, without `.` and `..`; what is left of `..` at the beginning is left out."""
    found: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            if found:
                found.pop()
        elif plain := segment.rstrip(". ").casefold():
            found.append(plain)
    return tuple(found)
