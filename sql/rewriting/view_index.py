"""The rewritable views by the names of their base tables, which a query that they answer must contain."""

from __future__ import annotations

from collections.abc import Iterable

from sql.rewriting.candidate import RewritableView
from sql.words import Words


class ViewIndex:
    """The views that take part in rewriting. It does not change."""

    __slots__ = ("_views", "words")

    def __init__(self, views: Iterable[RewritableView] = ()) -> None:
        self._views = tuple((frozenset(base.table for base in view.bases), view) for view in views)
        self.words: frozenset[str] = frozenset().union(*(names for names, _ in self._views))
        """A text with none of them is answered by no view: `words.isdisjoint(index.words)` is all that it costs."""

    def fitting(self, words: Words) -> list[RewritableView]:
        """The views of which a text mentions every base table; `words` are those of the text."""
        found = words & self.words
        return [view for names, view in self._views if names and names <= found]
