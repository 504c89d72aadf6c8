"""Compiles the tests' Java sources with the compiler that Spark has."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import jpype
from clients import start_jvm


def compile_java(name: str, archive: Path, replaced: Mapping[str, str] = MappingProxyType({})) -> None:
    """Writes an archive with the classes of `tests/NAME.java`. `replaced`: parts of the source, by what is there."""
    source = Path(__file__).with_name(f"{name}.java").read_text(encoding="utf-8")
    for old, new in replaced.items():
        source = source.replace(old, new)
    start_jvm()
    compiler = jpype.JClass("org.codehaus.janino.SimpleCompiler")()
    compiler.cook(source)
    with zipfile.ZipFile(archive, "w") as written:
        for found, code in compiler.getBytecodes().items():
            written.writestr(f"{str(found).replace('.', '/')}.class", bytes(code))
