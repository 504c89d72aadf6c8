"""Tests two gateways over one Spark: one leads, the other passes its clients on, and takes over when it has gone."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import jpype
import pytest
from certificates import Certificates
from clients import Jdbc, impyla, pyhive, rows, told_to_repeat, unclosed
from http_caller import Caller
from lineage_receiver import LineageReceiver
from processes import Gateway, free_port, wait_until
from pyhive import hive
from pyhive.exc import OperationalError
from TCLIService import ttypes
from thrift.transport.TTransport import TTransportException
from zookeeper_server import ZooKeeperServer

TAKEOVER_SECONDS = 20.0
"""A killed process is noticed at once; most of this is a busy machine's."""
SECRET = "0123456789abcdef" * 2


class Pair:
    """Gateways with the settings of several."""

    def __init__(self, start: Callable[..., Gateway], directory: Path, certificates: Certificates) -> None:
        self._start = start
        self._directory = directory
        self._certificates = certificates
        self.constants: Mapping[str, object] = {}
        """As those of `Gateway`, for gateways that start later."""

    def gateway(self, name: str, **settings: Any) -> Gateway:
        return self._start(
            constants=self.constants,
            **{
                "gateways.enabled": "true",
                "gateways.address": f"127.0.0.1:{free_port()}",
                "gateways.secret": SECRET,
                "gateways.tls_ca": self._certificates.ca,
                "tls.certificate": self._certificates.server,
                "tls.ports": "http",
                "log.audit": self.audit(name),
                **settings,
            },
        )

    def audit(self, name: str) -> Path:
        return self._directory / f"{name}.jsonl"

    def lines(self, name: str) -> list[dict[str, Any]]:
        path = self.audit(name)
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


@pytest.fixture
def pair(start_gateway: Callable[..., Gateway], tmp_path: Path, certificates: Certificates) -> Pair:
    return Pair(start_gateway, tmp_path, certificates)


def read(gateway: Gateway, sql: str) -> list[tuple[Any, ...]] | None:
    """The rows for a new client; None if it is not served."""
    try:
        with unclosed(gateway) as cursor:
            return sorted(rows(cursor, sql))
    except (OperationalError, TTransportException, OSError):
        return None


def probe(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def check_probes_of_door(port: int, addresses: list[str], epoch: int) -> None:
    """`addresses`: the leader's and the door's."""
    status, answer = probe(port, "/leaderz")
    assert (status, json.loads(answer)["leader"]) == (503, addresses[0])
    status, answer = probe(port, "/status")
    told = {name: json.loads(answer)[name] for name in ("address", "role", "epoch", "leader", "clients")}
    assert (status, told) == (
        200,
        {"address": addresses[1], "role": "DOOR", "epoch": epoch, "leader": addresses[0], "clients": 1},
    )


def check_probes_of_leader(port: int, page: int, epoch: int) -> None:
    assert probe(port, "/leaderz") == (200, f'{{"status": "leading", "epoch": {epoch}}}\n')
    assert json.loads(probe(port, "/status")[1])["role"] == "LEADER"
    assert "several.totals" in probe(page, "/views")[1]


def check_page_of_door(port: int, addresses: list[str]) -> None:
    """`addresses`: the leader's and the door's. Nobody has to log in."""
    assert "several.totals" in probe(port, "/views")[1]
    gateways = json.loads(probe(port, "/?format=json")[1])["gateways"]
    assert [each["address"] for each in gateways] == addresses
    assert [each["role"] for each in gateways] == ["LEADER", "DOOR"]


EXCHANGED = {"several.large": [(1,)], "several.least": [(2,), (3,), (4,)]}
"""The rows of the views that `change_and_exchange` leaves."""


def change_and_exchange(here: Any, there: Any) -> None:
    """Changes the definition of a view, and exchanges its name with another one's, through a gateway that does not
    lead."""
    changed = "CREATE OR REPLACE MATERIALIZED VIEW several.large REFRESH INCREMENTAL FALLBACK AS "
    changed += "SELECT amount FROM several.sales WHERE amount"
    rows(there, f"{changed} > 3")
    rows(there, f"{changed} > 1")
    assert any("stored rows of version 1" in line for line in there.fetch_logs())
    rows(there, "CREATE MATERIALIZED VIEW several.least AS SELECT min(amount) FROM several.sales")
    rows(there, "ALTER MATERIALIZED VIEWS SWAP (several.large WITH several.least)")
    for cursor in (here, there):
        assert {view: sorted(rows(cursor, f"SELECT * FROM {view}")) for view in EXCHANGED} == EXCHANGED


def drop_several(cursor: Any) -> None:
    """The gateway is the third that leads since the views were exchanged."""
    assert {view: sorted(rows(cursor, f"SELECT * FROM {view}")) for view in EXCHANGED} == {
        **EXCHANGED,
        "several.least": [*EXCHANGED["several.least"], (5,)],
    }
    for view in ("several.totals", *EXCHANGED):
        rows(cursor, f"DROP MATERIALIZED VIEW {view}")
    rows(cursor, "DROP DATABASE several CASCADE")


def test_a_door_passes_clients_on_and_takes_over(pair: Pair) -> None:
    leader = pair.gateway("leader", **{"page.port": free_port()})
    metrics, page = free_port(), free_port()
    door = pair.gateway("door", **{"metrics.port": metrics, "page.port": page})
    with pyhive(leader.host, leader.port) as here, pyhive(door.host, door.port, user="ada") as there:
        # What would be refused if another process could use this metastore can be seen: it is not, with Derby.
        assert rows(here, "SET datanucleus.cache.level2") == [("datanucleus.cache.level2", "true")]
        rows(here, "CREATE DATABASE several")
        rows(here, "CREATE TABLE several.sales (region STRING, amount INT)")
        rows(here, "INSERT INTO several.sales VALUES ('north', 1)")
        rows(
            there, "CREATE MATERIALIZED VIEW several.totals AS SELECT region, sum(amount) FROM several.sales GROUP BY 1"
        )
        for amount in range(2, 5):
            writer, reader = (here, there) if amount % 2 else (there, here)
            rows(writer, f"INSERT INTO several.sales VALUES ('north', {amount})")
            assert rows(reader, "SELECT * FROM several.totals") == [("north", sum(range(amount + 1)))]
        change_and_exchange(here, there)
        handle = there._connection._transport._trans.handle
        ours = [line for line in pair.lines("leader") if line.get("user") == "ada"]
        assert {line["client"] for line in ours} == {":".join(map(str, handle.getsockname()))}
        assert pair.lines("door") == []
        listed = rows(there, "SELECT role, clients, epoch, since < now() FROM freshgate.gateways ORDER BY role")
        epoch = listed[0][2]
        assert listed == [("DOOR", 1, epoch, True), ("LEADER", 1, epoch, True)]
        assert epoch > 0
        shown = rows(here, "SHOW GATEWAYS LIKE '127.*'")
        assert [row[1] for row in shown] == ["LEADER", "DOOR"]
        addresses = [row[0] for row in shown]
        assert probe(metrics, "/readyz")[0] == 200
        told = probe(metrics, "/metrics")[1]
        assert "\nfreshgate_leader 0.0\n" in told
        assert "\nfreshgate_following 1.0\n" in told
        assert f"\nfreshgate_epoch {epoch}.0\n" in told
        check_probes_of_door(metrics, addresses, epoch)
        check_page_of_door(page, addresses)

    leader.kill()
    expected = [("north", 10)]
    wait_until(lambda: read(door, "SELECT * FROM several.totals") == expected, TAKEOVER_SECONDS, "the takeover")
    assert pair.lines("door")
    told = probe(metrics, "/metrics")[1]
    assert "\nfreshgate_leader 1.0\n" in told
    assert f"\nfreshgate_epoch {epoch + 1}.0\n" in told
    assert "\nfreshgate_takeover_seconds_count 1.0\n" in told
    check_probes_of_leader(metrics, page, epoch + 1)

    back = pair.gateway("back")
    with pyhive(back.host, back.port) as here, pyhive(door.host, door.port) as there:
        rows(here, "INSERT INTO several.sales VALUES ('south', 5)")
        assert sorted(rows(there, "SELECT * FROM several.totals")) == [("north", 10), ("south", 5)]
    assert pair.lines("back") == []

    assert door.stop() == 0
    expected.append(("south", 5))
    wait_until(lambda: read(back, "SELECT * FROM several.totals") == expected, TAKEOVER_SECONDS, "the handover")
    with pyhive(back.host, back.port, user="ada") as cursor:
        drop_several(cursor)


@pytest.mark.parametrize(
    "signal_sent",
    [
        pytest.param(signal.SIGKILL, id="killed"),
        pytest.param(signal.SIGTERM, id="stopped", marks=pytest.mark.thorough),
    ],
)
def test_a_session_outlives_its_leader(pair: Pair, signal_sent: signal.Signals) -> None:
    """Two gateways, the first of which leads: the second one takes over its own clients; a third passes its clients on
    to the second one."""
    slow = "BEGIN CREATE TABLE begun (a INT); SELECT java_method('java.lang.Thread', 'sleep', 20000L); END"
    leader, door, third = pair.gateway("leader"), pair.gateway("door"), pair.gateway("third")
    with (
        pyhive(door.host, door.port) as here,
        pyhive(third.host, third.port, user="ada") as there,
        Jdbc(f"jdbc:hive2://{door.host}:{door.port}") as jdbc,
        ThreadPoolExecutor() as pool,
    ):
        rows(here, "CREATE DATABASE outliving")
        jdbc.execute("CREATE TEMPORARY VIEW of_jdbc AS SELECT 7 AS x")
        for cursor in (here, there):
            rows(cursor, "USE outliving")
            rows(cursor, "SET spark.sql.shuffle.partitions = 7")
            rows(cursor, "CREATE TEMPORARY VIEW mine AS SELECT 42 AS x")
            rows(cursor, "SET freshgate.rewrite = off")
        rows(here, "CREATE TABLE sales (amount INT)")
        rows(here, "INSERT INTO sales VALUES (1)")
        rows(here, "CREATE MATERIALIZED VIEW totals AS SELECT sum(amount) AS total FROM sales")
        rows(there, "CREATE TEMPORARY VIEW of_totals AS SELECT total + x AS y FROM totals, mine")
        assert rows(there, "SELECT * FROM of_totals") == [(43,)]

        slept = pool.submit(outcome, there, slow) if signal_sent == signal.SIGKILL else None
        if slept is not None:
            wait_until(lambda: rows(here, "SHOW TABLES LIKE 'begun'"), 60, "the statement to run")
        leader.program.stop(signal_sent)

        if slept is not None:
            assert "unknown whether the statement took effect" in str(slept.result(60))
        assert jdbc.query("SELECT x FROM of_jdbc")[1] == [(7,)]
        for cursor in (here, there):
            assert rows(cursor, "SELECT x FROM mine") == [(42,)]
            assert rows(cursor, "SELECT current_database()") == [("outliving",)]
            assert rows(cursor, "SET spark.sql.shuffle.partitions") == [("spark.sql.shuffle.partitions", "7")]
        rows(here, "INSERT INTO sales VALUES (2)")
        assert rows(there, "SELECT * FROM totals") == [(3,)]
        assert rows(there, "SELECT * FROM of_totals") == [(45,)]
        rows(there, "INSERT INTO sales VALUES (3)")
        assert rows(here, "SELECT * FROM totals") == [(6,)]
        rows(here, "DROP MATERIALIZED VIEW totals")
        rows(here, "DROP DATABASE outliving CASCADE")


@pytest.mark.thorough
def test_only_the_leader_tells_of_lineage(pair: Pair) -> None:
    """Once for each refresh; and the next leader goes on, with the parent that a session has named before."""
    receiver, parent = LineageReceiver(), "01920000-0000-7000-8000-000000000001"
    settings = {"lineage.url": receiver.url}
    leader, door = pair.gateway("leader", **settings), pair.gateway("door", **settings)
    with pyhive(door.host, door.port) as cursor:
        for text in (
            "CREATE DATABASE telling",
            "USE telling",
            "CREATE TABLE sales (amount INT)",
            f"SET freshgate.lineage.parent = airflow/dag/{parent}",
            "CREATE MATERIALIZED VIEW totals AS SELECT sum(amount) AS total FROM sales",
        ):
            rows(cursor, text)
        wait_until(lambda: len(receiver.events) == 2)
        leader.program.stop(signal.SIGKILL)
        rows(cursor, "REFRESH MATERIALIZED VIEW totals")
        wait_until(lambda: len(receiver.events) == 4)
        rows(cursor, "DROP MATERIALIZED VIEW totals")
        rows(cursor, "DROP DATABASE telling CASCADE")
    wait_until(lambda: len(receiver.events) == 5)
    *runs, dropped = receiver.events
    assert [each["eventType"] for each in runs] == ["START", "COMPLETE"] * 2
    assert [each["run"]["facets"]["parent"]["run"]["runId"] for each in runs] == [parent] * 4
    assert len({each["outputs"][0]["name"] for each in runs} | {dropped["dataset"]["name"]}) == 1
    receiver.close()


HTTP = {"listen.http_port": 0, "gateways.tls_ca": "", "tls.certificate": "", "tls.ports": "binary,http"}
SLOW_INSERT = (
    "BEGIN CREATE TABLE begun (a INT);"
    " INSERT INTO moved SELECT java_method('java.lang.Thread', 'sleep', {}L) IS NULL; END"
)


def over_http(gateway: Gateway) -> Jdbc:
    return Jdbc(f"jdbc:hive2://{gateway.http_address}".replace("/;", "/default;"))


def sqlstate_of(jdbc: Jdbc, sql: str) -> str:
    """That of the error with which a statement ends; "" if it succeeds."""
    try:
        jdbc.execute(sql)
    except jpype.JClass("java.sql.SQLException") as error:
        return str(error.getSQLState())
    return ""


@pytest.mark.parametrize(
    "signal_sent",
    [
        pytest.param(signal.SIGKILL, id="killed"),
        pytest.param(signal.SIGTERM, id="stopped", marks=pytest.mark.thorough),
    ],
)
def test_a_session_over_http_outlives_its_leader(pair: Pair, signal_sent: signal.Signals) -> None:
    """Sessions of clients of the door that takes over, of the other door, and of the leader itself: that one comes back
    through another gateway."""
    leader, door, third = (pair.gateway(name, **HTTP) for name in ("leader", "door", "third"))
    options = {"scheme": "http", "auth": "BASIC", "password": "x"}
    with (
        over_http(door) as jdbc,
        over_http(third) as writing,
        pyhive("127.0.0.1", third.http_port, "ada", **options) as cursor,
        impyla(door.http_port, use_http_transport=True, http_path="cliservice") as other_cursor,
        ThreadPoolExecutor() as pool,
    ):
        other_cursor.execute("CREATE TEMPORARY VIEW of_impyla AS SELECT 3 AS x")
        database = f"over_http_{signal_sent.name.lower()}"
        jdbc.execute(f"CREATE DATABASE {database}")
        jdbc.execute(f"CREATE TABLE {database}.moved (a BOOLEAN)")
        for run in (jdbc.execute, writing.execute, partial(rows, cursor)):
            run(f"USE {database}")
            run("SET spark.sql.shuffle.partitions = 7")
            run("CREATE TEMPORARY VIEW mine AS SELECT 42 AS x")
            run("SET freshgate.rewrite = off")
        direct = Caller(leader.http_port)
        session = direct.open_session()
        assert direct.select(session, "SET its_own = 5") == ["its_own"]
        direct.close()

        killed = signal_sent == signal.SIGKILL
        slow = pool.submit(sqlstate_of, writing, SLOW_INSERT.format(30_000 if killed else 5_000))
        wait_until(lambda: jdbc.query("SHOW TABLES LIKE 'begun'")[1], 60, "the statement to run")
        leader.program.stop(signal_sent)

        assert told_to_repeat(lambda: jdbc.query("SELECT x FROM mine"))[1] == [(42,)]
        assert told_to_repeat(lambda: rows(cursor, "SELECT x FROM mine")) == [(42,)]
        told_to_repeat(lambda: other_cursor.execute("SELECT x FROM of_impyla"))
        assert other_cursor.fetchall() == [(3,)]
        for sql, found in (
            ("SELECT current_database()", (database,)),
            ("SET spark.sql.shuffle.partitions", ("spark.sql.shuffle.partitions", "7")),
            ("SET freshgate.rewrite", ("freshgate.rewrite", "off")),
        ):
            assert jdbc.query(sql)[1] == rows(cursor, sql) == [found]
        again = Caller(third.http_port)
        assert again.select(session, "SELECT '${its_own}'") == ["5"]
        again.call("CloseSession", ttypes.TCloseSessionReq(session))
        other = Caller(door.http_port)
        ended = other.call("ExecuteStatement", ttypes.TExecuteStatementReq(session, "SELECT 1", {}, False))
        assert "Invalid SessionHandle" in ended.status.errorMessage
        for each in (again, other):
            each.close()
        assert slow.result(90) == ("08007" if killed else "")
        assert sqlstate_of(writing, "INSERT INTO moved VALUES (true)") == ""
        assert jdbc.query("SELECT count(*) FROM moved")[1] == [(1 if killed else 2,)]
        jdbc.execute(f"DROP DATABASE {database} CASCADE")


def test_a_gateway_with_another_secret_leaves_the_leader_alone(pair: Pair) -> None:
    leader = pair.gateway("leader")
    other = pair.gateway("other", **{"gateways.secret": "f" * 32, "gateways.wait_seconds": 0})
    assert read(other, "SELECT 1") is None
    assert read(leader, "SELECT 1") == [(1,)]
    assert pair.lines("other") == []


LEADS = "this gateway leads"
ROUNDS = int(os.environ.get("FRESHGATE_ROUNDS", "10"))
SEED = int(os.environ.get("FRESHGATE_SEED", "1"))
TABLES = [f"moving.tokens_{n}" for n in range(12)]
"""One for each writer, and another one after each INSERT that failed: Spark may go on with it, and INSERTs into one
table that run at the same time delete each other's files. It comes last then."""


LOST = (OperationalError, TTransportException, OSError, HTTPException)
"""What a client sees whose gateway goes."""


@contextmanager
def unclosed_over_http(gateway: Gateway) -> Iterator[Any]:
    """As `clients.unclosed`, over HTTP."""
    connection = hive.connect(
        gateway.host, gateway.http_port, scheme="http", username="tester", auth="BASIC", password="x"
    )
    try:
        yield connection.cursor()
    finally:
        connection._transport.close()


class Tokens:
    """Writers and readers through gateways chosen by chance, over HTTP where that is served. Each token is inserted
    once."""

    def __init__(self, gateways: list[Gateway], seed: int) -> None:
        self.gateways = gateways
        """Those that run; changed while clients run."""
        self.problems: list[str] = []
        self.told: set[int] = set()
        """Tokens whose INSERT has succeeded."""
        self.reads = 0
        self.ended = 0
        """Sessions over HTTP that did not go on."""
        self._tables = deque(TABLES)
        self._sent: set[int] = set()
        self._random = random.Random(seed)
        self._stop = threading.Event()
        self._numbers = itertools.count(1)
        self.log: list[str] = []
        """What happened, for the report of a failure."""
        self._threads = [threading.Thread(target=each) for each in (self._write, self._write, self._read, self._read)]

    def __enter__(self) -> Tokens:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for each in self._threads:
            each.join()

    def go_on(self, seconds: float) -> None:
        """Returns after some more reads and INSERTs."""
        reads, told = self.reads, len(self.told)
        wait_until(lambda: self.reads > reads + 2 and len(self.told) > told + 2, seconds, "reads and writes")

    def note(self, what: str) -> None:
        self.log.append(
            f"{time.strftime('%T')}.{int(time.time() * 1000) % 1000:03} {threading.get_ident() % 10000} {what}"
        )

    def _sessions(self, work: Callable[[Any], None]) -> None:
        """Does the work over and over in a session, also after errors, until its connection is closed; then in the next
        one."""
        while not self._stop.is_set():
            try:
                gateway = self._random.choice(self.gateways)
                http = bool(gateway.http_address) and self._random.random() < 0.5
                with (unclosed_over_http if http else unclosed)(gateway) as cursor:
                    while not self._stop.is_set():
                        try:
                            work(cursor)
                        except OperationalError as error:
                            self.note(f"{'http ' if http else ''}error {str(error)[-300:]}")
                            self._stop.wait(0.2)
                            if "Invalid SessionHandle" in str(error):
                                self.ended += http
                                break
            except LOST as error:
                self.note(f"closed {str(error)[-300:]}")
                self._stop.wait(0.2)

    def _write(self) -> None:
        table = self._tables.popleft()

        def insert(cursor: Any) -> None:
            nonlocal table
            token = next(self._numbers)
            self._sent.add(token)
            self.note(f"insert {token}")
            try:
                rows(cursor, f"INSERT INTO {table} VALUES ({token})")
            except LOST:
                self._tables.append(table)
                table = self._tables.popleft()
                raise
            self.told.add(token)
            self.note(f"told {token}")

        self._sessions(insert)

    def _read(self) -> None:
        def read_all(cursor: Any) -> None:
            told = set(self.told)
            self.note(f"read begins, told up to {max(told, default=0)}")
            found = dict(rows(cursor, "SELECT token, times FROM moving.counted"))
            self.reads += 1
            self.note(f"read: {len(found)} of {len(told)}, missing {sorted(told - found.keys())}")
            if missing := told - found.keys():
                self.problems.append(f"a read lacks {sorted(missing)}")
            if unknown := found.keys() - self._sent:
                self.problems.append(f"a read has {sorted(unknown)}, which nobody has sent")
            if doubled := [token for token, times in found.items() if times != 1]:
                self.problems.append(f"a read has {doubled} more than once")

        self._sessions(read_all)


@contextmanager
def counted(gateways: list[Gateway], seed: int) -> Iterator[Tokens]:
    """Clients of all these gateways. At the end, every token must be there that was told."""
    with pyhive(gateways[0].host, gateways[0].port) as cursor:
        rows(cursor, "CREATE DATABASE moving")
        for name in TABLES:
            rows(cursor, f"CREATE TABLE {name} (token INT)")
        every = " UNION ALL ".join(f"SELECT token FROM {name}" for name in TABLES)
        query = f"SELECT token, count(*) AS times FROM ({every}) GROUP BY token"
        rows(cursor, f"CREATE MATERIALIZED VIEW moving.counted AS {query}")
    with Tokens(gateways, seed=seed) as tokens:
        yield tokens
    assert tokens.problems == [], "\n".join(tokens.log)
    found = read(gateways[0], "SELECT token FROM moving.counted")
    assert found is not None
    assert tokens.told <= {token for (token,) in found}
    with pyhive(gateways[0].host, gateways[0].port) as cursor:
        rows(cursor, "DROP MATERIALIZED VIEW moving.counted")
        rows(cursor, "DROP DATABASE moving CASCADE")


def leader_of(gateways: list[Gateway]) -> Gateway:
    """The one that has begun to lead last."""

    def began(gateway: Gateway) -> str:
        lines = gateway.log.read_text(encoding="utf-8").splitlines()
        return max((line for line in lines if LEADS in line), default="")

    return max(gateways, key=began)


@pytest.mark.parametrize("restarts", [1, pytest.param(10, marks=pytest.mark.thorough)])
def test_a_rolling_restart_loses_nothing(pair: Pair, restarts: int) -> None:
    gateways = [pair.gateway(name) for name in ("one", "two")]
    slowest = 0.0
    with counted(gateways, seed=2) as tokens:
        for _ in range(restarts):
            tokens.go_on(60)
            leader = leader_of(gateways)
            gateways.remove(leader)
            (heir,) = gateways
            tokens.note(f"stopping {leader.log}")
            with ThreadPoolExecutor() as pool:
                stopping = pool.submit(leader.stop)
                # New clients of the other gateway are served all the time. One that had just connected may be closed.
                while not stopping.done():
                    began = time.monotonic()
                    wait_until(partial(serves, heir), TAKEOVER_SECONDS, "the next leader")
                    slowest = max(slowest, time.monotonic() - began)
                assert stopping.result() == 0
            assert "another gateway may lead now" in leader.log.read_text(encoding="utf-8")
            assert LEADS in heir.log.read_text(encoding="utf-8")
            gateways.append(pair.gateway("next"))
        tokens.go_on(60)
    print(f"the slowest new client took {slowest:.1f} s")


def serves(gateway: Gateway) -> bool:
    return read(gateway, "SELECT 1") == [(1,)]


@pytest.mark.thorough
def test_no_read_lacks_what_was_told_whatever_happens_to_gateways(pair: Pair) -> None:
    """FRESHGATE_ROUNDS and FRESHGATE_SEED say how long, and what."""
    chosen = random.Random(SEED)
    gateways = [pair.gateway(name, **HTTP) for name in ("one", "two", "three")]
    with counted(gateways, seed=SEED) as tokens:
        for number in range(ROUNDS):
            tokens.go_on(120)
            what, victim = chosen.choice(("kill", "stop", "pause")), chosen.choice(gateways)
            if chosen.random() < 0.7:
                victim = leader_of(gateways)
            tokens.note(f"round {number}: {what} {victim.log}")
            if what == "pause":
                os.kill(victim.pid, signal.SIGSTOP)
                try:
                    # Without its clients, which may all be waiting for it.
                    threading.Event().wait(chosen.choice((2, 5, 25)))
                finally:
                    os.kill(victim.pid, signal.SIGCONT)
                continue
            gateways.remove(victim)
            if what == "kill":
                victim.kill()
            else:
                assert victim.stop() == 0
            tokens.go_on(120)
            gateways.append(pair.gateway(f"again-{number}", **HTTP))
    print(f"{tokens.ended} sessions over HTTP did not go on")


@pytest.mark.thorough
def test_a_leader_that_was_paused_serves_no_old_rows(pair: Pair) -> None:
    """Its client sends a read while it is paused, and another gateway tells the end of a write meanwhile."""
    leader, door = pair.gateway("leader"), pair.gateway("door")
    with pyhive(leader.host, leader.port) as cursor:
        rows(cursor, "CREATE DATABASE paused")
        rows(cursor, "CREATE TABLE paused.t (a INT)")
        rows(cursor, "INSERT INTO paused.t VALUES (1)")
        rows(
            cursor,
            "CREATE MATERIALIZED VIEW paused.v TBLPROPERTIES ('probe_interval' = '3600') AS SELECT a FROM paused.t",
        )
    with ThreadPoolExecutor() as pool, unclosed(leader) as reader, unclosed(leader) as writer:
        assert rows(reader, "SELECT * FROM paused.v") == [(1,)]
        os.kill(leader.pid, signal.SIGSTOP)
        try:
            read_late = pool.submit(outcome, reader, "SELECT * FROM paused.v")
            write_late = pool.submit(outcome, writer, "INSERT INTO paused.t VALUES (3)")
            wait_until(lambda: read(door, "INSERT INTO paused.t VALUES (2)") == [], 120, "the takeover")
        finally:
            os.kill(leader.pid, signal.SIGCONT)
        # An error of the gateway, or a closed connection.
        assert isinstance(read_late.result(60), Exception)
        assert isinstance(write_late.result(60), Exception)
    assert read(door, "SELECT * FROM paused.v") == [(1,), (2,)]
    wait_until(lambda: read(leader, "SELECT * FROM paused.v") == [(1,), (2,)], TAKEOVER_SECONDS, "the door")


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[ZooKeeperServer]:
    folder = tmp_path / "zookeeper"
    folder.mkdir()
    running = ZooKeeperServer(folder)
    yield running
    running.stop()


def registered(zookeeper: ZooKeeperServer) -> list[str]:
    """The addresses that clients find."""
    with zookeeper.client() as client:
        nodes = client.get_children("/freshgate") if client.exists("/freshgate") else []
    return sorted(node.removeprefix("serverUri=").partition(";")[0] for node in nodes)


def test_a_leader_that_has_left_zookeeper_is_replaced(pair: Pair, zookeeper: ZooKeeperServer) -> None:
    """Nothing else would show in time that the leader is lost: signs of life may be missing for ten minutes."""
    settings = {"discovery.zookeeper": zookeeper.address}
    pair.constants = {f"gateway.gateways.node.{name}": 600 for name in ("SUSPECTED_SECONDS", "SILENT_SECONDS")}
    leader, door = pair.gateway("leader", **settings), pair.gateway("door", **settings)
    addresses = sorted(f"{each.host}:{each.port}" for each in (leader, door))
    wait_until(lambda: registered(zookeeper) == addresses, what="both in ZooKeeper")
    assert read(door, "SELECT 1") == [(1,)]
    os.kill(leader.pid, signal.SIGSTOP)
    try:
        wait_until(lambda: read(door, "SELECT 1") == [(1,)], 60, "the takeover")
        assert "the gateway that leads has left ZooKeeper" in door.log.read_text(encoding="utf-8")
        assert registered(zookeeper) == [f"{door.host}:{door.port}"]
    finally:
        os.kill(leader.pid, signal.SIGCONT)
    wait_until(lambda: registered(zookeeper) == addresses, what="both in ZooKeeper again")
    wait_until(lambda: read(leader, "SELECT 1") == [(1,)], TAKEOVER_SECONDS, "the door")


@pytest.mark.thorough
def test_clients_and_gateways_go_on_without_zookeeper(pair: Pair, zookeeper: ZooKeeperServer) -> None:
    settings = {"discovery.zookeeper": zookeeper.address}
    leader, door = pair.gateway("leader", **settings), pair.gateway("door", **settings)
    addresses = sorted(f"{each.host}:{each.port}" for each in (leader, door))
    wait_until(lambda: registered(zookeeper) == addresses, what="both in ZooKeeper")
    with unclosed(door) as before:
        zookeeper.stop()
        wait_until(lambda: "no connection to ZooKeeper" in door.log.read_text(encoding="utf-8"), what="the loss")
        assert rows(before, "SELECT 1") == [(1,)]
        assert read(door, "SELECT 1") == read(leader, "SELECT 1") == [(1,)]
    leader.kill()
    wait_until(lambda: read(door, "SELECT 1") == [(1,)], TAKEOVER_SECONDS, "the takeover")
    other = pair.gateway("other", **settings)
    addresses = sorted(f"{each.host}:{each.port}" for each in (other, door))
    zookeeper.start()
    # The session of the one that was killed ends, and the one that has started meanwhile registers.
    wait_until(lambda: registered(zookeeper) == addresses, what="both in ZooKeeper again")
    with zookeeper.client() as operator:
        (node,) = (each for each in operator.get_children("/freshgate") if f":{door.port};" in each)
        operator.delete(f"/freshgate/{node}")
    assert door.program.process.wait(60) == 0
    wait_until(lambda: read(other, "SELECT 1") == [(1,)], TAKEOVER_SECONDS, "the handover")
    assert registered(zookeeper) == [f"{other.host}:{other.port}"]


def outcome(cursor: Any, sql: str) -> list[tuple[Any, ...]] | Exception:
    try:
        return rows(cursor, sql)
    except (OperationalError, TTransportException, OSError) as error:
        return error
