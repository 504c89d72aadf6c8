"""Tests clients over HTTP: drivers, sessions, cookies and connections."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from argon2 import PasswordHasher
from certificates import Certificates
from clients import Jdbc, impyla, pyhive, rows
from http_caller import Caller, message
from processes import Engine, Gateway, Setting, wait_until
from recorder import Recorder
from sqlalchemy.dialects import registry
from TCLIService import ttypes

from gateway.login import user_file

registry.register("freshgate.http", "gateway.sqlalchemy.dialect", "FreshgateHttpDialect")
registry.register("freshgate.https", "gateway.sqlalchemy.dialect", "FreshgateHttpsDialect")

SERVED: dict[str, Setting] = {"listen.http_port": 0, "storage.database": "storage_http"}


@pytest.fixture(scope="module")
def served(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    log = tmp_path_factory.mktemp("http") / "gateway.log"
    running = Gateway(log, upstream=f"{engine.host}:{engine.port}", settings=SERVED)
    yield running
    running.stop()


def test_jdbc_works_over_http(served: Gateway) -> None:
    url = f"jdbc:hive2://{served.http_address}".replace("/;", "/default;")
    with Jdbc(url) as jdbc:
        jdbc.execute("CREATE TABLE http_sales (day INT, amount INT) USING parquet")
        jdbc.execute("INSERT INTO http_sales VALUES (1, 10), (2, 7)")
        jdbc.execute(
            "CREATE MATERIALIZED VIEW http_daily AS SELECT day, sum(amount) AS total FROM http_sales GROUP BY day"
        )
        assert jdbc.query("SELECT * FROM http_daily ORDER BY day") == (["day", "total"], [(1, 10), (2, 7)])
        jdbc.execute("INSERT INTO http_sales VALUES (2, 1)")
        assert jdbc.query("SELECT * FROM http_daily ORDER BY day")[1] == [(1, 10), (2, 8)]
        _, found = jdbc.query("SELECT id, repeat('x', 3000) AS x FROM range(5000) ORDER BY id")
        assert [row[0] for row in found] == list(range(5000))
        assert {len(row[1]) for row in found} == {3000}
        jdbc.execute("DROP MATERIALIZED VIEW http_daily")


def test_impyla_works_over_http(served: Gateway) -> None:
    with impyla(served.http_port, use_http_transport=True, http_path="cliservice") as cursor:
        cursor.execute("SELECT current_user(), 1 + 1")
        assert cursor.fetchall() == [("ada", 2)]


def test_pyhive_works_over_http(served: Gateway) -> None:
    options = {"scheme": "http", "auth": "BASIC", "password": "x"}
    with pyhive("127.0.0.1", served.http_port, "ada", **options) as cursor:
        cursor.execute("SELECT current_user(), id, repeat('x', 100) FROM range(3000)")
        found = cursor.fetchall()
        assert {row[0] for row in found} == {"ada"}
        assert sorted(row[1] for row in found) == list(range(3000))


@pytest.mark.filterwarnings("ignore:The dbapi.. classmethod on dialect classes:sqlalchemy.exc.SADeprecationWarning")
@pytest.mark.filterwarnings("ignore:Dialect hive.rest will not make use of SQL compilation:sqlalchemy.exc.SAWarning")
@pytest.mark.parametrize("name", ["freshgate", "hive"])
def test_sqlalchemy_works_over_http(served: Gateway, name: str) -> None:
    engine = sqlalchemy.create_engine(f"{name}+http://ada:x@127.0.0.1:{served.http_port}/default")
    with engine.connect() as connection:
        assert connection.execute(sqlalchemy.text("SELECT current_user(), 1")).tuples().all() == [("ada", 1)]
    engine.dispose()


def test_sqlalchemy_works_over_https(
    start_gateway: Any, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway: Gateway = start_gateway(**{"listen.http_port": 0, "tls.certificate": certificates.server})
    url = f"freshgate+https://ada:x@localhost:{gateway.http_port}/default"
    for variable, reached in (("", False), (str(certificates.ca), True)):
        monkeypatch.setenv("SSL_CERT_FILE", variable)
        engine = sqlalchemy.create_engine(url)
        if reached:
            with engine.connect() as connection:
                assert connection.execute(sqlalchemy.text("SELECT current_user(), 1")).tuples().all() == [("ada", 1)]
        else:
            with pytest.raises(sqlalchemy.exc.OperationalError, match="CERTIFICATE_VERIFY_FAILED"):
                engine.connect()
        engine.dispose()


def test_a_session_outlives_its_connections(served: Gateway) -> None:
    one = Caller(served.http_port)
    session = one.open_session()
    one.select(session, "SET freshgate_probe = 7")
    one.close()
    two = Caller(served.http_port)
    assert two.select(session, "SELECT '${freshgate_probe}'") == ["7"]
    two.call("CloseSession", ttypes.TCloseSessionReq(session))
    ended = two.call("ExecuteStatement", ttypes.TExecuteStatementReq(session, "SELECT 1", {}, False))
    assert "Invalid SessionHandle" in ended.status.errorMessage
    two.close()


def test_a_handle_works_only_for_its_own_user(served: Gateway) -> None:
    ada, eve = Caller(served.http_port), Caller(served.http_port, "eve")
    session = ada.open_session()
    refused = eve.call("ExecuteStatement", ttypes.TExecuteStatementReq(session, "SELECT 1", {}, False))
    assert "Invalid SessionHandle" in refused.status.errorMessage
    # A proxy may send another user's request over the same connection.
    eve.headers = ada.headers
    assert eve.select(session, "SELECT current_user()") == ["ada"]
    ada.call("CloseSession", ttypes.TCloseSessionReq(session))
    ada.close()
    eve.close()


def test_a_cookie_replaces_user_and_password(served: Gateway) -> None:
    ada = Caller(served.http_port)
    session = ada.open_session()
    assert ada.cookie.startswith("hive.server2.auth=")
    with_cookie = Caller(served.http_port, Cookie=ada.cookie.partition(";")[0])
    assert with_cookie.select(session, "SELECT current_user()") == ["ada"]
    stranger = Caller(served.http_port, Cookie="hive.server2.auth=made-up")
    assert stranger.post(message("CloseSession", ttypes.TCloseSessionReq(session)))[0] == 401
    ada.call("CloseSession", ttypes.TCloseSessionReq(session))
    for each in (ada, with_cookie, stranger):
        each.close()


def test_an_idle_session_is_closed(start_gateway: Any) -> None:
    gateway: Gateway = start_gateway(**{"listen.http_port": 0, "limits.http_session_seconds": 0.5})
    ada = Caller(gateway.http_port)
    session = ada.open_session()
    asked = ttypes.TExecuteStatementReq(session, "SELECT 1", {}, False)

    def logged() -> bool:
        return "limits.http_session_seconds" in gateway.log.read_text(encoding="utf-8")

    wait_until(logged, what="the session to be closed")
    assert "Invalid SessionHandle" in ada.call("ExecuteStatement", asked).status.errorMessage
    ada.close()


def test_only_forwarded_requests_open_a_connection_to_spark(engine: Engine, tmp_path: Path) -> None:
    """The client uses neither cookies nor keep-alive. Requests that the gateway answers itself need no connection to
    Spark other than the session's."""
    recorder, users = Recorder(engine.host, engine.port), tmp_path / "users"
    cheap = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    user_file.write(users, f"ada:{cheap.hash('secret')}\n")
    settings: dict[str, Setting] = {"listen.http_port": 0, "storage.database": "storage_each", "authentication": "file"}
    upstream = f"{recorder.host}:{recorder.port}"
    gateway = Gateway(
        tmp_path / "gateway.log", upstream=upstream, settings={**settings, "authentication.users_file": users}
    )

    def ask(name: str, request: Any) -> Any:
        caller = Caller(gateway.http_port)
        try:
            return caller.call(name, request)
        finally:
            caller.close()

    def joined() -> int:
        return sum(b"\0ada\0" in bytes(each.sent) for each in recorder.recordings)

    try:
        session = ask("OpenSession", ttypes.TOpenSessionReq(ttypes.TProtocolVersion.HIVE_CLI_SERVICE_PROTOCOL_V6))
        handle = session.sessionHandle
        shown = ask("ExecuteStatement", ttypes.TExecuteStatementReq(handle, "SHOW MATERIALIZED VIEWS", {}, False))
        fetch = ttypes.TFetchResultsReq(shown.operationHandle, ttypes.TFetchOrientation.FETCH_NEXT, 100)
        assert ask("FetchResults", fetch).status.statusCode == 0
        ask("CloseOperation", ttypes.TCloseOperationReq(shown.operationHandle))
        assert joined() == 1
        forwarded = ask("ExecuteStatement", ttypes.TExecuteStatementReq(handle, "SELECT 1", {}, False))
        assert forwarded.status.statusCode == 0
        assert joined() == 2
        ask("CloseSession", ttypes.TCloseSessionReq(handle))
        assert joined() == 2
        user_file.write(users, "")
        late = Caller(gateway.http_port)
        assert late.post(message("CloseSession", ttypes.TCloseSessionReq(handle)))[0] == 401
        late.close()
    finally:
        gateway.stop()
        recorder.close()


def test_binary_and_http_clients_are_served_together(served: Gateway) -> None:
    ada = Caller(served.http_port)
    session = ada.open_session()
    with pyhive(served.host, served.port) as cursor:
        assert rows(cursor, "SELECT 2") == [(2,)]
        assert ada.select(session, "SELECT 'one'") == ["one"]
    ada.call("CloseSession", ttypes.TCloseSessionReq(session))
    ada.close()
