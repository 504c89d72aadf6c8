"""A Spark extension that filters rows and masks columns by user, as Ranger's plugins do: tests/RowPolicies.java."""

from __future__ import annotations

from pathlib import Path

from java_sources import compile_java

SETTINGS = {"spark.sql.extensions": "RowPolicies"}
CLASS = "RowPolicies"


class RowPolicies:
    """The extension's archive, and the policies that a Spark started now applies from statement to statement."""

    def __init__(self, directory: Path) -> None:
        self.archive = directory / "policies.jar"
        self._file = directory / "policies.txt"
        self.set()
        compile_java(CLASS, self.archive, {'"FILE"': f'"{self._file}"'})

    def set(self, *policies: str) -> None:
        """Replaces all policies: `user filter table column number`, `user mask table column number`, or `user deny
        name`."""
        written = self._file.with_suffix(".new")
        written.write_text("".join(f"{policy}\n" for policy in policies), encoding="utf-8")
        written.replace(self._file)
