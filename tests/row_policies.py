"""A Spark extension that filters rows and masks columns by user, as Ranger's plugins do: tests/RowPolicies.java."""

from __future__ import annotations

import zipfile
from pathlib import Path

import jpype
from clients import start_jvm

SETTINGS = {"spark.sql.extensions": "RowPolicies"}
CLASS = "RowPolicies"


class RowPolicies:
    """The extension's archive, and the policies that a Spark started now applies from statement to statement."""

    def __init__(self, directory: Path) -> None:
        self.archive = directory / "policies.jar"
        self._file = directory / "policies.txt"
        self.set()
        start_jvm()
        compiler = jpype.JClass("org.codehaus.janino.SimpleCompiler")()
        source = Path(__file__).with_name(f"{CLASS}.java").read_text(encoding="utf-8")
        compiler.cook(source.replace('"FILE"', f'"{self._file}"'))
        with zipfile.ZipFile(self.archive, "w") as archive:
            for name, code in compiler.getBytecodes().items():
                archive.writestr(f"{str(name).replace('.', '/')}.class", bytes(code))

    def set(self, *policies: str) -> None:
        """Replaces all policies: `user filter table column number`, `user mask table column number`, or `user deny
        name`."""
        written = self._file.with_suffix(".new")
        written.write_text("".join(f"{policy}\n" for policy in policies), encoding="utf-8")
        written.replace(self._file)
