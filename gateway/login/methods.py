"""Builds what the settings ask for to check logins, and to find the groups of users."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.config import Jwt, Kerberos, Settings
from gateway.errors import FreshgateError
from gateway.login import own_verifier
from gateway.login.authenticator import REFUSAL_SECONDS, Authenticator, Checked, Unchecked
from gateway.login.directory import LdapDirectory
from gateway.login.exposure import host_of, is_local
from gateway.login.group_file import GroupFile
from gateway.login.groups import GroupSource, UserGroups
from gateway.login.ldap import LdapUsers
from gateway.login.own_verifier import CustomMethod
from gateway.login.principals import BadRules
from gateway.login.threads import CHECKED_TOGETHER
from gateway.login.user_file import UserFile
from gateway.login.verifier import TicketVerifier, Unavailable, Verifier
from gateway.wire.endpoint import TicketSource
from gateway.wire.memory import Memory

if TYPE_CHECKING:
    from gateway.login.code_logins import CodeLogins
    from gateway.login.kerberos import Tickets
    from gateway.login.service_tickets import ServiceTickets
    from gateway.login.tokens import Tokens

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Checking:
    """How logins are checked, and groups of users found."""

    authenticator: Authenticator
    groups: UserGroups


def of(settings: Settings) -> Checking:
    """Raises FreshgateError if a file named in the settings cannot be read, or a package is missing."""
    shared = _Shared(settings)
    return Checking(_authenticator(settings, shared), _groups(settings, shared))


def groups_of(settings: Settings) -> UserGroups:
    """Only the sources of groups. Raises FreshgateError."""
    return _groups(settings, _Shared(settings))


class _Shared:
    """Methods that check passwords, and some of which find groups."""

    def __init__(self, settings: Settings) -> None:
        chosen = settings.authentication
        asked = {*chosen.methods, *settings.groups.sources}
        self.ldap = _ldap(settings) if "ldap" in asked else None
        self.custom: CustomMethod | None = None
        if "custom" in asked:
            options = dict(each.split("=", 1) for each in chosen.verifier_options)
            found = own_verifier.named(chosen.verifier, {name.strip(): value for name, value in options.items()})
            self.custom = CustomMethod(found)


def _authenticator(settings: Settings, shared: _Shared) -> Authenticator:
    chosen = settings.authentication
    memory = Memory(chosen.remember_seconds)
    if not chosen.methods:
        if not is_local(settings.listen.host):
            log.warning(
                "the gateway listens on %s for other machines, and checks %s; set authentication.method, or let only "
                "trusted machines reach it",
                settings.listen.host,
                "passwords only if Spark does" if settings.upstream.address else "no passwords",
            )
        return Unchecked(memory, REFUSAL_SECONDS)
    verifiers: list[Verifier] = []
    passwords = [each for each in chosen.methods if each not in ("jwt", "kerberos")]
    for method in passwords:
        if method == "file":
            verifiers.append(_users_file(Path(chosen.users_file), alone=len(passwords) == 1))
        elif method == "ldap" and shared.ldap is not None:
            verifiers.append(shared.ldap)
        elif method == "custom" and shared.custom is not None:
            verifiers.append(shared.custom)
    tokens = _tokens(settings.jwt) if settings.jwt.issuer else None
    tickets = _tickets(settings.kerberos) if settings.kerberos.keytab else None
    return Checked(verifiers, REFUSAL_SECONDS, CHECKED_TOGETHER, memory, tokens, tickets)


def _tickets(settings: Kerberos) -> TicketVerifier:
    try:
        # It needs an extra, and a library of C.
        tickets: Tickets = import_module(".kerberos", __package__).Tickets(settings)
        tickets.start()
    except ImportError as error:
        raise FreshgateError(
            f"kerberos.keytab is set, which needs more packages ({error}). Install freshgate[kerberos]."
        ) from error
    except BadRules as error:
        raise FreshgateError(f"kerberos.auth_to_local cannot be read: {error}.") from error
    except Unavailable as error:
        text = str(error)
        raise FreshgateError(f"{text[0].upper()}{text[1:]}. Check kerberos.keytab and kerberos.principals.") from error
    return tickets


def service_tickets(settings: Kerberos, user: str, service: str) -> TicketSource:
    """The gateway's own tickets for Spark. Raises FreshgateError."""
    try:
        tickets: ServiceTickets = import_module(".service_tickets", __package__).ServiceTickets(
            settings.keytab, user, service
        )
        tickets.start()
    except ImportError as error:
        raise FreshgateError(
            f"upstream.address has a principal, which needs more packages ({error}). Install freshgate[kerberos]."
        ) from error
    except Unavailable as error:
        text = str(error)
        raise FreshgateError(f"{text[0].upper()}{text[1:]}. Check kerberos.keytab and upstream.user.") from error
    return tickets


def _groups(settings: Settings, shared: _Shared) -> UserGroups:
    sources: list[GroupSource] = []
    for source in dict.fromkeys(settings.groups.sources):
        if source == "file":
            sources.append(_groups_file(Path(settings.groups.file)))
        elif source == "ldap" and shared.ldap is not None and settings.ldap.bind_dn:
            sources.append(shared.ldap)
        elif source == "custom" and shared.custom is not None:
            sources.append(shared.custom)
    return UserGroups(sources, settings.groups.keep_seconds)


def _tokens(settings: Jwt) -> Tokens:
    try:
        # It needs an extra, which takes a tenth of a second to load.
        tokens: Tokens = import_module(".tokens", __package__).Tokens(settings)
    except ImportError as error:
        raise FreshgateError(
            f"jwt.issuer is set, which needs more packages ({error}). Install freshgate[jwt]."
        ) from error
    try:
        tokens.start()
    except Unavailable as error:
        text = str(error)
        raise FreshgateError(f"{text[0].upper()}{text[1:]}. Check jwt.keys.") from error
    return tokens


def code_logins(settings: Settings) -> CodeLogins | None:
    """Logins at an identity provider, for the page; None without them. Raises FreshgateError."""
    page = settings.page
    if not page.client_id:
        return None
    tokens = _tokens(settings.jwt)
    made: CodeLogins = import_module(".code_logins", __package__).CodeLogins(
        settings.jwt, page.client_id, page.client_secret, tokens
    )
    return made


def _groups_file(path: Path) -> GroupSource:
    groups = GroupFile(path)
    try:
        groups.check()
    except Unavailable as error:
        text = str(error)
        raise FreshgateError(f"{text[0].upper()}{text[1:]}. Check groups.file.") from error
    return groups


def _users_file(path: Path, *, alone: bool) -> Verifier:
    users = UserFile(path, alone=alone)
    try:
        users.check()
    except Unavailable as error:
        text = str(error)
        raise FreshgateError(
            f"{text[0].upper()}{text[1:]}. Add users with `freshgate user add NAME`, or set authentication.users_file."
        ) from error
    return users


def _ldap(all_settings: Settings) -> LdapUsers:
    settings = all_settings.ldap
    if settings.ca:
        try:
            Path(settings.ca).read_bytes()
        except OSError as error:
            raise FreshgateError(f"Cannot read {settings.ca}: {error.strerror}. Check ldap.ca.") from error
    for url in settings.url.split():
        if url.startswith("ldap:") and not settings.start_tls and not is_local(host_of(url)):
            log.warning("passwords are sent to %s unencrypted; use ldaps:// or set ldap.start_tls", url)
    return LdapUsers(settings, LdapDirectory(settings), finds_groups="ldap" in all_settings.groups.sources)
