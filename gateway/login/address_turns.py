"""Lets no address keep others from logging in: each has a share of the checks at a time, a smaller one after refusals.

Tests: `test_address_turns`.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from gateway.login.verifier import Unavailable

WAITING_MAX = 64
"""Logins of one address that wait; further ones are refused for now. A hash of a password takes a twentieth of a
second."""
SUSPECT_AFTER = 20
"""After so many refused logins within `SUSPECT_SECONDS`, an address has one check at a time: many users may share an
address, and few of them mistype their passwords together."""
SUSPECT_SECONDS = 60.0
ADDRESSES_MAX = 10_000
"""Addresses whose refused logins are remembered."""


@dataclass(slots=True)
class _Address:
    checks: int = 0
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)
    refused: deque[float] = field(default_factory=lambda: deque(maxlen=SUSPECT_AFTER))
    """When its last logins were refused."""

    @property
    def idle(self) -> bool:
        return not self.checks and not self.waiting


class AddressTurns:
    """Checks of logins by the addresses of clients, on the event loop."""

    def __init__(self, share: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`share`: checks of an address at the same time."""
        self._share = max(1, share)
        self._clock = clock
        self._addresses: OrderedDict[str, _Address] = OrderedDict()
        """The one used last is the last one."""

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[None]:
        """Waits for a turn of the address. Raises Unavailable if too many of its logins wait."""
        address = self._addresses.setdefault(name, _Address())
        self._addresses.move_to_end(name)
        await self._enter(address, name)
        try:
            yield
        finally:
            address.checks -= 1
            self._admit(address)
            self._forget()

    def refused(self, name: str) -> None:
        """A login from this address was refused."""
        if (address := self._addresses.get(name)) is not None:
            address.refused.append(self._clock())

    def is_suspect(self, name: str) -> bool:
        address = self._addresses.get(name)
        return address is not None and self._limit(address) < self._share

    def _limit(self, address: _Address) -> int:
        last = address.refused
        recent = len(last) == SUSPECT_AFTER and self._clock() - last[0] < SUSPECT_SECONDS
        return 1 if recent else self._share

    async def _enter(self, address: _Address, name: str) -> None:
        if not address.waiting and address.checks < self._limit(address):
            address.checks += 1
            return
        if len(address.waiting) >= WAITING_MAX:
            raise Unavailable(f"{len(address.waiting)} logins from {name or 'its address'} are already waiting")
        turn = asyncio.get_running_loop().create_future()
        address.waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                address.checks -= 1  # It had just been admitted.
                self._admit(address)
            else:
                address.waiting.remove(turn)
            raise

    def _admit(self, address: _Address) -> None:
        while address.waiting and address.checks < self._limit(address):
            turn = address.waiting.popleft()
            if not turn.done():
                address.checks += 1
                turn.set_result(None)

    def _forget(self) -> None:
        """Forgets addresses that have not been used for the longest time."""
        for name in list(self._addresses)[: max(0, len(self._addresses) - ADDRESSES_MAX)]:
            if self._addresses[name].idle:
                del self._addresses[name]
