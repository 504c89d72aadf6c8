"""Profiles of a gateway that has TLS on both ports and checks passwords. FRESHGATE_USER, FRESHGATE_PASSWORD and
FRESHGATE_CA (a file) belong to it."""

from __future__ import annotations

import os
import socket
from types import SimpleNamespace
from typing import Any

import pytest
from dbt.adapters.exceptions import FailedToConnectError
from dbt.adapters.freshgate import FreshgateConnectionManager, FreshgateCredentials
from dbt.tests.util import run_dbt
from views import drop_schema, relation_type, rows, run, write_model

METHODS = ["thrift", "http"]


def profile(method: str, **changed: Any) -> dict[str, Any]:
    port = os.environ["FRESHGATE_PORT" if method == "thrift" else "FRESHGATE_HTTP_PORT"]
    given = {"host": os.environ["FRESHGATE_HOST"], "port": int(port), "method": method}
    login = {"user": os.environ["FRESHGATE_USER"], "password": os.environ["FRESHGATE_PASSWORD"]}
    return {**given, **login, "use_ssl": True, "ssl_ca": os.environ["FRESHGATE_CA"], **changed}


def connect(method: str, **changed: Any) -> Any:
    """Opens a connection with the profile; returns the rows of a query."""
    credentials = FreshgateCredentials(schema="default", database=None, **profile(method, **changed))
    connection: Any = SimpleNamespace(state="init", credentials=credentials, handle=None)
    handle = FreshgateConnectionManager.open(connection).handle
    try:
        handle.cursor().execute("select current_user()")
        return handle.fetchall()
    finally:
        handle.close()


class TestLogins:
    @pytest.mark.parametrize("method", METHODS)
    def test_user_and_password_reach_the_gateway(self, method: str) -> None:
        assert len(connect(method)) == 1

    @pytest.mark.parametrize("method", METHODS)
    def test_a_wrong_password_is_refused(self, method: str) -> None:
        with pytest.raises(FailedToConnectError, match=f"failed to connect to .* by {method} with TLS") as refused:
            connect(method, password="wrong")
        assert "HTTP status 401" in str(refused.value) or "password" in str(refused.value)

    @pytest.mark.parametrize("method", METHODS)
    def test_a_certificate_of_a_stranger_is_refused(self, method: str) -> None:
        with pytest.raises(FailedToConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            connect(method, ssl_ca=None)

    @pytest.mark.parametrize("method", METHODS)
    def test_a_certificate_of_another_host_is_refused(self, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
        resolve = socket.getaddrinfo

        def resolved(host: Any, *arguments: Any, **named: Any) -> Any:
            return resolve("127.0.0.1" if host == "gateway.example" else host, *arguments, **named)

        monkeypatch.setattr(socket, "getaddrinfo", resolved)
        with pytest.raises(FailedToConnectError, match="Hostname mismatch"):
            connect(method, host="gateway.example")

    @pytest.mark.parametrize("method", METHODS)
    def test_a_connection_without_tls_is_refused(self, method: str) -> None:
        with pytest.raises(FailedToConnectError):
            connect(method, use_ssl=False)


class Project:
    @pytest.fixture(scope="class")
    def seeds(self) -> dict[str, str]:
        return {"numbers.csv": "number\n1\n2\n"}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {}

    def test_a_view(self, project: Any) -> None:
        run_dbt(["seed"])
        write_model(project, "model", "select * from {{ ref('numbers') }}")
        run()
        assert relation_type(project, "model") == "materialized_view"
        assert rows(project, "model") == [(1,), (2,)]
        drop_schema(project)


class TestThrift(Project):
    @pytest.fixture(scope="class")
    def dbt_profile_target(self) -> dict[str, Any]:
        return {"type": "freshgate", "threads": 2, **profile("thrift")}


class TestHttp(Project):
    @pytest.fixture(scope="class")
    def dbt_profile_target(self) -> dict[str, Any]:
        return {"type": "freshgate", "threads": 2, **profile("http")}
