"""Reads properties and texts of many tables and views with one statement each.

Spark prints a description (`SHOW TABLE EXTENDED`, CatalogTable.simpleString) as lines of `name: value`, and escapes
nothing: a comment or a column's name may contain line breaks and look like further lines. So a description is read only
if it can be read in one way. Callers ask for everything else table by table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from sql.names import quoted_database
from sql.texts.literals import string_token

PLAIN_NAME = re.compile(r"[a-z0-9_]+")
"""Names that a pattern of `show_described` matches as they are."""
_PROPERTIES = "\nTable Properties: ["
_TYPE, _VIEW = "\nType: ", "\nType: VIEW\n"
"""Each description has one such line. A table's comment may contain a view's, and a text."""
_VIEW_TEXT = "\nView Text: "
_VIEW_TEXT_END = "\nView Original Text: "
_PROPERTY = re.compile(
    r"(freshgate\.[\w.]+|transient_lastDdlTime|last_modified_\w+|bucketing_version|num(?:Files|Rows)|(?:raw|total)\w*Size)"
    r"=([\w.+-]*)",
    re.ASCII,
)
"""The gateway's properties, and those of Spark and Hive. Another one's value may contain what looks like a property."""


def show_described(database: str, names: Iterable[str]) -> str:
    """Describes tables and views of one database. The names match PLAIN_NAME."""
    return f"SHOW TABLE EXTENDED IN {quoted_database(database)} LIKE {string_token('|'.join(names))}"


def read_properties(rows: Iterable[Sequence[object]]) -> dict[str, Mapping[str, str]]:
    """The properties of storage tables by name, in the answer to `show_described`. It leaves out tables with foreign
    properties, with other characters than letters, digits and `_.+-` in a value, or with an ambiguous description."""
    found = ((name, _properties(description)) for name, description in _described(rows))
    return {name: properties for name, properties in found if properties is not None}


def read_view_texts(rows: Iterable[Sequence[object]]) -> dict[str, str]:
    """The texts of views by name, in the answer to `show_described`; without views whose description is ambiguous."""
    found = ((name, _view_text(description)) for name, description in _described(rows))
    return {name: text for name, text in found if text is not None}


def _described(rows: Iterable[Sequence[object]]) -> Iterator[tuple[str, str]]:
    """The name and description of each table that is not a temporary view of the session."""
    for _, name, temporary, description in rows:
        if temporary in (False, "false"):
            yield str(name).lower(), f"\n{description}"


def _properties(description: str) -> dict[str, str] | None:
    if description.count(_PROPERTIES) != 1:
        return None
    line = description.partition(_PROPERTIES)[2].partition("\n")[0]
    if not line.endswith("]"):
        return None
    pairs = [_PROPERTY.fullmatch(pair) for pair in line[:-1].split(", ")]
    found = {pair[1]: pair[2] for pair in pairs if pair is not None}
    return found if len(found) == len(pairs) else None


def _view_text(description: str) -> str | None:
    if description.count(_TYPE) != 1 or _VIEW not in description:
        return None
    if description.count(_VIEW_TEXT) != 1 or description.count(_VIEW_TEXT_END) != 1:
        return None
    text, ended, _ = description.partition(_VIEW_TEXT)[2].partition(_VIEW_TEXT_END)
    return text if ended else None
