"""Text -> text: splicing, and the inline tables that are spliced in.

A statement is never printed anew; what must change is replaced where it stands.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from sql.names import SESSION_CATALOG, TableName, quote
from sql.scan import identifier, is_identifier, lexemes
from sql.statement import Forwarded, Reference

Value = str | int | bool | None
Splice = tuple[int, int, str]
"""Where the text changes, from and to, and what stands there then."""
REWRITTEN_CHARACTERS_MAX = 500_000
"""A longer text is not taken apart: what depends on its pieces is not put in a view's place there."""
PLACES_MAX = 10_000
"""Qualified names, and words TABLE, of one text that are kept."""


def splice(text: str, replacements: Sequence[Splice]) -> str:
    """`text` with each (start, end, new) put in place; the ranges must not overlap (ValueError)."""
    pieces: list[str] = []
    done = 0
    for start, end, new in sorted(replacements, key=lambda item: item[:2]):
        if not done <= start <= end <= len(text):
            raise ValueError(f"the range {start}:{end} overlaps another or leaves the text")
        pieces += text[done:start], new
        done = end
    pieces.append(text[done:])
    return "".join(pieces)


_ODD = re.compile(r"[\\']|\$\{")
"""What Spark may read otherwise than it stands: spark.sql.parser.escapedStringLiterals makes backslashes plain signs,
and ${name} is replaced everywhere in a text, unless spark.sql.variable.substitute says no."""


def safe_literal(text: str) -> str:
    """An expression that Spark reads as `text` in every session. Clauses that take no expression get a `string_token`,
    or a `partition_value`."""
    return f"'{text}'" if _ODD.search(text) is None else f"CAST({_bytes(text)} AS STRING)"


def partition_value(text: str) -> str:
    """The constant behind `PARTITION (column =`, which takes no expression."""
    return f"'{text}'" if _ODD.search(text) is None else _bytes(text)


def _bytes(text: str) -> str:
    return f"X'{text.encode().hex()}'"


def string_token(text: str) -> str:
    """A string of a clause: of a property, a comment, a location. There Spark unescapes in every session. The escape
    `\\{` is `{`, and is no variable."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("${", "$\\{")
    return f"'{escaped}'"


_CAST_TYPES = {
    "STRING": "STRING",
    "BIGINT": "BIGINT",
    "INT": "INT",
    "BOOLEAN": "BOOLEAN",
    # The bare name means another type where spark.sql.timestampType says so.
    "TIMESTAMP": "TIMESTAMP_LTZ",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def inline_table(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[Value]]) -> str:
    """A bracketed query that yields `rows`; a column is (name, STRING | BIGINT | INT | BOOLEAN | TIMESTAMP).

    A TIMESTAMP's value is ISO 8601 text, in UTC unless it names an offset; the result does not depend on the
    session's time zone. Raises ValueError for a value that is no timestamp, KeyError for another type.
    """
    return inline_lines(columns, [inline_line(columns, row) for row in rows])


def inline_line(columns: Sequence[tuple[str, str]], row: Sequence[Value]) -> str:
    """One row of an inline table."""
    return "(" + ", ".join(_constant(value, kind) for value, (_, kind) in zip(row, columns, strict=True)) + ")"


def inline_lines(columns: Sequence[tuple[str, str]], lines: Sequence[str]) -> str:
    """As `inline_table`, of rows that `inline_line` has written."""
    names = [f"c{number}" for number in range(len(columns))]
    shown = ", ".join(
        f"CAST({short} AS {_CAST_TYPES[kind]}) AS {quote(name)}"
        for short, (name, kind) in zip(names, columns, strict=True)
    )
    nothing = "" if lines else " WHERE FALSE"
    values = ", ".join(lines or ["(" + ", ".join(["NULL"] * len(columns)) + ")"])
    return f"(SELECT {shown} FROM VALUES {values} AS t({', '.join(names)}){nothing})"


def _constant(value: Value, kind: str) -> str:
    if value is None:
        return "NULL"
    if kind == "TIMESTAMP":
        moment = datetime.fromisoformat(str(value))
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return f"timestamp_micros({(moment - _EPOCH) // timedelta(microseconds=1)})"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return safe_literal(value) if isinstance(value, str) else str(value)


@dataclass(frozen=True, slots=True)
class Places:
    """What of a text tells whether a query may stand in the place of a name, and how."""

    odd: bool = True
    """Something other than an alias may follow a name."""
    qualified: frozenset[tuple[str, str]] = frozenset()
    """Database and table, in lower case, wherever a column is qualified by both."""
    tables: Mapping[int, int] = field(default_factory=dict)
    """Where a name stands behind the word TABLE: from its beginning to that of the word."""

    def disturb(self, name: TableName) -> bool:
        """Whether a subquery in the place of the relation might break the text: where columns are qualified with its
        database (`db.view.column`), or something other than an alias may follow its name."""
        return self.odd or (name.database, name.table) in self.qualified


UNREAD = Places()
"""Of a text that was not taken apart."""


def places(text: str) -> Places:
    """Takes a text apart. To ask about each of its mentions is cheap then."""
    if len(text) > REWRITTEN_CHARACTERS_MAX:
        return UNREAD
    odd, qualified, tables = False, set[tuple[str, str]](), dict[int, int]()
    last = ("", "", "", "")
    table = -1
    for piece in lexemes(text):
        if table >= 0:
            tables[piece.start] = table
        table = piece.start if piece.kind == "word" and piece.text.upper() == "TABLE" else -1
        last = (*last[1:], identifier(piece).lower() if is_identifier(piece) else piece.text)
        odd = odd or last[3] == "tablesample" or last[2:] == ("as", "of")
        if last[3] == last[1] == ".":
            qualified.add((last[0], last[2]))
        if len(qualified) + len(tables) > PLACES_MAX:
            return UNREAD
    return Places(odd, frozenset(qualified), tables)


def replacement(around: Places, reference: Reference, query: str, alias: str) -> list[Splice]:
    """The splices that put a bracketed query in a mention's place, under `alias` if the mention brings none.

    `TABLE name` takes no bracketed query, so its TABLE becomes a SELECT. The query itself is not copied: it may be
    long, and a statement mention it many times.
    """
    found: list[Splice] = [(reference.start, reference.end, query)]
    if (table := around.tables.get(reference.start)) is not None:
        found.append((table, reference.start, "SELECT * FROM "))
    if not reference.aliased:
        found.append((reference.end, reference.end, f" AS {alias}"))
    return found


def catalog_references(statement: Forwarded) -> tuple[tuple[Reference, str, str | None], ...]:
    """The mentions of INFORMATION_SCHEMA.MATERIALIZED_VIEWS and freshgate.materialized_views: each with the first of
    these words, and the database that it is limited to, if any.

    A pair of back quotes may hold several parts (`proj.ds`.INFORMATION_SCHEMA.X), as in BigQuery. None are found in a
    statement that was only guessed: a mention may stand in a string there.
    """
    if not statement.exact:
        return ()
    found: list[tuple[Reference, str, str | None]] = []
    for reference in statement.reads:
        path = [step.lower() for part in reference.parts for step in part.split(".")]
        if path == ["freshgate", "materialized_views"]:
            found.append((reference, "freshgate", None))
        elif path[-2:] == ["information_schema", "materialized_views"]:
            database = path[-3] if len(path) > 2 and not _is_everywhere(path[-3]) else None
            found.append((reference, "information_schema", database))
    return tuple(found)


def _is_everywhere(qualifier: str) -> bool:
    """Spark's own catalog, and BigQuery's regions, limit to no database."""
    return qualifier == SESSION_CATALOG or qualifier.startswith("region-")
