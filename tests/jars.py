"""Java archives that tests use: requirements-jars.lock names them, scripts/setup fetches them."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements-jars.lock"
DIRECTORY = ROOT / ".cache" / "jars"


def jar(artifact: str, version: str | None = None) -> Path:
    """The archive of this Maven artifact, in the version that the lock pins; in which, where it pins several.

    Raises LookupError where the lock does not name it exactly once, FileNotFoundError where it was not fetched yet.
    """
    names = [name for found, pinned, name in _locked() if found == artifact and version in (None, pinned)]
    if len(names) != 1:
        wanted = artifact if version is None else f"{artifact} {version}"
        raise LookupError(f"{LOCK.name} names the artifact {wanted} {len(names)} times. Give it one line there.")
    path = DIRECTORY / names[0]
    if not path.is_file():
        raise FileNotFoundError(f"{path.relative_to(ROOT)} is not there. Run scripts/setup, which fetches it.")
    return path


def _locked() -> list[tuple[str, str, str]]:
    """Each artifact of the lock with its version and its file's name, as scripts/setup gives it."""
    found = []
    for line in LOCK.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            _, artifact, version, kind, *classifier = line.split()[0].split(":")
            found.append((artifact, version, "-".join([artifact, version, *classifier]) + f".{kind}"))
    return found
