"""Text -> text: splicing, and the inline tables that are spliced in.

A statement is never printed anew; what must change is replaced where it stands.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from sql.names import SESSION_CATALOG, TableName, quote
from sql.scan import Lexeme, identifier, is_identifier, lexemes
from sql.statement import Forwarded, Reference

Value = str | int | bool | None
Splice = tuple[int, int, str]
"""Where the text changes, from and to, and what stands there then."""
REWRITTEN_CHARACTERS_MAX = 500_000
"""A longer text is not taken apart: what depends on its pieces is not put in a view's place there."""
_BEFORE_NAME = 2_000
_MAY_BE_TABLE = re.compile(r"table\s*\Z|--|\*/", re.IGNORECASE)
"""Before a name: the word, or a comment behind which it may stand."""


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
    names = [f"c{number}" for number in range(len(columns))]
    shown = ", ".join(
        f"CAST({short} AS {_CAST_TYPES[kind]}) AS {quote(name)}"
        for short, (name, kind) in zip(names, columns, strict=True)
    )
    lines = [
        "(" + ", ".join(_constant(value, kind) for value, (_, kind) in zip(row, columns, strict=True)) + ")"
        for row in rows
    ]
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


def replacement(text: str, reference: Reference, query: str, alias: str) -> Splice:
    """The splice that puts a bracketed query in a mention's place, under `alias` if the mention brings none.

    `TABLE name` takes no bracketed query, so its TABLE becomes a SELECT.
    """
    named = query if reference.aliased else f"{query} AS {alias}"
    before = _piece_before(text, reference.start)
    if before is not None and before.kind == "word" and before.text.upper() == "TABLE":
        return before.start, reference.end, f"SELECT * FROM {named}"
    return reference.start, reference.end, named


def _piece_before(text: str, position: int) -> Lexeme | None:
    """The last piece that ends before `position`, where it may be the word TABLE; comments are none."""
    near = _MAY_BE_TABLE.search(text, max(0, position - _BEFORE_NAME), position)
    if len(text) > REWRITTEN_CHARACTERS_MAX or near is None:
        return None
    ends, pieces = _pieces(text)
    place = bisect_right(ends, position)
    return pieces[place - 1] if place else None


def prepare(text: str) -> None:
    """Reads a long text beside the event loop, so that the other functions find that done."""
    if len(text) <= REWRITTEN_CHARACTERS_MAX:
        _pieces(text)


@lru_cache(maxsize=2)
def _pieces(text: str) -> tuple[list[int], list[Lexeme]]:
    """A text's pieces with their ends: a statement is asked about each of its mentions."""
    pieces = list(lexemes(text))
    return [piece.end for piece in pieces], pieces


def is_qualifier(text: str, name: TableName) -> bool:
    """Whether a subquery in the place of the relation might break the text: where columns are qualified with its
    database (`db.view.column`), or something other than an alias may follow its name."""
    if len(text) > REWRITTEN_CHARACTERS_MAX:
        return True
    pieces = _pieces(text)[1]
    words = [identifier(piece).lower() if is_identifier(piece) else piece.text for piece in pieces]
    qualified = [name.database, ".", name.table, "."]
    return any(
        word == "tablesample" or words[at : at + 2] == ["as", "of"] or words[at : at + 4] == qualified
        for at, word in enumerate(words)
    )


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
