"""Builds the authenticator that the settings ask for."""

from __future__ import annotations

import logging
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.config import Jwt, Kerberos, Ldap, Settings
from gateway.errors import FreshgateError
from gateway.login.authenticator import (
    CHECKED_TOGETHER,
    REFUSAL_SECONDS,
    Authenticator,
    Checked,
    TicketVerifier,
    TokenVerifier,
    Unavailable,
    Unchecked,
    Verifier,
)
from gateway.login.directory import LdapDirectory
from gateway.login.exposure import host_of, is_local
from gateway.login.ldap import LdapUsers
from gateway.login.principals import BadRules
from gateway.login.user_file import UserFile
from gateway.wire.memory import Memory

if TYPE_CHECKING:
    from gateway.login.kerberos import Tickets
    from gateway.login.tokens import Tokens

log = logging.getLogger(__name__)


def authenticator(settings: Settings) -> Authenticator:
    """Raises FreshgateError if a file named in the settings cannot be read."""
    chosen = settings.authentication
    memory = Memory(chosen.remember_seconds)
    if chosen.method == "none":
        if not is_local(settings.listen.host):
            log.warning(
                "the gateway listens on %s for other machines, and checks %s; set authentication.method, or let only "
                "trusted machines reach it",
                settings.listen.host,
                "passwords only if Spark does" if settings.upstream.address else "no passwords",
            )
        return Unchecked(memory, REFUSAL_SECONDS)
    verifier: Verifier | None = None
    if chosen.method == "file":
        verifier = _users_file(Path(chosen.users_file))
    elif chosen.method == "ldap":
        verifier = _ldap(settings.ldap)
    tokens = _tokens(settings.jwt) if settings.jwt.issuer else None
    tickets = _tickets(settings.kerberos) if settings.kerberos.keytab else None
    return Checked(verifier, REFUSAL_SECONDS, CHECKED_TOGETHER, memory, tokens, tickets)


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


def _tokens(settings: Jwt) -> TokenVerifier:
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


def _users_file(path: Path) -> Verifier:
    users = UserFile(path)
    try:
        users.check()
    except Unavailable as error:
        text = str(error)
        raise FreshgateError(
            f"{text[0].upper()}{text[1:]}. Add users with `freshgate user add NAME`, or set authentication.users_file."
        ) from error
    return users


def _ldap(settings: Ldap) -> Verifier:
    if settings.ca:
        try:
            Path(settings.ca).read_bytes()
        except OSError as error:
            raise FreshgateError(f"Cannot read {settings.ca}: {error.strerror}. Check ldap.ca.") from error
    for url in settings.url.split():
        if url.startswith("ldap:") and not settings.start_tls and not is_local(host_of(url)):
            log.warning("passwords are sent to %s unencrypted; use ldaps:// or set ldap.start_tls", url)
    return LdapUsers(settings, LdapDirectory(settings))
