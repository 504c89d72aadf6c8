"""TLS of the ports that clients connect to, and towards Spark."""

from __future__ import annotations

import logging
import os
import ssl

from gateway.errors import FreshgateError

log = logging.getLogger(__name__)


class CertificateUnusable(FreshgateError):
    """A certificate, key or authority cannot be read, or they do not fit. Names the files."""

    sqlstate = "08000"


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
            if client_ca:
                self.context.load_verify_locations(client_ca)
                self.context.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ssl.SSLError) as error:
            files = ", ".join(filter(None, (certificate, key, client_ca)))
            raise CertificateUnusable(f"TLS cannot be used with {files}: {_said(error)}. Check tls.*.") from error
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
        except (OSError, ssl.SSLError) as error:
            # The files may be half replaced: the old certificate serves until they fit.
            log.warning("the new certificate %s cannot be used yet: %s", self._certificate, _said(error))
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
    except (OSError, ssl.SSLError) as error:
        raise CertificateUnusable(f"Cannot read upstream.tls_ca, {authorities}: {_said(error)}.") from error


def _no_password() -> str:
    # Otherwise OpenSSL would ask at the terminal, and a server would wait for ever.
    raise ssl.SSLError("the key is protected by a password; give one that is not")


def _said(error: OSError) -> str:
    return error.strerror or str(error)
