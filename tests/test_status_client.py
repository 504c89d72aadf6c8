"""Tests the connection of `freshgate status`: it closes its sessions, and explains why it cannot use a server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from answering_server import Served
from certificates import Certificates, make_certificates

from gateway.config import Address
from gateway.status.client import Client, StatusFailed, Target


@pytest.fixture
def served() -> Iterator[Served]:
    with closing(Served()) as running:
        yield running


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("status_certificates"))


# --- sessions over HTTP --------------------------------------------------------------------------------


def test_a_client_over_http_leaves_no_session(served: Served) -> None:
    client = Client.connect(served.target())
    assert client.status(None).views == ()
    assert len(served.sessions.open) == 1
    client.close()
    assert served.sessions.open == set()


def test_a_session_over_http_with_an_unknown_database_is_closed(served: Served) -> None:
    with pytest.raises(StatusFailed, match="SCHEMA_NOT_FOUND"):
        Client.connect(served.target(database="nowhere"))
    assert served.sessions.statements == ["USE `nowhere`"]
    assert served.sessions.open == set()


def test_closing_raises_nothing_if_the_server_is_gone() -> None:
    with closing(Served()) as served:
        client = Client.connect(served.target())
    client.close()
    client.close()


# --- messages ------------------------------------------------------------------------------------------


def refusal_of(target: Target) -> str:
    with pytest.raises(StatusFailed) as refusal:
        Client.connect(target)
    return str(refusal.value)


def test_an_untrusted_certificate_over_http_is_refused(certificates: Certificates) -> None:
    with closing(Served(certificates.server)) as served:
        message = refusal_of(served.target(tls=True))
        assert re.fullmatch(
            rf"Cannot reach a gateway at {re.escape(str(served.target(tls=True)))}: TLS failed "
            r"\(.*CERTIFICATE_VERIFY_FAILED.*\)\. Name the CA certificates with --ca, your own .*",
            message,
        )
        with closing(Client.connect(served.target(tls=True, ca=str(certificates.ca)))):
            assert len(served.sessions.open) == 1
        assert served.sessions.open == set()


@pytest.mark.parametrize(
    ("status", "page", "message"),
    [
        (
            401,
            b"Authentication Error: no such user.\n",
            "{} refused the login: no such user. Check --user, and the URL's user and password.",
        ),
        (401, b"", "{} refused the login: it gave no reason. Check --user, and the URL's user and password."),
        (503, b"Spark is away.\nx", "{} answers with status 503 (Spark is away). Try again."),
        (
            404,
            b"",
            "{} answers with status 404 (Not Found). Specify the gateway's URL, including httpPath, with --url.",
        ),
    ],
)
def test_an_error_status_over_http_is_explained(served: Served, status: int, page: bytes, message: str) -> None:
    served.refusal = status, page
    assert refusal_of(served.target()).startswith(message.format(served.target()))
    served.refusal = None
    client = Client.connect(served.target())
    served.refusal = status, page
    with pytest.raises(StatusFailed) as refusal:
        client.status(None)
    assert str(refusal.value).startswith(message.format(served.target()))
    client.close()


@pytest.mark.parametrize("over_http", [False, True])
def test_an_unreadable_certificate_file_is_named(tmp_path: Path, over_http: bool) -> None:
    target = Target(Address("127.0.0.1", 1), tls=True, http_path="cliservice" if over_http else None)
    missing, wrong = tmp_path / "missing.pem", tmp_path / "wrong.pem"
    wrong.write_text("no certificate", encoding="ascii")
    for path, why in ((missing, "No such file or directory"), (wrong, "it contains no certificate")):
        assert refusal_of(replace(target, ca=str(path))) == (
            f"Cannot read the CA certificates of --ca {path}: {why}. Name a PEM file of CA certificates."
        )
    for path, why in ((missing, "No such file or directory"), (wrong, "it has no certificate with its key")):
        assert refusal_of(replace(target, certificate=str(path))) == (
            f"Cannot use the certificate of --cert {path}: {why}. Name a PEM file of your certificate and its "
            "key, without a password."
        )


def test_a_missing_database_is_reported(served: Served) -> None:
    with closing(Client.connect(served.target())) as client:
        with pytest.raises(StatusFailed) as refusal:
            client.status("nowhere")
        assert str(refusal.value) == (f"{served.target()} has no database 'nowhere'. Choose another with --database.")
        assert refusal.value.sqlstate == "42704"
        # A database without views is not a missing one. One statement more distinguishes them.
        asked = len(served.sessions.statements)
        assert client.status("empty").views == ()
        assert len(served.sessions.statements) - asked == 6
