"""A session's transaction: the versions of materialized views that it reads until its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gateway.mv.model.view import Version
from sql.names import TableName

SETTING = "freshgate.snapshot"
"""`session`: the whole session is one transaction, so each view keeps the version of its first use. `statement`: none.
"""
VALUES = ("session", "statement")
MARK, OPEN = "freshgate.transaction", "open"
"""A setting of Spark's session, by which the next gateway knows that its transaction was open."""


@dataclass(frozen=True, slots=True)
class Pin:
    """A version that is kept for the transaction until `release` is called."""

    version: Version
    release: Callable[[], None]


@dataclass(slots=True)
class Transaction:
    """The versions that a session sees, by view id, while the transaction is `active`."""

    open: bool = False
    """Whether BEGIN has been executed, and not yet COMMIT or ROLLBACK."""
    session: bool = False
    """Whether SETTING is `session`."""
    pins: dict[str, Pin] = field(default_factory=dict)
    names: dict[TableName, str] = field(default_factory=dict)
    """The view ids by name, because a name must keep its meaning during the transaction."""
    epoch: int = 0
    """Increases with each transaction, so that a statement that waited for a refresh can tell if its own is over."""

    @classmethod
    def of(cls, configuration: Mapping[str, str]) -> Transaction:
        """The state at the start of a session: drivers pass settings as `set:hiveconf:name`."""
        said = [value for key, value in configuration.items() if key.lower().endswith(SETTING)]
        return cls(session=bool(said) and said[-1].lower() == "session")

    @property
    def active(self) -> bool:
        return self.open or self.session

    def set_session(self, whole: bool) -> None:
        self.session = whole
        self._settle()

    def begin(self) -> None:
        if not self.active:
            self._release()
        self.open = True

    def end(self) -> None:
        self.open = False
        self._settle()

    def drop(self) -> None:
        """The session is over, or Spark has lost it."""
        self.open = False
        self._release()

    def _settle(self) -> None:
        if not self.active:
            self._release()

    def _release(self) -> None:
        self.epoch += 1
        self.names.clear()
        pins, self.pins = self.pins, {}
        for pin in pins.values():
            pin.release()
