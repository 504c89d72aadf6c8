"""Which texts share a shape, and which literals are holes in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statement_cases import load

from sql.rewriting.shape import HOLE, Hints, shape_of

DASHBOARDS = [text for text, _ in load("rewriting/dashboards.sql")]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("select a from t where b = 1", "SELECT a\nFROM t -- today's\n  WHERE b=2;"),
        ("SELECT a FROM t WHERE b = 'x'", "SELECT a FROM t /* 'y' */ WHERE b = 'it''s'"),
        ("SELECT a FROM t WHERE d >= DATE '2020-01-01'", "SELECT a FROM t WHERE d >= DATE '2024-02-29'"),
        ("SELECT a FROM t WHERE b IN (1, 2)", "SELECT a FROM t WHERE b IN (3, 4)"),
        ("SELECT a FROM t LIMIT 10", "SELECT a FROM t LIMIT 1000"),
        ("SELECT a FROM t WHERE b > 1.25", "SELECT a FROM t WHERE b > 9.75"),
        ("SELECT a FROM t WHERE b > 1e3", "SELECT a FROM t WHERE b > 25e-4"),
    ],
)
def test_one_shape(one: str, other: str) -> None:
    assert shape_of(one).key == shape_of(other).key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT a FROM t WHERE b = 1", "SELECT a FROM t WHERE b = '1'"),
        # The number of digits is the precision of an integer beside a decimal.
        ("SELECT a * 9 FROM t", "SELECT a * 10 FROM t"),
        ("SELECT a FROM t WHERE b = 1.25", "SELECT a FROM t WHERE b = 1.250"),
        ("SELECT a FROM t WHERE b = 1", "SELECT a FROM t WHERE b = 1L"),
        ("SELECT a FROM t WHERE b = 2147483647", "SELECT a FROM t WHERE b = 2147483648"),
        ("SELECT a FROM t WHERE d > '2020-01-01'", "SELECT a FROM t WHERE d > '2020-01-01 12:00:00'"),
        ("SELECT a FROM t WHERE d > '2020-01-01'", "SELECT a FROM t WHERE d > 'yesterday'"),
        ("SELECT a FROM t GROUP BY 1", "SELECT a FROM t GROUP BY 2"),
        ("SELECT a FROM t ORDER BY a, 1", "SELECT a FROM t ORDER BY a, 2"),
        ("SELECT a FROM t LIMIT 0", "SELECT a FROM t LIMIT 1"),
        ("SELECT date_trunc('month', d) FROM t", "SELECT date_trunc('week', d) FROM t"),
        ("SELECT trunc(d, 'MM') FROM t", "SELECT trunc(d, 'YY') FROM t"),
        ("SELECT date_format(d, 'yyyy') FROM t", "SELECT date_format(d, 'MM') FROM t"),
        ("SELECT d + INTERVAL 1 DAY FROM t", "SELECT d + INTERVAL 2 DAY FROM t"),
        ("SELECT 1, d + interval '1' day FROM t", "SELECT 1, d + interval '2' day FROM t"),
        ("SELECT CAST(a AS DECIMAL(9,2)) FROM t", "SELECT CAST(a AS DECIMAL(9,3)) FROM t"),
        ("SELECT round(a, 1) FROM t", "SELECT round(a, 2) FROM t"),
        ("SELECT a FROM t WHERE b LIKE 'x' ESCAPE '!'", "SELECT a FROM t WHERE b LIKE 'x' ESCAPE '?'"),
        (
            "SELECT sum(a) OVER (ORDER BY b ROWS 1 PRECEDING) FROM t",
            "SELECT sum(a) OVER (ORDER BY b ROWS 2 PRECEDING) FROM t",
        ),
        ("SELECT named_struct('a', 1) FROM t", "SELECT named_struct('b', 1) FROM t"),
        ('SELECT "a" FROM t', 'SELECT "b" FROM t'),
        ("SELECT X'1F' FROM t", "SELECT X'2F' FROM t"),
        ("SELECT a FROM t", "SELECT A FROM t"),
        ("SELECT a AS limit FROM t", "SELECT a AS LIMIT FROM t"),
        ("SELECT a limit FROM t", "SELECT a LIMIT FROM t"),
        ("SELECT a limit, b FROM t", "SELECT a LIMIT, b FROM t"),
        ("SELECT t.select FROM t", "SELECT t.SELECT FROM t"),
        ("SELECT a < = b FROM t", "SELECT a <= b FROM t"),
        ("SELECT /*+ REWRITE(v) */ a FROM t", "SELECT a FROM t"),
        ("SELECT `a 'b` FROM t", "SELECT `a 'c` FROM t"),
    ],
)
def test_two_shapes(one: str, other: str) -> None:
    assert shape_of(one).key != shape_of(other).key


def test_literals_are_as_written() -> None:
    shape = shape_of(r"SELECT 'it''s', 'a\'b', r'\d', 7 , 1.50, 2e-3, 12L FROM t WHERE d = DATE '2024-01-31' LIMIT 9")
    assert shape.literals == ("'it''s'", r"'a\'b'", r"r'\d'", "7", "1.50", "2e-3", "12L", "'2024-01-31'", "9")
    assert shape.kinds == ("string", "string", "string", "int1", "decimal(3,2)", "double", "L", "day", "limit")
    assert shape.changed() == (r"'it''s~'", r"'a\'b~'", r"r'\d~'", "8", "1.51", "3e-3", "13L", "'2024-02-01'", "8")


def test_a_number_may_begin_with_its_point() -> None:
    assert shape_of("SELECT .5 FROM t WHERE a BETWEEN .06 - 1 AND b.5c").key.endswith(
        "BETWEEN .06 - \ue000int1 AND b . 5c"
    )
    assert shape_of("SELECT .5").pieces == ("SELECT", ".5")
    assert shape_of("SELECT a * (.5)").pieces[-2:] == (".5", ")")


@pytest.mark.parametrize(
    "text",
    [
        *("SELECT /* a /* b */ c */ 1", "SELECT 'open", "SELECT `open", f"SELECT '{HOLE}'", "SELECT 'a\\'"),
        *("SELECT 'a\\", 'SELECT "a\\"', "SELECT 'a''", "SELECT `a``", "SELECT /*+ a", "SELECT /*+/ a", "SELECT a '"),
    ],
)
def test_odd_texts_have_no_shape_to_share(text: str) -> None:
    assert shape_of(text).trouble


@pytest.mark.parametrize("text", DASHBOARDS)
def test_other_literals_have_the_same_shape(text: str) -> None:
    shape = shape_of(text)
    changed = shape.changed()
    assert all(mine != other for mine, other in zip(shape.literals, changed, strict=True))
    literals = iter(changed)
    other = " ".join(next(literals) if piece[0] == HOLE else piece for piece in shape.pieces)
    assert shape_of(other).key == shape.key
    assert shape_of(other).literals == changed


@given(st.text(alphabet="aAxXrR19.eE'\"`()/*+-\\ \n,=<>;_$" + HOLE, max_size=60))
def test_any_text_has_a_shape(text: str) -> None:
    shape = shape_of(text)
    assert len(shape.literals) == len(shape.kinds) == len(shape.changed())


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ("NO_REWRITE", Hints(off=True)),
        ("no_rewrite()", Hints(off=True)),
        ("REWRITE(daily)", Hints(only=frozenset({"daily"}))),
        ("USE_MV(shop.daily, `hourly`)", Hints(only=frozenset({"shop.daily", "hourly"}))),
        ("NO_USE_MV(Daily)", Hints(without=frozenset({"daily"}))),
        ("NO_USE_MV", Hints(off=True)),
        ("BROADCAST(t), REWRITE(daily)", Hints(only=frozenset({"daily"}), foreign=("BROADCAST",))),
    ],
)
def test_hints(hint: str, expected: Hints) -> None:
    assert shape_of(f"SELECT /*+ {hint} */ a FROM t").hints == expected


def test_hints_allow_views_by_their_names() -> None:
    only = shape_of("SELECT /*+ REWRITE(shop.daily) */ 1").hints
    assert only.allow("shop.daily")
    assert not only.allow("other.daily")
    assert not only.allow("shop.my_daily")
    assert not shape_of("SELECT /*+ NO_USE_MV(daily) */ 1").hints.allow("shop.daily")
    assert shape_of("SELECT 1").hints.allow("shop.daily")
