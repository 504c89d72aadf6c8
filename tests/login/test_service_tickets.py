"""Tests the gateway's own tickets for Spark with a real KDC, also a silent one, against a server made of gssapi."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import kdc
import pytest
from kdc import REALM, Kdc
from wire.calls import call, session

from gateway import settings_file
from gateway.config import ConfigError, Kerberos
from gateway.errors import FreshgateError, NoTicket
from gateway.login import methods
from gateway.login.verifier import Unavailable
from gateway.proxy.upstream import UpstreamRefused, UpstreamSocket, connect
from gateway.spark.client import Connection
from gateway.wire.endpoint import Endpoint
from gateway.wire.frame import WireLimits, frame
from gateway.wire.sasl import BAD, COMPLETE, GSSAPI, OK, START, Login, negotiation

kdc.available()

import gssapi  # noqa: E402 - skipped where it is missing
from TCLIService import ttypes  # noqa: E402

from gateway.login.service_tickets import THREADS, WAITING_MAX, ServiceTickets  # noqa: E402

SPARK = f"hive/_HOST@{REALM}"
LOCAL = "127.0.0.1"


class Site:
    """The KDC, and the keytabs of Spark and of the gateway."""

    def __init__(self, folder: Path) -> None:
        self.kdc = Kdc(folder)
        self.server = self.kdc.keytab("server", f"hive/{LOCAL}")
        self.keytab = self.kdc.keytab("gate", "freshgate", "hive/gate.a.test")

    def tickets(self, user: str = "freshgate", service: str = SPARK, **more: Any) -> ServiceTickets:
        return ServiceTickets(str(self.keytab), user, service, **more)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("kdc")
    with kdc.variables({"KRB5_CONFIG": str(folder / "krb5.conf"), "KRB5RCACHEDIR": str(folder)}):
        running = Site(folder)
        yield running
        running.kdc.stop()


@contextlib.contextmanager
def silent_kdc(site: Site) -> Iterator[None]:
    """Something that takes connections and never answers, in the place of the KDC."""
    with socket.create_server((LOCAL, 0)) as listening:
        port = listening.getsockname()[1]
        config = site.kdc.write_config("silent.conf", address=f"{LOCAL}:{port}")
        with kdc.variables({"KRB5_CONFIG": str(config)}):
            yield


class Server:
    """Answers the login with GSSAPI, offers these layers, and sends each frame back, its content several `times`."""

    def __init__(self, site: Site, layers: int, times: int = 1, *, refuses: bool = False) -> None:
        self._credentials = gssapi.Credentials(usage="accept", store={"keytab": f"FILE:{site.server}"})
        self._layers = layers
        self._times = times
        self._refuses = refuses
        self.user = ""
        self.chosen = 0
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError), contextlib.closing(writer):
            await self._serve(reader, writer)

    async def _message(self, reader: asyncio.StreamReader) -> tuple[int, bytes]:
        head = await reader.readexactly(5)
        return head[0], await reader.readexactly(int.from_bytes(head[1:], "big"))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await self._message(reader) == (START, b"GSSAPI")
        context = gssapi.SecurityContext(creds=self._credentials, usage="accept")
        writer.write(negotiation(OK, context.step((await self._message(reader))[1])))
        assert await self._message(reader) == (OK, b"")
        self.user = str(context.initiator_name)
        if self._refuses:
            writer.write(negotiation(BAD, b"not you"))
            return
        writer.write(negotiation(OK, context.wrap(bytes((self._layers,)) + b"\1\0\0", False).message))
        choice = context.unwrap((await self._message(reader))[1]).message
        self.chosen = choice[0]
        writer.write(negotiation(COMPLETE))
        while True:
            data = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            if self.chosen > 1:
                found = context.unwrap(data)
                assert found.encrypted == (self.chosen == 4)
                data = context.wrap(found.message * self._times, self.chosen == 4).message
            writer.write(frame(data))


@contextlib.asynccontextmanager
async def serving(server: Server) -> AsyncIterator[Server]:
    listening = await asyncio.start_server(server.serve, LOCAL, 0)
    server.port = listening.sockets[0].getsockname()[1]
    async with listening:
        yield server


def at(server: Server, tickets: ServiceTickets) -> Awaitable[UpstreamSocket]:
    endpoint = Endpoint(LOCAL, server.port, GSSAPI, tickets=tickets)
    return connect(endpoint, Login("freshgate", "", GSSAPI), WireLimits())


class Receiver:
    def __init__(self) -> None:
        self.data = b""
        self.came = asyncio.Event()
        self.gone = False

    def upstream_data(self, data: bytes) -> None:
        self.data += data
        self.came.set()

    def upstream_gone(self) -> None:
        self.gone = True
        self.came.set()


@pytest.mark.parametrize(("layers", "chosen"), [(1, 1), (7, 1), (6, 2), (4, 4)])
def test_the_gateway_logs_in_and_takes_the_least_protection_that_spark_allows(
    site: Site, layers: int, chosen: int
) -> None:
    async def play() -> None:
        async with serving(Server(site, layers, 20_000)) as server:
            opened = await at(server, site.tickets())
            assert (server.user, server.chosen) == (f"freshgate@{REALM}", chosen)
            receiver = Receiver()
            opened.attach(receiver)
            request = call("CloseSession", ttypes.TCloseSessionReq(session()))
            opened.send(request)
            # A protected page of megabytes comes as one frame.
            expected = frame(request * (20_000 if chosen > 1 else 1))
            while len(receiver.data) < len(expected):
                receiver.came.clear()
                await asyncio.wait_for(receiver.came.wait(), 20)
            assert receiver.data == expected
            opened.close()

    asyncio.run(play())


@pytest.mark.parametrize("layers", [1, 2, 4])
def test_the_gateways_own_sessions_log_in_alike(site: Site, layers: int) -> None:
    async def play() -> None:
        async with serving(Server(site, layers)) as server:
            endpoint = Endpoint(LOCAL, server.port, GSSAPI, tickets=site.tickets())
            connection = await Connection.open(endpoint, "freshgate")
            # What else held the connection must not close it.
            gc.collect()
            for text in ("x", "x" * 3_000_000):
                request = call("ExecuteStatement", ttypes.TExecuteStatementReq(session(), text))
                assert await asyncio.wait_for(connection.forward(request), 20) == request
            assert server.chosen == layers
            await connection.close()

    asyncio.run(play())


@pytest.mark.parametrize("user", ["freshgate", f"freshgate@{REALM}", "hive/gate.a.test"])
def test_the_user_is_a_principal_of_the_keytab(site: Site, user: str) -> None:
    async def play() -> None:
        async with serving(Server(site, 1, refuses=True)) as server:
            tickets = site.tickets(user)
            tickets.start()
            with pytest.raises(UpstreamRefused, match="not you"):
                await at(server, tickets)
            assert server.user.partition("@")[0] == user.partition("@")[0]

    asyncio.run(play())
    with pytest.raises(Unavailable, match=r"has no key of other@A.TEST, but of freshgate@A.TEST, hive/gate.a.test@"):
        site.tickets("other").start()


def failure(site: Site, tickets: ServiceTickets) -> str:
    async def play() -> None:
        async with serving(Server(site, 1)) as server:
            await at(server, tickets)

    with pytest.raises(NoTicket) as caught:
        asyncio.run(play())
    assert caught.value.sqlstate == "58000"
    return str(caught.value)


def test_an_unknown_service_is_named(site: Site) -> None:
    said = failure(site, site.tickets(service=f"hive/nowhere.a.test@{REALM}"))
    assert "(hive/nowhere.a.test@A.TEST): Server not found" in said


def test_a_keytab_with_old_keys_gets_no_ticket(site: Site) -> None:
    site.kdc.keytab("old", "old")
    site.kdc.administer("cpw -randkey old")
    said = failure(site, ServiceTickets(str(site.kdc.folder / "old"), "old", SPARK))
    assert said.startswith(f"The gateway has no ticket of Kerberos for Spark (hive/{LOCAL}@{REALM}): ")


def test_a_silent_kdc_fails_logins_in_time_and_holds_nothing_else(site: Site) -> None:
    async def play() -> float:
        tickets = site.tickets(answer_seconds=0.5)
        began = time.monotonic()
        found = await asyncio.gather(
            *(tickets.ticket(LOCAL) for _ in range(THREADS + WAITING_MAX + 5)), return_exceptions=True
        )
        assert all(isinstance(each, NoTicket) for each in found)
        said = [str(each) for each in found]
        assert sum("too many logins already wait" in each for each in said) == THREADS + 5
        assert sum("did not answer within 0.5 seconds" in each for each in said) == WAITING_MAX
        # Other threads are free.
        assert await asyncio.wait_for(asyncio.to_thread(lambda: 1), 1) == 1
        return time.monotonic() - began

    with silent_kdc(site):
        assert asyncio.run(play()) < 5


def renewals(site: Site, hours: list[float]) -> tuple[list[object], Callable[[], object]]:
    """The credentials in use at these times after the first login, and a login."""
    now = [0.0]
    tickets = site.tickets(clock=lambda: now[0])
    found: list[object] = []
    for hour in hours:
        now[0] = hour * 3600
        found.append(tickets._current())
    return found, tickets._current


def test_tickets_are_renewed_before_they_end(site: Site) -> None:
    # They live for ten hours.
    found, _ = renewals(site, [0, 7.9, 8.1, 8.2, 16.3])
    assert found[0] is found[1]
    assert found[1] is not found[2]
    assert found[2] is found[3]
    assert found[3] is not found[4]


def test_without_a_kdc_a_ticket_is_used_until_it_ends(site: Site) -> None:
    now = [0.0]
    tickets = site.tickets(clock=lambda: now[0], answer_seconds=10)

    async def play() -> None:
        async with serving(Server(site, 1)) as server:
            (await at(server, tickets)).close()
            site.kdc.stop()
            for hour in (1, 9, 9.9):
                now[0] = hour * 3600
                (await at(server, tickets)).close()
            now[0] = 10.1 * 3600
            with pytest.raises(NoTicket, match="Cannot contact any KDC"):
                await at(server, tickets)
            site.kdc.start()
            (await at(server, tickets)).close()

    asyncio.run(play())


# --- the settings ------------------------------------------------------------------------------------------

URL = f"upstream.address=jdbc:hive2://spark.a.test:10000/;principal={SPARK}"
OWN = ["authentication=file", "authentication.hand_on=proxy_user", "kerberos.keytab=/nowhere"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([URL, *OWN[:2]], "has a principal, but kerberos.keytab is empty"),
        ([URL, OWN[0], OWN[2]], "hand_on is replay"),
        ([f"{URL};transportMode=http", *OWN], "principal needs the binary transport"),
        ([f"{URL};auth=noSasl", *OWN], "principal needs the binary transport"),
        ([f"{URL} x", *OWN], "principal=.* is not supported"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(given: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        settings_file.load(None, given)


def test_a_gateway_without_a_key_of_its_own_does_not_start(site: Site) -> None:
    found = settings_file.load(None, [URL, *OWN]).upstream.place
    assert found is not None
    assert found.principal == SPARK
    for keytab, said in (("/nowhere", "cannot be read: No such file"), (site.server, "has no key of freshgate@A.TEST")):
        with pytest.raises(FreshgateError, match=rf"{said}.*Check kerberos\.keytab and upstream\.user"):
            methods.service_tickets(Kerberos(keytab=str(keytab)), "freshgate", found.principal)
