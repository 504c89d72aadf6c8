"""Java archives for tests: requirements-jars.lock lists them, scripts/setup downloads them. Those for other releases of
Spark are in requirements-spark.lock, those for S3 in requirements-s3.lock."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements-jars.lock"
SPARK_LOCK = ROOT / "requirements-spark.lock"
S3_LOCK = ROOT / "requirements-s3.lock"
DIRECTORY = ROOT / ".cache" / "jars"


def jar(artifact: str, version: str | None = None, lock: Path = LOCK) -> Path:
    """The archive of a Maven artifact in the version that a lock pins. `version` chooses one if it pins several.

    Raises LookupError unless the lock lists it exactly once, FileNotFoundError if it was not downloaded yet.
    """
    names = [name for found, pinned, name in _locked(lock) if found == artifact and version in (None, pinned)]
    if len(names) != 1:
        wanted = artifact if version is None else f"{artifact} {version}"
        raise LookupError(f"{lock.name} lists the artifact {wanted} {len(names)} times; it must have one line.")
    path = DIRECTORY / names[0]
    if not path.is_file():
        raise FileNotFoundError(f"{path.relative_to(ROOT)} is missing. Run scripts/setup to download it.")
    return path


def _locked(lock: Path) -> list[tuple[str, str, str]]:
    """Each artifact of the lock with its version and the file name that scripts/setup gives it."""
    found = []
    for line in lock.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith(("#", "pyspark==")):
            _, artifact, version, kind, *classifier = line.split()[0].split(":")
            found.append((artifact, version, "-".join([artifact, version, *classifier]) + f".{kind}"))
    return found
