"""Logs users in at an identity provider, for the page: OpenID Connect's authorization code flow, with PKCE (RFC 7636),
as RFC 9700 advises. The provider's tokens stay in this process, and are forgotten at once.

Tests: `test_provider_logins`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import ssl
import threading
import time
import urllib.request
from collections import OrderedDict
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode

from gateway.config import Jwt
from gateway.login.code_returns import ATTEMPT_SECONDS, Return
from gateway.login.exposure import host_of, is_local, is_trusted
from gateway.login.signing_keys import DISCOVERY
from gateway.login.tokens import Tokens
from gateway.login.verifier import Identity, Unavailable, WrongLogin
from gateway.no_redirects import NoRedirects

ANSWER_SECONDS = 10.0
BYTES_MAX = 1 << 20
KNOWN_SECONDS = 3600.0
"""How long the provider's addresses are used before they are read again."""
ATTEMPTS_MAX = 10_000
"""Returns that are remembered, so that none counts twice."""
PARAMETER_CHARACTERS_MAX = 4096
REASON_CHARACTERS_MAX = 200
SCOPE = "openid profile email"


class CodeLogins:
    """Thread-safe; `address` and `identify` may block for some times ANSWER_SECONDS.

    An attempt is a text that only the browser keeps, in a cookie. What the provider and this process must recognize
    again (state, nonce, PKCE's verifier) is derived from it with a key of this process: nothing is kept for those who
    begin and never return, however many they are.
    """

    def __init__(
        self, settings: Jwt, client: str, secret: str, tokens: Tokens, clock: Callable[[], float] = time.time
    ) -> None:
        """`client`, `secret`: with which the gateway is registered at the provider; without a secret, PKCE alone proves
        who redeems a code. `clock` gives seconds since the epoch."""
        self._issuer = settings.issuer
        self._client = client
        self._secret = secret
        self._tokens = tokens
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._returned: OrderedDict[bytes, None] = OrderedDict()
        self._lock = threading.Lock()
        self._document: tuple[float, Mapping[str, Any]] | None = None
        self._opener = urllib.request.build_opener(
            NoRedirects, urllib.request.HTTPSHandler(context=ssl.create_default_context())
        )

    @property
    def provider(self) -> str:
        """What users see of the provider: its host."""
        return host_of(self._issuer)

    def begin(self) -> str:
        """A new attempt."""
        return f"{secrets.token_urlsafe(32)}.{int(self._clock())}"

    def address(self, attempt: str, redirect: str) -> str:
        """Where the browser goes now; it comes back to `redirect`. Raises Unavailable."""
        place = self._place("authorization_endpoint")
        # The keys are read while the user logs in there.
        self._tokens.start()
        challenge = hashlib.sha256(self._derived("verifier", attempt).encode()).digest()
        asked = {
            "response_type": "code",
            "client_id": self._client,
            "redirect_uri": redirect,
            "scope": SCOPE,
            "state": self._derived("state", attempt),
            "nonce": self._derived("nonce", attempt),
            "code_challenge": _base64(challenge),
            "code_challenge_method": "S256",
        }
        return f"{place}{'&' if '?' in place else '?'}{urlencode(asked)}"

    def identify(self, attempt: str, redirect: str, given: Return) -> Identity:
        """Whom the provider has logged in. Raises WrongLogin, whose text is only for the log, or Unavailable."""
        self._check_return(attempt, given)
        if given.error:
            raise WrongLogin(f"the provider says {given.error[:REASON_CHARACTERS_MAX]!r}")
        if not 0 < len(given.code) <= PARAMETER_CHARACTERS_MAX:
            raise WrongLogin("the provider has sent no code")
        answer = self._redeem(given.code, redirect, self._derived("verifier", attempt))
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise Unavailable("the provider has answered without an ID token")
        return self._tokens.identify_visitor(
            token, self._client, self._derived("nonce", attempt), lambda: self._told(answer.get("access_token"))
        )

    # --- what a browser brings back -------------------------------------------------------------------

    def _check_return(self, attempt: str, given: Return) -> None:
        """Raises WrongLogin for anything but the first return of an attempt that this process has begun."""
        if not hmac.compare_digest(self._derived("state", attempt).encode(), given.state.encode("utf-8", "replace")):
            raise WrongLogin("the state is not that of this browser")
        began = float(attempt.rpartition(".")[2])
        if not 0 <= self._clock() - began <= ATTEMPT_SECONDS:
            raise WrongLogin("the login took too long")
        if given.issuer and given.issuer != self._issuer:
            raise WrongLogin(f"the answer is of {given.issuer[:REASON_CHARACTERS_MAX]!r}")
        with self._lock:
            digest = hashlib.sha256(attempt.encode()).digest()
            if digest in self._returned:
                raise WrongLogin("the browser has returned before")
            self._returned[digest] = None
            if len(self._returned) > ATTEMPTS_MAX:
                self._returned.popitem(last=False)

    def _derived(self, what: str, attempt: str) -> str:
        return _base64(hmac.digest(self._key, f"{what} {attempt}".encode("utf-8", "replace"), "sha256"))

    # --- what the provider answers ----------------------------------------------------------------------

    def _redeem(self, code: str, redirect: str, verifier: str) -> Mapping[str, Any]:
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect, "code_verifier": verifier}
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        methods = self._known().get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        if self._secret and "client_secret_basic" in methods:
            # RFC 6749, 2.3.1: both are encoded as in forms first.
            pair = f"{quote(self._client, safe='')}:{quote(self._secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form["client_id"] = self._client
            if self._secret:
                form["client_secret"] = self._secret
        place = self._place("token_endpoint")
        return self._asked(urllib.request.Request(place, urlencode(form).encode(), headers))

    def _told(self, access_token: Any) -> Mapping[str, Any]:
        """Claims that the ID token lacks. Empty if the provider tells none."""
        if not isinstance(access_token, str) or "userinfo_endpoint" not in self._known():
            return {}
        headers = {"Authorization": f"Bearer {access_token}", "Accept": "application/json"}
        return self._asked(urllib.request.Request(self._place("userinfo_endpoint"), headers=headers))

    def _place(self, name: str) -> str:
        """An address of the provider's document. Raises Unavailable."""
        found = self._known().get(name)
        if not isinstance(found, str) or not found.isprintable():
            raise Unavailable(f"the provider's document has no {name}")
        if not is_trusted(found) or (is_local(host_of(found)) and not is_local(host_of(self._issuer))):
            raise Unavailable(f"the provider's {name} is {found}, which is not an https:// address")
        return found

    def _known(self) -> Mapping[str, Any]:
        """The provider's document (OpenID Connect Discovery 1.0, section 4). Raises Unavailable."""
        now, known = self._clock(), self._document
        if known is not None and now < known[0] + KNOWN_SECONDS:
            return known[1]
        try:
            found = self._asked(urllib.request.Request(self._issuer.rstrip("/") + DISCOVERY))
            if found.get("issuer") != self._issuer:
                raise Unavailable(f"the document at {self._issuer} is of the issuer {found.get('issuer')!r}")
        except (Unavailable, WrongLogin) as error:
            if known is None:
                raise Unavailable(str(error)) from error
            found = known[1]
        self._document = now, found
        return found

    def _asked(self, request: urllib.request.Request) -> Mapping[str, Any]:
        """An object of JSON. Raises WrongLogin for a refusal, Unavailable for any other answer, and for none."""
        try:
            with self._opener.open(request, timeout=ANSWER_SECONDS) as answer:
                content = answer.read(BYTES_MAX + 1)
            found = json.loads(content) if len(content) <= BYTES_MAX else None
        except HTTPError as error:
            with error:
                said = error.read(REASON_CHARACTERS_MAX).decode("utf-8", "replace")
            reason = f"{request.full_url} answers {error.code}: {said!r}"
            raise (WrongLogin if error.code in (400, 401, 403) else Unavailable)(reason) from None
        except (OSError, URLError, HTTPException, ValueError, RecursionError) as error:
            raise Unavailable(f"{request.full_url}: {error}") from None
        if not isinstance(found, dict):
            raise Unavailable(f"{request.full_url} has not answered with an object of JSON")
        return found


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
