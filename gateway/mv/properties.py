"""A materialized view as the table properties of its storage table, and back.

Every property's name begins with `freshgate.`. Numbers stand as they are, texts as `x` and the hexadecimal digits of
their UTF-8: Spark shows a property whose value matches `spark.redaction.regex` (url, token, password, …) as
`*********(redacted)`, and a view's name or query may well hold such a word. A value longer than VALUE_CHARACTERS_MAX is
cut into pieces: the name itself then holds `+<number of pieces>` and `<name>.0`, `<name>.1`, … hold them. The count
makes pieces that a longer, earlier value left behind harmless.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gateway.errors import FreshgateError
from gateway.mv.model import MaterializedView, Version, Watermark
from sql.names import Namespace, TableName

PREFIX = "freshgate."
FORMAT = 1
VALUE_CHARACTERS_MAX = 3_900
"""Below the 4,000 characters of PARAM_VALUE in metastore schemas before Hive 3."""

_TEXT_MARK = "x"
_PIECES_MARK = "+"
_WAY_OUT = (
    "Stop the gateway, drop the storage table and the view straight on Spark, then create the materialized view again."
)
_PUBLISHED = PREFIX + "published"
_VERSION = PREFIX + "version."


class UnreadableProperties(FreshgateError):
    """A storage table whose properties are damaged, or were written by a newer Freshgate."""

    sqlstate = "58030"


def write_view(view: MaterializedView) -> dict[str, str]:
    """All properties of a new view."""
    return {
        PREFIX + "format": str(FORMAT),
        **_text("id", view.id),
        **_text("view", _name(view.name)),
        **_text("owner", view.owner),
        PREFIX + "created_at": str(view.created_at),
        **_text("query", view.query),
        **_text("namespace", json.dumps([view.namespace.catalog, view.namespace.database])),
        **_text("columns", json.dumps(view.columns)),
        **_text("properties", json.dumps(dict(view.properties))),
        **_text("comment", json.dumps(view.comment)),
        **write_bases(view),
        **write_version(view.current, view.mark, view.versions_reserved),
    }


def write_bases(view: MaterializedView) -> dict[str, str]:
    """What the definition reads; written again when a Spark view on the way has changed."""
    return {
        **_text("tables", json.dumps(sorted(_name(table) for table in view.tables))),
        **_text("views", json.dumps(sorted(view.views))),
    }


def write_version(version: Version, mark: int, reserved: int) -> dict[str, str]:
    """What a refresh stores before it publishes `version`."""
    record = {
        "started_at": version.started_at,
        "published_at": version.published_at,
        "method": version.method,
        "events": version.watermark.events,
        "views": dict(version.watermark.views),
    }
    return {
        **_text(f"version.{version.number}", json.dumps(record, sort_keys=True)),
        **write_mark(mark),
        PREFIX + "versions_reserved": str(reserved),
    }


def write_mark(mark: int) -> dict[str, str]:
    """What noting a write stores."""
    return {PREFIX + "mark": str(mark)}


def version_keys(properties: Mapping[str, str], number: int) -> tuple[str, ...]:
    """The properties that hold one version."""
    key = f"{_VERSION}{number}"
    return tuple(name for name in properties if name == key or name.startswith(key + "."))


def versions(properties: Mapping[str, str]) -> frozenset[int]:
    """The versions that have properties."""
    numbers = (name[len(_VERSION) :].split(".")[0] for name in properties if name.startswith(_VERSION))
    return frozenset(int(number) for number in numbers if number.isdigit())


def write_published() -> dict[str, str]:
    """What tells a view that was there, and is not any more, from one whose CREATE broke off."""
    return {_PUBLISHED: "1"}


def was_published(properties: Mapping[str, str]) -> bool:
    return _PUBLISHED in properties


def published_keys() -> tuple[str, ...]:
    return (_PUBLISHED,)


def is_ours(properties: Mapping[str, str]) -> bool:
    return PREFIX + "format" in properties


def read_name(properties: Mapping[str, str]) -> TableName:
    """The name of the view whose storage table has these properties."""
    return _read_name(_required(properties, "view"))


def read_view(
    properties: Mapping[str, str], storage: TableName, definition: TableName, current: int
) -> MaterializedView:
    """The view whose public view shows version `current`.

    Raises UnreadableProperties where a property is missing or the format is a later one.
    """
    if (format_number := _required(properties, "format")) != str(FORMAT):
        raise UnreadableProperties(
            f"The storage table {storage} has catalog format {format_number}, this Freshgate reads format {FORMAT}. "
            "Start the version of Freshgate that wrote it."
        )
    try:
        return MaterializedView(
            id=_required(properties, "id"),
            name=read_name(properties),
            storage=storage,
            definition=definition,
            query=_required(properties, "query"),
            namespace=Namespace(*reversed(json.loads(_required(properties, "namespace")))),
            columns=tuple(json.loads(_required(properties, "columns"))),
            owner=_required(properties, "owner"),
            created_at=int(_required(properties, "created_at")),
            tables=frozenset(_read_name(name) for name in json.loads(_required(properties, "tables"))),
            views=frozenset(json.loads(_required(properties, "views"))),
            properties=json.loads(_required(properties, "properties")),
            comment=json.loads(_required(properties, "comment")),
            current=_read_version(properties, current),
            mark=int(_required(properties, "mark")),
            versions_reserved=int(_required(properties, "versions_reserved")),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableProperties(f"The table properties of {storage} are damaged ({error}). {_WAY_OUT}") from error


def _read_version(properties: Mapping[str, str], number: int) -> Version:
    record: dict[str, Any] = json.loads(_required(properties, f"version.{number}"))
    return Version(
        number=number,
        started_at=record["started_at"],
        published_at=record["published_at"],
        method=record["method"],
        watermark=Watermark(record["events"], record["views"]),
    )


def _name(name: TableName) -> str:
    return json.dumps([name.catalog, name.database, name.table])


def _read_name(text: str) -> TableName:
    catalog, database, table = json.loads(text)
    return TableName(database, table, catalog)


def _text(name: str, value: str) -> dict[str, str]:
    """The property, or properties, that hold a text."""
    key, encoded = PREFIX + name, _TEXT_MARK + value.encode("utf-8").hex()
    if len(encoded) <= VALUE_CHARACTERS_MAX:
        return {key: encoded}
    starts = range(0, len(encoded), VALUE_CHARACTERS_MAX)
    pieces = {f"{key}.{index}": encoded[start : start + VALUE_CHARACTERS_MAX] for index, start in enumerate(starts)}
    return {key: f"{_PIECES_MARK}{len(pieces)}", **pieces}


def _required(properties: Mapping[str, str], name: str) -> str:
    """Raises UnreadableProperties for a property that is missing or damaged."""
    key = PREFIX + name
    try:
        value = properties[key]
        if value.startswith(_PIECES_MARK):
            value = "".join(properties[f"{key}.{index}"] for index in range(int(value[1:])))
        return bytes.fromhex(value[1:]).decode("utf-8") if value.startswith(_TEXT_MARK) else str(int(value))
    except KeyError as missing:
        raise UnreadableProperties(f"The catalog property {missing} is missing. {_WAY_OUT}") from missing
    except ValueError as error:
        raise UnreadableProperties(f"The catalog property {key} is damaged ({error}). {_WAY_OUT}") from error
