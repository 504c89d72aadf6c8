"""Temporary views and functions: what a name reads that lives in a session, or in all of them."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, field

from gateway.service.operations.operation import End
from sql.names import SESSION_CATALOG, TableName
from sql.reading.hidden import GLOBAL_TEMPORARY
from sql.statement import Parts
from sql.words import Words

ANY = ""
"""Stands for every name."""
_NOT_DONE = frozenset({End.FAILED, End.REFUSED})


@dataclass(frozen=True, slots=True)
class Reads:
    """What a temporary view or function reads, as far as the gateway knows."""

    surely: frozenset[TableName] = frozenset()
    perhaps: frozenset[TableName] = frozenset()
    anything: bool = False
    """Nobody knows what it reads, if there is one: Spark must be asked."""

    def __or__(self, other: Reads) -> Reads:
        return Reads(self.surely | other.surely, self.perhaps | other.perhaps, self.anything or other.anything)

    @property
    def doubted(self) -> Reads:
        return Reads(perhaps=self.surely | self.perhaps, anything=self.anything)


NOTHING = Reads()
ANYTHING = Reads(anything=True)


@dataclass(frozen=True, slots=True)
class Made:
    """A temporary view or function that a statement makes: its name as it was spelled, and what it reads."""

    name: str
    reads: Reads
    function: bool = False


@dataclass(eq=False, slots=True)
class Change:
    """A statement that changes what names stand for, and whose end nobody has seen: each is true or not."""

    made: tuple[Made, ...] = ()
    dropped: tuple[str, ...] = ()
    """Folded."""


class TemporaryViews:
    """Those of one session, or those of all sessions. What a name stands for may change, so names lead to names."""

    def __init__(self, *, shared: bool = False) -> None:
        """`shared`: others make them, too, past this gateway; of none is surely known what it reads."""
        self._shared = shared
        self._made: dict[str, dict[str, Made]] = {}
        """By the folded name, and then by its spelling: with spark.sql.caseSensitive `V` and `v` are two."""
        self._perhaps: dict[str, Reads] = {}
        """By names that one may have, and by ANY where one may have any."""
        self._open: dict[Change, None] = {}
        self.leaving: set[object] = set()
        """What stands for statements that may take one away, and have not ended as far as is known."""

    # --- what there is -----------------------------------------------------------------------------

    def __contains__(self, name: str) -> bool:
        """Whether one has had the name, surely. Folded."""
        return name in self._made

    @property
    def names(self) -> Set[str]:
        """Those that one has, or may have; ANY among them where that is every name."""
        names = self._made.keys() | self._perhaps.keys()
        for change in self._open:
            names |= {made.name.lower() for made in change.made}
        return names | {ANY} if self._shared else names

    def may_have(self, name: str) -> bool:
        """Whether it is one of `names`, or any may be. Folded."""
        if self._shared or name in self._made or not {name, ANY}.isdisjoint(self._perhaps):
            return True
        return any(made.name.lower() in {name, ANY} for change in self._open for made in change.made)

    @property
    def nameless(self) -> bool:
        """One may have been made whose name nobody knows."""
        return ANY in self._perhaps

    def mentioned(self, words: Words) -> bool:
        """Whether a text of these words may name one."""
        if self._shared or self._open:
            names = self.names
            return ANY in names or not words.isdisjoint(names)
        return ANY in self._perhaps or not (words.isdisjoint(self._made) and words.isdisjoint(self._perhaps))

    def reads(self, name: str) -> Reads:
        """What one of that name reads, or may read; nothing where there is none. Folded."""
        found = ANYTHING if self._shared else self._perhaps.get(ANY, NOTHING)
        found |= self._perhaps.get(name, NOTHING)
        for made in self._made.get(name, {}).values():
            found |= made.reads
        for change in self._open:
            for made in change.made:
                if made.name.lower() in {name, ANY}:
                    found |= made.reads.doubted
        return found

    # --- statements that change it -----------------------------------------------------------------

    def begin(self, change: Change) -> None:
        """A statement is about to be forwarded. From here on it may be done, and may be not: what it drops is not
        surely there any more."""
        self._open[change] = None
        for name in change.dropped:
            self.doubt(name)

    def end(self, change: Change, end: End) -> None:
        """It has ended."""
        if self._open.pop(change, self) is self or end in _NOT_DONE:
            return
        if end is End.SUCCEEDED:
            for name in change.dropped:
                self._perhaps.pop(name, None)
        for made in change.made:
            self._add(made, surely=end is End.SUCCEEDED)

    def _add(self, made: Made, *, surely: bool) -> None:
        folded = made.name.lower()
        if not surely or folded == ANY:
            self.suspect(folded, made.reads)
        else:
            self._made.setdefault(folded, {})[made.name] = made

    def doubt(self, name: str) -> None:
        """A statement may drop what surely has the name. Folded."""
        for made in self._made.pop(name, {}).values():
            self.suspect(name, made.reads)

    def suspect(self, name: str, reads: Reads) -> None:
        """There may be one of that name, or of any where it is empty. Folded."""
        self._perhaps[name] = self._perhaps.get(name, NOTHING) | reads.doubted

    def tell(self, names: Iterable[str]) -> None:
        """Spark has told the names of all there are: what may have any name has one of these. Folded."""
        reads = self._perhaps.pop(ANY, None)
        for name in names:
            if reads is not None and name not in self._made:
                self.suspect(name, reads)

    def clear(self) -> None:
        """Spark went away with all of them."""
        self._made.clear()
        self._perhaps.clear()
        self._open.clear()


@dataclass(slots=True)
class SharedViews:
    """The temporary views of all sessions, which live in a database of their own."""

    database: str = GLOBAL_TEMPORARY
    """Its name, spark.sql.globalTempDatabase; folded."""
    views: TemporaryViews = field(default_factory=lambda: TemporaryViews(shared=True))


@dataclass(frozen=True, slots=True)
class Reachable:
    """What a statement can name: the views of its session, and those of all sessions."""

    own: TemporaryViews
    shared: SharedViews

    def of(self, parts: Parts) -> TemporaryViews | None:
        """Where one of that name would be; None where the name is of something else."""
        if len(parts) == 1:
            return self.own
        elsewhere = len(parts) > 3 or (len(parts) == 3 and parts[0].lower() != SESSION_CATALOG)
        return self.shared.views if parts[-2].lower() == self.shared.database and not elsewhere else None

    def place(self, parts: Parts, *, shared: bool) -> TemporaryViews:
        """Where CREATE puts one of that name; `shared`: it says GLOBAL."""
        return self.shared.views if shared else self.of(parts) or self.own

    def mentioned(self, words: Words) -> bool:
        return self.own.mentioned(words) or self.shared.database in words

    def may_be(self, parts: Parts) -> bool:
        views = self.of(parts)
        return views is not None and views.may_have(parts[-1].lower())

    def among(self, names: Iterable[Parts], others: Set[str]) -> set[Parts]:
        """Those of many names that may be one's, or whose last parts are among the `others`: a text that is not
        understood may have tens of thousands."""
        known = others | self.own.names
        return {parts for parts in names if ANY in known or parts[-1].lower() in known or self._is_shared(parts)}

    def _is_shared(self, parts: Parts) -> bool:
        return len(parts) > 1 and self.of(parts) is not None

    def reads(self, parts: Parts) -> Reads:
        """What a temporary view or function of that name reads; nothing where it is none."""
        views = self.of(parts)
        return NOTHING if views is None else views.reads(parts[-1].lower())

    def suspect(self, made: Iterable[Parts], reads: Reads) -> None:
        """A statement that was not understood may make these; an empty name stands for any. Those of all sessions
        begin with `global_temp`, whatever their database is called."""
        for parts in made:
            views = self.shared.views if parts[0] == GLOBAL_TEMPORARY and len(parts) > 1 else self.own
            views.suspect(parts[-1].lower(), reads)
