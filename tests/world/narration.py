"""What statements do, in words: `writes version 17 of s.v`."""

from __future__ import annotations

import re
from collections.abc import Callable

_QUOTED = re.compile(r"`spark_catalog`\.`(\w+)`\.`(\w+)`")
_STORAGE = re.compile(r"freshgate_storage\.(\w+?)__(\w+?)__[0-9a-f]{8}(__definition)?")
_STATEMENTS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = tuple(
    (re.compile(pattern, re.DOTALL), words)
    for pattern, words in (
        (
            r"INSERT (?:OVERWRITE|INTO) (.+?) PARTITION .*?(?:version = |CAST\()(\d+)(.*)",
            lambda found: f"writes version {found[2]} of {found[1]}" + _partitions(found[3]),
        ),
        (
            r"ALTER VIEW (\S+) AS SELECT .*version (?:=|<=) (\d+).*",
            lambda found: f"{found[1]} shows version {found[2]}",
        ),
        (r"ALTER VIEW (\S+) RENAME TO `(\w+)`", lambda found: f"{found[1]} is called {found[2]}"),
        (
            r"ALTER (?:TABLE|VIEW) (.+?) SET TBLPROPERTIES \((.*)\)",
            lambda found: f"stores {_keys(found[2])} of {found[1]}",
        ),
        (
            r"ALTER (?:TABLE|VIEW) (.+?) UNSET TBLPROPERTIES IF EXISTS \((.*)\)",
            lambda found: f"forgets {_keys(found[2])} of {found[1]}",
        ),
        (
            r"ALTER TABLE (.+?) DROP IF EXISTS (.*)",
            lambda found: f"drops version {_versions(found[2])} of {found[1]}",
        ),
        (r"DESCRIBE DATABASE .*", lambda _: "asks whether there is a storage database"),
        (r"CREATE VIEW (\S+)(?: COMMENT .*?)?(?: TBLPROPERTIES .*?)? AS .*", lambda found: f"creates {found[1]}"),
        (r"CREATE TABLE (.+?) USING .*", lambda found: f"creates a table for {found[1]}"),
        (r"DROP (?:VIEW|TABLE) IF EXISTS (.+)", lambda found: f"drops {found[1]}"),
        (r"SELECT left\(path.*binaryFile\.`file:/w/([\w.]+).*", lambda found: f"lists the files of {found[1]}"),
        (r"EXPLAIN SELECT 1 FROM (\S+) .*", lambda found: f"asks where the partitions of {found[1]} are"),
        (r"SELECT place, CAST.*", lambda _: "asks which partitions follow"),
        (r"SELECT count\(\*\) FROM (.+?) WHERE .* (\d+)", lambda found: f"counts version {found[2]} of {found[1]}"),
        (r"properties (.+)", lambda found: f"reads what is stored of {found[1]}"),
        (r"relation (\S+)", lambda found: f"asks what {found[1]} is"),
    )
)


def words(text: str) -> str:
    """What a gateway's statement does; any other text stays as it is."""
    text = _STORAGE.sub(_view, _QUOTED.sub(r"\1.\2", text))
    for pattern, said in _STATEMENTS:
        if (found := pattern.fullmatch(text)) is not None:
            return said(found)
    return text


def _view(found: re.Match[str]) -> str:
    return f"the definition of {found[1]}.{found[2]}" if found[3] else f"the rows of {found[1]}.{found[2]}"


def _keys(pairs: str) -> str:
    names = re.findall(r"'freshgate\.(\w+(?:\.\d+)?)[\w.]*'", pairs)
    versions = [name for name in names if name.startswith("version.")]
    return " ".join(versions[:1] or sorted(set(names))[:3] or ["properties"])


def _versions(text: str) -> str:
    return ", ".join(sorted(set(re.findall(r"version = (\d+)", text)), key=int))


def _partitions(rest: str) -> str:
    named = re.findall(r"WHERE .*", rest)
    keys = ", ".join(re.findall(r"'(\w+)'", named[0])) if named else ""
    return f" ({keys or 'some'})" if named else ""
