"""An identity provider that listens on a free port: OpenID Connect's discovery, authorization, token and user-info
endpoints. It logs everybody in as `user`, and is as strict with clients as the standards allow."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

from gateway.login.signing_keys import DISCOVERY

CLIENT, SECRET = "freshgate-page", "s:e/c r%et"
SIGNING_KEY = "of the provider"
SIGNING = RSAKey.generate_key(2048, {"kid": SIGNING_KEY})


@dataclass
class Grant:
    """What a code stands for."""

    redirect: str
    challenge: str
    nonce: str


@dataclass
class IdentityProvider:
    """Runs from `start` to `stop`. Tests change its fields to make it wrong."""

    user: str = "ada"
    claims: dict[str, Any] = field(default_factory=dict)
    """Of the ID token, in the place of the right ones; None leaves one out."""
    told: dict[str, Any] = field(default_factory=dict)
    """By the user-info endpoint, besides the subject."""
    document: dict[str, Any] = field(default_factory=dict)
    """The same of the discovery document."""
    answers: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Status and body by path, in the place of the right ones."""
    secret: str = SECRET
    key: RSAKey = field(default_factory=lambda: SIGNING)
    silence: threading.Event | None = None
    """Answers wait for it."""
    asked: list[str] = field(default_factory=list)
    grants: dict[str, Grant] = field(default_factory=dict)

    def start(self) -> None:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.serve(self, b"")

            def do_POST(self) -> None:
                provider.serve(self, self.rfile.read(int(self.headers["Content-Length"])))

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def serve(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        split = urlsplit(request.path)
        self.asked.append(split.path)
        if self.silence is not None:
            self.silence.wait(30)
        status, text, headers = 404, "", {"Content-Type": "application/json"}
        if split.path in self.answers:
            status, text = self.answers[split.path]
        elif split.path == DISCOVERY:
            status, text = 200, json.dumps(self._document())
        elif split.path == "/keys":
            status, text = 200, json.dumps({"keys": [SIGNING.as_dict(private=False)]})
        elif split.path == "/authorize":
            status, headers = 302, {"Location": self.authorize(request.path)}
        elif split.path == "/token":
            status, text = self._token(request.headers.get("Authorization"), body)
        elif split.path == "/userinfo" and request.headers.get("Authorization") == "Bearer the access token":
            status, text = 200, json.dumps({"sub": self.user, **self.told})
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(text.encode())

    def _document(self) -> dict[str, Any]:
        names = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
        right = {name: f"{self.issuer}/{path}" for name, path in names.items()}
        told = {"userinfo_endpoint": f"{self.issuer}/userinfo"} if self.told else {}
        return {"issuer": self.issuer, **right, **told, **self.document}

    def authorize(self, place: str) -> str:
        """Where the browser is sent back to from an authorization request."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(place).query).items()}
        assert (asked["response_type"], asked["client_id"]) == ("code", CLIENT)
        assert asked["code_challenge_method"] == "S256"
        assert "openid" in asked["scope"].split()
        code = secrets.token_urlsafe()
        self.grants[code] = Grant(asked["redirect_uri"], asked["code_challenge"], asked["nonce"])
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state'], 'iss': self.issuer})}"

    def _token(self, authorization: str | None, body: bytes) -> tuple[int, str]:
        form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        grant = self.grants.pop(form.get("code", ""), None)
        if self._client(authorization, form) != (CLIENT, self.secret):
            return 401, '{"error": "invalid_client"}'
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        if (
            grant is None
            or form["grant_type"] != "authorization_code"
            or grant.redirect != form["redirect_uri"]
            or grant.challenge != challenge.rstrip(b"=").decode()
        ):
            return 400, '{"error": "invalid_grant"}'
        now = int(time.time())
        right = {
            "iss": self.issuer,
            "aud": CLIENT,
            "sub": self.user,
            "exp": now + 300,
            "iat": now,
            "nonce": grant.nonce,
        }
        said = {name: value for name, value in {**right, **self.claims}.items() if value is not None}
        token = jwt.encode({"alg": "RS256", "kid": SIGNING.kid, "typ": "JWT"}, said, self.key)
        return 200, json.dumps({"access_token": "the access token", "token_type": "Bearer", "id_token": token})

    @staticmethod
    def _client(authorization: str | None, form: dict[str, str]) -> tuple[str, str]:
        if authorization is None:
            return form.get("client_id", ""), form.get("client_secret", "")
        name, _, secret = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        return unquote(name), unquote(secret)
