"""TLS for the ports that clients connect to, and for connections to Spark."""

from __future__ import annotations

import logging
import os
import ssl
from pathlib import Path

from gateway.errors import FreshgateError

log = logging.getLogger(__name__)


class CertificateUnusable(FreshgateError):
    """A certificate, key or CA file cannot be read, or they do not match. Names the file and what is wrong with it."""

    sqlstate = "08000"


class _KeyProtected(OSError):
    """The key is protected by a password."""


class Certificate:
    """A server's certificate and key (PEM files), and the CAs (PEM) that must have issued the clients' certificates.

    `client_ca` may be empty: then clients need no certificate. Raises CertificateUnusable.
    """

    def __init__(self, certificate: str, key: str, client_ca: str = "") -> None:
        self._certificate, self._key = certificate, key or certificate
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            self._load(self.context)
        except OSError as error:
            reason = _reason(self._certificate, self._key, error)
            raise CertificateUnusable(f"TLS cannot be used: {reason}. Check tls.certificate and tls.key.") from error
        if client_ca:
            try:
                self.context.load_verify_locations(client_ca)
            except OSError as error:
                reason = _authorities_reason(client_ca, error)
                raise CertificateUnusable(f"TLS cannot be used: {reason}. Check tls.client_ca.") from error
            self.context.verify_mode = ssl.CERT_REQUIRED
        self._stamp = self._stamps()

    def renew(self) -> None:
        """Loads files that were replaced; open connections keep the old certificate."""
        try:
            stamp = self._stamps()
            if stamp == self._stamp:
                return
            # A context that fails to load loses what it had, so the files are loaded into another one first.
            self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
            self._load(self.context)
        except OSError as error:
            # The files may be only partly replaced: the old certificate serves until they match.
            reason = _reason(self._certificate, self._key, error)
            log.warning("the new certificate %s cannot be used yet: %s", self._certificate, reason)
            return
        self._stamp = stamp
        log.info("the certificate %s was replaced", self._certificate)

    def _load(self, context: ssl.SSLContext) -> None:
        context.load_cert_chain(self._certificate, self._key, _no_password)

    def _stamps(self) -> tuple[int, ...]:
        return tuple(os.stat(path).st_mtime_ns for path in (self._certificate, self._key))


def client_context(authorities: str, server: str = "Spark", setting: str = "upstream.tls_ca") -> ssl.SSLContext:
    """The TLS context for a server whose certificate must be issued by these CAs (a PEM file), or, with "", by the
    system's.

    Raises CertificateUnusable, which names the server and the setting.
    """
    try:
        return ssl.create_default_context(cafile=authorities or None)
    except OSError as error:
        reason = _authorities_reason(authorities, error)
        raise CertificateUnusable(f"TLS towards {server} cannot be used: {reason}. Check {setting}.") from error


def _no_password() -> str:
    # Otherwise OpenSSL would prompt on the terminal, and a server would wait forever.
    raise _KeyProtected


def _reason(certificate: str, key: str, error: OSError) -> str:
    """Returns which file is at fault, and why. OpenSSL names no file, and calls most errors "PEM lib"."""
    if isinstance(error, _KeyProtected):
        return f"the key in {key} is protected by a password; use an unprotected key"
    texts = {}
    for path in (certificate, key):
        try:
            texts[path] = Path(path).read_bytes()
        except OSError as unread:
            return f"{path} cannot be read: {unread.strerror}"
    if b"CERTIFICATE-----" not in texts[certificate]:
        return f"{certificate} contains no certificate in PEM format"
    if b"PRIVATE KEY-----" not in texts[key]:
        advice = "; set tls.key to the file that does" if key == certificate else ""
        return f"{key} contains no private key in PEM format{advice}"
    if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
        return f"the key in {key} does not match the certificate in {certificate}"
    files = certificate if key == certificate else f"{certificate} and {key}"
    return f"{files} cannot be used: {error.strerror or error}"


def _authorities_reason(path: str, error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"{path} contains no valid certificate in PEM format"
    return f"{path} cannot be read: {error.strerror or error}"
