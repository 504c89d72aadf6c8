"""What is known of a statement for Spark, once its text and its session are read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

from gateway.service.clients.session import Session
from gateway.service.clients.temporary_views import TemporaryViewLeaves
from gateway.service.routing.first_words import may_write_after_all
from sql.names import Namespace, Parts, TableName
from sql.statement import Forwarded, Glance, Reference
from sql.understood import Understood


@dataclass(frozen=True, slots=True)
class Facts:
    """A statement in its session."""

    session: Session
    namespace: Namespace
    """In which its names are resolved."""
    known: Understood
    statement: Forwarded
    """What it reads, writes and changes: that of `known`, or one step of a script."""
    targets: tuple[TableName, ...]
    """The tables that it names as written."""
    writes: bool
    """Whether it may write."""
    composed: bool
    """Whether it also has names that are not in its text."""
    claim: TemporaryViewLeaves | None = None
    """If it certainly changes a temporary view."""

    @classmethod
    def of(
        cls, session: Session, namespace: Namespace, known: Understood, claim: TemporaryViewLeaves | None = None
    ) -> Self:
        statement = known.sparks
        targets = resolved(statement.writes, namespace)
        composed = not statement.exact and (known.composes or statement.everything)
        return cls(session, namespace, known, statement, targets, may_write_after_all(known), composed, claim)

    def respelled(self, known: Understood) -> Facts:
        """Those of the same statement in another spelling."""
        return self.of(self.session, self.namespace, known, self.claim)

    def step(self, statement: Forwarded, *, composed: bool) -> Facts:
        """Those of one statement of this script."""
        return replace(self, statement=statement, targets=resolved(statement.writes, self.namespace), composed=composed)

    @property
    def look(self) -> Glance:
        return self.known.look

    @property
    def changed(self) -> tuple[Parts, ...]:
        """The names that it names as written, without that of a temporary view."""
        claimed = None if self.claim is None else self.claim.name
        return tuple(parts for parts in self.statement.writes if parts != claimed)

    @property
    def adrift(self) -> bool:
        """Whether another database or catalog than that of `namespace` may be current in the session by now."""
        return self.session.namespace_doubtful

    def mentions(self, name: TableName) -> list[Reference]:
        """The mentions of this relation."""
        spelt = {reference.parts for reference in self.statement.reads}
        spelt = {parts for parts in spelt if TableName.resolve(parts, self.namespace) == name}
        return [reference for reference in self.statement.reads if reference.parts in spelt]


def resolved(names: Iterable[Parts], namespace: Namespace) -> tuple[TableName, ...]:
    return tuple(TableName.resolve(parts, namespace) for parts in names)


@dataclass(frozen=True, slots=True)
class ViewsRead:
    """The materialized views that a statement reads, by id.

    `direct` are named in it, `below` are read through Spark views. `perhaps` are views that it may read: a temporary
    view with the same name may be gone, or the statement builds names at run time. The statement never builds these,
    and never fails because of them.
    """

    direct: frozenset[str] = frozenset()
    below: frozenset[str] = frozenset()
    perhaps: frozenset[str] = frozenset()

    @property
    def all(self) -> frozenset[str]:
        return self.direct | self.below | self.perhaps

    @property
    def sure(self) -> frozenset[str]:
        return self.direct | self.below
