"""Logins that the gateway checks, before a real Spark that checks none: who gets in, as whom, and what Spark sees."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jpype
import pytest
from argon2 import PasswordHasher
from clients import Jdbc, pyhive, rows
from processes import Engine, Gateway, wait_until
from pyhive.exc import OperationalError
from recorder import Recorder
from TCLIService import TCLIService
from TCLIService.ttypes import (
    TCloseSessionReq,
    TExecuteStatementReq,
    TFetchResultsReq,
    TGetInfoReq,
    TOpenSessionReq,
    TRenewDelegationTokenReq,
)
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from gateway.login import user_file

PASSWORDS = {"ada": "ada's secret", "eve": "eve's secret", "root": "root's secret"}
REFUSED = "cannot log in: the name or the password is wrong"
CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
PROXY_USER = "hive.server2.proxy.user"


class Place:
    """A gateway that checks logins, and a record of what it sends to Spark."""

    def __init__(self, engine: Engine, folder: Path, **settings: object) -> None:
        self.recorder = Recorder(engine.host, engine.port)
        self.users = folder / "users"
        for user, password in PASSWORDS.items():
            self.add(user, password)
        self.gateway = Gateway(
            folder / "gateway.log",
            upstream=f"{self.recorder.host}:{self.recorder.port}",
            **{
                "authentication": "file",
                "authentication.users_file": self.users,
                "authentication.refusal_delay": 0.05,
                "access.administrators": "root",
                **settings,
            },
        )

    def add(self, user: str, password: str) -> None:
        known = user_file.read(self.users) if self.users.exists() else ""
        user_file.write(self.users, user_file.with_user(known, user, CHEAP.hash(password)))

    def connect(self, user: str, password: str | None = None, **options: Any) -> contextlib.AbstractContextManager[Any]:
        chosen = PASSWORDS[user] if password is None else password
        return pyhive(self.gateway.host, self.gateway.port, user, auth="CUSTOM", password=chosen, **options)

    def sent(self) -> bytes:
        """All that Spark got."""
        return b"".join(bytes(recording.sent) for recording in self.recorder.recordings)

    def close(self) -> None:
        self.gateway.stop()
        self.recorder.close()


@pytest.fixture(scope="module")
def place(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    running = Place(engine, tmp_path_factory.mktemp("logins"), **{"storage.database": "storage_logins"})
    yield running
    running.close()


@pytest.fixture(scope="module")
def proxied(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Spark sees one account, and the users' names."""
    account = {"authentication.hand_on": "proxy_user", "upstream.user": "svc", "upstream.password": "svc's secret"}
    folder = tmp_path_factory.mktemp("proxied")
    running = Place(engine, folder, **account, **{"storage.database": "storage_proxied"})
    yield running
    running.close()


class Raw:
    """A client without SASL: each OpenSession is a login of its own."""

    def __init__(self, gateway: Gateway) -> None:
        self._transport = TBufferedTransport(TSocket(gateway.host, gateway.port))
        self._transport.open()
        self.calls = TCLIService.Client(TBinaryProtocol(self._transport))

    def open(self, user: str, password: str | None, **configuration: str) -> Any:
        request = TOpenSessionReq(9, username=user, password=password, configuration=configuration or None)
        return self.calls.OpenSession(request)

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self._transport.close()


def whoami(cursor: Any) -> str:
    ((user,),) = rows(cursor, "SELECT current_user()")
    return str(user)


# --- right and wrong -------------------------------------------------------------------------------------------


def test_the_right_password(place: Place) -> None:
    with place.connect("ada") as cursor:
        assert whoami(cursor) == "ada"
    with Jdbc(place.gateway.url, "eve", PASSWORDS["eve"]) as client:
        assert client.query("SELECT current_user()")[1] == [("eve",)]


@pytest.mark.parametrize(("user", "password"), [("ada", "wrong-password"), ("nobody-known", "some-password")])
def test_a_refused_login_is_told_why_and_never_reaches_spark(place: Place, user: str, password: str) -> None:
    with pytest.raises(Exception, match=f"User '{user}' {REFUSED}"), place.connect(user, password):
        pass
    with pytest.raises(jpype.JException, match=f"User '{user}' {REFUSED}"):
        Jdbc(place.gateway.url, user, password)
    with Raw(place.gateway) as client:
        answer = client.open(user, password)
        assert answer.status.sqlState == "28000"
        assert f"User '{user}' {REFUSED}" in answer.status.errorMessage
        assert answer.sessionHandle is None
    assert password.encode() not in place.sent()
    log = place.gateway.log.read_text(encoding="utf-8")
    assert f"WARNING gateway.login.authenticator: login of '{user}' from 127.0.0.1:" in log
    assert password not in log


def test_no_password(place: Place) -> None:
    with Raw(place.gateway) as client:
        for password in ("", None):
            assert client.open("ada", password).status.sqlState == "28000"
    with pytest.raises(Exception, match=REFUSED), pyhive(place.gateway.host, place.gateway.port, "ada"):
        pass  # PyHive then sends a password of its own.


def test_a_user_who_is_added_and_removed_while_the_gateway_runs(place: Place) -> None:
    with pytest.raises(Exception, match=REFUSED), place.connect("new", "secret"):
        pass
    place.add("new", "secret")
    with place.connect("new", "secret") as cursor:
        assert whoami(cursor) == "new"
    user_file.write(place.users, user_file.without_user(user_file.read(place.users), "new"))
    with pytest.raises(Exception, match=REFUSED), place.connect("new", "secret"):
        pass


# --- without SASL ----------------------------------------------------------------------------------------------


def test_nothing_without_a_login(place: Place) -> None:
    with place.connect("ada") as cursor, Raw(place.gateway) as client:
        handle = cursor._connection.sessionHandle
        before = len(place.recorder.recordings)
        info = client.calls.GetInfo(TGetInfoReq(handle, 17))
        assert "Invalid SessionHandle" in info.status.errorMessage
        # A call that has no handle, and that Spark would answer itself.
        with pytest.raises(TApplicationException, match="RenewDelegationToken"):
            client.calls.RenewDelegationToken(TRenewDelegationTokenReq())
        assert client.open("eve", "wrong").status.statusCode == 3
        with pytest.raises(TApplicationException, match="RenewDelegationToken"):
            client.calls.RenewDelegationToken(TRenewDelegationTokenReq())
        assert len(place.recorder.recordings) == before


def test_each_open_session_is_checked(place: Place) -> None:
    with Raw(place.gateway) as client:
        opened = client.open("ada", PASSWORDS["ada"])
        assert opened.status.statusCode == 0
        assert client.open("ada", "wrong").status.sqlState == "28000"
        assert client.open("eve", "wrong").status.sqlState == "28000"
        # Spark would take eve's session for ada's, whose password it has seen on this connection.
        second = client.open("eve", PASSWORDS["eve"])
        assert second.status.sqlState == "28000"
        assert "Open another one for 'eve'" in second.status.errorMessage
        again = client.open("ada", PASSWORDS["ada"])
        assert again.status.statusCode == 0
        for each in (opened, again):
            assert client.calls.CloseSession(TCloseSessionReq(each.sessionHandle)).status.statusCode == 0


def test_a_handle_works_for_its_own_user_only(place: Place) -> None:
    with Raw(place.gateway) as ada, Raw(place.gateway) as twin, Raw(place.gateway) as eve:
        handle = ada.open("ada", PASSWORDS["ada"]).sessionHandle
        other = twin.open("ada", PASSWORDS["ada"]).sessionHandle
        hers = eve.open("eve", PASSWORDS["eve"]).sessionHandle
        statement = TExecuteStatementReq(handle, "SELECT 7", runAsync=False)
        operation = ada.calls.ExecuteStatement(statement).operationHandle
        stolen = eve.calls.ExecuteStatement(statement)
        assert "Invalid SessionHandle: it was not opened by eve" in stolen.status.errorMessage
        fetch = TFetchResultsReq(operation, 0, 10, 0)
        assert "Invalid OperationHandle: it is not eve's" in eve.calls.FetchResults(fetch).status.errorMessage
        # From another connection of the same user it works, as Hue needs it.
        assert twin.calls.FetchResults(fetch).results.columns[0].i32Val.values == [7]
        for client, each in ((ada, handle), (twin, other), (eve, hers)):
            client.calls.CloseSession(TCloseSessionReq(each))


# --- owners and administrators ---------------------------------------------------------------------------------


def test_owners_and_administrators_are_who_logged_in(place: Place) -> None:
    with place.connect("ada") as ada, place.connect("eve") as eve, place.connect("root") as root:
        for statement in (
            "CREATE DATABASE logins",
            "CREATE TABLE logins.t USING parquet AS SELECT 1 AS a",
            "CREATE MATERIALIZED VIEW logins.m AS SELECT a FROM logins.t",
        ):
            rows(ada, statement)
        with pytest.raises(OperationalError, match=r"ada"):
            rows(eve, "DROP MATERIALIZED VIEW logins.m")
        assert rows(eve, "SELECT * FROM logins.m") == [(1,)]
        rows(root, "DROP MATERIALIZED VIEW logins.m")
        rows(ada, "DROP DATABASE logins CASCADE")


# --- an account for all ----------------------------------------------------------------------------------------


def test_spark_runs_the_session_as_the_user_whom_the_account_names(proxied: Place) -> None:
    with proxied.connect("ada") as cursor:
        assert whoami(cursor) == "ada"
    with Jdbc(proxied.gateway.url, "eve", PASSWORDS["eve"]) as client:
        assert client.query("SELECT current_user()")[1] == [("eve",)]
    with Raw(proxied.gateway) as client:
        # Each names its own user, so one connection serves several.
        for user in ("ada", "eve"):
            handle = client.open(user, PASSWORDS[user]).sessionHandle
            statement = TExecuteStatementReq(handle, "SELECT current_user()", runAsync=False)
            operation = client.calls.ExecuteStatement(statement).operationHandle
            fetched = client.calls.FetchResults(TFetchResultsReq(operation, 0, 10, 0))
            assert fetched.results.columns[0].stringVal.values == [user]
            client.calls.CloseSession(TCloseSessionReq(handle))
    for user in ("ada", "eve"):
        assert PASSWORDS[user].encode() not in proxied.sent()


@pytest.mark.parametrize("key", [PROXY_USER, f"set:hiveconf:{PROXY_USER}", PROXY_USER.upper()])
def test_nobody_names_another_user(proxied: Place, key: str) -> None:
    message = "User 'eve' cannot open a session as 'root'"
    with pytest.raises(OperationalError, match=message), proxied.connect("eve", configuration={key: "root"}):
        pass
    with Raw(proxied.gateway) as client:
        answer = client.open("eve", PASSWORDS["eve"], **{key: "root"})
        assert answer.status.sqlState == "42501"


def test_a_user_may_name_himself(proxied: Place) -> None:
    with proxied.connect("eve", configuration={PROXY_USER: "eve", "use:database": "default"}) as cursor:
        assert whoami(cursor) == "eve"


def test_a_session_that_is_opened_again_is_the_users_too(proxied: Place) -> None:
    with proxied.connect("ada") as cursor:
        assert whoami(cursor) == "ada"
        for recording in list(proxied.recorder.recordings):
            recording.cut()
        told = []

        def runs_again() -> bool:
            try:
                told.append(whoami(cursor))
            except (OperationalError, TTransportException) as error:
                told.append(str(error))
            return told[-1] == "ada"

        wait_until(runs_again, 60, "the session to be opened again")
        assert len(told) > 1
