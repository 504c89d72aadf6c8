"""Walks the strict TBinaryProtocol: finds the end of a message as its bytes arrive, without keeping or decoding them,
and the end of a value of a complete message."""

from __future__ import annotations

from struct import Struct
from typing import Final

from gateway.wire.frame import WireError, check_protocol

STOP: Final = 0
BOOL: Final = 2
BYTE: Final = 3
DOUBLE: Final = 4
I16: Final = 6
I32: Final = 8
I64: Final = 10
STRING: Final = 11
STRUCT: Final = 12
MAP: Final = 13
SET: Final = 14
LIST: Final = 15

CALL: Final = 1
REPLY: Final = 2
EXCEPTION: Final = 3

WIDTHS: Final = (-1, -1, 1, 1, 8, -1, 2, -1, 4, -1, 8, 0, 0, 0, 0, 0)
"""Bytes of a value by type; 0: the value itself tells; -1: the type does not exist."""

DEPTH_MAX: Final = 64
"""Thrift's default nesting limit. HiveServer2's deepest message has 9 levels."""
NAME_BYTES_MAX: Final = 256
"""The longest method name of HiveServer2 has 21 bytes."""

REQUEST_DEPTH: Final = 2
"""A request's struct is nested in the struct of its method's arguments."""
DATABRICKS_FIELDS: Final = 0x501
"""Fields from this id on are those of Databricks' servers; HiveServer2's ids are below 10."""
_ANY_NUMBER = 1 << 62
_TEXTS = frozenset({(STRING,), (STRING, STRING)})

_read_i32 = Struct(">i").unpack_from


class _Items:
    """The rest of a list, set or map: `kinds` are the types of an item's parts, in turn."""

    __slots__ = ("count", "kinds")

    def __init__(self, count: int, kinds: tuple[int, ...]) -> None:
        self.count = count
        self.kinds = kinds


class _Walk:
    """A walk over values, which is suspended where the bytes end."""

    __slots__ = ("_bytes_max", "_texts_only", "_values", "within")

    def __init__(self, bytes_max: int, values_max: int, *, texts_only: bool) -> None:
        self._bytes_max = bytes_max
        self._values = values_max
        self._texts_only = texts_only
        self.within: list[set[int] | _Items] = []
        """The structs, lists, sets and maps that are open."""

    def scan(self, buffer: bytes, position: int) -> int:
        """Walks all complete tokens; the returned position may lie beyond the end of the buffer."""
        stack = self.within
        size = len(buffer)
        while stack and position < size:
            top = stack[-1]
            if type(top) is set:
                kind = buffer[position]
                if kind == STOP:
                    stack.pop()
                    position += 1
                    continue
                of_request = self._texts_only and kind >= MAP and len(stack) == REQUEST_DEPTH
                following = self.enter(buffer, position + 3, kind)
                if following < 0:
                    break
                if of_request:
                    _check_texts(buffer, position + 1, kind)
                self._note_field(top, buffer, position + 1, following)
            else:
                assert isinstance(top, _Items)
                if not top.count:
                    stack.pop()
                    continue
                if top.kinds == (STRING,):
                    position = self._skip_strings(top, buffer, position)
                    if not top.count:
                        continue
                    break
                following = self.enter(buffer, position, top.kinds[top.count % len(top.kinds)])
                if following < 0:
                    break
                top.count -= 1
            self._values -= 1
            position = following
            if self._values < 0:
                break
        # Lists that end exactly with the buffer are left without a further byte.
        while stack and type(stack[-1]) is _Items and not stack[-1].count:
            stack.pop()
        if self._values < 0:
            raise WireError("the message exceeds the limit on its number of values")
        return position

    def _note_field(self, seen: set[int], buffer: bytes, position: int, following: int) -> None:
        field = (buffer[position] << 8) | buffer[position + 1]
        if field in seen:
            raise WireError(f"field {field} occurs twice in one struct")
        seen.add(field)

    def _skip_strings(self, items: _Items, buffer: bytes, position: int) -> int:
        """The inner loop for result columns."""
        count = before = items.count
        last = len(buffer) - 4
        while count and position <= last:
            length = _read_i32(buffer, position)[0]
            if length < 0:
                raise WireError(f"a string of {length} bytes")
            position += 4 + length
            count -= 1
        items.count = count
        self._values -= before - count
        return position

    def enter(self, buffer: bytes, position: int, kind: int) -> int:
        """Returns the offset after the value at `position`, or after the head of a nested one, which it pushes; -1:
        bytes are missing."""
        width = WIDTHS[kind] if kind < len(WIDTHS) else -1
        size = len(buffer)
        if width > 0:
            return position + width if position <= size else -1
        if width < 0:
            raise WireError(f"a value of type {kind}, which does not exist")
        if kind == STRING:
            if position + 4 > size:
                return -1
            return position + 4 + self._count(buffer, position)
        if kind == STRUCT:
            if position > size:
                return -1
            self._push(set())
            return position
        kinds_bytes = 2 if kind == MAP else 1
        if position + kinds_bytes + 4 > size:
            return -1
        kinds = tuple(buffer[position : position + kinds_bytes])
        count = self._count(buffer, position + kinds_bytes)
        position += kinds_bytes + 4
        if not count:
            return position
        widths = [WIDTHS[each] if each < len(WIDTHS) else -1 for each in kinds]
        if min(widths) < 0:
            raise WireError(f"items of type {min(kinds)}, which does not exist")
        if min(widths) > 0:
            return position + count * sum(widths)
        self._push(_Items(count * kinds_bytes, (STRING,) if kinds in _TEXTS else kinds))
        return position

    def _count(self, buffer: bytes, position: int) -> int:
        number: int = _read_i32(buffer, position)[0]
        if not 0 <= number <= self._bytes_max:
            raise WireError(f"a length of {number} is outside the limit of {self._bytes_max} bytes")
        return number

    def _push(self, level: set[int] | _Items) -> None:
        if len(self.within) >= DEPTH_MAX:
            raise WireError(f"a message is nested deeper than {DEPTH_MAX} levels")
        self.within.append(level)


class MessageScanner(_Walk):
    """Finds the end of one message in chunks of any size.

    Limits the message's bytes, its number of values, and its depth; raises `WireError` above them, and for bytes that
    are not a message. It also refuses a field that occurs twice in one struct: readers differ in which of the two they
    use, so the message would mean one thing to the gateway and another to Spark.

    `texts_only`, for requests, refuses lists and maps of anything but strings for the same reason. The readers that
    Thrift generates for Java ignore the item types in the message and use those of the field, which are strings in
    every request of HiveServer2. (They skip unknown fields by the types in the message.)
    """

    __slots__ = ("_base", "_carry", "_skip", "head")

    def __init__(self, bytes_max: int, values_max: int = _ANY_NUMBER, *, texts_only: bool = False) -> None:
        super().__init__(bytes_max, values_max, texts_only=texts_only)
        self.head = b""
        """Version word, name and sequence id, once they are complete."""
        self._base = 0  # Bytes of the message before the current buffer.
        self._skip = 0
        self._carry = b""

    def feed(self, data: bytes, start: int = 0) -> int | None:
        """Takes the next bytes, `data[start:]`. Returns the offset in `data` after the message; None if it is
        incomplete."""
        size = len(data)
        if self._skip:
            if self._skip >= size - start:
                self._skip -= size - start
                self._base += size - start
                return None
            self._base += self._skip
            start += self._skip
            self._skip = 0
        carried = len(self._carry)
        buffer = data
        if carried:
            # An incomplete token is at most as long as a head, so joining costs one copy of the chunk.
            buffer = self._carry + data[start:]
            start, shift = 0, carried - start
            self._carry = b""
        else:
            shift = 0
        if not self.head:
            position = self._scan_head(buffer, start)
            if not self.head:
                self._carry = buffer[start:]
                return None
        else:
            position = start
        position = self.scan(buffer, position)
        self._check_size(self._base + position - start)
        if not self.within:
            return position - shift
        self._base += min(position, len(buffer)) - start
        if position >= len(buffer):
            self._skip = position - len(buffer)
        else:
            self._carry = buffer[position:]
        return None

    def _check_size(self, size: int) -> None:
        if size > self._bytes_max:
            raise WireError(f"a message of at least {size} bytes exceeds the limit of {self._bytes_max} bytes")

    def _scan_head(self, buffer: bytes, start: int) -> int:
        if not b"\x80\x01".startswith(buffer[start : start + 2]) and buffer[start : start + 2] != b"\x80\x01":
            check_protocol(buffer[start : start + 8])
            raise WireError("not a message of the strict Thrift binary protocol")
        if len(buffer) < start + 8:
            return start
        length = int.from_bytes(buffer[start + 4 : start + 8], "big")
        if not 0 < length <= NAME_BYTES_MAX:
            raise WireError(f"a method name of {length} bytes is outside the limits of 1 to {NAME_BYTES_MAX}")
        end = start + 12 + length
        if len(buffer) < end:
            return start
        if not CALL <= buffer[start + 3] <= EXCEPTION:
            raise WireError(f"message type {buffer[start + 3]} is not a call, a reply or an exception")
        self.head = buffer[start:end]
        self.within.append(set())
        return end


def _check_texts(buffer: bytes, position: int, kind: int) -> None:
    """Raises WireError if a list or map of a request has items other than strings. Its field's id is at `position`."""
    field = (buffer[position] << 8) | buffer[position + 1]
    head = position + 2
    after = head + (2 if kind == MAP else 1)
    kinds = tuple(buffer[head:after])
    if field < DATABRICKS_FIELDS and kinds not in _TEXTS and _read_i32(buffer, after)[0]:
        raise WireError(f"items of type {max(kinds)} in a request, whose lists and maps may hold only strings")


def message_end(buffer: bytes, bytes_max: int) -> int | None:
    """The length of the message that `buffer` begins with; None if it is incomplete. Raises `WireError`."""
    return MessageScanner(bytes_max).feed(buffer)


def value_end(data: bytes, start: int, kind: int) -> int:
    """The offset after the value of this type that begins at `start`. Raises `WireError`, also if `data` ends in it."""
    size = len(data)
    width = WIDTHS[kind] if kind < len(WIDTHS) else -1
    if width > 0:
        end = start + width  # Most values are numbers and strings, for which no walk needs to be begun.
    elif kind == STRING:
        end = start + 4 + int.from_bytes(data[start : start + 4], "big")
    else:
        walk = _Walk(size, _ANY_NUMBER, texts_only=False)
        end = walk.enter(data, start, kind)
        if end >= 0 and walk.within:
            end = walk.scan(data, end)
        if walk.within:
            end = -1
    if not 0 <= end <= size:
        raise WireError("the message ends inside a value")
    return end
