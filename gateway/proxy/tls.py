"""TLS of the ports that clients connect to, and towards Spark."""

from __future__ import annotations

import logging
import os
import ssl
from pathlib import Path

from gateway.errors import FreshgateError

log = logging.getLogger(__name__)


class CertificateUnusable(FreshgateError):
    """A certificate, key or authority cannot be read, or they do not fit. Names the file, and what is wrong in it."""

    sqlstate = "08000"


class _KeyProtected(OSError):
    """A key needs a password."""


class Certificate:
    """A server's certificate and key (PEM files), and the authorities (PEM) of which clients must show a certificate.

    `client_ca` may be empty: then clients need none. Raises CertificateUnusable.
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
        """Takes over files that were replaced; connections that are open keep what they have."""
        try:
            stamp = self._stamps()
            if stamp == self._stamp:
                return
            # A context that fails to load has lost what it had: try it elsewhere first.
            self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
            self._load(self.context)
        except OSError as error:
            # The files may be half replaced: the old certificate serves until they fit.
            reason = _reason(self._certificate, self._key, error)
            log.warning("the new certificate %s cannot be used yet: %s", self._certificate, reason)
            return
        self._stamp = stamp
        log.info("the certificate %s was replaced", self._certificate)

    def _load(self, context: ssl.SSLContext) -> None:
        context.load_cert_chain(self._certificate, self._key, _no_password)

    def _stamps(self) -> tuple[int, ...]:
        return tuple(os.stat(path).st_mtime_ns for path in (self._certificate, self._key))


def client_context(authorities: str) -> ssl.SSLContext:
    """For a server whose certificate must be of these authorities (a PEM file), or of the system's where it is "".

    Raises CertificateUnusable.
    """
    try:
        return ssl.create_default_context(cafile=authorities or None)
    except OSError as error:
        reason = _authorities_reason(authorities, error)
        raise CertificateUnusable(f"TLS towards Spark cannot be used: {reason}. Check upstream.tls_ca.") from error


def _no_password() -> str:
    # Otherwise OpenSSL would ask at the terminal, and a server would wait for ever.
    raise _KeyProtected


def _reason(certificate: str, key: str, error: OSError) -> str:
    """Which file is at fault, and why. OpenSSL names none, and calls most of it "PEM lib"."""
    if isinstance(error, _KeyProtected):
        return f"the key in {key} is protected by a password; give one without"
    texts = {}
    for path in (certificate, key):
        try:
            texts[path] = Path(path).read_bytes()
        except OSError as unread:
            return f"{path} cannot be read: {unread.strerror}"
    if b"CERTIFICATE-----" not in texts[certificate]:
        return f"{certificate} holds no certificate in PEM form"
    if b"PRIVATE KEY-----" not in texts[key]:
        advice = "; set tls.key to the file that does" if key == certificate else ""
        return f"{key} holds no private key in PEM form{advice}"
    if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
        return f"the key in {key} is not that of the certificate in {certificate}"
    files = certificate if key == certificate else f"{certificate} and {key}"
    return f"{files} cannot be used: {error.strerror or error}"


def _authorities_reason(path: str, error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"{path} holds no certificate in PEM form, or a broken one"
    return f"{path} cannot be read: {error.strerror or error}"
