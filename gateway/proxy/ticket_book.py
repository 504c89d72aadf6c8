"""The tickets of sessions that belong to no connection: the gateway that leads writes them, and each door has a copy,
so that the next leader has them.

Tests: `test_ticket_book`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from gateway.wire.chunks import TICKET_BYTES_MAX
from gateway.wire.frame import WireError

_KEPT, _DROPPED, _WHOLE = b"+", b"-", b"."
"""The first byte of a note: the session, whose key follows, has this ticket; it has none; and all that are kept have
been told since the copy was begun."""
KEY_BYTES = 16
TOLD_TOGETHER = 100
"""Tickets that a new door is told in one turn of the event loop."""


class Pen:
    """Writes tickets of one term, until the book copies those of another leader. Implements
    `service.clients.ticket.TicketKeeper`."""

    def __init__(self, book: TicketBook) -> None:
        self._book = book
        self.is_lifted = False
        self.on_copy: Callable[[], None] = lambda: None

    @property
    def is_copied(self) -> bool:
        return self._book.copies > 0

    def keep(self, key: bytes, ticket: bytes) -> None:
        if not self.is_lifted:
            self._book.keep(key, ticket)

    def drop(self, key: bytes) -> None:
        if not self.is_lifted:
            self._book.drop(key)


class TicketBook:
    """The tickets of one process, by the guids of sessions' handles."""

    def __init__(self) -> None:
        self._tickets: dict[bytes, bytes] = {}
        self._pen: Pen | None = None
        self._stale: set[bytes] = set()
        """Those that the leader of now has not told of."""
        self.tell: Callable[[bytes], None] = lambda note: None
        """Called with each change, while this gateway leads."""
        self.copies = 0
        """How many doors are told of changes."""

    def __len__(self) -> int:
        return len(self._tickets)

    # --- the leader ----------------------------------------------------------------------------------------

    def opened(self) -> tuple[Sequence[bytes], Pen]:
        """All tickets, for a term that begins: it goes on with these sessions, and writes their tickets anew."""
        self.close()
        self._pen = Pen(self)
        tickets, self._tickets = list(self._tickets.values()), {}
        self._stale.clear()
        return tickets, self._pen

    def close(self) -> None:
        """The term is over, and writes nothing any more."""
        if self._pen is not None:
            self._pen.is_lifted = True

    def keep(self, key: bytes, ticket: bytes) -> None:
        """Writes a ticket. A session whose ticket is too long goes on nowhere else."""
        if len(ticket) > TICKET_BYTES_MAX:
            self.drop(key)
        elif self._tickets.get(key) != ticket:
            self._tickets[key] = ticket
            self.tell(_KEPT + key + ticket)

    def drop(self, key: bytes) -> None:
        """Removes a ticket."""
        if self._tickets.pop(key, None) is not None:
            self.tell(_DROPPED + key)

    async def tell_all(self, tell: Callable[[bytes], None]) -> None:
        """Tells a new door, which `copies` counts already, everything; what changes meanwhile, it is told as well."""
        if self._pen is not None and not self._pen.is_lifted:
            self._pen.on_copy()
        for number, key in enumerate(list(self._tickets), start=1):
            if (ticket := self._tickets.get(key)) is not None:
                tell(_KEPT + key + ticket)
            if number % TOLD_TOGETHER == 0:
                await asyncio.sleep(0)
        tell(_WHOLE)

    # --- doors ---------------------------------------------------------------------------------------------

    def begin_copy(self) -> None:
        """A leader is about to tell everything. What an earlier one has told stays until then."""
        self.close()
        self._stale = set(self._tickets)

    def copy(self, note: bytes) -> None:
        """The leader has said this. Raises WireError for what it cannot say."""
        kind, key, ticket = note[:1], note[1 : 1 + KEY_BYTES], note[1 + KEY_BYTES :]
        if kind == _WHOLE and not key:
            for each in self._stale:
                self._tickets.pop(each, None)
            self._stale.clear()
        elif kind == _KEPT and ticket:
            self._tickets[key] = ticket
            self._stale.discard(key)
        elif kind == _DROPPED and len(key) == KEY_BYTES and not ticket:
            self._tickets.pop(key, None)
            self._stale.discard(key)
        else:
            raise WireError("the leading gateway says something unknown of a session")
