"""Tests the messages about unusable certificates, keys and authorities."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from gateway.proxy.tls import Certificate, CertificateUnusable, client_context


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of PEM files: two certificates with their keys, a key with a password, and invalid files."""
    folder = tmp_path_factory.mktemp("pem")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    for name in ("one", "two"):
        issued = authority.issue_cert("127.0.0.1")
        issued.cert_chain_pems[0].write_to_path(folder / f"{name}.pem")
        issued.private_key_pem.write_to_path(folder / f"{name}.key")
    key = load_pem_private_key((folder / "one.key").read_bytes(), None)
    protected = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    (folder / "protected.key").write_bytes(protected)
    (folder / "text").write_text("no PEM at all", encoding="utf-8")
    (folder / "broken.pem").write_text(
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", encoding="utf-8"
    )
    return folder


@pytest.mark.parametrize(
    ("certificate", "key", "client_ca", "said"),
    [
        ("one.pem", "", "", "{}/one.pem contains no private key in PEM format; set tls.key to the file that does."),
        ("one.pem", "text", "", "{}/text contains no private key in PEM format. Check tls.certificate and tls.key."),
        ("text", "one.key", "", "{}/text contains no certificate in PEM format."),
        (
            "one.pem",
            "protected.key",
            "",
            "the key in {}/protected.key is protected by a password; use an unprotected key.",
        ),
        ("one.pem", "two.key", "", "the key in {}/two.key does not match the certificate in {}/one.pem."),
        ("none.pem", "one.key", "", "{}/none.pem cannot be read: No such file or directory."),
        ("one.pem", "none.key", "", "{}/none.key cannot be read: No such file or directory."),
        ("broken.pem", "one.key", "", "{}/broken.pem and {}/one.key cannot be used: "),
        ("one.pem", "one.key", "none.pem", "{}/none.pem cannot be read: No such file or directory. Check"),
        ("one.pem", "one.key", "text", "{}/text contains no valid certificate in PEM format."),
    ],
)
def test_the_unusable_file_is_named(files: Path, certificate: str, key: str, client_ca: str, said: str) -> None:
    given = (str(files / name) if name else "" for name in (certificate, key, client_ca))
    with pytest.raises(CertificateUnusable) as refusal:
        Certificate(*given)
    assert str(refusal.value).startswith("TLS cannot be used: " + said.replace("{}", str(files)))


@pytest.mark.parametrize(
    ("authorities", "said"),
    [
        ("none.pem", "cannot be read: No such file or directory"),
        ("text", "contains no valid certificate in PEM format"),
    ],
)
def test_an_unusable_file_of_authorities_for_spark_is_named(files: Path, authorities: str, said: str) -> None:
    with pytest.raises(CertificateUnusable) as refusal:
        client_context(str(files / authorities))
    assert f"{files / authorities} {said}" in str(refusal.value)
    assert str(refusal.value).endswith("Check upstream.tls_ca.")


def test_matching_files_are_accepted(files: Path) -> None:
    Certificate(str(files / "one.pem"), str(files / "one.key"), str(files / "ca.pem"))
    client_context(str(files / "ca.pem"))


def test_a_new_certificate_without_its_key_is_logged(
    files: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "server.pem"
    place.write_bytes((files / "one.pem").read_bytes())
    served = Certificate(str(place), str(files / "one.key"))
    place.write_bytes((files / "two.pem").read_bytes())
    os.utime(place, ns=(1, 1))
    with caplog.at_level(logging.WARNING):
        served.renew()
    assert f"the key in {files / 'one.key'} does not match the certificate in {place}" in caplog.text
