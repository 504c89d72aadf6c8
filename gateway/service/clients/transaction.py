"""What a session's transaction has seen: the version of each materialized view that it reads until its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gateway.mv.model.view import Version
from sql.names import TableName

SETTING = "freshgate.snapshot"
"""`session`: everything that a session reads is one transaction, from the view's first use on. `statement`: none is."""
VALUES = ("session", "statement")


@dataclass(frozen=True, slots=True)
class Pin:
    """One version that is held; `release` lets it go."""

    version: Version
    release: Callable[[], None]


@dataclass(slots=True)
class Transaction:
    """The versions that a session is to see, by view id, while it is `active`."""

    open: bool = False
    """Between BEGIN and COMMIT or ROLLBACK."""
    session: bool = False
    """By the setting."""
    pins: dict[str, Pin] = field(default_factory=dict)
    names: dict[TableName, str] = field(default_factory=dict)
    """Under which names: what one means must not change."""
    epoch: int = 0
    """Grows with each transaction: one that waits for a refresh may find that its own is over."""

    @classmethod
    def of(cls, configuration: Mapping[str, str]) -> Transaction:
        """As a client's session begins: drivers hand settings on as `set:hiveconf:name`."""
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
