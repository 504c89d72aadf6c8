"""Builds the authenticator that the settings ask for."""

from __future__ import annotations

import logging
from pathlib import Path
from urllib.parse import urlsplit

from gateway.config import Ldap, Settings
from gateway.errors import FreshgateError
from gateway.login.authenticator import (
    CHECKED_TOGETHER,
    REFUSAL_SECONDS,
    Authenticator,
    Checked,
    Unavailable,
    Unchecked,
    Verifier,
)
from gateway.login.directory import LdapDirectory
from gateway.login.exposure import is_local
from gateway.login.ldap import LdapUsers
from gateway.login.user_file import UserFile
from gateway.wire.memory import Memory

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
    verifier = _users_file(Path(chosen.users_file)) if chosen.method == "file" else _ldap(settings.ldap)
    return Checked(verifier, REFUSAL_SECONDS, CHECKED_TOGETHER, memory)


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
        if url.startswith("ldap:") and not settings.start_tls and not is_local(urlsplit(url).hostname or ""):
            log.warning("passwords are sent to %s unencrypted; use ldaps:// or set ldap.start_tls", url)
    return LdapUsers(settings, LdapDirectory(settings))
