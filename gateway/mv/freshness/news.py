"""The events of the catalog."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto

from gateway.mv.model.view import Leftover, MaterializedView, Version
from gateway.mv.subscribers import Subscribers
from sql.names import TableName


class Life(Enum):
    """What happens to a view besides refreshes."""

    CREATED = auto()
    ALTERED = auto()
    RENAMED = auto()
    DROPPED = auto()
    ABANDONED = auto()
    """Its CREATE was given up: it never existed."""


class News:
    """The subscribers of each kind of event. `gateway.assembly` adds them."""

    def __init__(self) -> None:
        self.touched: Subscribers[[Iterable[TableName]]] = Subscribers()
        """Statements may have changed these tables."""
        self.unread: Subscribers[[Iterable[TableName]]] = Subscribers()
        """No view reads these tables any longer."""
        self.stale: Subscribers[[Iterable[str], str]] = Subscribers()
        """The views with these ids have become stale; and what has changed."""
        self.moved: Subscribers[[Iterable[TableName]]] = Subscribers()
        """These names now belong to other views, or to none."""
        self.vouched: Subscribers[[str]] = Subscribers()
        """A user has said that the view with this id may answer queries that do not name it."""
        self.altered: Subscribers[[str]] = Subscribers()
        """The view with this id has other properties or reads others."""
        self.published: Subscribers[[str]] = Subscribers()
        """The view with this id has a new version."""
        self.leftover: Subscribers[[str, Leftover, Version | None]] = Subscribers()
        """A leftover of the view with this id; and the version that was replaced, if any, which may still have
        readers."""
        self.lives: Subscribers[[Life, MaterializedView, TableName]] = Subscribers()
        """What has happened to a view, as it is then; and its name before that."""
        self.replaced: Subscribers[[Leftover, Version]] = Subscribers()
        """Replaced versions that were found in the metastore, and the current one."""
