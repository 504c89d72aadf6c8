"""What a statement's text can be: a value per kind. `classify` makes them, `service.route` acts on them."""

from __future__ import annotations

from dataclasses import dataclass, field

Parts = tuple[str, ...]
"""A name as it stands in the text, one string per dotted part, back quotes removed, case kept."""


@dataclass(frozen=True, slots=True)
class Reference:
    """One mention of a relation in a text.

    `start` and `end` are character offsets of the whole dotted name (back quotes included), end exclusive, so that the
    mention can be spliced. `aliased` tells whether an alias follows, so that a spliced subquery knows whether to
    bring one.
    """

    parts: Parts
    start: int
    end: int
    aliased: bool = False


# --- statements that the gateway executes itself ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the column list: its name and, where given, its comment."""

    name: str
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class CreateMaterializedView:
    name: Parts
    query: str
    """The definition's text, as it stands after AS, without a trailing semicolon."""
    columns: tuple[Column, ...] = ()
    comment: str | None = None
    properties: tuple[tuple[str, str], ...] = ()
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropMaterializedView:
    name: Parts
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RefreshMaterializedView:
    """REFRESH MATERIALIZED VIEW, or BigQuery's CALL BQ.REFRESH_MATERIALIZED_VIEW('[project.]dataset.view')."""

    name: Parts


@dataclass(frozen=True, slots=True)
class ShowMaterializedViews:
    database: str | None = None
    pattern: str | None = None
    """As in Spark's SHOW TABLES: `*` is any text, `|` separates alternatives, case does not count."""


Command = CreateMaterializedView | DropMaterializedView | RefreshMaterializedView | ShowMaterializedViews

# --- statements that go to Spark -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Forwarded:
    """A statement for Spark, with what the gateway must know about it.

    `exact` is False where the text could not be parsed: then `reads` and `writes` hold every dotted identifier chain
    of the text (strings looked into for EXECUTE IMMEDIATE), and `reason` says why.
    """

    reads: tuple[Reference, ...] = ()
    """Relations whose rows the statement reads; names bound by a CTE of the statement left out."""
    writes: tuple[Parts, ...] = ()
    """Relations whose rows, columns or existence the statement may change. DROP, ALTER, MSCK, LOAD count as writes."""
    creates_view: Parts | None = None
    """CREATE or ALTER VIEW: the view's name; `reads` then holds what its text reads (and none of it is refreshed)."""
    temporary: bool = False
    """The view or function that is created lives in the session."""
    drops: Parts | None = None
    """DROP TABLE | VIEW | DATABASE: the name (also in `writes`)."""
    drops_database: bool = False
    """`drops` names a database, and with it, every table in it."""
    creates_function: bool = False
    """`creates_view` names a SQL function: found in the `calls`, not the `reads`, of the statements that use it."""
    calls: tuple[Parts, ...] = ()
    """Names that stand before a bracket, built-in functions among them: a SQL function may hold a query."""
    writes_files: bool = False
    """INSERT OVERWRITE DIRECTORY: the files may be those of any table."""
    touches_rows: bool = True
    """False where no row is read or changed: EXPLAIN, DESCRIBE, SHOW, and schema probes (WHERE 1=0, LIMIT 0)."""
    changes_namespace: bool = False
    """USE, SET CATALOG, or a text that may contain them: the session's current database must be asked for again."""
    exact: bool = True
    reason: str = ""


Statement = Command | Forwarded


@dataclass(frozen=True, slots=True)
class Glance:
    """What one cheap look at a text shows, before anything is parsed."""

    keyword: str
    """The first word, folded to lower case; comments and brackets before it skipped."""
    words: frozenset[str] = field(default=frozenset())
    """Every identifier of the text, folded; of back-quoted ones the inside, also split at its dots."""
    maybe_command: bool = False
    """The text may be a statement of the gateway's own (a superset test: False is certain)."""
