"""The gateway's side of the guard inside Spark (`StorageGuard.java`): its secret, and what it says about itself.

The guard refuses statements that change what the gateway stores, unless they come from the gateway. It recognizes the
gateway's sessions by a secret with which they are opened, and the gateway's statements in clients' sessions by a
signature.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial

from gateway.errors import FreshgateError
from gateway.mv.ports import SqlSession

log = logging.getLogger(__name__)

SECRET = "freshgate.guard.secret"
"""The setting with which the gateway opens its sessions. The guard removes it from the session at once."""
STATE = "freshgate.guard.state"
"""The setting in which the guard then tells its state."""
HASH = "spark.freshgate.guard.sha256"
"""The setting of a whole Spark that holds the SHA-256 of the secret."""
DATABASE = "spark.freshgate.guard.database"
"""The setting of a whole Spark that holds the name of the storage database."""
EXTENSION = "freshgate.StorageGuard"
"""The class, for `spark.sql.extensions`."""
KYUUBI = "kyuubi."
"""How the settings begin that Kyuubi tells about each new session."""
SECRET_CHARACTERS = 64
"""Of a random secret."""

_UNSET = "<undefined>"
_NAME = r"`((?:[^`]|``)*)`"
_LETTERS = str.maketrans("0123456789abcdef", "abcdefghijklmnop")
_ABOUT_VIEW = re.compile(rf"(?:CREATE VIEW|ALTER VIEW|DROP VIEW IF EXISTS) (?:`spark_catalog`\.)?{_NAME}\.{_NAME}")
"""The start of each of the gateway's statements that runs in a client's session and that the guard would refuse."""


class GuardRefuses(FreshgateError):
    """The guard would refuse the gateway's own statements. The message says what to set."""

    sqlstate = "28000"


class GuardState(Enum):
    """Whether the guard protects the storage database."""

    UNKNOWN = "UNKNOWN"
    ACTIVE = "ACTIVE"
    ABSENT = "ABSENT"
    OFF = "OFF"


def random_secret() -> str:
    return secrets.token_hex(SECRET_CHARACTERS // 2)


def hash_of(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8")).hexdigest()


def signed(secret: str, text: str) -> str:
    """A statement with the permit for the guard, if it is one that changes a view. The guard accepts it once, within an
    hour, for changes of this view alone."""
    found = _ABOUT_VIEW.match(text)
    if found is None:
        return text
    name = ".".join(part.replace("``", "`").lower() for part in found.groups())
    told = f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(16)}"
    signature = hmac.new(secret.encode("utf-8"), f"{told} {name}".encode(), hashlib.sha256).hexdigest()
    # On a line of its own, because a query may end with a comment.
    return f"{text}\n/* freshgate permits {letters(told + signature)} */"


def letters(digits: str) -> str:
    """Hexadecimal digits as words of four letters. Spark hides from the guard what matches the setting
    `spark.sql.redaction.string.regex` in a statement, as numbers of cards and long keys do."""
    written = digits.translate(_LETTERS)
    return " ".join(written[first : first + 4] for first in range(0, len(written), 4))


def unsigned(text: str) -> str:
    """A statement without a permit."""
    return text


@dataclass(slots=True)
class StorageGuard:
    """What is known about the guard of one Spark. Without a `secret` there should be none."""

    secret: str
    database: str
    """The storage database."""
    state: GuardState = field(default=GuardState.UNKNOWN, init=False)
    reason: str | None = field(default=None, init=False)
    """Why it is not active."""
    has_met: bool = field(default=False, init=False)
    """Whether the server may get the secret."""
    _told: str = field(default="", init=False)

    @property
    def session(self) -> Mapping[str, str]:
        """The configuration of the gateway's own sessions."""
        return {SECRET: self.secret} if self.secret else {}

    @property
    def spark(self) -> Mapping[str, str]:
        """The configuration of a Spark that the gateway starts."""
        return {HASH: hash_of(self.secret), DATABASE: self.database}

    def signed(self, text: str) -> str:
        return signed(self.secret, text) if self.secret else text

    def meet(self, told: Mapping[str, str]) -> None:
        """Judges the server by what it said about a session that was opened without the secret. Raises GuardRefuses."""
        if any(name.startswith(KYUUBI) for name in told):
            raise GuardRefuses(_REFUSALS["kyuubi"])
        self.has_met = True

    async def greet(self, session: SqlSession) -> None:
        """Asks the guard, in a new session of the gateway. Raises GuardRefuses, and what Spark raises."""
        ask = partial(_value, session)
        told = await ask(STATE) if self.secret else _UNSET
        # Another gateway's guard, of another storage database, does not matter.
        if told == _UNSET and await ask(HASH) != _UNSET and (await ask(DATABASE)).lower() == self.database.lower():
            told = "unasked" if not self.secret else "not loaded"
        self._note(told)

    def _note(self, told: str) -> None:
        if told in {"unasked", "unknown gateway"}:
            raise GuardRefuses(_REFUSALS[told])
        if told.startswith("active ") and told != f"active {self.database}":
            raise GuardRefuses(
                f"Spark's guard protects the database {told.removeprefix('active ')}, but storage.database is "
                f"{self.database}. Set {DATABASE}={self.database} in Spark's configuration and restart Spark."
            )
        if told == self._told:
            return
        self._told = told
        if told == f"active {self.database}":
            self.state, self.reason = GuardState.ACTIVE, None
            log.info("Spark's guard protects the storage database %s", self.database)
            return
        self.state = GuardState.ABSENT if told in {_UNSET, "not loaded"} else GuardState.OFF
        self.reason = _REASONS.get(told, told)
        level = logging.WARNING if self.secret else logging.INFO
        log.log(level, "Spark has no guard of the storage database %s: %s", self.database, self.reason)


_REFUSALS = {
    "kyuubi": "Apache Kyuubi starts Sparks with the settings of the sessions that need them, so every user could read "
    "upstream.guard_secret there. The guard of materialized views does not work behind it: remove "
    f"upstream.guard_secret from the gateway's settings, and {EXTENSION} from spark.sql.extensions.",
    "unasked": f"Spark has a guard of materialized views ({HASH} is set), which would refuse every refresh, because "
    "the gateway has no secret. Set upstream.guard_secret to the one whose SHA-256 Spark has.",
    "unknown gateway": f"Spark's guard of materialized views does not recognize the gateway: {HASH} in Spark's "
    "configuration is not the SHA-256 of upstream.guard_secret. Make them match, and restart Spark if its "
    "configuration was changed.",
}
_REASONS = {
    _UNSET: "statements that bypass the gateway's checks can change it (docs/how-to/security.md)",
    "not loaded": f"{HASH} is set, but spark.sql.extensions does not name {EXTENSION}",
    "no hash": f"{HASH} is not set in Spark's configuration, so the guard lets everything pass",
    "single session": "spark.sql.hive.thriftServer.singleSession is on, so the guard cannot tell sessions apart",
}


async def _value(session: SqlSession, name: str) -> str:
    return str((await session.run(f"SET {name}")).rows[0][1])
