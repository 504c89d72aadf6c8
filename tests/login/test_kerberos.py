"""Tests tickets of a real KDC: right and wrong ones, keytabs that change, and how frames are protected."""

from __future__ import annotations

import asyncio
import base64
import gc
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kdc
import pytest
from kdc import FOREIGN, REALM, Kdc
from processes import wait_until
from TCLIService import ttypes
from wire.calls import call, session

from gateway import settings_file
from gateway.config import Kerberos
from gateway.errors import FreshgateError, LoginDenied, LoginUnchecked
from gateway.login import methods
from gateway.login.authenticator import Checked
from gateway.login.verifier import Unavailable, WrongTicket
from gateway.wire.connection import ClientConnection, DirectReply, Sealed
from gateway.wire.cookies import NAME, Cookies
from gateway.wire.frame import WireError, WireLimits, frame
from gateway.wire.gssapi import Layer
from gateway.wire.http_connection import COOKIE_LOGIN, HTTP, HttpClientConnection
from gateway.wire.sasl import BAD, COMPLETE, GSSAPI, OK, PLAIN, START, TOKEN_BYTES_MAX, Exchange, Login, negotiation

kdc.available()

import gssapi  # noqa: E402 - skipped where it is missing
from gssapi import MechType, NameType, RequirementFlag  # noqa: E402

from gateway.login.kerberos import Tickets  # noqa: E402

SPNEGO = gssapi.OID.from_int_seq("1.3.6.1.5.5.2")


class Realm:
    """The KDC, a keytab, and a ticket of each of its users."""

    def __init__(self, folder: Path) -> None:
        self.kdc = Kdc(folder)
        self.keytab = self.kdc.keytab("gate", "hive/localhost", "HTTP/localhost", "hive/lb.a.test")
        self.tickets = {user: self.kdc.log_in(user, user) for user in ("ada", f"ada@{FOREIGN}")}

    def settings(self, **more: Any) -> Kerberos:
        return Kerberos(**{"keytab": str(self.keytab), **more})

    def client(self, user: str = "ada", service: str = "hive@localhost", mech: Any = MechType.kerberos) -> Any:
        """A client's context; its first `step()` is the token."""
        credentials = gssapi.Credentials(usage="initiate", store={"ccache": f"FILE:{self.tickets[user]}"})
        name = gssapi.Name(service, NameType.hostbased_service)
        flags = RequirementFlag.mutual_authentication
        return gssapi.SecurityContext(name=name, creds=credentials, mech=mech, usage="initiate", flags=flags)

    def token(self, *given: Any, **named: Any) -> bytes:
        return bytes(self.client(*given, **named).step())


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    folder = tmp_path_factory.mktemp("kdc")
    with kdc.variables({"KRB5_CONFIG": str(folder / "krb5.conf"), "KRB5RCACHEDIR": str(folder)}):
        running = Realm(folder)
        yield running
        running.kdc.stop()


@pytest.mark.parametrize("service", ["hive@localhost", "HTTP@localhost", "hive@lb.a.test"])
@pytest.mark.parametrize("mech", [MechType.kerberos, SPNEGO])
def test_a_ticket_for_any_service_of_the_keytab_names_its_user(realm: Realm, service: str, mech: Any) -> None:
    client = realm.client(service=service, mech=mech)
    exchange = Exchange(client.step())
    found = Tickets(realm.settings()).accept(exchange)
    assert (found.user, found.groups) == ("ada", frozenset())
    assert time.time() < found.until < time.time() + 4000
    assert exchange.names == {"ada", f"ada@{REALM}"}
    # The client knows the server by its answer.
    client.step(exchange.answer)
    assert client.complete


def test_only_the_named_services_are_accepted(realm: Realm) -> None:
    tickets = Tickets(realm.settings(principals=("hive/localhost", f"HTTP/localhost@{REALM}")))
    tickets.start()
    assert tickets.accept(Exchange(realm.token())).user == "ada"
    with pytest.raises(WrongTicket, match=r"is for hive/lb\.a\.test@A\.TEST, which kerberos\.principals does not"):
        tickets.accept(Exchange(realm.token(service="hive@lb.a.test")))
    with pytest.raises(Unavailable, match=r"has no key of hive/other@A\.TEST$"):
        Tickets(realm.settings(principals=("hive/localhost", "hive/other"))).start()


def test_a_keytab_that_all_can_read_is_a_warning(
    realm: Realm, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "keytab"
    shutil.copy(realm.keytab, path)
    for mode, warned in ((0o640, False), (0o644, True)):
        caplog.clear()
        path.chmod(mode)
        Tickets(Kerberos(keytab=str(path))).start()
        assert ("set its mode to 0600" in caplog.text) is warned


def test_a_foreign_realm_needs_a_rule(realm: Realm) -> None:
    with pytest.raises(WrongTicket, match=r"no rule of kerberos.auth_to_local is for ada@B.TEST"):
        Tickets(realm.settings()).accept(Exchange(realm.token(f"ada@{FOREIGN}")))
    rules = "RULE:[1:$1.$0](.*[.]B[.]TEST)s/[.]B[.]TEST/-of-b/ DEFAULT"
    tickets = Tickets(realm.settings(auth_to_local=rules))
    assert tickets.accept(Exchange(realm.token(f"ada@{FOREIGN}"))).user == "ada-of-b"
    assert tickets.accept(Exchange(realm.token())).user == "ada"


def changed(realm: Realm) -> bytes:
    token = bytearray(realm.token())
    token[-20] ^= 1
    return bytes(token)


def of_another_service(realm: Realm) -> bytes:
    realm.kdc.keytab("other", "hive/other")
    return realm.token(service="hive@other")


WRONG: dict[str, Callable[[Realm], bytes]] = {
    "of another service": of_another_service,
    "changed": changed,
    "cut off": lambda realm: realm.token()[:100],
    "NTLM": lambda realm: b"NTLMSSP\0\x01\0\0\0",
    "SPNEGO with NTLM": lambda realm: bytes.fromhex("601806062b0601050502a00e300ca00a300806062b0601040182"),
    "empty": lambda realm: b"",
    "garbage": lambda realm: b"\x60\x82garbage",
    "long": lambda realm: b"\x60" * (TOKEN_BYTES_MAX + 1),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_ticket_is_refused_with_a_reason(realm: Realm, kind: str) -> None:
    checked = Checked([], 0.0, 1, tickets=Tickets(realm.settings()))
    login = Login("", "", GSSAPI, exchange=Exchange(WRONG[kind](realm)))
    with pytest.raises(LoginDenied, match=r"^The ticket of Kerberos is not accepted: .+\.$"):
        asyncio.run(checked.check(login))


@pytest.mark.parametrize("mech", [MechType.kerberos, SPNEGO])
def test_a_ticket_is_not_accepted_twice(realm: Realm, mech: Any) -> None:
    tickets, token = Tickets(realm.settings()), realm.token(mech=mech)
    assert tickets.accept(Exchange(token)).user == "ada"
    with pytest.raises(WrongTicket, match=r"replay|has been used before"):
        Tickets(realm.settings()).accept(Exchange(token))


def test_an_expired_ticket_is_refused(realm: Realm) -> None:
    strict = realm.kdc.write_config("strict.conf", "clockskew = 1")
    with kdc.variables({"KRB5_CONFIG": str(strict)}):
        realm.tickets["short"] = realm.kdc.log_in("ada", "short", "1s")
        token = realm.token("short")
        began = time.monotonic()
        tickets = Tickets(realm.settings())
        wait_until(lambda: time.monotonic() > began + 2.2)
        with pytest.raises(WrongTicket, match=r"[Ee]xpired|[Cc]lock skew"):
            tickets.accept(Exchange(token))


def test_without_notes_of_used_tickets_none_is_accepted(realm: Realm) -> None:
    checked = Checked([], 0.0, 1, tickets=Tickets(realm.settings()))
    login = Login("", "", GSSAPI, exchange=Exchange(realm.token()))
    with kdc.variables({"KRB5RCACHEDIR": "/proc/nowhere"}), pytest.raises(LoginUnchecked, match="ticket of Kerberos"):
        asyncio.run(checked.check(login))


def test_a_changed_keytab_is_read_and_old_keys_stay_for_a_while(realm: Realm, tmp_path: Path) -> None:
    path, now = tmp_path / "keytab", [0.0]
    realm.kdc.keytab("changing", "hive/changing")
    shutil.copy(realm.kdc.folder / "changing", path)
    tickets = Tickets(Kerberos(keytab=str(path)), clock=lambda: now[0])
    before = realm.token(service="hive@changing"), realm.token(service="hive@changing")
    assert tickets.accept(Exchange(before[0])).user == "ada"
    realm.kdc.keytab("changing", "hive/changing")
    # Half of the new file is not used.
    path.write_bytes((realm.kdc.folder / "changing").read_bytes()[:60])
    assert tickets.accept(Exchange(before[1])).user == "ada"
    shutil.copy(realm.kdc.folder / "changing", path)
    realm.tickets["later"] = realm.kdc.log_in("ada", "later")
    assert tickets.accept(Exchange(realm.token("later", "hive@changing"))).user == "ada"
    assert tickets.accept(Exchange(realm.token(service="hive@changing"))).user == "ada"
    now[0] += 25 * 3600
    with pytest.raises(WrongTicket, match="kvno"):
        tickets.accept(Exchange(realm.token(service="hive@changing")))
    # An operator has taken the service away.
    shutil.copy(realm.keytab, path)
    with pytest.raises(WrongTicket, match="not found in keytab"):
        tickets.accept(Exchange(realm.token("later", "hive@changing")))


def test_files_in_memory_end_with_their_keys(realm: Realm, tmp_path: Path) -> None:
    path = tmp_path / "keytab"
    shutil.copy(realm.keytab, path)
    tickets = Tickets(Kerberos(keytab=str(path)))
    tickets.start()
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for number in range(5):
        os.utime(path, (number, number))
        tickets.accept(Exchange(realm.token()))
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


# --- the binary transport ----------------------------------------------------------------------------------


def messages(data: bytes) -> list[tuple[int, bytes]]:
    found = []
    while data:
        end = 5 + int.from_bytes(data[1:5], "big")
        found.append((data[0], data[5:end]))
        data = data[end:]
    return found


class Client:
    """A client's end of a handshake, fed in pieces of a size."""

    def __init__(self, realm: Realm, layers: frozenset[Layer] = frozenset({Layer.AUTH}), step: int = 7) -> None:
        self.wire = ClientConnection(frozenset({PLAIN, GSSAPI}), WireLimits(), layers)
        self.context = realm.client()
        self.step = step
        self.tickets = Tickets(realm.settings())

    def send(self, data: bytes) -> list[Any]:
        return [
            event for at in range(0, len(data), self.step) for event in self.wire.receive(data[at : at + self.step])
        ]

    def begin(self) -> bytes:
        """Up to the layer's offer, which it returns."""
        token = bytes(self.context.step())
        (login,) = self.send(negotiation(START, b"GSSAPI") + negotiation(OK, token))
        assert login == Login("", "", GSSAPI)
        identity = asyncio.run(Checked([], 0.0, 1, tickets=self.tickets).check(login))
        assert (identity.user, identity.mechanism, identity.exchange) == ("ada", GSSAPI, None)
        ((status, answer),) = messages(self.wire.accept_login(identity))
        assert status == OK
        assert self.context.step(answer) is None
        assert self.wire.receive(b"") == []
        (offer,) = self.send(negotiation(OK))
        ((status, wrapped),) = messages(offer.payload)
        assert status == OK
        return bytes(self.context.unwrap(wrapped).message)

    def choose(self, choice: bytes, status: int = COMPLETE, then: bytes = b"") -> list[Any]:
        return self.send(negotiation(status, self.context.wrap(choice, False).message) + then)


@pytest.mark.parametrize("name", [b"", b"ada", b"ada@A.TEST"])
@pytest.mark.parametrize("status", [OK, COMPLETE])
@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_a_client_logs_in_and_sends_requests(realm: Realm, name: bytes, status: int, step: int) -> None:
    client = Client(realm, step=step)
    assert client.begin() == b"\1\0\0\0"
    assert client.wire.partial
    request = call("CloseSession", ttypes.TCloseSessionReq(session()))
    done, *events = client.choose(b"\1\0\0\0" + name, status, then=frame(request))
    assert done == DirectReply(negotiation(COMPLETE))
    assert events == [request]
    assert not client.wire.bound
    assert not client.wire.partial
    assert client.wire.send(b"reply") == frame(b"reply")


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (b"\2\0\1\0", "offers the protection auth: connect with saslQop=auth"),
        (b"\0\0\0\0", "offers the protection auth"),
        (b"\1\0\0", "incomplete"),
        (b"\1\0\0\0bob", "cannot log in as another user, bob"),
        (b"\1\0\0\0\xff", "another user"),
    ],
)
def test_another_choice_is_refused(realm: Realm, choice: bytes, said: str) -> None:
    client = Client(realm)
    client.begin()
    with pytest.raises(WireError, match=said) as caught:
        client.choose(choice)
    assert messages(caught.value.answer) == [(BAD, str(caught.value).encode())]


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (negotiation(COMPLETE, b"\1\0\0\0"), "protection is wrong"),
        (negotiation(BAD, b""), "aborted"),
        (b"\x07", "not a SASL handshake"),
        (negotiation(OK, b"x" * 20_000), "exceeds the limit"),
    ],
)
def test_an_offer_needs_a_protected_answer(realm: Realm, sent: bytes, said: str) -> None:
    client = Client(realm)
    client.begin()
    with pytest.raises(WireError, match=said) as caught:
        client.send(sent)
    assert caught.value.answer[0] == BAD


def test_a_client_that_asks_for_nothing_in_return_gets_the_offer(realm: Realm) -> None:
    client = Client(realm)
    credentials = gssapi.Credentials(usage="initiate", store={"ccache": f"FILE:{realm.tickets['ada']}"})
    name = gssapi.Name("hive@localhost", NameType.hostbased_service)
    flags = [RequirementFlag.integrity]
    client.context = gssapi.SecurityContext(name=name, creds=credentials, usage="initiate", flags=flags)
    exchange = Exchange(client.context.step())
    login = Login("", "", GSSAPI, exchange=exchange)
    assert client.send(negotiation(START, b"GSSAPI") + negotiation(OK, exchange.token)) == [login]
    given = client.wire._exchange
    assert given is not None
    client.tickets.accept(given)
    ((_, wrapped),) = messages(client.wire.accept_login())
    assert client.context.unwrap(wrapped).message == b"\1\0\0\0"
    assert client.choose(b"\1\0\0\0") == [DirectReply(negotiation(COMPLETE))]


@pytest.mark.parametrize(("layer", "size"), [(2, 65536), (4, 65536), (4, 100)])
def test_frames_are_protected_as_the_client_chooses(realm: Realm, layer: int, size: int) -> None:
    client = Client(realm, frozenset(Layer))
    assert client.begin() == b"\7\1\0\0"
    rest = frame(client.context.wrap(b"x", layer == 4).message)
    client.step = 100_000
    done, sealed = client.choose(bytes((layer,)) + size.to_bytes(3, "big"), then=rest)
    assert done == DirectReply(negotiation(COMPLETE))
    assert isinstance(sealed, Sealed)
    assert sealed.rest == rest
    assert sealed.seal.unseal(rest[4:]) == b"x"
    assert sealed.seal.frame_bytes_max == size
    assert client.wire.bound
    assert client.wire.on_wire(b"a", b"b") is None
    found = client.context.unwrap(sealed.seal.seal(b"reply"))
    assert (found.message, bool(found.encrypted)) == (b"reply", layer == 4)
    with pytest.raises(WireError, match="protection is wrong"):
        sealed.seal.unseal(rest[4:-1] + b"?")
    if layer == 4:
        with pytest.raises(WireError, match="not encrypted"):
            sealed.seal.unseal(client.context.wrap(b"y", False).message)


def test_protected_frames_that_nobody_reads_are_refused(realm: Realm) -> None:
    client = Client(realm, frozenset(Layer))
    client.begin()
    with pytest.raises(WireError, match="reads none"):
        client.choose(b"\4\0\0\0")


# --- HTTP --------------------------------------------------------------------------------------------------


class HttpClient:
    """Requests to an HTTP port whose logins are checked at once."""

    def __init__(self, realm: Realm, now: Callable[[], float] = time.monotonic) -> None:
        self.realm = realm
        self.cookies = Cookies(3600, now)
        self.wire = HttpClientConnection(WireLimits(), self.cookies, secure=True, tickets=True)
        self.checked = Checked([], 0.0, 1, tickets=Tickets(realm.settings()))

    def post(self, header: str) -> str:
        """The head of the answer to a request with this header."""
        body = call("CloseSession", ttypes.TCloseSessionReq(session()))
        head = f"POST /cliservice HTTP/1.1\r\nHost: localhost\r\n{header}\r\nContent-Length: {len(body)}\r\n\r\n"
        (event,) = self.wire.receive(head.encode() + body)
        if isinstance(event, Login) and event.mechanism == COOKIE_LOGIN:
            self.wire.accept_login(event)
            assert self.wire.receive(b"") == [body]
        elif isinstance(event, Login):
            try:
                identity = asyncio.run(self.checked.check(event))
            except LoginDenied as error:
                return self.wire.refuse_login(str(error)).decode()
            assert (identity.user, identity.mechanism) == ("ada", HTTP)
            self.wire.accept_login(identity)
            assert self.wire.receive(b"") == [body]
        if isinstance(event, DirectReply):
            return event.payload.decode()
        return self.wire.send(b"").decode()


@pytest.mark.parametrize("mech", [MechType.kerberos, SPNEGO])
@pytest.mark.parametrize("scheme", ["Negotiate ", "negotiate ", "Negotiate : "])
def test_a_ticket_over_http_is_answered_with_a_token_and_a_cookie(realm: Realm, mech: Any, scheme: str) -> None:
    client, context = HttpClient(realm), realm.client(service="HTTP@localhost", mech=mech)
    header = f"Authorization: {scheme}{base64.b64encode(context.step()).decode()}"
    answer = client.post(header)
    assert answer.startswith("HTTP/1.1 200 ")
    (token,) = re.findall(r"WWW-Authenticate: Negotiate (\S+)", answer)
    context.step(base64.b64decode(token))
    assert context.complete
    (cookie,) = re.findall(rf"Set-Cookie: ({NAME}=[^;]+);.* Max-Age=3600; HttpOnly; Secure", answer)
    later = client.post(f"Cookie: {cookie}")
    assert later.startswith("HTTP/1.1 200 ")
    assert "WWW-Authenticate" not in later
    # The same ticket is not accepted again, on its own connection either.
    assert "401 Unauthorized" in client.post(header)


def test_a_cookie_ends_with_its_ticket(realm: Realm) -> None:
    realm.tickets["short"] = realm.kdc.log_in("ada", "short", "2m")
    now = [time.monotonic()]
    client = HttpClient(realm, lambda: now[0])
    token = base64.b64encode(realm.token("short", "HTTP@localhost")).decode()
    (age,) = re.findall(r"Max-Age=(\d+)", client.post(f"Authorization: Negotiate {token}"))
    # Clocks may differ by five minutes.
    assert 0 < int(age) <= 2 * 60 + 5 * 60


@pytest.mark.parametrize("header", ["X: y", "Authorization: Negotiate", "Authorization: Negotiate !", "Cookie: a=b"])
def test_without_a_ticket_a_client_is_asked_for_one(realm: Realm, header: str) -> None:
    answer = HttpClient(realm).post(header)
    assert answer.startswith("HTTP/1.1 401 ")
    assert "WWW-Authenticate: Negotiate\r\n" in answer


def test_a_wrong_ticket_over_http_is_refused_with_a_reason(realm: Realm) -> None:
    token = base64.b64encode(of_another_service(realm)).decode()
    answer = HttpClient(realm).post(f"Authorization: Negotiate {token}")
    assert answer.startswith("HTTP/1.1 401 ")
    assert "Request ticket server hive/other@A.TEST not found in keytab" in answer


# --- the settings ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kerberos.keytab": "/nowhere"}, r"/nowhere cannot be read: No such file.*Check kerberos.keytab"),
        ({"kerberos.principals": "hive/other"}, r"has no key of hive/other@A.TEST"),
        ({"kerberos.auth_to_local": "RULE"}, r"^kerberos.auth_to_local cannot be read: RULE is not"),
    ],
)
def test_a_gateway_does_not_start_with_wrong_settings(realm: Realm, settings: dict[str, str], said: str) -> None:
    given = {"authentication": "kerberos", "kerberos.keytab": str(realm.keytab), **settings}
    with pytest.raises(FreshgateError, match=said):
        methods.of(settings_file.load(None, [f"{name}={value}" for name, value in given.items()]))
