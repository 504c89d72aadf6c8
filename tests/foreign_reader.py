"""Prints the rows of a table as delta-rs or PyIceberg reads it: a program for a Python that has these.

The arguments are the format, the table's directory, and the columns. Each line is one row: a list of texts in JSON.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


def _delta(directory: Path) -> Any:
    from deltalake import DeltaTable  # noqa: PLC0415

    return DeltaTable(str(directory)).to_pyarrow_table()


def _iceberg(directory: Path) -> Any:
    from pyiceberg.table import StaticTable  # noqa: PLC0415

    number = (directory / "metadata" / "version-hint.text").read_text(encoding="utf-8").strip()
    return StaticTable.from_metadata(str(directory / "metadata" / f"v{number}.metadata.json")).scan().to_arrow()


def _print() -> None:
    word, directory, *columns = sys.argv[1:]
    table = {"delta": _delta, "iceberg": _iceberg}[word](Path(directory))
    for row in table.select(columns).to_pylist():
        print(json.dumps([None if row[column] is None else str(row[column]) for column in columns]))
    # Threads of Arrow may abort an interpreter that ends ("terminate called without an active exception").
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    _print()
