"""Users with passwords, and gateways that check them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from argon2 import PasswordHasher
from processes import Engine, Gateway, Setting

from gateway.login import user_file

PASSWORDS = {"ada": "ada's secret", "eve": "eve's secret", "bea": "plain"}
"""Beeline takes no password with blanks or quotes: of the arguments, it writes a line that it reads again."""
CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


def logins_of(users: Path) -> dict[str, Setting]:
    """Writes the user file, and returns the settings of a gateway that checks logins against it."""
    user_file.write(users, "".join(f"{user}:{CHEAP.hash(password)}\n" for user, password in PASSWORDS.items()))
    return {"authentication": "file", "authentication.users_file": users}


@contextmanager
def checking_gateway(engine: Engine, folder: Path, storage: str, **settings: Any) -> Iterator[Gateway]:
    """A gateway that checks logins, also over HTTP."""
    settings = {"listen.http_port": 0, "storage.database": storage, **logins_of(folder / "users"), **settings}
    running = Gateway(folder / "gateway.log", upstream=f"{engine.host}:{engine.port}", settings=settings)
    try:
        yield running
    finally:
        running.stop()
