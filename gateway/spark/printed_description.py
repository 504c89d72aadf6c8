"""Reads the rows of DESCRIBE TABLE EXTENDED, which Spark prints for people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_OF_LENGTH = re.compile(r"(varchar|char)\((\d+)\)")
_HEADER = ("# col_name", "data_type")
"""Above the columns. A column may have such a name, too."""
_DETAILED = ("Detailed Table Information", "Detailed Partition Information")


@dataclass(frozen=True, slots=True)
class Description:
    """What DESCRIBE TABLE EXTENDED says of a table, view or partition."""

    columns: tuple[tuple[str, str], ...]
    """The name and the printed type of each column."""
    partitioned_by: tuple[str, ...]
    detail: Mapping[str, str] | None
    """The rows of the detailed information; None if there is none, as for a temporary view."""
    transforms: tuple[str, ...] = ()
    """Of a table that is not partitioned by columns alone: `hours(ts)`, `bucket(4, c)`, `c`."""


def read_description(rows: Iterable[tuple[Any, ...]]) -> Description:
    """Reads columns, then sections that begin with `# Title`."""
    sections: dict[str, list[tuple[str, str]]] = {"": []}
    title = ""
    for first, second, *_ in rows:
        if not first and not second:
            title = "between"
        elif first.startswith("# ") and not second:
            title = first.removeprefix("# ")
            sections.setdefault(title, [])
        else:
            sections.setdefault(title, []).append((first, second or ""))
    columns = tuple(column for column in sections[""] if column != _HEADER)
    parts = (unquoted(part[0]) for part in sections.get("Partition Information", ()) if part != _HEADER)
    transforms = tuple(said for _, said in sections.get("Partitioning", ()))
    detail = next((dict(sections[title]) for title in _DETAILED if title in sections), None)
    return Description(columns, tuple(parts), detail, transforms)


def type_of(text: str) -> dict[str, Any]:
    """A printed type as AS JSON represents it, except nested types."""
    if found := _DECIMAL.fullmatch(text):
        return {"name": "decimal", "precision": int(found[1]), "scale": int(found[2])}
    if found := _OF_LENGTH.fullmatch(text):
        return {"name": found[1], "length": int(found[2])}
    if text == "string":
        return {"name": "string", "collation": "UTF8_BINARY"}
    return {"name": "timestamp_ltz" if text == "timestamp" else text}


def unquoted(identifier: str) -> str:
    if identifier.startswith("`") and identifier.endswith("`"):
        return identifier[1:-1].replace("``", "`")
    return identifier
