"""The statements that mutations start from: those of Spark's own tests and those of tests/sql."""

from __future__ import annotations

from pathlib import Path

import statement_cases
from spark_corpus import corpus

_OURS = Path(__file__).parent.parent / "sql"


def statements() -> list[str]:
    files = sorted(path.relative_to(_OURS).as_posix() for path in _OURS.rglob("*.sql"))
    return [*(text for _, text in corpus()), *(text for name in files for text, _ in statement_cases.load(name))]
