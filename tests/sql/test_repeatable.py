"""Which queries give the same rows each time."""

from __future__ import annotations

import pytest

from sql.definition.repeatable import is_repeatable
from sql.lexed import Lexed


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM v",
        "SELECT count(*), sum(a) FILTER (WHERE b > 1), max_by(a, b) FROM v GROUP BY ROLLUP (c) HAVING count(*) IN (1)",
        "WITH w AS (SELECT a FROM v) SELECT date_trunc('MONTH', a), row_number() OVER (ORDER BY a) FROM w LIMIT 3",
        "SELECT DATE'2026-01-01', 'it is now', CAST(a AS DECIMAL(10,2)) FROM v WHERE EXISTS (SELECT 1 FROM w)",
    ],
)
def test_repeatable(text: str) -> None:
    assert is_repeatable(Lexed(text).pieces)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT rand() FROM v",
        "SELECT a, current_date FROM v",
        "SELECT `current_user` FROM v",
        "SELECT current_timestamp() FROM v",
        "SELECT uuid(), a FROM v",
        "SELECT DATE'now' FROM v",
        "SELECT CAST(' tomorrow ' AS DATE) FROM v",
        "SELECT own(a) FROM v",
        "SELECT db.max(a) FROM v",
        "SELECT `own`(a) FROM v",
        "SELECT * FROM IDENTIFIER('v')",
        "SELECT * FROM v TABLESAMPLE (10 ROWS)",
        "SELECT _metadata.file_path FROM v",
        "SELECT '${x}' FROM v",
        "SELECT ${x} FROM v",
        "SELECT * FROM v WHERE a = ?",
        "SELECT * FROM v WHERE a = :x",
        "SELECT unix_timestamp() FROM v",
        "SELECT java_method('java.lang.System', 'nanoTime') FROM v",
        "SELECT TRANSFORM (a) USING 'cat' FROM v",
    ],
)
def test_not_repeatable(text: str) -> None:
    assert not is_repeatable(Lexed(text).pieces)
