"""Which queries may be answered from memory: those that certainly give the same rows again."""

from __future__ import annotations

import pytest

from sql.definition.determinism import CHANGING_FUNCTIONS, DATE_FUNCTIONS
from sql.definition.repeatable import is_repeatable
from sql.lexed import Lexed


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM s.mv",
        "SELECT region, sum(x) AS s FROM s.mv WHERE d IN ('a', 'b') AND (a = 1) GROUP BY region HAVING count(*) > 1",
        "WITH t AS (SELECT k, n FROM s.mv) SELECT * FROM t JOIN s.mv2 USING (k) ORDER BY 1 LIMIT 5",
        "SELECT cast(a AS decimal(10, 2)), row_number() OVER (PARTITION BY a ORDER BY b) FROM s.mv",
        "SELECT concat(a, '-', b), a || ' total', upper(left(a, 3)), date_format(d, 'yyyy') FROM s.mv",
        "SELECT date_trunc('month', d), d >= date '2024-01-01', to_date(a) FROM s.mv WHERE d < DATE '2025-01-01'",
        "SELECT a FROM s.mv WHERE a = 'not today' /* now */ -- rand()\n",
        "SELECT EXTRACT(year FROM d), if(a = 'x', 1, 0), count(DISTINCT a) FILTER (WHERE b > 0) FROM s.mv",
        "SELECT * FROM s.mv m LATERAL VIEW explode(x) t AS c",
        "SELECT `rand` FROM s.mv",
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a) FROM s.mv",
        "SELECT unix_timestamp(d), to_unix_timestamp(d, 'yyyy') FROM s.mv",
    ],
)
def test_an_ordinary_query_is_repeatable(text: str) -> None:
    assert is_repeatable(Lexed(text))


@pytest.mark.parametrize("function", sorted(CHANGING_FUNCTIONS | DATE_FUNCTIONS))
@pytest.mark.parametrize("call", ["{}()", "{} ()", "`{}`(1)", "abs({}(a))", "x.{}(1)"])
def test_a_function_of_time_or_session_is_not(function: str, call: str) -> None:
    assert not is_repeatable(Lexed(f"SELECT {call.format(function)} FROM s.mv"))
    assert not is_repeatable(Lexed(f"SELECT {call.format(function.upper())} FROM s.mv"))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT current_date FROM s.mv",
        "SELECT CURRENT_TIMESTAMP, a FROM s.mv",
        "SELECT user FROM s.mv",
        "SELECT my_function(a) FROM s.mv",
        "SELECT db.abs(a) FROM s.mv",
        "SELECT `abs`(a) FROM s.mv",
        'SELECT "abs"(a) FROM s.mv',
        "SELECT unix_timestamp() FROM s.mv",
        "SELECT to_unix_timestamp() FROM s.mv",
        "SELECT * FROM s.mv TABLESAMPLE (10 PERCENT)",
        "SELECT _metadata.file_name FROM s.mv",
        "SELECT * FROM IDENTIFIER('s.mv')",
        "SELECT * FROM s.mv WHERE a = '${x}'",
        "SELECT session.x FROM s.mv",
        "SELECT TRANSFORM (a) USING 'cat' FROM s.mv",
        "SELECT * FROM s.mv WHERE d = 'today'",
        "SELECT * FROM s.mv WHERE d = ' Now '",
        "SELECT * FROM s.mv WHERE d = 'to' 'day'",
        "SELECT * FROM s.mv WHERE d = '\\u0074oday'",
        "SELECT * FROM s.mv WHERE d = 'to' || 'day'",
        "SELECT * FROM s.mv WHERE d = concat('to', 'day')",
        "SELECT * FROM s.mv WHERE d = reverse('yadot')",
        "SELECT * FROM s.mv WHERE d = split('x,today', ',')[1]",
        "SELECT * FROM s.mv WHERE d = cast(X'746f646179' AS STRING)",
        "SELECT input_file_name() FROM s.mv",
    ],
)
def test_a_doubtful_query_is_not_repeatable(text: str) -> None:
    assert not is_repeatable(Lexed(text))
