"""The gateway's own settings of a session. SET and RESET change them as they change Spark's, which stores them too."""

from __future__ import annotations

import re
from collections.abc import Mapping
from uuid import UUID

from gateway.errors import SyntaxRefused
from gateway.service.clients import transaction
from gateway.service.clients.session import Session
from sql.reading.settings import plain_name

REWRITE = "freshgate.rewrite"
"""`off`: queries of this session are not answered from views that they do not name."""
RESULT_CACHE = "freshgate.result_cache"
"""`off`: reads of this session do not get the answers of earlier ones, and their results are not kept."""
MEMORY = "freshgate.memory"
"""`off`: reads of this session are not answered from the rows of views in memory."""
PARENT = "freshgate.lineage.parent"
"""`NAMESPACE/JOB/RUN`: the run that refreshes belong to which this session causes. Empty: none."""
_SWITCH = ("off", "on")
_VALUES = {transaction.SETTING: transaction.VALUES, REWRITE: _SWITCH, RESULT_CACHE: _SWITCH, MEMORY: _SWITCH}
"""The possible values; the last one is the default."""
_NAMES = (*_VALUES, PARENT)
PARENT_CHARACTERS_MAX = 2_000
"""Each event of such a refresh carries it."""
IN_PARTS = ("spark.sql.thriftServer.incrementalCollect", "kyuubi.operation.incremental.collect")
"""Settings by which Spark computes rows when they are fetched (`Session.collects_in_parts`)."""
_UNDEFINED = "<undefined>"
"""What SET says for a setting without a value."""
_STATEMENT = re.compile(
    rf"""(?: set \s+ `?(?P<name>{"|".join(map(re.escape, _NAMES))})`? \s*=\s* (?P<value>.*)
    | reset (?: \s+ `?(?P<unset>{"|".join(map(re.escape, _NAMES))})`? )? )""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)


def assigned(text: str) -> Mapping[str, str] | None:
    """The values that SET or RESET gives these settings, by name; None if the text is another statement."""
    found = _STATEMENT.fullmatch(text.rstrip("; \t\r\n"))
    if found is None:
        return None
    if found["name"] is not None:
        return among({found["name"]: found["value"]})
    names = [found["unset"].lower()] if found["unset"] is not None else _NAMES
    return {name: _default(name) for name in names}


def among(settings: Mapping[str, str]) -> dict[str, str]:
    """Those of the settings that are the gateway's own, as `assigned` returns them."""
    named = ((name.lower(), value.strip(" '\"")) for name, value in settings.items())
    return {name: value if name == PARENT else value.lower() for name, value in named if name in _NAMES}


def opened_with(configuration: Mapping[str, str]) -> dict[str, str]:
    """Those of them that a session is opened with, without values that a setting does not have."""
    given = among({plain_name(key): value for key, value in configuration.items()})
    return {name: value for name, value in given.items() if _is_possible(name, value)}


def _is_possible(name: str, value: str) -> bool:
    return is_parent(value) if name == PARENT else value in _VALUES[name]


def _default(name: str) -> str:
    return _VALUES[name][-1] if name in _VALUES else ""


def check(values: Mapping[str, str]) -> None:
    """Raises SyntaxRefused for a value that a setting does not have."""
    for name, value in values.items():
        if not _is_possible(name, value):
            known = " or ".join(_VALUES.get(name, ("NAMESPACE/JOB/RUN, where RUN is a UUID,", "empty")))
            raise SyntaxRefused(f"{name} can be {known}, not {value}.", sqlstate="22023")


def is_parent(value: str) -> bool:
    """Whether it names a run, or none."""
    namespace, _, rest = value.partition("/")
    job, _, run = rest.rpartition("/")
    try:
        return not value or bool(namespace and job and len(value) <= PARENT_CHARACTERS_MAX and UUID(run))
    except ValueError:
        return False


async def recall(session: Session) -> None:
    """Asks Spark for these settings, in a session that comes from another gateway. Raises UpstreamLost,
    StatementFailed."""
    sql = await session.sql()

    async def said(name: str) -> str | None:
        """What SET says of a setting; None if it has no value."""
        (row,) = (await sql.run(f"SET {name}")).rows
        value = str(row[1])
        return None if value == _UNDEFINED else value.strip(" '\"")

    for name in _NAMES:
        (value,) = among({name: await said(name) or ""}).values()
        apply(session, {name: value if _is_possible(name, value) else _default(name)})
    if any([(await said(name) or "false").lower() != "false" for name in IN_PARTS]):
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
        elif name == PARENT:
            session.settings.lineage_parent = value
        elif name == MEMORY:
            session.settings.from_memory = value == "on"
        else:
            session.transaction.set_session(value == transaction.VALUES[0])
