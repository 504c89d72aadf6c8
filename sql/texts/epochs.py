"""The epochs of gateways: views in the storage database. The gateway whose epoch stands changes materialized views.

`CREATE VIEW` is the statement of Spark that only one of several gateways can carry out: it fails if the view exists.
So a successor creates the epoch with the next number, and drops those before it.

A change is enclosed in a script of Spark 4 that fails if the epoch is gone, because a statement may wait for long in
Spark or in the network after the gateway has sent it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from sql.names import TableName
from sql.scan import tokens
from sql.texts.literals import property_list

PATTERN = "freshgate_epoch_*"
"""What `SHOW VIEWS` takes for the names of epochs."""
_NAME = re.compile(r"freshgate_epoch_([1-9]\d*)")
_FIRST_WORD = re.compile(r"(?:/\*[^*]*\*/|\s)*(\w+)")
_HARMLESS = frozenset({"SELECT", "SHOW", "DESCRIBE", "EXPLAIN", "USE", "SET", "RESET", "REFRESH"})
"""First words of the gateway's own statements that change nothing outside of their session."""
LEXED_CHARACTERS_MAX = 4_000
"""A longer text is not lexed on the event loop."""
_LINE = re.compile(r"\bline (\d+)(?=,? pos)")
NO_SCRIPTS = ("42601", "SQL_SCRIPTING")
"""The SQLSTATE with which Spark 3.5 refuses scripts, and what Spark 4 calls them if `spark.sql.scripting.enabled` is
off."""


def epoch_view(database: str, number: int) -> TableName:
    return TableName(database, f"freshgate_epoch_{number}")


def epochs_in(database: str, names: Iterable[str]) -> list[TableName]:
    """The epochs among the names of tables and views of the storage database, in the order of their numbers."""
    return sorted((TableName(database, name) for name in names if is_epoch(name)), key=number_of)


def is_epoch(name: str) -> bool:
    """Whether a table or view of the storage database with this name is an epoch."""
    return _NAME.fullmatch(name) is not None


def number_of(epoch: TableName) -> int:
    return int(epoch.table.rpartition("_")[2])


def create_epoch(epoch: TableName, properties: Mapping[str, str]) -> str:
    """Fails if it exists."""
    return f"CREATE VIEW {epoch.quoted} TBLPROPERTIES ({property_list(properties)}) AS SELECT 1 AS freshgate_epoch"


def changes(statement: str) -> bool:
    """Whether one of the gateway's own statements may change anything outside of its session."""
    found = _FIRST_WORD.match(statement)
    return found is None or found[1].upper() not in _HARMLESS


def fits_script(statement: str) -> bool:
    """Whether a statement stays one statement in a script. It may contain a user's query, which could end there and go
    on with another statement, also by the value of a ${variable}."""
    if "${" in statement:
        return False
    if ";" not in statement:
        return True
    return len(statement) <= LEXED_CHARACTERS_MAX and not any(text == ";" for _, text, _ in tokens(statement))


TRIED = "BEGIN SELECT 1; END"
"""Fails if Spark runs no scripts."""


def fenced(epoch: TableName, statement: str) -> str:
    """The script of a statement that is carried out only if the epoch stands."""
    # The statement has lines of its own, because it may end with a comment.
    return f"BEGIN SHOW TBLPROPERTIES {epoch.quoted};\n{statement}\n;END"


def unfenced(message: str) -> str:
    """Spark's message about a script, with the lines counted from the beginning of the statement in it."""
    return _LINE.sub(lambda found: f"line {max(1, int(found[1]) - 1)}", message)
