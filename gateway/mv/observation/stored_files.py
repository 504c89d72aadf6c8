"""The files in which the rows of views are stored, as Spark would read them now.

Spark's plan tells the directories that a version's rows are read from: what the metastore lists, wherever that is. A
listing folds their files. No file is opened, and both run side by side, because the directories are mostly those of the
last look.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from gateway.errors import StatementFailed, UpstreamLost
from gateway.loops import in_thread
from gateway.mv.concurrency import both, gathered
from gateway.mv.formats import open_tables
from gateway.mv.formats.listings import LOCATIONS_TOGETHER, Files, Listings
from gateway.mv.model.marks import Fold
from gateway.mv.model.view import MaterializedView
from sql.names import TableName
from sql.texts import maintenance, observation
from sql.texts.storage_layout import PARTITION_COLUMN, VERSION_COLUMN, Shown

VERSION = f"/{VERSION_COLUMN}="
PLAN = "== Physical Plan =="
CAUSE_MAX = 500
"""How many characters of what Spark says in the place of a plan are told."""
KNOWN_MAX = 20_000
"""Storage tables whose directories are remembered."""


@dataclass(frozen=True, slots=True)
class _Listed:
    """What the last look at a storage table has listed."""

    numbers: frozenset[int]
    """The versions that it was a look at."""
    above: str
    """The directory of the versions' directories; empty if they are in several."""
    roots: tuple[str, ...]
    files: int


class StoredFiles:
    """Looks at storage tables. Methods raise what Spark raises, TimeoutError if a look takes too long, and ValueError
    if Spark's answer cannot be read."""

    def __init__(self, listings: Listings) -> None:
        self._listings = listings
        self._known: dict[TableName, _Listed] = {}

    async def of(self, view: MaterializedView, *shown: Shown) -> list[Fold]:
        """The files with the rows of each of these contents of a view, all as they are at one moment."""
        if view.layout.open is not None:
            async with self._listings.session() as session:
                needed = [each.snapshot for each in shown]
                found = await open_tables.commits(session.run, view.layout.open, needed)
                return open_tables.folds(found, view, shown)
        try:
            return await self._of(view, shown)
        except (StatementFailed, UpstreamLost):
            # Files of other versions that vanish while they are listed are no reason to give up, nor is a session that
            # Spark has closed.
            return await self._of(view, shown)

    async def _of(self, view: MaterializedView, shown: Sequence[Shown]) -> list[Fold]:
        known = self._known.get(view.storage)
        guessed, expected = ((), None) if known is None else (_guessed(known, shown), known.files)
        explained, listed = await both(self._explained(view, shown), self._listings.files(guessed, expected))
        roots = await in_thread(sum(map(len, explained)), _roots, explained)
        if not set(roots) <= set(guessed):
            listed = await self._listings.files(roots, expected)
        folds = await in_thread(len(listed) + sum(map(len, explained)), _folds, explained, listed)
        # Only the first contents will be looked at again: the files of those that it replaces will be dropped.
        first = await in_thread(len(explained[0]), _roots, explained[:1])
        above = _above(roots) or (known.above if known else "")
        self._remember(view.storage, _Listed(frozenset({shown[0].number}), above, first, folds[0].count))
        return folds

    async def _explained(self, view: MaterializedView, shown: Sequence[Shown]) -> list[Set[str]]:
        """The directories in which Spark would read each of these contents."""

        async def ask(each: Shown) -> Set[str]:
            async with self._listings.session() as session:
                asked = maintenance.explain_shown(view.storage, each, view.layout)
                plan = str((await session.run(asked)).rows[0][0])
            paths = await in_thread(len(plan) // 100, observation.explained_paths, plan)
            if paths is None and PLAN not in plan:
                raise StatementFailed(f"Spark cannot tell where the rows of {view.name} are.", cause=plan[:CAUSE_MAX])
            if paths is None:
                raise ValueError(f"Spark's plan does not tell where the rows of {view.name} are.")
            return frozenset(paths)

        return await gathered(map(ask, shown))

    def _remember(self, storage: TableName, known: _Listed) -> None:
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known[storage] = known


def _guessed(known: _Listed, shown: Sequence[Shown]) -> tuple[str, ...]:
    """The directories that will probably have to be listed: those of the last look, or that of a new version."""
    numbers = frozenset(each.number for each in shown)
    if numbers == known.numbers or not known.above:
        return known.roots
    new = (f"{known.above}{VERSION}{number}" for number in sorted(numbers - known.numbers))
    rest = any(each.number in known.numbers or each.versions > 1 for each in shown)
    return tuple(dict.fromkeys((*(known.roots if rest else ()), *new)))


def _roots(explained: Iterable[Set[str]]) -> tuple[str, ...]:
    """The directories to list: of the versions, or, if there are many, the one above them."""
    paths = frozenset[str]().union(*explained)
    roots = sorted({_of_version(path) for path in paths})
    if len(roots) <= LOCATIONS_TOGETHER:
        return tuple(roots)
    return tuple(sorted({root.rpartition(VERSION)[0] or root for root in roots}))


def _of_version(path: str) -> str:
    """The directory of the version, for a partition of the view's own below it."""
    above, version, below = path.rpartition(VERSION)
    number, *inner = below.split("/")
    own = inner and all(each.startswith(PARTITION_COLUMN) and "=" in each for each in inner)
    return f"{above}{version}{number}" if version and own else path


def _above(roots: Iterable[str]) -> str:
    found = {root.rpartition(VERSION)[0] for root in roots}
    return found.pop() if len(found) == 1 else ""


def _folds(explained: Iterable[Set[str]], listed: Iterable[Files]) -> list[Fold]:
    """Spark reads the files in a directory itself, not those in directories below it."""
    files: Mapping[str, Fold] = {part.directory: Fold(part.xor, part.count, part.bytes) for part in listed}
    return [sum((files[path] for path in paths & files.keys()), Fold()) for paths in explained]
