"""The gateway's own settings of a session. SET and RESET change them as they change Spark's, which stores them too."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gateway.errors import SyntaxRefused
from gateway.service.clients import transaction
from gateway.service.clients.session import Session

REWRITE = "freshgate.rewrite"
"""`off`: queries of this session are not answered from views that they do not name."""
RESULT_CACHE = "freshgate.result_cache"
"""`off`: reads of this session are not answered from memory, and their results are not kept."""
_VALUES = {transaction.SETTING: transaction.VALUES, REWRITE: ("off", "on"), RESULT_CACHE: ("off", "on")}
"""The possible values; the last one is the default."""
IN_PARTS = ("spark.sql.thriftServer.incrementalCollect", "kyuubi.operation.incremental.collect")
"""Settings by which Spark computes rows when they are fetched (`Session.collects_in_parts`)."""
_UNDEFINED = "<undefined>"
"""What SET says for a setting without a value."""
_STATEMENT = re.compile(
    rf"""(?: set \s+ `?(?P<name>{"|".join(map(re.escape, _VALUES))})`? \s*=\s* (?P<value>.*)
    | reset (?: \s+ `?(?P<unset>{"|".join(map(re.escape, _VALUES))})`? )? )""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)


def assigned(text: str) -> Mapping[str, str] | None:
    """The values that SET or RESET gives these settings, by name; None if the text is another statement."""
    found = _STATEMENT.fullmatch(text.rstrip("; \t\r\n"))
    if found is None:
        return None
    if found["name"] is not None:
        return {found["name"].lower(): found["value"].strip(" '\"").lower()}
    names = [found["unset"].lower()] if found["unset"] is not None else list(_VALUES)
    return {name: _VALUES[name][-1] for name in names}


def among(settings: Mapping[str, str]) -> dict[str, str]:
    """Those of the settings that are the gateway's own, as `assigned` returns them."""
    named = ((name.lower(), value.strip(" '\"").lower()) for name, value in settings.items())
    return {name: value for name, value in named if name in _VALUES}


def check(values: Mapping[str, str]) -> None:
    """Raises SyntaxRefused for a value that a setting does not have."""
    for name, value in values.items():
        if value not in _VALUES[name]:
            raise SyntaxRefused(f"{name} can be {' or '.join(_VALUES[name])}, not {value}.", sqlstate="22023")


async def recall(session: Session) -> None:
    """Asks Spark for these settings, in a session that comes from another gateway. Raises UpstreamLost,
    StatementFailed."""
    sql = await session.sql()

    async def said(name: str) -> str | None:
        """What SET says of a setting; None if it has no value."""
        (row,) = (await sql.run(f"SET {name}")).rows
        value = str(row[1])
        return None if value == _UNDEFINED else value.strip(" '\"").lower()

    for name, values in _VALUES.items():
        value = await said(name)
        apply(session, {name: value if value in values else values[-1]})
    if any([await said(name) not in (None, "false") for name in IN_PARTS]):
        session.collects_in_parts = True
    if session.transaction.session or await said(transaction.MARK) == transaction.OPEN:
        session.continuity.interrupted = True


def apply(session: Session, values: Mapping[str, str]) -> None:
    """The statement has succeeded."""
    for name, value in values.items():
        if name == REWRITE:
            session.settings.rewrites = value == "on"
        elif name == RESULT_CACHE:
            session.settings.keeps_results = value == "on"
        else:
            session.transaction.set_session(value == transaction.VALUES[0])
