"""Which views are in memory if there is not room for all of them, and what is to be done for that.

Everything here is computed from values: `residency` carries it out. Tests: `test_room`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gateway.mv.model.residence import Wish

STAY_MS = 600_000
"""A view in memory makes room only for one that was read so much later: otherwise two views that are read in turns
would displace each other with each read."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A view that is wanted in memory, or is there."""

    view: str
    wish: Wish | None
    """None: it is no longer wanted."""
    used_at: int
    """When it was last read, in milliseconds since the epoch."""
    bytes: int
    """What the rows of its current version take in memory, about; exactly, if they are there."""
    held: int | None = None
    """Bytes of its rows in memory, of whatever version."""
    current: bool = False
    """Whether these are the rows of its current version."""
    loading: bool = False
    ready: bool = True
    """Whether it may be loaded now."""
    barred: str = ""
    """Why its rows must not be in memory; empty if they may be."""

    @property
    def rank(self) -> tuple[bool, int, str]:
        """Views of lower rank come first."""
        stays = STAY_MS if self.held is not None or self.loading else 0
        return self.wish is Wish.READS, -(self.used_at + stays), self.view


NO_ROOM = "room"
OUTDATED = "outdated"
UNWANTED = "unwanted"
BARRED = "barred"


@dataclass(frozen=True, slots=True)
class Steps:
    """What is to be done, in this order."""

    drops: Mapping[str, str]
    """Why the rows of these views are dropped: one of the words above."""
    cancels: frozenset[str]
    """Views that need not be loaded any more."""
    loads: tuple[str, ...]
    """Views to load."""
    chosen: frozenset[str]
    """The views for which there is room."""


def allot(claims: Iterable[Claim], room: int) -> frozenset[str]:
    """The views for which there is room, in bytes: those that say so before those that are read often, and of each
    kind those that were read last."""
    chosen = set[str]()
    for each in sorted(claims, key=lambda each: each.rank):
        if each.bytes <= room:
            room -= each.bytes
            chosen.add(each.view)
    return frozenset(chosen)


def plan(claims: Iterable[Claim], room: int, places: int) -> Steps:
    """What is to be done so that the views for which there is room are in memory. `places`: how many more views may be
    loaded at once. What is loaded fits into `room` together with what is there and what is being loaded."""
    everything = list(claims)
    wanted = [each for each in everything if each.wish is not None and not each.barred]
    chosen = allot((each for each in wanted if each.ready or each.loading or each.held is not None), room)
    drops = {
        each.view: BARRED if each.barred else UNWANTED if each.wish is None else NO_ROOM
        for each in everything
        if each.held is not None and each.view not in chosen
    }
    left = room
    for each in everything:
        left -= each.bytes if each.loading else 0
        left -= each.held if each.held is not None and each.view not in drops else 0
    loads = list[str]()
    for each in sorted(wanted, key=lambda each: each.rank):
        if each.view not in chosen or each.current or each.loading or not each.ready or len(loads) >= places:
            continue
        if each.held is not None and each.bytes > left:
            drops[each.view] = OUTDATED
            left += each.held
        if each.bytes <= left:
            left -= each.bytes
            loads.append(each.view)
    cancels = frozenset(each.view for each in everything if each.loading and each.view not in chosen)
    return Steps(drops, cancels, tuple(loads), chosen)
