"""Tokens of an identity provider, right and wrong, and its keys at an address that changes, redirects or is silent."""

from __future__ import annotations

import base64
import hmac
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from joserfc import jws, jwt
from joserfc.jwk import ECKey, Key, OctKey, OKPKey, RSAKey
from processes import wait_until

from gateway.config import Jwt
from gateway.login import signing_keys
from gateway.login.signing_keys import DISCOVERY, SigningKeys
from gateway.login.tokens import Tokens
from gateway.login.verifier import Unavailable, WrongLogin

ISSUER = "https://id.example"
NOW = 1_800_000_000.0
RSA = RSAKey.generate_key(2048, {"kid": "rsa", "use": "sig"})
EC = ECKey.generate_key("P-256", {"kid": "ec"})
SECRET = OctKey.generate_key(256, {"kid": "secret"})


def key_set(*keys: Key) -> str:
    return json.dumps({"keys": [key.as_dict(private=isinstance(key, OctKey)) for key in keys]})


def signed(key: Key = RSA, alg: str = "RS256", header: dict[str, Any] | None = None, **claims: Any) -> str:
    said = {"iss": ISSUER, "aud": "freshgate", "sub": "ada", "exp": NOW + 600} | claims
    registry = jws.JWSRegistry(algorithms=[alg], strict_check_header=False)
    kept = {name: value for name, value in said.items() if value is not None}
    return jwt.encode({"alg": alg, "kid": key.kid} | (header or {}), kept, key, registry=registry)


def unsigned(header: dict[str, Any], claims: dict[str, Any] | None = None) -> str:
    said = claims or {"iss": ISSUER, "aud": "freshgate", "sub": "ada", "exp": NOW + 600}
    parts = (base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=").decode() for each in (header, said))
    return ".".join([*parts, ""])


@dataclass
class Provider:
    """Tokens are checked against a file of its keys."""

    path: Path
    settings: Jwt = field(default_factory=lambda: Jwt(issuer=ISSUER, audience=("freshgate", "bi")))

    def tokens(self, *keys: Key, **settings: Any) -> Tokens:
        self.path.write_text(key_set(*(keys or (RSA, EC, SECRET))))
        return Tokens(replace(self.settings, keys=str(self.path), **settings), clock=lambda: NOW)


@pytest.fixture
def provider(tmp_path: Path) -> Provider:
    return Provider(tmp_path / "keys.json")


def test_a_token_names_its_user_and_its_end(provider: Provider) -> None:
    found = provider.tokens().identify(signed())
    assert (found.user, found.groups, found.until) == ("ada", frozenset(), NOW + 660)


@pytest.mark.parametrize(
    "token",
    [
        signed(EC, "ES256"),
        signed(aud=["other", "bi"]),
        signed(header={"typ": "at+JWT"}),
        signed(header={"typ": "jwt"}),
        signed(exp=NOW - 59),
        signed(nbf=NOW + 59, iat=NOW + 59),
        signed(extra="x" * 12_000),
        signed(header={"x5t": "abc", "nonce": "of a provider's own"}),
    ],
)
def test_what_providers_issue_is_accepted(provider: Provider, token: str) -> None:
    assert provider.tokens().identify(token).user == "ada"


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        ("", "."),
        ("Basic", "."),
        ("a.b.c", "."),
        ("....", "."),
        ("é.é.é", "."),
        (signed()[:-8], "."),
        (signed().rpartition(".")[0] + ".", "."),
        (unsigned({"alg": "none"}), "none"),
        (unsigned({"alg": "NONE", "kid": "rsa"}), "NONE"),
        (unsigned({"kid": "rsa"}), "alg"),
        (unsigned({"alg": "RS256", "kid": ["rsa"]}), "kid"),
        (unsigned({"alg": "RS256", "kid": "rsa", "crit": ["exp"]}), "crit"),
        (signed(RSAKey.generate_key(2048, {"kid": "rsa"})), "signature"),
        (signed(RSAKey.generate_key(2048, {"kid": "other"})), "no key"),
        (signed(SECRET, "HS256"), "HS256"),
        (signed(exp=NOW - 61), "exp"),
        (signed(exp=None), "exp"),
        (signed(exp="never"), "exp"),
        (signed(exp=float("inf")), "."),
        (signed(nbf=NOW + 600), "not yet valid"),
        (signed(iat=NOW + 600), "future"),
        (signed(iss="https://id.example/"), "iss"),
        (signed(iss=None), "iss"),
        (signed(aud="superset"), "aud"),
        (signed(aud=None), "aud"),
        (signed(header={"typ": "logout+jwt"}), "type"),
        (signed(header={"typ": "dpop+jwt"}), "type"),
        (signed(sub=None), "claim sub"),
        (signed(sub="  "), "claim sub"),
        (signed(sub=7), "sub"),
        (signed(sub="ada\0root"), "claim sub"),
        (signed(sub="a" * 2000), "claim sub"),
    ],
)
def test_what_is_forged_foreign_or_old_is_refused(provider: Provider, token: str, reason: str) -> None:
    with pytest.raises(WrongLogin, match=reason):
        provider.tokens().identify(token)


def test_a_public_key_is_no_secret(provider: Provider) -> None:
    """The provider's public key as the secret of HS256 would let everybody sign."""
    head = unsigned({"alg": "HS256", "kid": "rsa"}).rstrip(".")
    mark = hmac.digest(RSA.as_pem(private=False), head.encode(), "sha256")
    forged = f"{head}.{base64.urlsafe_b64encode(mark).rstrip(b'=').decode()}"
    with pytest.raises(WrongLogin):
        provider.tokens(algorithms=("RS256", "HS256")).identify(forged)


def test_secrets_and_other_kinds_are_used_where_they_are_allowed(provider: Provider) -> None:
    ed = OKPKey.generate_key("Ed25519", {"kid": "ed"})
    tokens = provider.tokens(SECRET, ed, algorithms=("HS256", "Ed25519"))
    assert tokens.identify(signed(SECRET, "HS256")).user == "ada"
    assert tokens.identify(signed(ed, "Ed25519")).user == "ada"


def test_a_token_without_key_id_means_the_only_key(provider: Provider) -> None:
    token = jwt.encode({"alg": "RS256"}, {"iss": ISSUER, "aud": "bi", "sub": "ada", "exp": NOW + 9}, RSA)
    assert provider.tokens(RSA).identify(token).user == "ada"
    with pytest.raises(WrongLogin, match="names no key"):
        provider.tokens(RSA, EC).identify(token)


@pytest.mark.parametrize(
    ("claim", "value"),
    [
        ("groups", ["analysts", "others"]),
        ("scope", "openid analysts"),
        ("realm_access.roles", ["analysts"]),
        ("https://example.com/groups", ["analysts"]),
    ],
)
def test_groups_decide(provider: Provider, claim: str, value: object) -> None:
    claims = {"realm_access": {"roles": value}} if claim.startswith("realm") else {claim: value}
    tokens = provider.tokens(groups_claim=claim, group_filter=("analysts", "engineers"), user_claim="email")
    found = tokens.identify(signed(email="ada@example.com", **claims))
    assert found.user == "ada@example.com"
    assert "analysts" in found.groups
    for others in ({}, {claim: "guests"}, {claim: 7}, {claim: {"analysts": 1}}):
        with pytest.raises(WrongLogin, match="in no group"):
            tokens.identify(signed(email="eve@example.com", **others))


# --- keys ------------------------------------------------------------------------------------------------------


def test_a_changed_file_is_read_again_and_a_broken_one_keeps_the_keys(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    keys = SigningKeys(str(path))
    with pytest.raises(Unavailable, match="No such file"):
        keys.start()
    path.write_text(key_set(RSA))
    assert keys.named("rsa")
    with pytest.raises(WrongLogin):
        keys.named("ec")
    path.write_text(key_set(RSA, EC))
    assert keys.named("ec")
    path.write_text("not JSON")
    assert keys.named("ec")


class Address:
    """A provider's web server on this machine."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[BaseHTTPRequestHandler], object]] = {}
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                outer.answers[self.path](self)

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def says(self, path: str, text: str, status: int = 200, **headers: str) -> None:
        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(status)
            for name, value in headers.items():
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(text.encode())

        self.answers[path] = answer

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def address() -> Iterator[Address]:
    found = Address()
    yield found
    found.close()


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def test_the_issuer_says_where_its_keys_are(address: Address) -> None:
    address.says(DISCOVERY, json.dumps({"jwks_uri": f"{address.url}/keys"}))
    address.says("/keys", key_set(RSA, SECRET))
    keys = SigningKeys(address.url + DISCOVERY)
    keys.start()
    wait_until(lambda: "/keys" in address.asked)
    assert wait_for(keys, "rsa")
    with pytest.raises(WrongLogin):  # a secret that everybody can read
        keys.named("secret")


def wait_for(keys: SigningKeys, key_id: str) -> Key:
    """The key, once a reading that runs has ended."""
    found: list[Key] = []

    def known() -> bool:
        try:
            found.append(keys.named(key_id))
        except Unavailable:
            return False
        return True

    wait_until(lambda: known() and keys._reading is None)
    return found[0]


def test_unknown_keys_are_looked_for_and_not_too_often(address: Address) -> None:
    clock = Clock()
    address.says("/keys", key_set(RSA))
    keys = SigningKeys(f"{address.url}/keys", clock)
    keys.start()
    assert wait_for(keys, "rsa")
    address.says("/keys", key_set(RSA, EC))
    for _ in range(100):
        with pytest.raises(WrongLogin):
            keys.named("ec")
    assert len(address.asked) == 1
    clock.now += signing_keys.UNKNOWN_SECONDS
    assert keys.named("ec")
    assert len(address.asked) == 2


def test_a_withdrawn_key_ends(address: Address) -> None:
    clock = Clock()
    address.says("/keys", key_set(RSA, EC))
    keys = SigningKeys(f"{address.url}/keys", clock)
    keys.start()
    assert wait_for(keys, "ec")
    address.says("/keys", key_set(RSA))
    clock.now += signing_keys.READ_SECONDS + 1
    keys.named("ec")  # begins to read, and does not wait
    wait_until(lambda: "ec" not in keys._keys)
    with pytest.raises(WrongLogin):
        keys.named("ec")


def test_without_the_provider_the_last_keys_are_used_for_a_day(address: Address) -> None:
    clock = Clock()
    address.says("/keys", key_set(RSA))
    keys = SigningKeys(f"{address.url}/keys", clock)
    keys.start()
    assert wait_for(keys, "rsa")
    address.says("/keys", "down", 503)
    clock.now += signing_keys.KEPT_SECONDS - 1
    assert keys.named("rsa")
    wait_until(lambda: keys._problem)
    assert keys.named("rsa")
    clock.now += 2
    with pytest.raises(Unavailable, match="too old"):
        keys.named("rsa")


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"keys": []}', '{"keys": 7}', '{"keys": [{"kty": "odd"}]}', "[" * 9999]
)
def test_what_is_no_key_set_is_none(address: Address, content: str) -> None:
    address.says("/keys", content)
    keys = SigningKeys(f"{address.url}/keys")
    keys.start()
    wait_until(lambda: keys._problem)
    with pytest.raises(Unavailable):
        keys.named("rsa")


def test_redirects_and_untrusted_addresses_are_not_followed(address: Address) -> None:
    address.says("/keys", "", 302, Location=f"{address.url}/elsewhere")
    address.says("/elsewhere", key_set(RSA))
    keys = SigningKeys(f"{address.url}/keys")
    keys.start()
    wait_until(lambda: keys._problem)
    assert address.asked == ["/keys"]
    address.says(DISCOVERY, json.dumps({"jwks_uri": "http://id.example/keys"}))
    published = SigningKeys(address.url + DISCOVERY)
    published.start()
    wait_until(lambda: published._problem)
    assert "not an https:// address" in published._problem


def test_a_silent_provider_holds_one_login_only(address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    silence = threading.Event()
    address.says("/keys", key_set(RSA))
    clock = Clock()
    keys = SigningKeys(f"{address.url}/keys", clock)
    keys.start()
    assert wait_for(keys, "rsa")
    address.answers["/keys"] = lambda _: silence.wait(20)
    clock.now += signing_keys.UNKNOWN_SECONDS
    monkeypatch.setattr(signing_keys, "ANSWER_SECONDS", 10.0)
    with ThreadPoolExecutor(1) as waiting:
        held = waiting.submit(keys.named, "forged")
        wait_until(lambda: len(address.asked) == 2)
        for _ in range(1000):
            with pytest.raises(Unavailable, match="being read"):
                keys.named("forged")
            assert keys.named("rsa")
        assert not held.done()
        silence.set()
        with pytest.raises(WrongLogin):
            held.result(20)
