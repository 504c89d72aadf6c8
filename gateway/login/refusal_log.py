"""Logs refused logins: each of the first ones of an address, then their number once in a while.

Tests: `test_address_turns`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

log = logging.getLogger(__name__)

LINES = 20
"""Refusals of an address that are logged one by one within `SECONDS`."""
SECONDS = 60.0
ADDRESSES_MAX = 100
"""Addresses that are counted one by one at a time; those of others are counted together."""
_OTHERS = "other addresses"


class RefusalLog:
    """Counts by address. Needs the event loop."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def refused(self, who: str, peer: str, reason: str) -> None:
        """`who` is logged as it is. `peer` is the client's address with its port."""
        address = peer.rpartition(":")[0] or peer or "unknown"
        if address not in self._counts and len(self._counts) >= ADDRESSES_MAX:
            address = _OTHERS
        if not self._counts[address]:
            asyncio.get_running_loop().call_later(SECONDS, self._sum_up, address)
        self._counts[address] += 1
        if self._counts[address] <= LINES:
            log.warning("login of %s from %s refused: %s", who, peer or "unknown", reason)

    def _sum_up(self, address: str) -> None:
        more = self._counts.pop(address) - LINES
        if more > 0:
            log.warning("%d more logins from %s were refused within %g seconds", more, address, SECONDS)
