"""Counts how often texts are lexed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from sql import lexed, scan
from sql.scan import Token


def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each text is lexed from now on, in this process."""
    counts: Counter[str] = Counter()
    tokens = scan.tokens

    def counting(text: str) -> Iterator[Token]:
        counts[text] += 1
        return tokens(text)

    monkeypatch.setattr(scan, "tokens", counting)
    monkeypatch.setattr(lexed, "tokens", counting)
    return counts
