"""Tests how long a refresh by rows is estimated to take."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.mv.model.contents import Basis

MIB = 1 << 20


def test_a_small_refresh_says_nothing_about_a_large_one() -> None:
    """Its duration is the price of its statements, not that of its bytes."""
    basis = Basis({}, complete_ms=10_000, rows_ms=2_000, rows_bytes=4_000)
    assert basis.estimate(100 * MIB, 1_000 * MIB) == 2_999
    assert basis.estimate(0, 1_000 * MIB) == 1_999


def test_what_is_not_known() -> None:
    assert Basis({}, complete_ms=10_000).estimate(100 * MIB, 1_000 * MIB) == 0
    assert Basis({}, complete_ms=10_000, rows_ms=2_000).estimate(100 * MIB, 0) == 2_000


@given(
    complete=st.integers(0, 10**7),
    rows=st.integers(1, 10**7),
    read=st.integers(0, 10**12),
    size=st.integers(0, 10**12),
    whole=st.integers(1, 10**13),
)
def test_more_bytes_never_take_less(complete: int, rows: int, read: int, size: int, whole: int) -> None:
    basis = Basis({}, complete_ms=complete, rows_ms=rows, rows_bytes=read)
    assert 0 <= rows // 4 <= basis.estimate(size, whole) <= basis.estimate(size + MIB, whole)
    assert basis.estimate(size, whole) <= rows + max(0, size - read) * complete // whole + 1
