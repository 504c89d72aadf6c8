"""An identity provider whose keys are in a file."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from joserfc import jwt
from joserfc.jwk import RSAKey
from processes import Setting

ISSUER = "https://id.example/realms/bi"


class Issuer:
    """Issues tokens for `freshgate`."""

    def __init__(self, folder: Path) -> None:
        self._key = RSAKey.generate_key(2048, {"kid": "of the tests"})
        self._file = folder / "keys.json"
        self._file.write_text(json.dumps({"keys": [self._key.as_dict(private=False)]}))
        self.settings: dict[str, Setting] = {"jwt.issuer": ISSUER, "jwt.audience": "freshgate", "jwt.keys": self._file}

    def token(self, user: str, seconds: float = 600.0, **claims: Any) -> str:
        said = {"iss": ISSUER, "aud": "freshgate", "sub": user, "exp": int(time.time() + seconds), **claims}
        return jwt.encode({"alg": "RS256", "kid": self._key.kid}, said, self._key)
