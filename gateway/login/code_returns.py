"""What a browser brings back from an identity provider. Needs no extra."""

from __future__ import annotations

from dataclasses import dataclass

ATTEMPT_SECONDS = 600
"""How long a user may take to log in at the provider."""


@dataclass(frozen=True, slots=True)
class Return:
    """What a browser brings back from the provider: parameters of the address. `issuer`: RFC 9207's."""

    state: str
    code: str = ""
    error: str = ""
    issuer: str = ""
