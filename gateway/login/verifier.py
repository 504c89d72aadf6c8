"""What checks logins: the interface of each method, and what it raises."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol

from gateway.wire.sasl import Exchange

USER_CHARACTERS_MAX = 1024
"""No method has a user with a longer name."""
NO_GROUPS: frozenset[str] = frozenset()


class WrongLogin(Exception):
    """The name or the password is wrong, or the user may not log in here. The text is only for the log."""


class WrongTicket(WrongLogin):
    """The ticket is wrong. The client gets the text, too: it says nothing about who exists."""


class UnknownUser(WrongLogin):
    """The method does not have this user, whom another one may have."""


class Unavailable(Exception):
    """Passwords cannot be checked, or groups not be found, at the moment. The text is only for the log."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom a token or a ticket names."""

    user: str
    groups: frozenset[str]
    until: float
    """When it expires, in seconds since the epoch."""


class Verifier(Protocol):
    """Knows users and passwords. Its methods block, and are called from several threads."""

    @property
    def name(self) -> str:
        """The method's name, for the log."""
        ...

    @property
    def knows_its_users(self) -> bool:
        """Whether it raises UnknownUser for users that it does not have. Then it alone decides about the others."""
        ...

    def verify(self, user: str, password: str) -> frozenset[str]:
        """Returns if the password is right; it is never empty. What is returned are the groups that the method has
        found meanwhile.

        Raises WrongLogin or Unavailable.
        """
        ...

    def version(self, user: str) -> Hashable:
        """Returns a value that changes whenever something changes that affects `verify` for this user.

        Raises Unavailable.
        """
        ...


class TokenVerifier(Protocol):
    """Knows whom tokens name. Its methods block, and are called from several threads."""

    def identify(self, token: str) -> Identity:
        """Whom the token names. Raises WrongLogin or Unavailable."""
        ...


class TicketVerifier(Protocol):
    """Knows whom tickets of Kerberos name. Its method blocks, and is called from several threads."""

    def accept(self, exchange: Exchange) -> Identity:
        """Whom the ticket names, and sets what the client gets in return. Raises WrongTicket or Unavailable."""
        ...
