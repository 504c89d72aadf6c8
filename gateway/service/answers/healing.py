"""Corrects faults of Spark's Thrift Server, by changing requests, changing replies, or answering in its place.

The setting `healing` names the corrections that are made. Each leaves calls unchanged that Spark answers correctly.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Self

from gateway.service.clients.session import DATABASE_KEY, Session
from gateway.service.operations.operation import Result
from gateway.wire import message, reply
from gateway.wire.message import Head, OpenCall
from gateway.wire.reply import InfoKind
from gateway.wire.rowset import COLUMNAR_PROTOCOL, ResultColumn, Type, row_set
from sql.names import SESSION_CATALOG, Namespace
from sql.understood import Understood

PAGE_BYTES = 100 << 20
"""The longest page of rows for `long_pages`: Hive's JDBC driver fails with 'MaxMessageSize reached' above it."""


@dataclass(frozen=True, slots=True)
class Healing:
    """Which faults are corrected; docs/internals/healing.md describes each."""

    get_info: bool = True
    key_calls: bool = True
    star_patterns: bool = True
    leaked_sessions: bool = True
    lost_cancels: bool = True
    early_metadata: bool = False
    ddl_columns: bool = False
    show_tables: str = "auto"
    """For which clients SHOW TABLES and SHOW VIEWS return the name in the first column, as Hive does, instead of the
    database. auto: for the statements of PyHive's SQLAlchemy dialect and Superset. on: for all. off: for none."""
    page_bytes: int = 0
    """The longest page of rows that a client gets; a longer page is replaced by one with fewer rows. 0: unlimited."""

    @classmethod
    def of(cls, names: Collection[str]) -> Self:
        """The corrections that the setting `healing` names."""
        show_tables = "on" if "show_tables_for_all" in names else "auto" if "show_tables" in names else "off"
        return cls(
            get_info="get_info" in names,
            key_calls="key_calls" in names,
            star_patterns="star_patterns" in names,
            leaked_sessions="leaked_sessions" in names,
            lost_cancels="lost_cancels" in names,
            early_metadata="early_metadata" in names,
            ddl_columns="ddl_columns" in names,
            show_tables=show_tables,
            page_bytes=PAGE_BYTES if "long_pages" in names else 0,
        )


ANSWERED_BY_SPARK: Final = frozenset({13, 17, 18, 10006})
"""CLI_SERVER_NAME, CLI_DBMS_NAME, CLI_DBMS_VER, CLI_ODBC_KEYWORDS. Drivers recognize Spark by them."""

_TEXT, _SHORT, _BITS, _FLAG, _LENGTH = InfoKind
_UNLIMITED = (_SHORT, 0)
_NAME_LENGTH = (_SHORT, 128)
"""As in HiveServer2. Spark itself allows longer names, but a metastore may not."""

INFO: Final[dict[int, tuple[InfoKind, str | int]]] = {
    0: _UNLIMITED,  # MAX_DRIVER_CONNECTIONS
    1: _UNLIMITED,  # MAX_CONCURRENT_ACTIVITIES
    2: (_TEXT, ""),  # DATA_SOURCE_NAME
    8: (_BITS, 1 | 2 | 8),  # FETCH_DIRECTION: next, first, prior
    14: (_TEXT, "\\"),  # SEARCH_PATTERN_ESCAPE
    19: (_TEXT, "N"),  # ACCESSIBLE_TABLES: reading a listed table may be refused
    20: (_TEXT, "N"),  # ACCESSIBLE_PROCEDURES
    23: (_SHORT, 2),  # CURSOR_COMMIT_BEHAVIOR: cursors are preserved
    25: (_TEXT, "N"),  # DATA_SOURCE_READ_ONLY
    26: (_BITS, 0),  # DEFAULT_TXN_ISOLATION: no transactions
    28: (_SHORT, 2),  # IDENTIFIER_CASE: not sensitive, stored in lower case
    29: (_TEXT, "`"),  # IDENTIFIER_QUOTE_CHAR
    30: _NAME_LENGTH,  # MAX_COLUMN_NAME_LEN
    31: (_SHORT, 0),  # MAX_CURSOR_NAME_LEN
    32: _NAME_LENGTH,  # MAX_SCHEMA_NAME_LEN
    34: _NAME_LENGTH,  # MAX_CATALOG_NAME_LEN
    35: _NAME_LENGTH,  # MAX_TABLE_NAME_LEN
    39: (_TEXT, "database"),  # SCHEMA_TERM, as in hive-jdbc's getSchemaTerm
    41: (_TEXT, "."),  # CATALOG_NAME_SEPARATOR
    42: (_TEXT, "catalog"),  # CATALOG_TERM
    43: (_BITS, 1),  # SCROLL_CONCURRENCY: read only
    45: (_TEXT, "table"),  # TABLE_TERM
    46: (_SHORT, 0),  # TXN_CAPABLE: none
    72: (_BITS, 0),  # TXN_ISOLATION_OPTION
    73: (_TEXT, "N"),  # INTEGRITY
    81: (_BITS, 0),  # GETDATA_EXTENSIONS
    85: (_SHORT, 1),  # NULL_COLLATION: low, ORDER BY puts nulls first
    86: (_BITS, 1),  # ALTER_TABLE: add a column
    90: (_TEXT, "N"),  # ORDER_BY_COLUMNS_IN_SELECT: not required
    94: (_TEXT, ""),  # SPECIAL_CHARACTERS
    97: _UNLIMITED,  # MAX_COLUMNS_IN_GROUP_BY
    98: _UNLIMITED,  # MAX_COLUMNS_IN_INDEX
    99: _UNLIMITED,  # MAX_COLUMNS_IN_ORDER_BY
    100: _UNLIMITED,  # MAX_COLUMNS_IN_SELECT
    101: _UNLIMITED,  # MAX_COLUMNS_IN_TABLE
    102: (_LENGTH, 0),  # MAX_INDEX_SIZE
    104: (_LENGTH, 0),  # MAX_ROW_SIZE
    105: (_LENGTH, 0),  # MAX_STATEMENT_LEN
    106: _UNLIMITED,  # MAX_TABLES_IN_SELECT
    107: (_SHORT, 0),  # MAX_USER_NAME_LEN
    115: (_BITS, 127),  # OJ_CAPABILITIES: all
    10000: (_TEXT, "1995"),  # XOPEN_CLI_YEAR
    10001: (_FLAG, 1),  # CURSOR_SENSITIVITY: insensitive
    10002: (_TEXT, "N"),  # DESCRIBE_PARAMETER
    10003: (_TEXT, "N"),  # CATALOG_NAME: Spark's lists have no catalogs
    10004: (_TEXT, "UTF8_BINARY"),  # COLLATION_SEQ
    10005: _NAME_LENGTH,  # MAX_IDENTIFIER_LEN
}
"""Values by TGetInfoType, with their meaning in ODBC's SQLGetInfo. A maximum of 0 means no limit."""

USER_NAME: Final = 47
_UNKNOWN = (_LENGTH, 0)

_KEY_SCHEMA: Final = {"GetPrimaryKeys": 3, "GetCrossReference": 6}
"""The required field: the table's schema, and the foreign table's."""

_PATTERNS: Final = {"GetSchemas": (3,), "GetTables": (3,), "GetColumns": (3, 5)}
"""The fields that Spark compiles as regular expressions: names of schemas (also compared with the schema of temporary
views), and of columns. In Spark's patterns of tables and functions, * stands for any text."""

_DANGLING = re.compile(r"(?:(?<=[*%|(+?])|\A)\*")
"""A * with nothing before it to repeat. A * that is replaced by % leaves the next one with nothing to repeat either."""
_PATTERN_CHARACTERS_MAX: Final = 10_000
"""No name is this long. Longer patterns are left for Spark to refuse."""

_WITHOUT_RESULT: Final = frozenset(
    {
        "add",
        "alter",
        "analyze",
        "cache",
        "clear",
        "comment",
        "create",
        "declare",
        "delete",
        "drop",
        "grant",
        "insert",
        "load",
        "merge",
        "msck",
        "refresh",
        "repair",
        "reset",
        "revoke",
        "set",
        "truncate",
        "uncache",
        "update",
        "use",
    }
)
"""First words of statements that have no result in Spark, or a short result."""
_HEAD_CHARACTERS: Final = 4_000
_BEFORE_INSERT: Final = frozenset({"with", "from"})
_EMPTY_REPLY_BYTES_MAX = 1024
"""A reply without columns has about 80 bytes; longer replies need not be parsed."""


_LIST_OF_NAMES = re.compile(r"show\s+(?:tables|views)\b", re.IGNORECASE)
_DIALECTS_LIST_OF_NAMES = re.compile(r"SHOW (?:TABLES|VIEWS) IN `(?:[^`]++|``)++`")
"""The statement of PyHive's sqlalchemy_hive.py and Superset's db_engine_specs/hive.py, for a given schema. Without a
schema, their text is also common in scripts, which read the second column."""
_PYHIVE_PROTOCOL: Final = 5
"""HIVE_CLI_SERVICE_PROTOCOL_V6."""


def lists_names(setting: str, call: OpenCall, known: Understood) -> bool:
    """Whether a statement is a SHOW TABLES or SHOW VIEWS whose client reads the first column (`Healing.show_tables`).

    `call` opened the session. PyHive sends a configuration without a database. impyla, with the same protocol version,
    sends no configuration and reads the second column; JDBC drivers always name a database.
    """
    if len(known.text) > _HEAD_CHARACTERS:
        return False
    if setting == "on":
        return _LIST_OF_NAMES.match(known.text, known.start) is not None
    pyhive = call.protocol == _PYHIVE_PROTOCOL and call.configured and DATABASE_KEY not in call.configuration
    return setting == "auto" and pyhive and _DIALECTS_LIST_OF_NAMES.fullmatch(known.text) is not None


async def names_first(statement: str, session: Session) -> Result:
    """The answer to a SHOW TABLES or SHOW VIEWS, with its first two columns, database and name, exchanged.

    Raises FreshgateError.
    """
    await session.settle()
    answer = await (await session.sql()).run(statement)
    order = [1, 0, *range(2, len(answer.columns))]
    types = (Type.STRING, Type.STRING, Type.BOOLEAN)
    columns = tuple(ResultColumn(answer.columns[place], kind) for place, kind in zip(order, types, strict=True))
    return Result(columns, [[row[place] for place in order] for row in answer.rows])


def info(head: Head, payload: bytes, user: str) -> bytes | None:
    """The reply to a GetInfo request; None if Spark answers it."""
    wanted = message.info_type(payload)
    if wanted in ANSWERED_BY_SPARK:
        return None
    kind, value = (_TEXT, user) if wanted == USER_NAME else INFO.get(-1 if wanted is None else wanted, _UNKNOWN)
    return reply.info(head.seqid, kind, value)


def metadata_call(settings: Healing, name: str, payload: bytes, namespace: Namespace | None) -> bytes:
    """A metadata call, changed so that Spark can answer it. `namespace`: the session's, if known."""
    if settings.key_calls and name in _KEY_SCHEMA:
        return _with_key_schema(name, payload, namespace)
    if settings.star_patterns and name in _PATTERNS:
        return _with_readable_stars(name, payload)
    return payload


def _with_key_schema(name: str, payload: bytes, namespace: Namespace | None) -> bytes:
    number = _KEY_SCHEMA[name]
    if number in message.texts(payload):
        return payload
    known = namespace is not None and namespace.catalog == SESSION_CATALOG
    # No schema has an empty name, so the list is then empty, as for all tables created by Spark.
    return message.with_texts(payload, {number: namespace.database if known and namespace is not None else ""})


def _with_readable_stars(name: str, payload: bytes) -> bytes:
    if b"*" not in payload:
        return payload
    texts = message.texts(payload)
    changed = {
        number: pattern
        for number in _PATTERNS[name]
        if len(texts.get(number, "")) <= _PATTERN_CHARACTERS_MAX
        if number in texts and (pattern := _DANGLING.sub("%", texts[number])) != texts[number]
    }
    return message.with_texts(payload, changed) if changed else payload


def may_lack_columns(known: Understood) -> bool:
    """Whether a statement may have no result, and therefore rows without columns. Never true for a query."""
    look = known.look
    if look.keyword in _WITHOUT_RESULT:
        return True
    if len(known.text) > _HEAD_CHARACTERS or look.keyword not in _BEFORE_INSERT or "insert" not in look.words:
        return False
    return known.sparks.exact and bool(known.sparks.writes)


def with_column(answer: bytes) -> bytes:
    """The FetchResults reply with the STRING column that Spark's schema of a statement without a result describes.

    Only changes columnar replies without columns: protocols before V6 use rows, and there are none.
    """
    place = message.results(answer) if len(answer) <= _EMPTY_REPLY_BYTES_MAX else None
    if place is None:
        return answer
    rows = reply.read_rows(answer, place)
    if rows.columns != [] or rows.rows:
        return answer
    return reply.with_rows(answer, place, row_set([ResultColumn("Result")], [], COLUMNAR_PROTOCOL, rows.startRowOffset))
