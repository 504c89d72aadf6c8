"""Tests logins that the gateway checks in front of a Spark that checks none, and what Spark receives."""

from __future__ import annotations

import base64
import contextlib
import html
import json
import os
import re
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import jpype
import pytest
import sqlalchemy as sa
from argon2 import PasswordHasher
from clients import Jdbc, pyhive, rows
from http_caller import Caller
from issuers import Issuer
from processes import Engine, Gateway, Setting, free_port, wait_until
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
REFUSED = "cannot log in: the user name or password is wrong"
CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
PROXY_USER = "hive.server2.proxy.user"


class Site:
    """A gateway that checks logins, and a recorder of what it sends to Spark."""

    def __init__(self, engine: Engine, folder: Path, **settings: Setting) -> None:
        self.recorder = Recorder(engine.host, engine.port)
        self.users = folder / "users"
        for user, password in PASSWORDS.items():
            self.add(user, password)
        self.gateway = Gateway(
            folder / "gateway.log",
            upstream=f"{self.recorder.host}:{self.recorder.port}",
            settings={
                "authentication": "file",
                "authentication.users_file": self.users,
                "access.administrators": "root",
                **settings,
            },
        )

    def add(self, user: str, password: str, hasher: PasswordHasher = CHEAP) -> None:
        known = user_file.read(self.users) if self.users.exists() else ""
        user_file.write(self.users, user_file.with_user(known, user, hasher.hash(password)))

    def log(self) -> str:
        return self.gateway.log.read_text(encoding="utf-8")

    def connect(self, user: str, password: str | None = None, **options: Any) -> contextlib.AbstractContextManager[Any]:
        chosen = PASSWORDS[user] if password is None else password
        return pyhive(self.gateway.host, self.gateway.port, user, auth="CUSTOM", password=chosen, **options)

    def sent(self) -> bytes:
        """Returns all bytes that Spark received."""
        return b"".join(bytes(recording.sent) for recording in self.recorder.recordings)

    def close(self) -> None:
        self.gateway.stop()
        self.recorder.close()


@pytest.fixture(scope="module")
def site(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    running = Site(engine, tmp_path_factory.mktemp("logins"), **{"storage.database": "storage_logins"})
    yield running
    running.close()


@pytest.fixture(scope="module")
def proxied(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site whose gateway logs in at Spark with one account and names the user."""
    account = {"authentication.hand_on": "proxy_user", "upstream.user": "svc", "upstream.password": "svc's secret"}
    folder = tmp_path_factory.mktemp("proxied")
    running = Site(engine, folder, **account, **{"storage.database": "storage_proxied"})
    yield running
    running.close()


def test_sqlalchemy_shows_why_a_login_is_refused(site: Site) -> None:
    """thrift_sasl shows the status and a literal of Python's: Bad status: 3 (b'...')."""
    address = sa.URL.create("freshgate", "ada", "wrong", site.gateway.host, site.gateway.port)
    with pytest.raises(sa.exc.OperationalError) as refused, sa.create_engine(address).connect():
        pass
    assert str(refused.value.orig).startswith(f"User 'ada' {REFUSED}")


class Raw:
    """A client without SASL: each OpenSession is a separate login."""

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


# --- passwords -------------------------------------------------------------------------------------------------


def test_the_right_password_logs_in(site: Site) -> None:
    with site.connect("ada") as cursor:
        assert whoami(cursor) == "ada"
    with Jdbc(site.gateway.url, "eve", PASSWORDS["eve"]) as client:
        assert client.query("SELECT current_user()")[1] == [("eve",)]


@pytest.mark.parametrize(("user", "password"), [("ada", "wrong-password"), ("nobody-known", "some-password")])
def test_a_refused_login_is_explained_and_never_reaches_spark(site: Site, user: str, password: str) -> None:
    with pytest.raises(Exception, match=f"User '{user}' {REFUSED}"), site.connect(user, password):
        pass
    with pytest.raises(jpype.JException, match=f"User '{user}' {REFUSED}"):
        Jdbc(site.gateway.url, user, password)
    with Raw(site.gateway) as client:
        answer = client.open(user, password)
        assert answer.status.sqlState == "28000"
        assert f"User '{user}' {REFUSED}" in answer.status.errorMessage
        assert answer.sessionHandle is None
    assert password.encode() not in site.sent()
    log = site.gateway.log.read_text(encoding="utf-8")
    assert f"WARNING gateway.login.refusal_log: login of '{user}' from 127.0.0.1:" in log
    assert password not in log


def test_a_login_without_a_password_is_refused(site: Site) -> None:
    with Raw(site.gateway) as client:
        for password in ("", None):
            assert client.open("ada", password).status.sqlState == "28000"
    with pytest.raises(Exception, match=REFUSED), pyhive(site.gateway.host, site.gateway.port, "ada"):
        pass  # PyHive sends a default password.


def test_users_can_be_added_and_removed_while_the_gateway_runs(site: Site) -> None:
    with pytest.raises(Exception, match=REFUSED), site.connect("new", "secret"):
        pass
    site.add("new", "secret")
    with site.connect("new", "secret") as cursor:
        assert whoami(cursor) == "new"
    user_file.write(site.users, user_file.without_user(user_file.read(site.users), "new"))
    with pytest.raises(Exception, match=REFUSED), site.connect("new", "secret"):
        pass


# --- without SASL ----------------------------------------------------------------------------------------------


def test_nothing_reaches_spark_without_a_login(site: Site) -> None:
    with site.connect("ada") as cursor, Raw(site.gateway) as client:
        handle = cursor._connection.sessionHandle
        before = len(site.recorder.recordings)
        info = client.calls.GetInfo(TGetInfoReq(handle, 17))
        assert "Invalid SessionHandle" in info.status.errorMessage
        # This call has no handle; Spark would answer it.
        with pytest.raises(TApplicationException, match="RenewDelegationToken"):
            client.calls.RenewDelegationToken(TRenewDelegationTokenReq())
        assert client.open("eve", "wrong").status.statusCode == 3
        with pytest.raises(TApplicationException, match="RenewDelegationToken"):
            client.calls.RenewDelegationToken(TRenewDelegationTokenReq())
        assert len(site.recorder.recordings) == before


def test_each_open_session_is_checked(site: Site) -> None:
    with Raw(site.gateway) as client:
        opened = client.open("ada", PASSWORDS["ada"])
        assert opened.status.statusCode == 0
        assert client.open("ada", "wrong").status.sqlState == "28000"
        assert client.open("eve", "wrong").status.sqlState == "28000"
        # Spark would attribute eve's session to ada, who logged in on this connection.
        second = client.open("eve", PASSWORDS["eve"])
        assert second.status.sqlState == "28000"
        assert "Open another one for 'eve'" in second.status.errorMessage
        again = client.open("ada", PASSWORDS["ada"])
        assert again.status.statusCode == 0
        for each in (opened, again):
            assert client.calls.CloseSession(TCloseSessionReq(each.sessionHandle)).status.statusCode == 0


def test_a_handle_works_for_its_own_user_only(site: Site) -> None:
    with Raw(site.gateway) as ada, Raw(site.gateway) as twin, Raw(site.gateway) as eve:
        handle = ada.open("ada", PASSWORDS["ada"]).sessionHandle
        other = twin.open("ada", PASSWORDS["ada"]).sessionHandle
        hers = eve.open("eve", PASSWORDS["eve"]).sessionHandle
        statement = TExecuteStatementReq(handle, "SELECT 7", runAsync=False)
        operation = ada.calls.ExecuteStatement(statement).operationHandle
        stolen = eve.calls.ExecuteStatement(statement)
        assert "Invalid SessionHandle: it was not opened by eve" in stolen.status.errorMessage
        fetch = TFetchResultsReq(operation, 0, 10, 0)
        assert "Invalid OperationHandle: it does not belong to eve" in eve.calls.FetchResults(fetch).status.errorMessage
        # It works over another connection of the same user, which Hue needs.
        assert twin.calls.FetchResults(fetch).results.columns[0].i32Val.values == [7]
        for client, each in ((ada, handle), (twin, other), (eve, hers)):
            client.calls.CloseSession(TCloseSessionReq(each))


# --- owners and administrators ---------------------------------------------------------------------------------


def test_owners_and_administrators_are_identified_by_their_login(site: Site) -> None:
    with site.connect("ada") as ada, site.connect("eve") as eve, site.connect("root") as root:
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


# --- one account for all users ---------------------------------------------------------------------------------


def test_spark_runs_a_session_as_the_user_that_the_account_names(proxied: Site) -> None:
    with proxied.connect("ada") as cursor:
        assert whoami(cursor) == "ada"
    with Jdbc(proxied.gateway.url, "eve", PASSWORDS["eve"]) as client:
        assert client.query("SELECT current_user()")[1] == [("eve",)]
    with Raw(proxied.gateway) as client:
        # Each session names its user, so one connection serves several users.
        for user in ("ada", "eve"):
            handle = client.open(user, PASSWORDS[user]).sessionHandle
            statement = TExecuteStatementReq(handle, "SELECT current_user()", runAsync=False)
            operation = client.calls.ExecuteStatement(statement).operationHandle
            fetched = client.calls.FetchResults(TFetchResultsReq(operation, 0, 10, 0))
            assert fetched.results.columns[0].stringVal.values == [user]
            client.calls.CloseSession(TCloseSessionReq(handle))
    for user in ("ada", "eve"):
        assert PASSWORDS[user].encode() not in proxied.sent()


def test_views_read_rows_in_the_names_of_their_owners(proxied: Site) -> None:
    """Whoever has them refreshed; the account itself writes none."""
    with proxied.connect("ada") as ada, proxied.connect("root") as root:
        for statement in (
            "CREATE DATABASE owned",
            "CREATE TABLE owned.t USING parquet AS SELECT 1 AS a",
            "CREATE MATERIALIZED VIEW owned.m AS SELECT a FROM owned.t",
        ):
            rows(ada, statement)
        rows(root, "REFRESH MATERIALIZED VIEW owned.m")
        assert rows(root, "SELECT * FROM owned.m") == [(1,)]
        assert ("Refreshed As", "ada") in [row[:2] for row in rows(ada, "DESCRIBE EXTENDED owned.m")]
        written = [bytes(each.sent) for each in proxied.recorder.recordings if b"INSERT " in each.sent]
        assert len(written) > 0
        assert all(PROXY_USER.encode() in each for each in written)
        rows(ada, "DROP MATERIALIZED VIEW owned.m")
        rows(ada, "DROP DATABASE owned CASCADE")


@pytest.mark.parametrize("key", [PROXY_USER, f"set:hiveconf:{PROXY_USER}", PROXY_USER.upper()])
def test_a_user_cannot_open_a_session_as_another_user(proxied: Site, key: str) -> None:
    message = "User 'eve' cannot open a session as 'root'"
    with pytest.raises(OperationalError, match=message), proxied.connect("eve", configuration={key: "root"}):
        pass
    with Raw(proxied.gateway) as client:
        answer = client.open("eve", PASSWORDS["eve"], **{key: "root"})
        assert answer.status.sqlState == "42501"


def test_a_session_configuration_may_name_its_own_user(proxied: Site) -> None:
    with proxied.connect("eve", configuration={PROXY_USER: "eve", "use:database": "default"}) as cursor:
        assert whoami(cursor) == "eve"


def test_an_account_acts_in_the_name_of_its_users(engine: Engine, tmp_path: Path) -> None:
    audit = tmp_path / "audit"
    groups = tmp_path / "groups"
    groups.write_text("staff: zoe, root\nadmins: ada\n")
    rules = '["eve: group:staff from 127.0.0.1", "ada: eve from 192.0.2.1"]'
    settings: dict[str, Setting] = {
        "access.impersonators": rules,
        "storage.database": "storage_acting",
        "log.audit": audit,
    }
    settings |= {"groups.sources": "file", "groups.file": groups, "access.administrators": "root,group:admins"}
    site = Site(engine, tmp_path, **settings, **{"listen.http_port": 0})
    try:
        with site.connect("eve", configuration={PROXY_USER: "zoe"}) as cursor:
            assert whoami(cursor) == "zoe"
            cursor.execute("CREATE DATABASE acting")
            cursor.execute("CREATE TABLE acting.t AS SELECT 1 AS i")
            cursor.execute("CREATE MATERIALIZED VIEW acting.mv AS SELECT count(*) n FROM acting.t")
        with site.connect("eve") as cursor, pytest.raises(OperationalError, match="zoe"):
            cursor.execute("DROP MATERIALIZED VIEW acting.mv")
        for user, other in (("eve", "root"), ("eve", "yan"), ("ada", "eve")):
            message = f"User '{user}' cannot open a session as '{other}'.*access.impersonators does not allow it"
            with pytest.raises(OperationalError, match=message), site.connect(user, configuration={PROXY_USER: other}):
                pass
        with contextlib.closing(Caller(site.gateway.http_port, "eve", password=PASSWORDS["eve"])) as caller:
            caller.path = "/cliservice?doAs=zoe"
            session = caller.open_session()
            assert caller.select(session, "SELECT current_user()") == ["zoe"]
            caller.call("CloseSession", TCloseSessionReq(session))
        # An administrator by her group.
        with site.connect("ada") as cursor:
            cursor.execute("DROP MATERIALIZED VIEW acting.mv")
        with site.connect("eve") as cursor:
            cursor.execute("DROP DATABASE acting CASCADE")
    finally:
        site.close()
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert {("zoe", "eve")} == {
        (line["user"], line["account"]) for line in lines if line["event"] == "session_end" and "account" in line
    }


def test_a_reopened_session_runs_as_the_same_user(proxied: Site) -> None:
    with proxied.connect("ada") as cursor:
        assert whoami(cursor) == "ada"
        for recording in list(proxied.recorder.recordings):
            recording.cut()
        answers = []

        def runs_again() -> bool:
            try:
                answers.append(whoami(cursor))
            except (OperationalError, TTransportException) as error:
                answers.append(str(error))
            return answers[-1] == "ada"

        wait_until(runs_again, 60, "the session to be reopened")
        assert len(answers) > 1


# --- logins that are refused, at a rate ----------------------------------------------------------------------


@dataclass(frozen=True)
class Latencies:
    """Medians, in seconds."""

    login: float
    query: float

    @classmethod
    def measured(cls, site: Site, times: int) -> Latencies:
        logins, queries = [], []
        for _ in range(times):
            began = time.monotonic()
            with site.connect("ada") as cursor:
                logins.append(time.monotonic() - began)
                began = time.monotonic()
                assert rows(cursor, "SELECT 1") == [(1,)]
                queries.append(time.monotonic() - began)
        return cls(statistics.median(logins), statistics.median(queries))


@pytest.mark.parametrize(
    ("rate", "seconds"), [(60.0, 4.0), pytest.param(10_000 / 60, 60.0, marks=pytest.mark.thorough)]
)
def test_refused_logins_slow_no_others(
    engine: Engine, tmp_path: Path, rate: float, seconds: float, record_property: Any
) -> None:
    (tmp_path / "stranger").mkdir()
    issuer, stranger = Issuer(tmp_path), Issuer(tmp_path / "stranger")
    account = {"authentication.hand_on": "proxy_user", "upstream.user": "svc", "upstream.password": "svc's secret"}
    place: dict[str, Setting] = {"listen.http_port": 0, "storage.database": f"storage_flood_{int(rate)}"}
    site = Site(engine, tmp_path, **account, **place, **issuer.settings)
    site.add("ada", PASSWORDS["ada"], PasswordHasher())  # A hash that takes as long as those of users.
    encoded, _, signature = issuer.token("ada").rpartition(".")
    nothing = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    orders = {
        "host": site.gateway.host,
        "port": site.gateway.port,
        "http_port": site.gateway.http_port,
        "rate": rate,
        "seconds": seconds,
        "passwords": [("ada", "wrong"), ("nobody", "wrong"), ("ada", "")],
        "tokens": {
            "expired": issuer.token("ada", -600.0),
            "early": issuer.token("ada", nbf=int(time.time()) + 600),
            "foreign": stranger.token("ada"),
            "another service's": issuer.token("ada", aud="other"),
            "changed": f"{encoded}.{signature[::-1]}",
            "unsigned": f"{encoded}.",
            "alg none": f"{nothing}.{encoded.partition('.')[2]}.",
            "garbage": "x.y.z",
        },
    }
    try:
        before = Latencies.measured(site, 10)
        program = Path(__file__).parents[1] / "bad_logins.py"
        with subprocess.Popen(
            [sys.executable, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as flood:
            assert flood.stdin is not None
            flood.stdin.write(json.dumps(orders))
            flood.stdin.close()
            wait_until(lambda: "refused:" in site.log(), what="the first refusals")
            during = Latencies.measured(site, int(seconds * 2))
            assert flood.stdout is not None
            told = json.loads(flood.stdout.read())
        figures = {"before": before, "during": during, "load": os.getloadavg(), **told}
        record_property("figures", str(figures))
        print(figures)
        others = [outcome for outcome in told["outcomes"] if not outcome.endswith(": refused")]
        assert (told["sent"] >= rate * seconds * 0.9, others) == (True, [])
        assert during.query < 4 * before.query + 0.1, figures
        assert during.login < 4 * before.login + 0.3, figures
        assert site.log().count("refused:") < 50
    finally:
        site.close()


# --- the page --------------------------------------------------------------------------------------------------------


class Tab:
    """A browser's tab: it keeps cookies, and sends the forms of the page that it has."""

    def __init__(self, port: int) -> None:
        self._place = f"http://127.0.0.1:{port}"
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        self.text = ""

    def get(self, path: str) -> str:
        with self._opener.open(self._place + path) as answer:
            self.text = answer.read().decode()
        return self.text

    def press(self, path: str, **fields: str) -> str:
        token = re.search(r'name="token" value="([^"]+)"', self.text)
        sent = urlencode({**({"token": token[1]} if token else {}), **fields}).encode()
        request = urllib.request.Request(self._place + path, sent, {"Origin": self._place})
        with self._opener.open(request) as answer:
            self.text = answer.read().decode()
        return self.text


def test_an_owner_mends_a_failing_view_on_the_page(engine: Engine, tmp_path: Path) -> None:
    """Its failure is there within two seconds, with its cause, and so are the alerts at its beginning and its end."""
    alerts: list[dict[str, Any]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            alerts.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    receiver = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    port = free_port()
    settings: dict[str, Setting] = {"page.port": port, "notify.url": f"http://127.0.0.1:{receiver.server_port}/"}
    site = Site(engine, tmp_path, **settings)
    tab = Tab(port)
    tab.press("/login", user="ada", password=PASSWORDS["ada"], next="/")
    with site.connect("ada") as cursor:
        rows(cursor, "CREATE DATABASE looked_at")
        rows(cursor, "CREATE TABLE looked_at.sales (a INT, note STRING)")
        rows(cursor, "CREATE MATERIALIZED VIEW looked_at.v AS SELECT a, CAST(note AS INT) AS n FROM looked_at.sales")
        assert "Nothing is wrong with any view." in tab.get("/")
        rows(cursor, "INSERT INTO looked_at.sales VALUES (1, 'none')")
        with pytest.raises(OperationalError):
            rows(cursor, "SELECT * FROM looked_at.v")
        wait_until(lambda: "FAILING" in tab.get("/"), 2, "the failure on the page")
        assert "CAST_INVALID_INPUT" in tab.text
        rows(cursor, "INSERT OVERWRITE looked_at.sales VALUES (1, '2')")
        tab.get("/views/looked_at/v")
        said = tab.press("/do/refresh", database="looked_at", name="v", back="/views/looked_at/v")
        assert "A refresh of looked_at.v has begun." in said
        wait_until(lambda: "Nothing is wrong with any view." in tab.get("/"), 60, "the page to say that it is mended")
        assert rows(cursor, "SELECT * FROM looked_at.v") == [(1, 2)]
        wait_until(lambda: len(alerts) == 2, what="both alerts")
        assert [alert["event"] for alert in alerts] == ["view_failing", "view_recovered"]
        assert "SELECT * FROM looked_at.v" in html.unescape(tab.get("/activity"))
        assert rows(cursor, "SELECT named_reads FROM freshgate.reads WHERE name = 'v'") == [(1,)]
        waited = (
            "SELECT count(*) FROM freshgate.statements WHERE waited_ms > 0 AND text LIKE 'SELECT * FROM looked_at%'"
        )
        assert rows(cursor, waited) == [(1,)]
        rows(cursor, "DROP MATERIALIZED VIEW looked_at.v")
        rows(cursor, "DROP DATABASE looked_at CASCADE")
    site.close()
    receiver.shutdown()
    receiver.server_close()
