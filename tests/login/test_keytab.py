"""Tests keytabs: what is read from them, and which old keys stay."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.login.keytab import BadKeytab, KeytabKey, principals, read, with_older, written

SHORT = st.binary(max_size=40)


def entry(principal: str = "hive/gate@A.TEST", version: int = 1, kind: int = 18, wide: bool = True) -> KeytabKey:
    name, _, realm = principal.partition("@")
    parts = name.split("/")
    raw = len(parts).to_bytes(2, "big")
    for text in (realm, *parts):
        raw += len(text.encode()).to_bytes(2, "big") + text.encode()
    raw += bytes(8) + bytes((version % 256,)) + kind.to_bytes(2, "big") + b"\0\x02ab"
    raw += version.to_bytes(4, "big") if wide else b""
    return KeytabKey(principal, version, kind, raw)


def test_keys_are_read_with_holes_between_them() -> None:
    first, second = entry(wide=False), entry("HTTP/gate@A.TEST", 300)
    data = written([first])
    hole = (-6).to_bytes(4, "big", signed=True) + b"ignore"
    assert read(data + hole + written([second])[2:] + bytes(4)) == [first, second]
    assert list(principals([first, second, first])) == ["hive/gate@A.TEST", "HTTP/gate@A.TEST"]


def test_replaced_keys_stay_and_removed_ones_go() -> None:
    old, new = entry(version=1), entry(version=2)
    gone = entry("hive/other@A.TEST")
    assert with_older([new], [old, gone]) == [new, old]
    assert with_older([old], [new]) == [old]
    assert with_older([new, old], [old]) == [new, old]


@given(st.lists(st.tuples(st.sampled_from(["a@A", "a/b@A"]), st.integers(1, 3), st.integers(17, 18)), max_size=6))
def test_what_is_written_is_read(names: list[tuple[str, int, int]]) -> None:
    entries = [entry(*name) for name in names]
    assert read(written(entries)) == entries
    assert with_older(entries, entries) == entries


@given(SHORT | SHORT.map(lambda data: b"\x05\x02" + data), st.integers(0, 80), SHORT)
def test_other_bytes_are_refused(data: bytes, at: int, put: bytes) -> None:
    whole = written([entry(), entry("a@A")])
    for each in (data, whole[:at] + put + whole[at + len(put) :], whole[:at]):
        try:
            read(each)
        except BadKeytab:
            continue
