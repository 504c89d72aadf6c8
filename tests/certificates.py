"""Certificates that an authority of the tests issues."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12
from cryptography.x509 import load_pem_x509_certificate

PASSWORD = "secret"
"""The password of the Java key stores."""


@dataclass(frozen=True)
class Certificates:
    """Certificates as PEM files and as Java key stores."""

    directory: Path
    authority: trustme.CA

    @property
    def ca(self) -> Path:
        return self.directory / "ca.pem"

    @property
    def server(self) -> Path:
        """The server's certificate and key."""
        return self.directory / "server.pem"

    @property
    def client(self) -> Path:
        """The client's certificate and key."""
        return self.directory / "client.pem"

    @property
    def key_store(self) -> Path:
        """The server's key store."""
        return self.directory / "server.p12"

    @property
    def client_store(self) -> Path:
        """The client's key store."""
        return self.directory / "client.p12"

    @property
    def trust_store(self) -> Path:
        return self.directory / "trust.p12"

    def issue(self, path: Path, *names: str) -> None:
        """Writes a new certificate and key to one file, atomically."""
        issued = self.authority.issue_cert(*names)
        fresh = path.with_suffix(".new")
        issued.private_key_and_cert_chain_pem.write_to_path(fresh)
        fresh.rename(path)


def make_certificates(directory: Path) -> Certificates:
    """Creates all files. The server's names are localhost and 127.0.0.1."""
    made = Certificates(directory, trustme.CA())
    made.authority.cert_pem.write_to_path(made.ca)
    made.issue(made.server, "127.0.0.1", "localhost")
    made.issue(made.client, "ada@example.com")
    made.key_store.write_bytes(_store(made.server))
    made.client_store.write_bytes(_store(made.client))
    # Only Java writes a trust store that every Java version reads.
    command = ["keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", str(made.ca)]
    command += ["-keystore", str(made.trust_store), "-storepass", PASSWORD]
    subprocess.run(command, check=True, capture_output=True)
    return made


def _store(path: Path) -> bytes:
    """A PEM file as PKCS 12, in the form that Java reads."""
    pem = path.read_bytes()
    return pkcs12.serialize_key_and_certificates(
        b"own",
        load_pem_private_key(pem, None),  # type: ignore[arg-type]
        load_pem_x509_certificate(pem),
        None,
        BestAvailableEncryption(PASSWORD.encode()),
    )
