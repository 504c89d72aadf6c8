"""Reads and joins keytabs, the files of services' keys (MIT's format, version 2).

Tests: `test_keytab`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_MAGIC = b"\x05\x02"


class BadKeytab(ValueError):
    """The bytes are not a keytab."""


@dataclass(frozen=True, slots=True)
class KeytabKey:
    """One key. `raw`: as it is in the file."""

    principal: str
    version: int
    kind: int
    """The key's encryption type."""
    raw: bytes


def read(data: bytes) -> list[KeytabKey]:
    """Raises BadKeytab."""
    if not data.startswith(_MAGIC):
        raise BadKeytab("it is not a keytab")
    found = []
    at = len(_MAGIC)
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "big", signed=True)
        at += 4
        if length > 0:
            raw = data[at : at + length]
            if len(raw) < length:
                raise BadKeytab("it ends within a key")
            found.append(_entry(raw))
        if not length:
            break
        at += abs(length)  # A removed key leaves a hole.
    return found


def written(entries: Iterable[KeytabKey]) -> bytes:
    """The file with these keys."""
    return _MAGIC + b"".join(len(each.raw).to_bytes(4, "big") + each.raw for each in entries)


def with_older(entries: list[KeytabKey], older: Iterable[KeytabKey]) -> list[KeytabKey]:
    """The keys and those that they replace: tickets of a service's old keys are valid until they end. Keys of services
    that have none any more are not kept."""
    newest = {each.principal: max(of.version for of in entries if of.principal == each.principal) for each in entries}
    known = {(each.principal, each.version, each.kind) for each in entries}
    return [
        *entries,
        *(
            each
            for each in older
            if each.version < newest.get(each.principal, 0) and (each.principal, each.version, each.kind) not in known
        ),
    ]


def _entry(raw: bytes) -> KeytabKey:
    fields = _Fields(raw)
    count = fields.number(2)
    realm, *parts = (fields.text() for _ in range(1 + count))
    fields.number(4)  # The name's type.
    fields.number(4)  # The time.
    version = fields.number(1)
    kind = fields.number(2)
    fields.block()
    if fields.left >= 4:
        # Versions above 255 do not fit into their first field.
        version = fields.number(4) or version
    return KeytabKey(f"{'/'.join(parts)}@{realm}", version, kind, raw)


class _Fields:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def number(self, size: int) -> int:
        return int.from_bytes(self._take(size), "big")

    def block(self) -> bytes:
        return self._take(self.number(2))

    def text(self) -> str:
        try:
            return self.block().decode()
        except UnicodeDecodeError:
            raise BadKeytab("it has a name that is not UTF-8") from None

    def _take(self, size: int) -> bytes:
        if self.left < size:
            raise BadKeytab("it has a key that ends too early")
        self._at += size
        return self._data[self._at - size : self._at]


def principals(entries: Iterable[KeytabKey]) -> Iterator[str]:
    """Each once, in the file's order."""
    return iter(dict.fromkeys(each.principal for each in entries))
