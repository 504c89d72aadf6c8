"""The limit on open files and sockets of the process, and what happens when it is reached."""

from __future__ import annotations

import logging
import math
import resource

from gateway.tally import Seldom

log = logging.getLogger(__name__)

PER_CLIENT = 3
"""A client's own connection, its connection to Spark, and a session's second one."""
PER_HTTP_SESSION = 2
"""A session's connections to Spark, which it keeps however many client connections come and go."""
RESERVED = 200
"""For ports, the gateway's own sessions, its log and its audit file, with room to spare."""
SPARE = 100
"""Descriptors that no further client gets: those that are served need them for connections to Spark, and refused ones
to be told why."""
REPORT_SECONDS = 10.0
MINIMUM = 65_536
"""The limit to ask for at least, because a higher one costs nothing and absorbs bursts."""


def make_room(connections: int, http_sessions: int) -> None:
    """Raises the process's soft limit as far as needed, and warns if the system's limit is too low for so many clients
    and HTTP sessions. Above that limit, clients would be cut off without a message.

    Shells and service managers start a process with a soft limit of 1,024, whatever the system allows.
    """
    needed = PER_CLIENT * connections + PER_HTTP_SESSION * http_sessions + RESERVED
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = max(_count(soft), min(max(needed, MINIMUM), _count(hard)))
    if room > _count(soft):
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(room), hard))
    if room < needed:
        log.warning(
            "the gateway may open %d files and sockets, but limits.connections (%d) may need %d. Raise the limit "
            "(LimitNOFILE= in systemd, ulimit -Hn), or lower this setting",
            room,
            connections,
            needed,
        )


def _count(limit: int) -> float:
    return math.inf if limit == resource.RLIM_INFINITY else limit


class Room:
    """Whether there are descriptors for another client."""

    def __init__(self) -> None:
        self._seldom = Seldom(REPORT_SECONDS)

    def is_short(self, descriptor: int) -> bool:
        """Whether too few are left, judged by a descriptor that was just opened: the system gives the lowest free
        one."""
        limit = _count(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        return descriptor >= limit - min(SPARE, limit // 4)

    def report(self, what: str) -> None:
        """Logs what has happened for lack of descriptors, unless that was done a moment ago."""
        if self._seldom.is_due():
            log.warning(
                "%s: the gateway has nearly as many open files and sockets as the system allows (%s). Raise the limit "
                "(LimitNOFILE= in systemd, ulimit -Hn), or lower limits.connections",
                what,
                resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            )
