"""Tests that frames are found in chunks of any size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire.calls import pieces_of

from gateway.wire.frame import FrameReader, WireError, frame

PAYLOADS = st.lists(st.binary(max_size=40), max_size=8)
CUTS = st.lists(st.integers(0, 1000), max_size=20)


def joined(pieces: list[tuple[bytes, bool]]) -> list[bytes]:
    frames = [b""]
    for piece, ended in pieces:
        frames[-1] += piece
        if ended:
            frames.append(b"")
    return frames


@given(PAYLOADS, CUTS)
def test_frames_in_any_chunks_have_their_payloads(payloads: list[bytes], cuts: list[int]) -> None:
    reader = FrameReader(40)
    stream = b"".join(frame(payload) for payload in payloads)
    pieces = [piece for chunk in pieces_of(stream, cuts) for piece in reader.feed(chunk)]
    assert joined(pieces) == [*filter(None, payloads), b""]
    assert reader.at_border


@given(PAYLOADS, CUTS)
def test_skipping_counts_the_same_frames(payloads: list[bytes], cuts: list[int]) -> None:
    skipping, feeding = FrameReader(40), FrameReader(40)
    for chunk in pieces_of(b"".join(frame(payload) for payload in payloads), cuts):
        assert skipping.skip(chunk) == sum(ended for _, ended in feeding.feed(chunk))
        assert skipping.at_border == feeding.at_border


@pytest.mark.parametrize("header", [b"\0\0\0\x29", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\x7f\xff\xff\xff"])
def test_a_length_above_the_limit_is_refused_at_the_header(header: bytes) -> None:
    with pytest.raises(WireError, match="limit of 40"):
        FrameReader(40).feed(header)
    with pytest.raises(WireError, match="limit of 40"):
        FrameReader(40).skip(header)


def test_the_limit_applies_to_a_frame_in_one_chunk() -> None:
    with pytest.raises(WireError, match="limit of 40"):
        FrameReader(40).skip(frame(b"x" * 41))
