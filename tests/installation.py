"""An environment in which this project is installed from its wheel, with dependencies of the tests' own environment.

Nothing is downloaded: the files of the dependencies are linked.
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import venv
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.requirements import Requirement
from processes import ROOT

PROJECT = "freshgate"
BUILD_SECONDS = 120
STRANGER = 'raise ImportError("This module belongs to another distribution.")\n'
TAKEN = ("sql", "gateway")
"""Top-level modules that other distributions may install."""


def build_wheel(source: Path, target: Path) -> Path:
    """Builds the wheel of a source tree, with the build tools of the tests' environment."""
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check")
    _pip("wheel", *options, "--wheel-dir", str(target), str(source))
    (wheel,) = target.glob("*.whl")
    return wheel


def build_sdist(target: Path) -> Path:
    """Builds the source distribution of this tree."""
    program = f"import distribution; distribution.build_sdist({str(target)!r})"
    subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT / "scripts")},
        check=True,
        capture_output=True,
        timeout=BUILD_SECONDS,
    )
    (archive,) = target.glob("*.tar.gz")
    return archive


def _pip(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", *arguments],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_SECONDS,
    )
    assert done.returncode == 0, done.stderr[-3000:]


class Installation:
    """A virtual environment with the wheel, its dependencies with the given extras, and foreign modules at the names
    of the repository's folders."""

    def __init__(self, directory: Path, wheel: Path, extras: Iterable[str] = ()) -> None:
        self.directory = directory
        venv.create(directory, symlinks=True, with_pip=False)
        _pip(f"--python={self.python}", "install", "--quiet", "--no-deps", "--no-index", str(wheel))
        (self.site,) = (directory / "lib").glob("python*/site-packages")
        for name in TAKEN:
            (self.site / f"{name}.py").write_text(STRANGER, encoding="utf-8")
        for distribution in _needed(self.site, extras):
            self._link(distribution)

    @property
    def python(self) -> Path:
        return self.directory / "bin" / "python"

    @property
    def program(self) -> Path:
        return self.directory / "bin" / PROJECT

    def run(self, *command: str | Path, seconds: float = 60, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs a command in the environment's directory, with only these variables."""
        return subprocess.run(
            list(map(str, command)),
            cwd=self.directory,
            env={"PATH": "/usr/bin:/bin", **variables},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def _link(self, distribution: importlib.metadata.Distribution) -> None:
        for file in distribution.files or ():
            top = file.parts[0]
            if top not in ("..", "__pycache__") and not (self.site / top).exists():
                (self.site / top).symlink_to(distribution.locate_file(top))  # type: ignore[arg-type]


def _needed(site: Path, extras: Iterable[str]) -> Iterator[importlib.metadata.Distribution]:
    """The distributions that the installed project needs, directly or not."""
    (project,) = importlib.metadata.distributions(name=PROJECT, path=[str(site)])
    open_ends = list(_requirements(project, extras))
    seen = set[str]()
    while open_ends:
        requirement = open_ends.pop()
        if (found := str(requirement)) in seen or requirement.name == PROJECT:
            continue
        seen.add(found)
        distribution = importlib.metadata.distribution(requirement.name)
        yield distribution
        open_ends += _requirements(distribution, requirement.extras)


def _requirements(distribution: importlib.metadata.Distribution, extras: Iterable[str]) -> Iterator[Requirement]:
    for requirement in map(Requirement, distribution.requires or ()):
        contexts = ("", *extras)
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": each}) for each in contexts):
            yield requirement
