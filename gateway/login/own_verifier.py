"""A company's own program that checks passwords: a class that an installed package names as an entry point of
`freshgate.verifiers` (docs/how-to/login.md).

Tests: `test_own_verifier`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from typing import Protocol, cast

from gateway.errors import FreshgateError
from gateway.login.verifier import NO_GROUPS, Unavailable, WrongLogin

ENTRY_POINTS = "freshgate.verifiers"


class OwnVerifier(Protocol):
    """What a company writes. The object is made once, with the texts of authentication.verifier_options as keyword
    arguments; its methods may block, and are called from several threads."""

    def verify(self, user: str, password: str) -> Iterable[str] | None:
        """Returns if the password is right; the groups of the user, if it knows them. The password is never empty.

        Raises PermissionError if the login is refused, whose text gets into the log. Any other exception means that
        logins cannot be checked at the moment.
        """
        ...

    def groups(self, user: str) -> Iterable[str]:
        """The groups of a user, who may not be there; called if groups.sources names `custom`. Raises anything if they
        are not known at the moment."""
        ...


def named(name: str, options: Mapping[str, str]) -> OwnVerifier:
    """Makes the verifier of this name. Raises FreshgateError."""
    found = {each.name: each for each in entry_points(group=ENTRY_POINTS)}
    if name not in found:
        installed = f"installed are {', '.join(sorted(found))}" if found else "none is installed"
        raise FreshgateError(
            f"There is no verifier {name!r}: no installed package names it as an entry point of {ENTRY_POINTS}; "
            f"{installed}. Install its package beside the gateway, or change authentication.verifier."
        )
    try:
        verifier = found[name].load()(**options)
    except Exception as error:
        raise FreshgateError(
            f"The verifier {name!r} ({found[name].value}) cannot be made: {error!r}. Check its package and "
            f"authentication.verifier_options."
        ) from error
    missing = [method for method in ("verify", "groups") if not callable(getattr(verifier, method, None))]
    if missing:
        raise FreshgateError(
            f"The verifier {name!r} ({found[name].value}) has no method {missing[0]}. It needs verify(user, password) "
            f"and groups(user)."
        )
    return cast(OwnVerifier, verifier)


class CustomMethod:
    """Logins by such a verifier. Implements `Verifier` and `GroupSource`."""

    name = "custom"
    knows_its_users = False
    is_cheap = False

    def __init__(self, verifier: OwnVerifier) -> None:
        self._verifier = verifier

    def verify(self, user: str, password: str) -> frozenset[str]:
        try:
            found = self._verifier.verify(user, password)
        except PermissionError as error:
            raise WrongLogin(str(error) or "refused") from error
        return NO_GROUPS if found is None else _texts(found)

    def version(self, _: str) -> None:
        """Always None: changes of what it asks cannot be detected from here."""

    def groups_of(self, user: str) -> frozenset[str]:
        return _texts(self._verifier.groups(user))


def _texts(found: object) -> frozenset[str]:
    """The names of groups. Raises Unavailable for anything else: True, for instance, is what a verifier might return
    that does not follow the interface, and False must not let anybody in."""
    if isinstance(found, str) or not isinstance(found, Iterable):
        raise Unavailable(f"the verifier returned {type(found).__name__}, not names of groups or None")
    groups = frozenset(found)
    if not all(isinstance(each, str) for each in groups):
        raise Unavailable("the verifier returned other groups than texts")
    return groups
