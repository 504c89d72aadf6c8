"""Temporary views and functions: what a name reads that lives in a session, or in all of them."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass

from gateway.service.operation import End
from sql.hidden import GLOBAL_TEMPORARY
from sql.names import TableName
from sql.statement import Parts

ANY = ""
"""Stands for every name."""


class TemporaryViews:
    """Those of one session, or those of `global_temp`. What a name stands for may change, so names lead to names."""

    def __init__(self) -> None:
        self._reads: dict[str, frozenset[TableName]] = {}
        self._perhaps: dict[str, frozenset[TableName]] = {}
        """By names that one may have, and by ANY where one may have any."""

    def __contains__(self, name: str) -> bool:
        """Whether one has had the name, surely."""
        return name in self._reads

    @property
    def names(self) -> Set[str]:
        """Those that one has, or may have; ANY among them where that is every name."""
        return self._reads.keys() | self._perhaps.keys()

    def mentioned(self, words: frozenset[str]) -> bool:
        """Whether a text of these words may name one."""
        return ANY in self._perhaps or not (words.isdisjoint(self._reads) and words.isdisjoint(self._perhaps))

    def reads(self, name: str) -> frozenset[TableName]:
        """What one of that name reads, or may read; nothing where there is none."""
        perhaps = self._perhaps.get(name, frozenset()) | self._perhaps.get(ANY, frozenset())
        return self._reads.get(name, frozenset()) | perhaps

    def add(self, name: str, reads: frozenset[TableName], end: End) -> None:
        """A statement that makes one has ended."""
        if end not in {End.FAILED, End.REFUSED}:
            self._reads[name] = reads if end is End.SUCCEEDED else reads | self._reads.get(name, frozenset())

    def suspect(self, name: str, reads: frozenset[TableName]) -> None:
        """A statement that was not understood may make one of that name, or of any where it is empty."""
        self._perhaps[name] = reads | self._perhaps.get(name, frozenset())

    def drop(self, name: str) -> None:
        """One that a name surely had is gone."""
        self._reads.pop(name, None)

    def clear(self) -> None:
        self._reads.clear()
        self._perhaps.clear()


@dataclass(frozen=True, slots=True)
class Reachable:
    """What a statement can name: the views of its session, and those of all sessions."""

    own: TemporaryViews
    shared: TemporaryViews

    def of(self, parts: Parts) -> TemporaryViews | None:
        """Where one of that name would be; None where the name is of something else."""
        if len(parts) == 1:
            return self.own
        return self.shared if parts[-2].lower() == GLOBAL_TEMPORARY else None

    def mentioned(self, words: frozenset[str]) -> bool:
        return self.own.mentioned(words) or (GLOBAL_TEMPORARY in words and self.shared.mentioned(words))

    def may_be(self, parts: Parts) -> bool:
        views = self.of(parts)
        return views is not None and not views.names.isdisjoint((parts[-1].lower(), ANY))

    def among(self, names: Iterable[Parts], others: Set[str]) -> set[Parts]:
        """Those of many names that may be one's, or whose last parts are among the `others`: a text that is not
        understood may have tens of thousands."""
        known = others | self.own.names | self.shared.names
        return {parts for parts in names if ANY in known or parts[-1].lower() in known}

    def reads(self, parts: Parts) -> frozenset[TableName]:
        """What a temporary view or function of that name reads; nothing where it is none."""
        views = self.of(parts)
        return frozenset() if views is None else views.reads(parts[-1].lower())

    def add(self, parts: Parts, reads: frozenset[TableName], end: End) -> None:
        """A statement that makes one has ended. It has a name of its own only within `global_temp`."""
        (self.of(parts) or self.own).add(parts[-1].lower(), reads, end)

    def suspect(self, made: Iterable[Parts], reads: frozenset[TableName]) -> None:
        """A statement that was not understood may make these; an empty name stands for any."""
        for parts in made:
            (self.of(parts) or self.own).suspect(parts[-1].lower(), reads)
