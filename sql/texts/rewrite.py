"""Splices text into statements.

A statement is never regenerated from a parsed tree; only the parts that must change are replaced.

Tests: `test_spliced_texts`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sql.lexed import Lexed
from sql.names import SESSION_CATALOG, TableName
from sql.scan import identifier, is_identifier
from sql.statement import Forwarded, Reference

Splice = tuple[int, int, str]
"""A replacement: start, end, new text."""
REWRITTEN_CHARACTERS_MAX = 500_000
"""Longer texts are not scanned for places, so no definition is spliced into them."""
PLACES_MAX = 10_000
"""The maximum number of qualified names and words TABLE that are recorded for one text."""


def splice(text: str, replacements: Sequence[Splice]) -> str:
    """`text` with each range (start, end) replaced by `new`. Raises ValueError if ranges overlap."""
    pieces: list[str] = []
    done = 0
    for start, end, new in sorted(replacements, key=lambda item: item[:2]):
        if not done <= start <= end <= len(text):
            raise ValueError(f"the range {start}:{end} overlaps another or leaves the text")
        pieces += text[done:start], new
        done = end
    pieces.append(text[done:])
    return "".join(pieces)


@dataclass(frozen=True, slots=True)
class Places:
    """Tells whether, and how, a query can replace the name of a relation in a text."""

    odd: bool = True
    """Whether something other than an alias may follow a name."""
    qualified: frozenset[tuple[str, str]] = frozenset()
    """The database and table, in lower case, of columns qualified by both."""
    tables: Mapping[int, int] = field(default_factory=dict)
    """By the start of a name that follows the word TABLE: the start of that word."""

    def disturb(self, name: TableName) -> bool:
        """Whether a subquery in place of the relation might break the text: columns are qualified with its database
        (`db.view.column`), or something other than an alias may follow its name."""
        return self.odd or (name.database, name.table) in self.qualified


UNREAD = Places()
"""The places of a text that was not scanned."""


def places(lexed: Lexed) -> Places:
    """Scans a text once, so that each mention in it can be checked cheaply."""
    if len(lexed.text) > REWRITTEN_CHARACTERS_MAX:
        return UNREAD
    odd, qualified, tables = False, set[tuple[str, str]](), dict[int, int]()
    last = ("", "", "", "")
    table = -1
    for piece in lexed.pieces:
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
    """The splices that replace a mention by a parenthesized query, under `alias` if the mention has none.

    `TABLE name` takes no parenthesized query, so its TABLE becomes a SELECT. The query itself is not copied: it may be
    long, and a statement may mention it many times.
    """
    found: list[Splice] = [(reference.start, reference.end, query)]
    if (table := around.tables.get(reference.start)) is not None:
        found.append((table, reference.start, "SELECT * FROM "))
    if not reference.aliased:
        found.append((reference.end, reference.end, f" AS {alias}"))
    return found


OWN = frozenset(
    {
        *("materialized_views", "rewrites", "suggested_views", "statements", "reads", "limits"),
        *("attention", "refresh_costs", "tables_in_memory", "gateway", "gateways"),
    }
)
"""The relations freshgate.…"""


def catalog_references(statement: Forwarded) -> tuple[tuple[Reference, str, str | None], ...]:
    """The mentions of INFORMATION_SCHEMA.MATERIALIZED_VIEWS and of the relations in `OWN`: each with its schema, and
    the database that it is limited to, if any.

    One pair of backquotes may contain several parts (`proj.ds`.INFORMATION_SCHEMA.X), as in BigQuery. Statements that
    are not exact have none, because the mention may be in a string.
    """
    if not statement.exact:
        return ()
    found: list[tuple[Reference, str, str | None]] = []
    for reference in statement.reads:
        path = [step.lower() for part in reference.parts for step in part.split(".")]
        if path[0] == "freshgate" and path[1:] and ".".join(path[1:]) in OWN:
            found.append((reference, "freshgate", None))
        elif path[-2:] == ["information_schema", "materialized_views"]:
            database = path[-3] if len(path) > 2 and not _is_everywhere(path[-3]) else None
            found.append((reference, "information_schema", database))
    return tuple(found)


def _is_everywhere(qualifier: str) -> bool:
    """Whether the qualifier is not a database, but spark_catalog or a region of BigQuery."""
    return qualifier == SESSION_CATALOG or qualifier.startswith("region-")
