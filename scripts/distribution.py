"""The build backend (PEP 517): setuptools, with the folders `gateway` and `sql` placed below `freshgate`.

Other distributions have a top-level module `sql`, too (jupysql). So in a wheel the modules are `freshgate.gateway` and
`freshgate.sql`. They are renamed in a copy of the tree: in imports, and in the entry points of pyproject.toml.
setuptools then builds the copy. Nothing is written into the tree itself. An editable installation uses the tree as it
is, with the names of the repository.
"""

from __future__ import annotations

import ast
import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

Config = dict[str, str | list[str] | None] | None

NAMESPACE = "freshgate"
PACKAGES = ("gateway", "sql")
SOURCES = (
    *PACKAGES,
    "scripts/distribution.py",
    "pyproject.toml",
    "MANIFEST.in",
    "README.md",
    "CHANGELOG.md",
    "LICENSE",
)
"""What a source distribution consists of."""
DOCSTRING = '"""Freshgate: materialized views for Spark SQL, over plain HiveServer2."""\n'

_ENTRY_POINT = re.compile(rf'(=\s*")(?=(?:{"|".join(PACKAGES)})\.)')
_PICTURE = re.compile(r"^!\[[^\]]*\]\((?!https?:)[^)]*\)\n+", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:)[^)]*\)")


class CannotRename(Exception):
    """An import that has no equivalent below the namespace."""


def build_wheel(wheel_directory: str, config_settings: Config = None, metadata_directory: str | None = None) -> str:
    """Implements PEP 517's hook; returns the wheel's file name. `metadata_directory` is not used."""
    target = Path(wheel_directory).absolute()
    with _copy() as copy:
        place_below_namespace(copy)
        return str(build_meta.build_wheel(str(target), config_settings))


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Config = None) -> str:
    """Implements PEP 517's hook; returns the name of the directory with the metadata."""
    target = Path(metadata_directory).absolute()
    with _copy() as copy:
        place_below_namespace(copy)
        return str(build_meta.prepare_metadata_for_build_wheel(str(target), config_settings))


def build_sdist(sdist_directory: str, config_settings: Config = None) -> str:
    """Implements PEP 517's hook; returns the archive's file name. The archive has the repository's layout."""
    target = Path(sdist_directory).absolute()
    with _copy():
        return str(build_meta.build_sdist(str(target), config_settings))


@contextlib.contextmanager
def _copy() -> Iterator[Path]:
    """Enters a temporary copy of the sources in the current directory."""
    with tempfile.TemporaryDirectory(prefix="freshgate-build-") as directory:
        copy = Path(directory)
        for source in map(Path, SOURCES):
            (copy / source).parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, copy / source, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(source, copy / source)
        left = Path.cwd()
        os.chdir(copy)
        try:
            yield copy
        finally:
            os.chdir(left)


def place_below_namespace(tree: Path) -> None:
    """Changes a copy of the sources into those of the wheel. Raises CannotRename."""
    namespace = tree / NAMESPACE
    namespace.mkdir()
    (namespace / "__init__.py").write_text(DOCSTRING, encoding="utf-8")
    for package in PACKAGES:
        (tree / package).rename(namespace / package)
    for path in namespace.rglob("*.py"):
        _rewrite(path, renamed(path.read_text(encoding="utf-8"), str(path.relative_to(tree))))
    for name, change in (("pyproject.toml", with_renamed_entry_points), ("README.md", without_relative_links)):
        _rewrite(tree / name, change((tree / name).read_text(encoding="utf-8")))


def _rewrite(path: Path, text: str) -> None:
    """Keeps the time of the last change, which archives contain."""
    status = path.stat()
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def renamed(source: str, name: str) -> str:
    """The source of a module whose imports of PACKAGES name the namespace. Raises CannotRename for
    `import gateway...`, which would bind another name."""
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if _is_ours(alias.name):
                    raise CannotRename(
                        f"{name}:{node.lineno}: write `from ... import` instead of `import {alias.name}`."
                    )
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and _is_ours(node.module or ""):
            # Nothing but blanks precedes the word, so the offset in bytes is one in characters.
            line, begin = lines[node.lineno - 1], node.col_offset
            before = f"from {node.module}"
            if not line.startswith(before, begin):
                raise CannotRename(f"{name}:{node.lineno}: write `{before} import` in one line, with single blanks.")
            lines[node.lineno - 1] = f"{line[:begin]}from {NAMESPACE}.{line[begin + len('from ') :]}"
    return "".join(lines)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in PACKAGES


def with_renamed_entry_points(project: str) -> str:
    """pyproject.toml whose entry points name the namespace."""
    return _ENTRY_POINT.sub(rf"\g<1>{NAMESPACE}.", project)


def without_relative_links(page: str) -> str:
    """A page without pictures and links that lead into the repository: an index of packages shows only the page."""
    return _LINK.sub(r"\1", _PICTURE.sub("", page))
