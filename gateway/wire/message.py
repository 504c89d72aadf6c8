"""Reads and patches fields of a message without decoding and re-encoding it.

The offsets follow from how every Thrift generator writes HiveServer2's structs: fields in the order of their ids. With
L for the length of the method's name, counted from the message's first byte, the handle's guid is at 28 + L and its
secret at 51 + L, in requests about sessions and about operations alike. If the field headers around them differ, the
fields are searched for. So an unusual order and unknown fields are read correctly, and survive a splice.

All functions take whole messages and raise `WireError` for bytes that are not one. They are called only with messages
that a `MessageScanner` has accepted, or with messages of the same shape: the scanner refuses duplicate fields.
"""

from __future__ import annotations

import uuid
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gateway.wire.frame import WireError
from gateway.wire.scanner import (
    BOOL,
    EXCEPTION,
    I16,
    I32,
    I64,
    LIST,
    MAP,
    REPLY,
    STOP,
    STRING,
    STRUCT,
    WIDTHS,
    value_end,
)

OPERATION_METHODS = frozenset(
    {
        b"GetOperationStatus",
        b"CancelOperation",
        b"CloseOperation",
        b"GetResultSetMetadata",
        b"FetchResults",
        b"GetQueryId",
        # From before Hive 2, and from Impala: Spark does not know them, but they carry a handle too.
        b"GetLog",
        b"CloseImpalaOperation",
    }
)
"""Methods whose request begins with an operation handle. All others except OpenSession begin with a session handle."""
UNKNOWN_METHODS = frozenset({"GetLog", "CloseImpalaOperation"})
"""Those of them that Spark does not know. Clients try them first, and recognize by the error that they are missing."""

METADATA_METHODS = (
    "GetTypeInfo",
    "GetCatalogs",
    "GetSchemas",
    "GetTables",
    "GetTableTypes",
    "GetColumns",
    "GetFunctions",
    "GetPrimaryKeys",
    "GetCrossReference",
)
"""Methods on a session that begin an operation without a statement; its rows describe what exists."""

STATUS_ERROR = 3

TO_GUID = b"\x0c\x00\x01\x0c\x00\x01\x0c\x00\x01\x0b\x00\x01\x00\x00\x00\x10"
"""The bytes from the start of a request's body to the guid of its first handle."""
TO_SECRET = b"\x0b\x00\x02\x00\x00\x00\x10"
"""The bytes between a guid and its secret."""
TO_STATEMENT = b"\x00\x00\x0b\x00\x02"
"""The bytes between a session's secret and the length of a statement's text."""
TO_NEW_GUID = (
    b"\x0c\x00\x00\x0c\x00\x01\x08\x00\x01\x00\x00\x00\x00\x00\x0c\x00\x02\x0c\x00\x01\x0b\x00\x01\x00\x00\x00\x10"
)
"""The bytes from the start of the body of a reply that has begun an operation to its guid."""
_TEXT_MAP = bytes((STRING, STRING))
_EMPTY_MAP_BYTES = 6


@dataclass(frozen=True, slots=True)
class Handle:
    """Identifies a session or an operation. Whoever knows the secret may use it, so it is kept out of logs."""

    guid: bytes
    secret: bytes = field(repr=False)

    @property
    def public_id(self) -> str:
        """The public part as Spark shows it in its UI and logs: a UUID. Other servers' ids may have another length."""
        return str(uuid.UUID(bytes=self.guid)) if len(self.guid) == 16 else self.guid.hex()


class Head(NamedTuple):
    """The head of a message. `kind`: 1 call, 2 reply, 3 exception. The body begins at `body_offset`."""

    name: str
    kind: int
    seqid: int
    body_offset: int


@dataclass(frozen=True, slots=True)
class ExecuteCall:
    """An ExecuteStatement request. `query_timeout_seconds` 0: no timeout."""

    statement: str
    run_async: bool
    query_timeout_seconds: int = 0
    overlaid: bool = False
    """Whether it has settings of its own."""


@dataclass(frozen=True, slots=True)
class OpenCall:
    """An OpenSession request. `protocol` counts from 0: 9 is V10."""

    username: str | None
    password: str | None = field(repr=False)
    configuration: Mapping[str, str]
    protocol: int
    configured: bool = True
    """The client sent a configuration, perhaps an empty one. Drivers differ in this."""


FETCH_NEXT, FETCH_PRIOR, FETCH_FIRST = 0, 1, 4
"""Orientations: which rows to fetch."""
FETCH_ROWS, FETCH_LOG = 0, 1
"""Types: fetch rows, or the operation's log."""


@dataclass(frozen=True, slots=True)
class FetchCall:
    """A FetchResults request; orientation and type are the numbers above."""

    operation: Handle
    orientation: int
    rows_max: int
    fetch_type: int


class ReplyStatus(NamedTuple):
    """A reply's TStatus. A Thrift exception reads as an error without SQLSTATE."""

    code: int
    sqlstate: str | None
    message: str | None


class ValuePlace(NamedTuple):
    """The place of a value: its type, its first byte (including a string's length), and the byte after it."""

    kind: int
    start: int
    end: int


def peek(payload: bytes) -> Head:
    length = int.from_bytes(payload[4:8], "big")
    body = 12 + length
    if payload[:2] != b"\x80\x01" or len(payload) <= body:
        raise WireError("not a message of the strict Thrift binary protocol")
    name = payload[8 : 8 + length].decode("ascii", "replace")
    return Head(name, payload[3], int.from_bytes(payload[8 + length : body], "big", signed=True), body)


def with_seqid(payload: bytes, seqid: int) -> bytes:
    at = 8 + int.from_bytes(payload[4:8], "big")
    return payload[:at] + seqid.to_bytes(4, "big", signed=True) + payload[at + 4 :]


# --- requests --------------------------------------------------------------------------------------------


def request_handle(payload: bytes) -> Handle | None:
    """Returns the session or operation handle that a request begins with; None if it has none."""
    base = 12 + int.from_bytes(payload[4:8], "big")
    if payload[base : base + 16] == TO_GUID and payload[base + 32 : base + 39] == TO_SECRET:
        return Handle(payload[base + 16 : base + 32], payload[base + 39 : base + 55])
    places = _handle_places(payload)
    return Handle(*(_bytes(payload, place) for place in places)) if places else None


def statement(payload: bytes) -> ExecuteCall:
    """Reads an ExecuteStatement request. Raises `WireError` if the statement is missing.

    Bytes that are not UTF-8 are read as Java reads them, as U+FFFD, so the text is the one that Spark sees.
    """
    fields = _statement_fields(payload)
    place = _of_kind(fields, 2, STRING)
    if place is None:
        raise WireError("ExecuteStatement without a statement")
    asynchronous, overlay = _of_kind(fields, 4, BOOL), _of_kind(fields, 3, MAP)
    return ExecuteCall(
        _text(payload, place),
        asynchronous is not None and payload[asynchronous.start] == 1,
        max(_number(payload, _of_kind(fields, 5, I64)) or 0, 0),
        overlay is not None and overlay.end - overlay.start > _EMPTY_MAP_BYTES,
    )


def _statement_fields(payload: bytes) -> dict[int, ValuePlace]:
    """The fields of an ExecuteStatement request; without the session's if they are in the usual order."""
    base = 12 + int.from_bytes(payload[4:8], "big")
    if (
        payload.startswith(TO_GUID, base)
        and payload.startswith(TO_SECRET, base + 32)
        and payload.startswith(TO_STATEMENT, base + 55)
    ):
        return _fields(payload, base + 57)
    return _request_fields(payload)


def with_statement(payload: bytes, text: str) -> bytes:
    """Returns the ExecuteStatement request with another text; all other bytes are unchanged."""
    place = _of_kind(_statement_fields(payload), 2, STRING)
    if place is None:
        raise WireError("ExecuteStatement without a statement")
    return payload[: place.start] + _encoded(text) + payload[place.end :]


def with_query_timeout(payload: bytes, seconds: int) -> bytes:
    """Returns the ExecuteStatement request with another timeout, if it has one; all other bytes are unchanged."""
    place = _of_kind(_request_fields(payload), 5, I64)
    return payload if place is None else payload[: place.start] + seconds.to_bytes(8, "big") + payload[place.end :]


def with_handle(payload: bytes, handle: Handle) -> bytes:
    """Returns the request for another session or operation; all other bytes are unchanged."""
    base = 12 + int.from_bytes(payload[4:8], "big")
    if (
        len(handle.guid) == len(handle.secret) == 16
        and payload[base : base + 16] == TO_GUID
        and payload[base + 32 : base + 39] == TO_SECRET
    ):
        secret = base + 39
        return payload[: base + 16] + handle.guid + TO_SECRET + handle.secret + payload[secret + 16 :]
    places = _handle_places(payload)
    if places is None:
        raise WireError(f"{peek(payload).name} without a handle")
    values = zip(places, (handle.guid, handle.secret), strict=True)
    for place, value in sorted(values, reverse=True):
        payload = payload[: place.start] + len(value).to_bytes(4, "big") + value + payload[place.end :]
    return payload


def table_types(payload: bytes) -> tuple[str, ...]:
    """The types that a GetTables request asks for; empty if it asks for all."""
    place = _of_kind(_request_fields(payload), 5, LIST)
    return _text_list(payload, place) if place else ()


def with_table_types(payload: bytes, types: Sequence[str]) -> bytes:
    """Returns the GetTables request with another list of types; a request without a list stays unchanged."""
    place = _of_kind(_request_fields(payload), 5, LIST)
    if place is None:
        return payload
    value = bytes((STRING,)) + len(types).to_bytes(4, "big") + b"".join(map(_encoded, types))
    return payload[: place.start] + value + payload[place.end :]


def texts(payload: bytes) -> dict[int, str]:
    """The strings among a request's fields, by field id."""
    fields = _request_fields(payload).items()
    return {number: _text(payload, place) for number, place in fields if place.kind == STRING}


def with_texts(payload: bytes, texts: Mapping[int, str]) -> bytes:
    """Returns the request with these strings set, by field id; all other bytes are unchanged.

    New fields are appended, because readers accept fields in any order. A field of another type, which readers skip, is
    replaced.
    """
    whole = locate(payload, (1,), STRUCT)
    if whole is None:
        raise WireError(f"{peek(payload).name} without a request")
    fields = _fields(payload, whole.start)
    added = b""
    splices = []
    for number, text in texts.items():
        value = _header(STRING, number) + _encoded(text)
        place = fields.get(number)
        if place is None:
            added += value
        else:
            splices.append((place.start - 3, place.end, value))
    stop = whole.end - 1
    for start, end, value in sorted([*splices, (stop, stop, added)], reverse=True):
        payload = payload[:start] + value + payload[end:]
    return payload


def info_type(payload: bytes) -> int | None:
    """The TGetInfoType that a GetInfo request asks for."""
    return _number(payload, _of_kind(_request_fields(payload), 2, I32))


def open_session(payload: bytes) -> OpenCall:
    fields = _request_fields(payload)
    name, password = _of_kind(fields, 2, STRING), _of_kind(fields, 3, STRING)
    configuration = _of_kind(fields, 4, MAP)
    protocol = _number(payload, _of_kind(fields, 1, I32))
    return OpenCall(
        _text(payload, name) if name else None,
        _text(payload, password) if password else None,
        _text_map(payload, configuration) if configuration else {},
        0 if protocol is None else protocol,
        configuration is not None,
    )


def with_configuration(payload: bytes, values: Mapping[str, str], without: Container[str] = ()) -> bytes:
    """Returns the OpenSession request with some configuration keys set, and without others; the rest keep their
    bytes."""
    fields = _request_fields(payload)
    old = _of_kind(fields, 4, MAP)
    pairs = b""
    count = 0
    if old is not None and payload[old.start : old.start + 2] == _TEXT_MAP:
        start = old.start + 6
        while start < old.end:
            middle = start + 4 + _length(payload, start)
            end = middle + 4 + _length(payload, middle)
            name = _text(payload, ValuePlace(STRING, start, middle))
            if name not in values and name not in without:
                pairs += payload[start:end]
                count += 1
            start = end
    pairs += b"".join(_encoded(name) + _encoded(value) for name, value in values.items())
    return _with_field(payload, fields, 4, MAP, _TEXT_MAP + (count + len(values)).to_bytes(4, "big") + pairs)


def with_names(payload: bytes, user: str, password: str) -> bytes:
    """Returns the OpenSession request with another user name and password."""
    payload = _with_field(payload, _request_fields(payload), 2, STRING, _encoded(user))
    return _with_field(payload, _request_fields(payload), 3, STRING, _encoded(password))


def _with_field(payload: bytes, fields: Mapping[int, ValuePlace], number: int, kind: int, value: bytes) -> bytes:
    """Returns the request with one field of its struct set; a field of another type with this id is replaced."""
    if (place := fields.get(number)) is not None:
        return payload[: place.start - 3] + _header(kind, number) + value + payload[place.end :]
    body = locate(payload, (1,), STRUCT)
    if body is None:
        raise WireError(f"{peek(payload).name} without a request")
    # In the order of ids, as generated writers have it.
    start = max((each.end for known, each in fields.items() if known < number), default=body.start)
    return payload[:start] + _header(kind, number) + value + payload[start:]


def _header(kind: int, number: int) -> bytes:
    return bytes((kind,)) + number.to_bytes(2, "big")


def _encoded(text: str) -> bytes:
    encoded = text.encode("utf-8", "replace")
    return len(encoded).to_bytes(4, "big") + encoded


def fetch_call(payload: bytes) -> FetchCall:
    operation = request_handle(payload)
    if operation is None:
        raise WireError("FetchResults without an operation")
    fields = _request_fields(payload)
    return FetchCall(
        operation,
        _number(payload, _of_kind(fields, 2, I32)) or 0,
        _number(payload, _of_kind(fields, 3, I64)) or 0,
        _number(payload, _of_kind(fields, 4, I16)) or 0,
    )


def wants_progress(payload: bytes) -> bool:
    """Whether a GetOperationStatus request asks for progress."""
    asked = _of_kind(_request_fields(payload), 2, BOOL)
    return asked is not None and payload[asked.start] == 1


def with_fetch(payload: bytes, orientation: int, rows_max: int) -> bytes:
    """Returns the FetchResults request with other values, as in `FetchCall`; fields that it lacks are not added."""
    fields = _request_fields(payload)
    for number, kind, value in ((2, I32, orientation), (3, I64, rows_max)):
        place = _of_kind(fields, number, kind)
        if place is not None:  # Numbers have a fixed width, so other places stay valid.
            encoded = value.to_bytes(WIDTHS[kind], "big", signed=True)
            payload = payload[: place.start] + encoded + payload[place.end :]
    return payload


# --- replies ---------------------------------------------------------------------------------------------


def reply_status(reply: bytes) -> ReplyStatus:
    head = peek(reply)
    if head.kind == EXCEPTION:
        place = locate(reply, (1,), STRING)
        return ReplyStatus(STATUS_ERROR, None, _text(reply, place) if place else None)
    fields = _fields_at(reply, (0, 1))
    if fields is None:
        raise WireError(f"a reply to {head.name} without a status")
    sqlstate, message = _of_kind(fields, 3, STRING), _of_kind(fields, 5, STRING)
    code = _number(reply, _of_kind(fields, 1, I32))
    return ReplyStatus(
        STATUS_ERROR if code is None else code,
        _text(reply, sqlstate) if sqlstate else None,
        _text(reply, message) if message else None,
    )


def operation_state(reply: bytes) -> int | None:
    """The state in a GetOperationStatus reply; None in an exception."""
    return _number(reply, locate(reply, (0, 2), I32)) if peek(reply).kind != EXCEPTION else None


def operation_sqlstate(reply: bytes) -> str | None:
    """The SQLSTATE in a GetOperationStatus reply about a failed operation; None if there is none."""
    return _status_text(reply, 3)


def operation_error(reply: bytes) -> str | None:
    """The error message in such a reply; None if there is none."""
    return _status_text(reply, 5)


def _status_text(reply: bytes, number: int) -> str | None:
    place = locate(reply, (0, number), STRING) if peek(reply).kind != EXCEPTION else None
    return _text(reply, place) if place else None


def execute_handle(reply: bytes) -> Handle | None:
    """The operation that ExecuteStatement or a metadata call has begun; None if it failed."""
    guid = 12 + int.from_bytes(reply[4:8], "big") + len(TO_NEW_GUID)
    if (
        reply[3:4] == bytes((REPLY,))
        and reply.startswith(TO_NEW_GUID, guid - len(TO_NEW_GUID))
        and reply.startswith(TO_SECRET, guid + 16)
    ):
        return Handle(reply[guid : guid + 16], reply[guid + 23 : guid + 39])
    return _reply_handle(reply, (0, 2, 1)) if peek(reply).kind != EXCEPTION else None


def results(reply: bytes) -> ValuePlace | None:
    """The place of the TRowSet in a FetchResults reply; None in an error."""
    return locate(reply, (0, 3), STRUCT) if peek(reply).kind != EXCEPTION else None


def opened(reply: bytes) -> tuple[Handle, int] | None:
    """The session that OpenSession has opened, and its protocol version (counted from 0); None if it failed."""
    if peek(reply).kind == EXCEPTION:
        return None
    handle = _reply_handle(reply, (0, 3, 1))
    protocol = _number(reply, locate(reply, (0, 2), I32))
    return None if handle is None or protocol is None else (handle, protocol)


def locate(payload: bytes, path: Sequence[int], kind: int) -> ValuePlace | None:
    """The place of the value that a path of field ids leads to from the body; None if it is missing or of another type.

    Fields of a request are at (1, id), those of a reply at (0, id).
    """
    start = _struct_above(payload, path)
    found = None if start is None else find_field(payload, start, path[-1], kind)
    return None if found is None else ValuePlace(kind, found, value_end(payload, found, kind))


# --- walking ---------------------------------------------------------------------------------------------


def find_field(payload: bytes, start: int, number: int, kind: int) -> int | None:
    """The offset of a field's value in the struct that begins at `start`; None if it is missing or of another type."""
    try:
        while (found := payload[start]) != STOP:
            if found == kind and (payload[start + 1] << 8) | payload[start + 2] == number:
                return start + 3
            start = value_end(payload, start + 3, found)
    except IndexError:
        raise WireError("the message ends inside a struct") from None
    return None


def _struct_above(payload: bytes, path: Sequence[int]) -> int | None:
    """Where the struct begins that has the last field of a path; None if it is missing."""
    start: int | None = peek(payload).body_offset
    for step in path[:-1]:
        start = None if start is None else find_field(payload, start, step, STRUCT)
    return start


def _fields_at(payload: bytes, path: Sequence[int]) -> dict[int, ValuePlace] | None:
    """The fields of the struct at the end of a path; None if it is missing."""
    start = _struct_above(payload, (*path, 0))
    return None if start is None else _fields(payload, start)


def _request_fields(payload: bytes) -> dict[int, ValuePlace]:
    return _fields_at(payload, (1,)) or {}


def _handle_places(payload: bytes, path: Sequence[int] = (1, 1, 1)) -> tuple[ValuePlace, ValuePlace] | None:
    """Guid and secret of a THandleIdentifier."""
    fields = _fields_at(payload, path) or {}
    guid, secret = _of_kind(fields, 1, STRING), _of_kind(fields, 2, STRING)
    return (guid, secret) if guid and secret else None


def _reply_handle(reply: bytes, path: Sequence[int]) -> Handle | None:
    places = _handle_places(reply, path)
    return Handle(*(_bytes(reply, each) for each in places)) if places else None


def _of_kind(fields: Mapping[int, ValuePlace], number: int, kind: int) -> ValuePlace | None:
    """Returns a field; None if it is of another type, because generated readers skip such a field."""
    place = fields.get(number)
    return place if place and place.kind == kind else None


def _fields(payload: bytes, start: int) -> dict[int, ValuePlace]:
    """The fields of the struct that begins at `start`, by id. Of a duplicate field the last counts, as in Java."""
    fields: dict[int, ValuePlace] = {}
    try:
        while (kind := payload[start]) != STOP:
            number = (payload[start + 1] << 8) | payload[start + 2]
            end = value_end(payload, start + 3, kind)
            fields[number] = ValuePlace(kind, start + 3, end)
            start = end
    except IndexError:
        raise WireError("the message ends inside a struct") from None
    return fields


def _length(payload: bytes, start: int) -> int:
    """Reads a length or count. It cannot exceed the remaining bytes, because each item has at least one."""
    length = int.from_bytes(payload[start : start + 4], "big", signed=True)
    if not 0 <= length <= len(payload) - start - 4:
        raise WireError(f"a length of {length} does not fit in the message")
    return length


def _bytes(payload: bytes, place: ValuePlace) -> bytes:
    return payload[place.start + 4 : place.end]


def _text(payload: bytes, place: ValuePlace) -> str:
    return _bytes(payload, place).decode("utf-8", "replace")


def _number(payload: bytes, place: ValuePlace | None) -> int | None:
    return int.from_bytes(payload[place.start : place.end], "big", signed=True) if place else None


def _text_list(payload: bytes, place: ValuePlace) -> tuple[str, ...]:
    if payload[place.start] != STRING:
        return ()
    return tuple(_texts(payload, place.start + 5, place.end))


def _text_map(payload: bytes, place: ValuePlace) -> dict[str, str]:
    if payload[place.start : place.start + 2] != bytes((STRING, STRING)):
        return {}
    texts = _texts(payload, place.start + 6, place.end)
    return dict(zip(texts[::2], texts[1::2], strict=True))


def _texts(payload: bytes, start: int, end: int) -> list[str]:
    """The strings that follow one another between two offsets."""
    texts: list[str] = []
    while start < end:
        following = start + 4 + _length(payload, start)
        texts.append(_text(payload, ValuePlace(STRING, start, following)))
        start = following
    return texts
