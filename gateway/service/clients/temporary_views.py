"""Temporary views and functions, of one session or of all sessions, and what they read.

Tests: `test_session_model`.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, field

from gateway.service.operations.operation import End
from sql.names import SESSION_CATALOG, Parts, TableName
from sql.reading.hidden import GLOBAL_TEMPORARY
from sql.words import Words

ANY = ""
"""Stands for any name."""
_NOT_DONE = frozenset({End.FAILED, End.REFUSED})


@dataclass(frozen=True, slots=True)
class Underlying:
    """What a temporary view or function reads, as far as known."""

    surely: frozenset[TableName] = frozenset()
    perhaps: frozenset[TableName] = frozenset()
    anything: bool = False
    """Whether it may read anything, so that Spark must be asked."""

    def __or__(self, other: Underlying) -> Underlying:
        return Underlying(self.surely | other.surely, self.perhaps | other.perhaps, self.anything or other.anything)

    @property
    def doubted(self) -> Underlying:
        return Underlying(perhaps=self.surely | self.perhaps, anything=self.anything)


NOTHING = Underlying()
ANYTHING = Underlying(anything=True)


@dataclass(frozen=True, slots=True)
class Made:
    """A temporary view or function that a statement creates: its name as spelled, and what it reads."""

    name: str
    reads: Underlying
    function: bool = False


@dataclass(eq=False, slots=True)
class UncertainChange:
    """A statement that creates and drops temporary views, and whose end is unknown: its changes are doubtful."""

    made: tuple[Made, ...] = ()
    dropped: tuple[str, ...] = ()
    """Folded."""


@dataclass(frozen=True, slots=True, eq=False)
class TemporaryViewLeaves:
    """It may drop or rename a temporary view. The name is empty if it is unknown."""

    name: Parts = ()


class TemporaryViews:
    """The temporary views and functions of one session, or those of all sessions."""

    def __init__(self, *, shared: bool = False) -> None:
        """`shared`: they can also be created bypassing this gateway, so it is never certain what they read."""
        self._shared = shared
        self._made: dict[str, dict[str, Made]] = {}
        """By the folded name, and then by its spelling: with spark.sql.caseSensitive `V` and `v` are two."""
        self._doubtful: dict[str, Underlying] = {}
        """What doubtful views may read, by folded name; under ANY for views with unknown names."""
        self._open: dict[UncertainChange, None] = {}
        self.leaving: set[TemporaryViewLeaves] = set()
        """Represents the statements that may drop one, and have not ended as far as known."""

    # --- lookup ------------------------------------------------------------------------------------

    def __contains__(self, name: str) -> bool:
        """Whether a view certainly has this folded name."""
        return name in self._made

    @property
    def names(self) -> Set[str]:
        """The names that views have or may have; with ANY if that may be any name."""
        names = self._made.keys() | self._doubtful.keys()
        for change in self._open:
            names |= {made.name.lower() for made in change.made}
        return names | {ANY} if self._shared else names

    def may_have(self, name: str) -> bool:
        """Whether a view has or may have this folded name."""
        if self._shared or name in self._made or not {name, ANY}.isdisjoint(self._doubtful):
            return True
        return any(made.name.lower() in {name, ANY} for change in self._open for made in change.made)

    @property
    def nameless(self) -> bool:
        """Whether a view with an unknown name may exist."""
        return ANY in self._doubtful

    def mentioned(self, words: Words) -> bool:
        """Whether a text with these words may name one."""
        if self._shared or self._open:
            names = self.names
            return ANY in names or not words.isdisjoint(names)
        return ANY in self._doubtful or not (words.isdisjoint(self._made) and words.isdisjoint(self._doubtful))

    def reads(self, name: str) -> Underlying:
        """What the views with this folded name read or may read; NOTHING if there is none."""
        found = ANYTHING if self._shared else self._doubtful.get(ANY, NOTHING)
        found |= self._doubtful.get(name, NOTHING)
        for made in self._made.get(name, {}).values():
            found |= made.reads
        for change in self._open:
            for made in change.made:
                if made.name.lower() in {name, ANY}:
                    found |= made.reads.doubted
        return found

    # --- changes -----------------------------------------------------------------------------------

    def begin(self, change: UncertainChange) -> None:
        """A statement is about to be forwarded. From now on its changes may have happened, so what it drops is
        doubtful."""
        self._open[change] = None
        for name in change.dropped:
            self.doubt(name)

    def end(self, change: UncertainChange, end: End) -> None:
        """The statement has ended."""
        if self._open.pop(change, self) is self or end in _NOT_DONE:
            return
        if end is End.SUCCEEDED:
            for name in change.dropped:
                self._doubtful.pop(name, None)
        for made in change.made:
            self._add(made, surely=end is End.SUCCEEDED)

    def _add(self, made: Made, *, surely: bool) -> None:
        folded = made.name.lower()
        if not surely or folded == ANY:
            self.may_make(folded, made.reads)
        else:
            self._made.setdefault(folded, {})[made.name] = made

    def doubt(self, name: str) -> None:
        """A statement may drop the views that certainly have this folded name."""
        for made in self._made.pop(name, {}).values():
            self.may_make(name, made.reads)

    def may_make(self, name: str, reads: Underlying) -> None:
        """A view with this folded name may exist; an empty name stands for any."""
        self._doubtful[name] = self._doubtful.get(name, NOTHING) | reads.doubted

    def tell(self, names: Iterable[str]) -> None:
        """Takes the folded names of all existing views from Spark: a view with an unknown name has one of them."""
        reads = self._doubtful.pop(ANY, None)
        for name in names:
            if reads is not None and name not in self._made:
                self.may_make(name, reads)

    def clear(self) -> None:
        """Forgets all views, because Spark went away."""
        self._made.clear()
        self._doubtful.clear()
        self._open.clear()


@dataclass(slots=True)
class SharedViews:
    """The temporary views of all sessions, which are in their own database."""

    database: str = GLOBAL_TEMPORARY
    """The folded name of that database, spark.sql.globalTempDatabase."""
    views: TemporaryViews = field(default_factory=lambda: TemporaryViews(shared=True))


@dataclass(frozen=True, slots=True)
class Reachable:
    """The temporary views that a statement can name: those of its session, and those of all sessions."""

    own: TemporaryViews
    shared: SharedViews

    def of(self, parts: Parts) -> TemporaryViews | None:
        """The views among which this name would be; None if it cannot name a temporary view."""
        if len(parts) == 1:
            return self.own
        elsewhere = len(parts) > 3 or (len(parts) == 3 and parts[0].lower() != SESSION_CATALOG)
        return self.shared.views if parts[-2].lower() == self.shared.database and not elsewhere else None

    def place(self, parts: Parts, *, shared: bool) -> TemporaryViews:
        """The views to which CREATE adds this name. `shared`: whether it says GLOBAL."""
        return self.shared.views if shared else self.of(parts) or self.own

    def mentioned(self, words: Words) -> bool:
        return self.own.mentioned(words) or self.shared.database in words

    def may_be(self, parts: Parts) -> bool:
        views = self.of(parts)
        return views is not None and views.may_have(parts[-1].lower())

    def among(self, names: Iterable[Parts], others: Set[str]) -> set[Parts]:
        """The names that temporary views may have, or whose last parts are among `others`. Fast even for the tens of
        thousands of names in a text that is not understood."""
        known = others | self.own.names
        return {parts for parts in names if ANY in known or parts[-1].lower() in known or self._is_shared(parts)}

    def _is_shared(self, parts: Parts) -> bool:
        return len(parts) > 1 and self.of(parts) is not None

    def reads(self, parts: Parts) -> Underlying:
        """What the temporary view or function with this name reads; NOTHING if there is none."""
        views = self.of(parts)
        return NOTHING if views is None else views.reads(parts[-1].lower())

    def is_made_for_all(self, parts: Parts) -> bool:
        """Whether a view that is created under this name is one of all sessions: the name begins with `global_temp`,
        whatever their database is called."""
        return parts[0] == GLOBAL_TEMPORARY and len(parts) > 1
