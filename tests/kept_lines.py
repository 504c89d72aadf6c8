"""An audit log in memory."""

from __future__ import annotations

from gateway.service.clients.audit import Line, Unread


class KeptLines(list[Line]):
    """`keep` is a `Write`."""

    def keep(self, line: Line, unread: Unread | None = None, /) -> None:
        self.append(line)
