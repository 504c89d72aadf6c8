"""Checks bearer tokens: JSON Web Tokens (RFC 7519) signed by an identity provider, as RFC 8725 and RFC 9068 advise.

Tests: `test_tokens`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from joserfc import jws, jwt
from joserfc.errors import ClaimError, JoseError
from joserfc.jwk import Key

from gateway.config import Jwt
from gateway.login.signing_keys import DISCOVERY, SigningKeys
from gateway.login.verifier import USER_CHARACTERS_MAX, Identity, WrongLogin

LEEWAY_SECONDS = 60
"""By how much the provider's clock may differ from this machine's."""
TYPES = frozenset({"", "jwt", "at+jwt", "application/at+jwt"})
"""Values of the header `typ` that access tokens have, in lower case: others are tokens for something else."""
ID_TYPES = frozenset({"", "jwt"})
"""The same of ID tokens."""
HEADER_BYTES_MAX = 8192
"""Some providers add their chain of certificates."""
REASON_CHARACTERS_MAX = 200


class Tokens:
    """Checks tokens against the settings. Thread-safe; may block for `signing_keys.ANSWER_SECONDS`."""

    def __init__(self, settings: Jwt, keys: SigningKeys | None = None, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives seconds since the epoch."""
        self._settings = settings
        self._keys = keys or SigningKeys(settings.keys or settings.issuer.rstrip("/") + DISCOVERY)
        self._algorithms = list(settings.algorithms)
        self._registry = jws.JWSRegistry(algorithms=self._algorithms, strict_check_header=False)
        self._registry.max_header_length = HEADER_BYTES_MAX
        self._claims = jwt.JWTClaimsRegistry(
            now=lambda: int(clock()),
            leeway=LEEWAY_SECONDS,
            iss={"essential": True, "value": settings.issuer},
            aud={"essential": True, "values": list(settings.audience)},
            exp={"essential": True},
        )

    def start(self) -> None:
        """Reads the keys. Raises Unavailable if there is no file of them."""
        self._keys.start()

    def identify(self, token: str) -> Identity:
        """Whom the token names. Raises WrongLogin, whose text is only for the log, or Unavailable."""
        return self._identity(self._decoded(token, self._claims, TYPES))

    def identify_visitor(
        self, token: str, client: str, nonce: str, further: Callable[[], Mapping[str, Any]]
    ) -> Identity:
        """Whom an ID token names that was issued for this client with this nonce (OpenID Connect Core 1.0, 3.1.3.7).
        `further`: claims of its subject, which are asked for if the token lacks the user's name or groups.

        Raises WrongLogin, whose text is only for the log, or Unavailable.
        """
        claims = self._decoded(
            token,
            jwt.JWTClaimsRegistry(
                now=self._claims.now,
                leeway=LEEWAY_SECONDS,
                iss={"essential": True, "value": self._settings.issuer},
                aud={"essential": True, "value": client},
                exp={"essential": True},
                nonce={"essential": True, "value": nonce},
                sub={"essential": True},
            ),
            ID_TYPES,
        )
        if claims.get("azp", client) != client:
            raise WrongLogin("the ID token was issued to another client")
        settings = self._settings
        if any(name and _claim(claims, name) is None for name in (settings.user_claim, settings.groups_claim)):
            told = further()
            if told and told.get("sub") != claims["sub"]:
                raise WrongLogin("the provider tells of another user than the ID token")
            claims = {**told, **claims}
        return self._identity(claims)

    def _decoded(self, token: str, registry: jwt.JWTClaimsRegistry, types: frozenset[str]) -> Mapping[str, Any]:
        """The claims of a valid token. Raises WrongLogin or Unavailable."""
        try:
            decoded = jwt.decode(token, self._key, registry=self._registry)
            _check_type(decoded.header, types)
            registry.validate(decoded.claims)
        except ClaimError as error:
            raise WrongLogin(_reason(error)) from None
        except (JoseError, ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            # The library was given any bytes that a stranger chose.
            raise WrongLogin(f"the token is not valid: {_reason(error)}") from None
        return decoded.claims

    def _key(self, token: Any) -> Key:
        key_id = token.headers().get("kid")
        if key_id is not None and not isinstance(key_id, str):
            raise WrongLogin("the token's key id is not a text")
        return self._keys.named(key_id)

    def _identity(self, claims: Mapping[str, Any]) -> Identity:
        settings = self._settings
        user = claims.get(settings.user_claim)
        if not isinstance(user, str) or not user.strip():
            raise WrongLogin(f"the token has no name of a user in its claim {settings.user_claim}")
        if len(user) > USER_CHARACTERS_MAX or not user.isprintable():
            raise WrongLogin(f"the claim {settings.user_claim} cannot be the name of a user")
        groups = frozenset(_texts(_claim(claims, settings.groups_claim))) if settings.groups_claim else frozenset[str]()
        if settings.group_filter and not groups.intersection(settings.group_filter):
            raise WrongLogin(f"{user!r} is in no group of jwt.group_filter")
        return Identity(user, groups, float(claims["exp"]) + LEEWAY_SECONDS)


def _check_type(header: Mapping[str, Any], types: frozenset[str]) -> None:
    found = header.get("typ", "")
    if not isinstance(found, str) or found.lower() not in types:
        raise WrongLogin(f"the token's type is {found!r}, which is that of a token for something else")


def _claim(claims: Mapping[str, Any], name: str) -> object:
    """The value of a claim, or of one in an object: `realm_access.roles`."""
    if name in claims:
        return claims[name]
    found: object = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _texts(value: object) -> list[str]:
    """A list of texts, or a text of words as in the claim `scope` (RFC 8693)."""
    if isinstance(value, str):
        return value.split()
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _reason(error: Exception) -> str:
    return str(error)[:REASON_CHARACTERS_MAX]
