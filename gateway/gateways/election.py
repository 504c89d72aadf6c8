"""Decides whether this gateway follows another one, takes over, or ends its own term. Without I/O.

A wrong suspicion costs clients their sessions, never rows: who writes is decided by the fence alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from gateway.mv.catalog.presence import Presence

HEIR_LOOKS = 8
"""Looks at the mark of a leader that has handed over, four a second, before others than its heir take over."""


class Phase(Enum):
    DOOR = "door"
    """Passes its clients to the leader, or holds them until one is known."""
    SUSPECTING = "suspecting"
    """As a door, but the leader does not answer."""
    CANDIDATE = "candidate"
    """Begins a term: takes the mark and loads the catalog."""
    LEADING = "leading"
    RETIRING = "retiring"
    """A door again, while its last term ends."""


# --- events ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Seen:
    """What the storage database says. `mark` is that of another gateway, or of an earlier term of this one; empty if
    there is none."""

    mark: str
    relay: str
    presence: Presence


@dataclass(frozen=True, slots=True)
class Linked:
    """The gateway with this mark has accepted the connection by which it is watched."""

    mark: str


@dataclass(frozen=True, slots=True)
class Silent:
    """It does not answer. It may be slow, or the network may be cut."""

    mark: str


@dataclass(frozen=True, slots=True)
class Vacant:
    """Nothing listens where it did, or the gateway there says that it does not lead."""

    mark: str


@dataclass(frozen=True, slots=True)
class Registered:
    """It is registered in ZooKeeper, or, if not `present`, is not any more: its session there has ended."""

    mark: str
    present: bool


@dataclass(frozen=True, slots=True)
class Leaving:
    """It is being stopped, and hands over. `heir`: to this gateway."""

    mark: str
    heir: bool


class OwnTerm(Enum):
    """Events of the own term."""

    WON = "won"
    """It serves clients."""
    FAILED = "failed"
    """It could not be begun, and has ended."""
    SUPERSEDED = "superseded"
    """Another gateway has put its mark."""
    YIELDED = "yielded"
    """It hands over to another gateway, because this one is being stopped."""
    ENDED = "ended"


Event = Leaving | Seen | Linked | Silent | Vacant | Registered | OwnTerm


# --- decisions ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Follow:
    """Pass clients to this gateway, and watch it."""

    mark: str
    relay: str


class Act(Enum):
    LOOK = "look"
    """Look at the mark at once."""
    CAMPAIGN = "campaign"
    """Begin a term."""
    PREPARE = "prepare"
    """Do what a term needs before it begins, as far as that changes nothing."""
    RETIRE = "retire"
    """End the term."""


Decision = Follow | Act


@dataclass(frozen=True, slots=True)
class Election:
    """A state."""

    phase: Phase = Phase.DOOR
    mark: str = ""
    """That of the gateway which is followed; empty: none is known."""
    linked: bool = False
    """It has accepted a connection at some time. One that never did may just be unreachable from here."""
    vacant: bool = False
    """It was linked, and nobody leads there any more."""
    leaving: bool = False
    """It is being stopped: it closes its clients itself."""
    heir: bool = False
    """This gateway is to take over from it."""
    patience: int = 0
    """For how many looks this gateway lets another one take over first."""
    missing: bool = False
    """It was registered in ZooKeeper, and is not any more. It may just have lost ZooKeeper."""

    def after(self, event: Event) -> tuple[Election, Decision | None]:
        """The state after an event, and what to do."""
        match event:
            case Seen():
                return self._seen(event)
            case OwnTerm():
                return self._turn(event)
        if event.mark != self.mark or self.phase in (Phase.CANDIDATE, Phase.LEADING):
            return self, None
        if isinstance(event, Registered):
            return replace(self, missing=not event.present), None if event.present else Act.LOOK
        if isinstance(event, Leaving):
            if event.heir:
                return replace(self, leaving=True, heir=True, patience=0), Act.PREPARE
            return replace(self, leaving=True, patience=0 if self.heir else HEIR_LOOKS), None
        if isinstance(event, Linked):
            return replace(self, phase=self._passing(Phase.DOOR), linked=True, vacant=False), None
        if isinstance(event, Vacant) and self.linked:
            return replace(self, phase=self._passing(Phase.SUSPECTING), vacant=True), Act.LOOK
        return replace(self, phase=self._passing(Phase.SUSPECTING)), None

    def _passing(self, phase: Phase) -> Phase:
        return Phase.RETIRING if self.phase is Phase.RETIRING else phase

    @property
    def _dead(self) -> bool:
        """Whether the one that is followed has certainly ended, or has left the network."""
        return self.vacant or (self.missing and self.linked and self.phase is Phase.SUSPECTING)

    def _seen(self, event: Seen) -> tuple[Election, Decision | None]:
        if self.phase in (Phase.CANDIDATE, Phase.LEADING):
            return self, None
        if event.presence is Presence.GONE or (self._dead and event.mark == self.mark):
            if self.phase is Phase.RETIRING:
                return self, None
            if self.patience and event.mark == self.mark:
                return replace(self, patience=self.patience - 1), None
            return Election(Phase.CANDIDATE), Act.CAMPAIGN
        if event.mark == self.mark:
            return self, None
        return Election(self._passing(Phase.DOOR), event.mark), Follow(event.mark, event.relay)

    def _turn(self, event: OwnTerm) -> tuple[Election, Decision | None]:
        match self.phase, event:
            case Phase.CANDIDATE, OwnTerm.WON:
                return Election(Phase.LEADING), None
            case Phase.CANDIDATE, OwnTerm.FAILED:
                return Election(), None
            case Phase.LEADING, OwnTerm.SUPERSEDED:
                return Election(Phase.RETIRING), Act.RETIRE
            case Phase.LEADING, OwnTerm.YIELDED:
                return Election(Phase.RETIRING), None
            case Phase.RETIRING, OwnTerm.ENDED:
                return replace(self, phase=Phase.DOOR), None
        return self, None
