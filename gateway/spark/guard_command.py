"""`freshgate guard`: writes the guard as a jar for a Spark that the gateway does not start, and says what to set."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from gateway import children, spark_home
from gateway.config import Settings
from gateway.errors import FreshgateError
from gateway.spark.engine import find_java
from gateway.spark.storage_guard import DATABASE, EXTENSION, HASH, hash_of, random_secret


class GuardNotWritten(FreshgateError):
    """The jar could not be made. The message says why."""

    sqlstate = "58030"


def write(path: Path) -> None:
    """Writes the jar. Raises GuardNotWritten, SparkMissing, and EngineFailed without Java."""
    spark_home.find()
    find_java()
    try:
        path.touch()
    except OSError as error:
        raise GuardNotWritten(f"Cannot write {path}: {error.strerror}. Choose another with --jar.") from error
    module = f"{children.PACKAGE}.spark.guard_code"
    made = subprocess.run(
        [sys.executable, "-m", module, str(path.absolute())],
        env=children.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        path.unlink(missing_ok=True)
        said = made.stderr.strip().splitlines()
        raise GuardNotWritten(f"The guard could not be compiled: {said[-1] if said else made.returncode}")


def instructions(path: Path, settings: Settings) -> Iterator[str]:
    """What to set, with a new secret unless the settings have one, which is not shown."""
    secret = settings.upstream.guard_secret or random_secret()
    yield f"The guard for a Spark Thrift server, of Spark 3.5 or 4, is {path}."
    if not settings.upstream.guard_secret:
        yield ""
        yield "In the gateway's settings file, which nobody else should be able to read:"
        yield "    [upstream]"
        yield f'    guard_secret = "{secret}"'
    yield ""
    yield "In that Spark's spark-defaults.conf (further extensions follow after commas; then restart it):"
    yield f"    spark.driver.extraClassPath {path.absolute()}"
    yield f"    spark.sql.extensions        {EXTENSION}"
    yield f"    {HASH} {hash_of(secret)}"
    yield f"    {DATABASE} {settings.storage.database}"
