"""Statements that a client has sent once more because the connection ended before the reply to the first had come.

Hive's driver does that over HTTP. It numbers its calls, so a statement with the number and the text of the last one is
the same call; programs that give all calls the number 0 repeat none.

Tests: `test_moving_sessions`.
"""

from __future__ import annotations

import hashlib

from gateway.errors import FreshgateError
from gateway.service.answers.without_leader import only_reads
from gateway.service.clients.session import Session
from gateway.wire.message import Head

DIGEST_CHARACTERS = 32


def repeated(session: Session, head: Head, payload: bytes, sender: object) -> FreshgateError | None:
    """Why an ExecuteStatement is refused that came before; None for a new one, and for one that only reads. `sender`
    identifies the connection."""
    continuity = session.continuity
    if not continuity.loose or not head.seqid:
        return None
    digest = hashlib.sha256(payload).hexdigest()[:DIGEST_CHARACTERS]
    again = digest == continuity.last and sender is not continuity.last_sender
    if not again or only_reads(payload):
        continuity.last, continuity.last_sender = digest, sender
        return None
    return FreshgateError(
        "This statement has come before, over a connection that ended before it was answered. It may have taken "
        "effect: look whether what it changes is there before you run it once more.",
        "08007",
    )
