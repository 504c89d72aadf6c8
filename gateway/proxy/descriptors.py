"""How many files and sockets the process may have open."""

from __future__ import annotations

import logging
import math
import resource

log = logging.getLogger(__name__)

OF_A_CLIENT = 3
"""Its own connection, the one to Spark, and a session's second one."""
OF_AN_HTTP_SESSION = 2
"""Its connections to Spark, which it has however many clients come and go."""
OF_THE_GATEWAY = 200
"""Ports, the gateway's own sessions, log and audit, with room to spare."""
AT_LEAST = 65_536
"""Where the system allows it: a burst must not meet a limit that costs nothing."""


def make_room(connections: int, http_sessions: int) -> None:
    """Raises the process's soft limit as far as the system lets it, and warns where that is too little for so many
    clients and sessions over HTTP: beyond it they would be cut off without a word of their limits.

    Shells and service managers give a process 1,024 at first, whatever the system allows.
    """
    needed = OF_A_CLIENT * connections + OF_AN_HTTP_SESSION * http_sessions + OF_THE_GATEWAY
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = max(_count(soft), min(max(needed, AT_LEAST), _count(hard)))
    if room > _count(soft):
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(room), hard))
    if room < needed:
        log.warning(
            "the system lets the gateway have %d files and sockets open, and limits.connections (%d) clients with "
            "limits.http_sessions (%d) may need %d. Raise its limit (LimitNOFILE= in systemd, ulimit -Hn), or lower "
            "these settings",
            room,
            connections,
            http_sessions,
            needed,
        )


def _count(limit: int) -> float:
    return math.inf if limit == resource.RLIM_INFINITY else limit
