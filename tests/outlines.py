"""Definitions that can be refreshed by rows, and their outlines, analysed with columns and types that are known."""

from __future__ import annotations

from sql.increments.analysis import Outline, analyse
from sql.increments.expansion import SparkView
from sql.names import Namespace, TableName

COLUMNS = {
    "t": ("a", "b", "v", "w", "f", "ts", "arr", "m", "s"),
    "u": ("a", "c"),
    "us": ("user", "b"),
    "small": ("k",),
}
VIEWS = {
    TableName("other", view): SparkView(text, Namespace(database), tuple(columns.split()), tuple(outputs.split()))
    for view, text, database, columns, outputs in (
        ("plain", "SELECT a, v FROM t WHERE v > 0 -- as it is", "shop", "a v", "a v"),
        ("renamed", "SELECT x.a AS k, b FROM T x ORDER BY b;", "shop", "p q", "k b"),
        ("starred", "SELECT * FROM u", "shop", "a c", "a c"),
        ("above", "SELECT r.p, s.c FROM renamed r JOIN starred AS s(p, c) USING (p)", "other", "p c", "p c"),
        ("both", "SELECT a FROM t UNION ALL SELECT a FROM u", "shop", "a", "a"),
        ("ctes", "WITH t AS (SELECT a FROM shop.t), y AS (SELECT a AS z FROM t) SELECT z FROM y", "other", "z", "z"),
        ("counted", "SELECT a, count(*) AS n FROM t GROUP BY a", "shop", "a n", "a n"),
        ("itself", "SELECT a FROM itself", "other", "a", "a"),
        ("twice", "SELECT a, v AS A FROM t", "shop", "x y", "a A"),
        ("on_path", "SELECT a FROM parquet.`/data`", "shop", "a", "a"),
        ("broken", "SELECT a FROM", "shop", "a", "a"),
    )
}
TYPES = {
    "a": "int",
    "b": "string",
    "v": "bigint",
    "w": "decimal(12,2)",
    "f": "double",
    "ts": "timestamp",
    "arr": "array<int>",
    "s": "struct<x:int>",
}


def name(table: str) -> TableName:
    return TableName("shop", table)


def _type(text: str) -> str:
    """What Spark tells of an expression over one column."""
    function, _, rest = text.partition("(")
    rest = rest.removeprefix("upper(").removeprefix("date_trunc('DAY', ")
    column = next((each for each in TYPES if rest.startswith((each + ")", each + ",", each + "."))), "b")
    kind = "boolean" if ">" in text else TYPES[column]
    if function == "sum":
        return {"bigint": "bigint", "int": "bigint", "decimal(12,2)": "decimal(22,2)"}.get(kind, "double")
    if function in ("avg", "mean"):
        return "decimal(16,6)" if kind == "decimal(12,2)" else "double"
    return "int" if rest.startswith("s.x") else kind


def outline_of(
    query: str, columns: str | None = None, *, named: bool = False, ansi: bool = True, **types: str
) -> Outline:
    view = columns.split() if columns is not None else [f"c{number}" for number in range(_width(query))]
    known = {name(key): value for key, value in COLUMNS.items()}
    draft = analyse(query, Namespace("shop"), known, view, named=named, views=VIEWS)
    typing = draft.typing() or ""
    told = {f"t{number}": "int" for number in range(20)}
    if not typing.startswith("SELECT * FROM ("):
        listed = typing.removeprefix("SELECT ").partition(" FROM ")[0]
        told |= _told(listed)
    return draft.typed(told | types, ansi=ansi)


def _width(query: str) -> int:
    """The number of items."""
    outside, depth = [], 0
    for sign in query:
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if not depth:
            outside.append(sign)
    text = "".join(outside)
    return text[text.find("SELECT ") :].partition(" FROM ")[0].count(",") + 1


def _told(listed: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for number in range(20):
        text, mark, listed = listed.partition(f" AS `t{number}`")
        if not mark:
            break
        found[f"t{number}"] = _type(text.removeprefix(", "))
    return found


ROWS = [
    ("SELECT a, b FROM t", "a b"),
    ("SELECT * FROM t", "a b v w f ts arr m s"),
    ("SELECT t.* FROM t JOIN u ON t.a = u.a", "A b v w f ts arr m s"),
    ("SELECT u.*, t.b FROM t, u WHERE t.a = u.a", "a c b"),
    ("SELECT a AS x, x + 1 AS y FROM t", "x y"),
    ("SELECT ALL a FROM t WHERE b LIKE 'x%' ORDER BY a DESC", "a"),
    ("SELECT /*+ BROADCAST(u) */ t.a FROM t JOIN u ON t.a = u.a", "a"),
    ("SELECT a FROM t LATERAL VIEW explode(arr) x AS e", "a"),
    ("SELECT a, e FROM t LATERAL VIEW OUTER explode(arr) x AS e LATERAL VIEW posexplode(arr) y AS p, q", "a e"),
    ("SELECT a, e FROM t, LATERAL explode(arr) AS x(e)", "a e"),
    ("SELECT a FROM t UNION ALL SELECT a FROM u", "a"),
    ("(SELECT a FROM t) UNION ALL (SELECT a FROM u) UNION ALL SELECT k FROM small ORDER BY 1", "a"),
    ("SELECT t.a FROM t INNER JOIN u USING (a)", "a"),
    ("SELECT t.a FROM t CROSS JOIN u", "a"),
    ("SELECT t.a FROM t LEFT OUTER JOIN u ON t.a = u.a", "a"),
    ("SELECT a FROM t WHERE a IN (SELECT a FROM u)", "a"),
    ("SELECT a FROM t WHERE a NOT IN (SELECT a FROM u WHERE c > 'x')", "a"),
    ("SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a) OR v > 1", "a"),
    ("SELECT t.a FROM t LEFT SEMI JOIN u ON t.a = u.a", "a"),
    ("SELECT t.a FROM t LEFT ANTI JOIN u ON t.a = u.a", "a"),
    ("SELECT x.a FROM (SELECT a FROM t WHERE v > 1) x", "a"),
    ("SELECT x.q FROM (SELECT a, b FROM t) AS x(p, q)", "q"),
    ("SELECT a FROM (SELECT * FROM t) x", "a"),
    ("WITH x AS (SELECT a FROM t), y AS (SELECT a FROM x) SELECT a FROM y", "a"),
    ("WITH x(k) AS (SELECT a FROM t) SELECT x.k FROM x", "a"),
    ("SELECT transform(arr, x -> x + 1) FROM t", "a"),
    (
        "SELECT CASE WHEN v > 1 THEN date_trunc('day', ts) END, CAST(w AS INT), s.x, m['k'], arr[0] FROM t",
        "a b c d e",
    ),
    ("SELECT a -- from here\n FROM t /* WHERE */ WHERE v > 1;", "a"),
    ("SELECT `t`.`a` FROM shop.t WHERE v IS NOT DISTINCT FROM 1", "a"),
    ("SELECT v IS DISTINCT FROM 1 FROM t", "a"),
    ("SELECT extract(YEAR FROM ts), if(v > 1, 'a', 'b'), b RLIKE 'x', v BETWEEN 1 AND 2 FROM t", "a b c d"),
    ("SELECT user FROM us", "a"),
    ("WITH x AS (SELECT a FROM t) SELECT a FROM x UNION ALL SELECT a FROM u", "a"),
    ("SELECT a FROM t UNION ALL (SELECT a FROM u UNION ALL SELECT k FROM small)", "a"),
    ("SELECT a FROM t WHERE b LIKE ANY ('x%', 'y%')", "a"),
    ("SELECT * FROM (SELECT a, b AS x FROM t) y", "a x"),
    ("SELECT y.*, u.c FROM (SELECT a, b AS x FROM t) y JOIN u ON u.a = y.a", "a x c"),
    ("SELECT * FROM u LATERAL VIEW explode(split(c, ',')) x AS e", "a c e"),
    ("SELECT * FROM small LEFT JOIN (SELECT k AS j, k FROM small) s USING (k)", "k j"),
    (
        "SELECT * FROM u JOIN (SELECT c AS d, a FROM u) s USING (a) JOIN (SELECT a AS e, c FROM u) r USING (c)",
        "c a d e",
    ),
    ("SELECT * FROM u LEFT SEMI JOIN us ON u.c = us.b", "a c"),
    ("SELECT * FROM u LEFT SEMI JOIN (SELECT b AS c FROM t) s USING (c)", "c a"),
    ("WITH x AS (SELECT a FROM t) SELECT p.a FROM x p, x q", "a"),
    ("WITH x(k) AS (SELECT a FROM t) SELECT p.k, x.k AS j FROM x AS p, x", "k j"),
    ("WITH x(k) AS (SELECT a FROM t) SELECT p.z FROM x AS p(z) -- the last", "z"),
    ("WITH t AS (SELECT a FROM t WHERE v > 1) SELECT a FROM t", "a"),
    ("SELECT x.a FROM (WITH y AS (SELECT a FROM t) SELECT a FROM y ORDER BY a) x", "a"),
    ("SELECT x.a FROM (SELECT a FROM t UNION ALL (SELECT a FROM u)) x", "a"),
    ("SELECT a FROM t WHERE a IN (SELECT a FROM u UNION ALL SELECT k FROM small)", "a"),
    ("SELECT t.b, x.name FROM t JOIN VALUES (1, 'one'), (2, 'two') AS x(a, name) ON t.a = x.a", "b name"),
    ("SELECT a FROM t UNION ALL SELECT a FROM (VALUES (1), (2)) AS x(a)", "a"),
    ("SELECT * FROM other.plain", "a v"),
    ("SELECT p.*, u.c FROM other.plain AS p LEFT JOIN u ON p.a = u.a", "a v c"),
    ("SELECT plain.a, k AS z FROM `other`.`plain`, other.renamed AS r(k, l) WHERE k = plain.a", "a z"),
    ("SELECT * FROM other.above", "p c"),
    ("SELECT a FROM other.both JOIN small ON a = k", "a"),
    ("SELECT z FROM other.ctes", "z"),
    ("SELECT a FROM t WHERE a NOT IN (SELECT z FROM other.ctes)", "a"),
    ("WITH plain AS (SELECT q FROM other.renamed) SELECT q FROM plain", "q"),
]
"""Definitions and the columns of their views."""

HAVING = "freshgate_k0 freshgate_n freshgate_shown"
HAVING_SUM = "freshgate_k0 freshgate_n freshgate_s0 freshgate_s1"
GROUPS = [
    ("SELECT a, count(*) FROM t GROUP BY a", "freshgate_n", True),
    ("SELECT a AS x, sum(v) FROM t GROUP BY 1", "freshgate_n freshgate_s1", True),
    ("SELECT A, sum(v) FROM t GROUP BY t.a", "freshgate_n freshgate_s1", True),
    ("SELECT date_trunc('DAY', ts) AS d, count(v) FROM t GROUP BY d", "freshgate_n", True),
    ("SELECT concat(upper(b), '!') AS x, count(*) FROM t GROUP BY upper(b)", "freshgate_k0 freshgate_n", True),
    ("SELECT (v + 1) * 2, count(*) FROM t GROUP BY v + 1", "freshgate_k0 freshgate_n", True),
    ("SELECT count(*) FROM t GROUP BY a, b", "freshgate_k0 freshgate_k1 freshgate_n", True),
    ("SELECT count(*), sum(w) FROM t", "freshgate_n freshgate_s1", True),
    ("SELECT a, avg(v) FROM t GROUP BY a", "freshgate_n freshgate_s0 freshgate_s1 freshgate_s2 freshgate_s3", True),
    ("SELECT a, avg(w), sum(w), count(w) FROM t GROUP BY a", "freshgate_n", True),
    ("SELECT a, avg(f) FROM t GROUP BY a", "freshgate_n freshgate_s0 freshgate_s1", False),
    ("SELECT a, sum(f) FROM t GROUP BY a", "freshgate_n", False),
    ("SELECT a, min(v), max(v), bool_and(v > 1), any(v > 1), bit_xor(v) FROM t GROUP BY a", "freshgate_n", False),
    ("SELECT a, any_value(b), any_value(b) IGNORE NULLS FROM t GROUP BY a", "freshgate_n", False),
    ("SELECT a, max_by(b, v) FROM t GROUP BY a", "freshgate_n freshgate_s0 freshgate_s1", False),
    ("SELECT a, sum(v) FILTER (WHERE b = 'x') FROM t GROUP BY a", "freshgate_n freshgate_s1", True),
    ("SELECT a, count_if(v > 1), count(v, w) FROM t GROUP BY a", "freshgate_n", True),
    (
        "SELECT a, sum(v) FROM t GROUP BY a HAVING count(*) > 1",
        "freshgate_k0 freshgate_n freshgate_s0 freshgate_s1 freshgate_shown",
        True,
    ),
    ("SELECT a, count(*) AS n FROM t GROUP BY a HAVING n > 1", "freshgate_k0 freshgate_n freshgate_shown", True),
    ("SELECT DISTINCT a, b FROM t", "freshgate_n", True),
    ("SELECT a, count(*) FROM t GROUP BY ROLLUP(a)", "freshgate_g freshgate_n", True),
    ("SELECT a, b, count(*) FROM t GROUP BY a, b WITH CUBE", "freshgate_g freshgate_n", True),
    ("SELECT a, b, count(*) FROM t GROUP BY GROUPING SETS ((a, b), (a), b)", "freshgate_g freshgate_n", True),
    ("SELECT a, b, count(*) FROM t GROUP BY a, ROLLUP(b)", "freshgate_g freshgate_n", True),
    ("SELECT t.a, count(*) FROM t LEFT JOIN u USING (a) GROUP BY t.a", "freshgate_n", True),
    ("SELECT e, count(*) FROM t LATERAL VIEW explode(arr) x AS e GROUP BY e", "freshgate_n", True),
    ("SELECT x.a, count(*) FROM (SELECT a FROM t WHERE v > 1) x GROUP BY x.a", "freshgate_n", True),
    ("WITH x AS (SELECT a FROM t) SELECT a, count(*) FROM x GROUP BY a", "freshgate_n", True),
    ("SELECT a, sum(v) / count(*), 1 + 1, 'x' FROM t GROUP BY a", "freshgate_n freshgate_s0 freshgate_s1", True),
    ("SELECT round(avg(w), 1) FROM t WHERE b IN (SELECT c FROM u)", "freshgate_n freshgate_s0 freshgate_s1", True),
    ("SELECT a, any_value(b) FILTER (WHERE v > 1) IGNORE NULLS FROM t GROUP BY a", "freshgate_n", False),
    ("SELECT a, max(arr), any_value(s) FROM t GROUP BY a", "freshgate_n", False),
    ("SELECT a, max(transform(arr, y -> y + v)) FROM t GROUP BY a", "freshgate_n", False),
    ("SELECT a, every(v > 1) FROM t GROUP BY a", "freshgate_n", False),
    ("SELECT s.x, count(*) FROM t GROUP BY s.x", "freshgate_n", True),
    ("SELECT a, count(*), upper(b) FROM t GROUP BY ALL", "freshgate_n", True),
    ("SELECT 'all', a, count(*) FROM t GROUP BY ALL", "freshgate_n", True),
    ("SELECT max(v), count(*) FROM t GROUP BY ALL", "freshgate_n", False),
    ("SELECT a FROM t UNION SELECT a FROM u", "freshgate_n", True),
    ("SELECT a FROM t UNION ALL SELECT a FROM u UNION DISTINCT (SELECT k FROM small) ORDER BY 1", "freshgate_n", True),
    ("SELECT a, count(*) FROM (SELECT a FROM t UNION ALL SELECT a FROM u) x GROUP BY a", "freshgate_n", True),
    ("SELECT x.a, n FROM (SELECT a, count(*) AS n FROM t GROUP BY a) x", "freshgate_n", True),
    ("SELECT n FROM (SELECT a, count(*) AS n FROM t GROUP BY a) AS x", "freshgate_k0 freshgate_n", True),
    (
        "WITH x AS (SELECT a, count(*) FROM t GROUP BY 1) SELECT k, y.n FROM x AS y(k, n) ORDER BY n",
        "freshgate_n",
        True,
    ),
    ("SELECT a FROM (SELECT DISTINCT a FROM t) x", "freshgate_n", True),
    ("SELECT a, n FROM (SELECT a, count(*) AS n FROM t GROUP BY a ORDER BY n) x WHERE n > 1", HAVING, True),
    ("SELECT n, a FROM other.counted AS x WHERE x.n > 1", HAVING, True),
    ("SELECT 2 * n AS n FROM (SELECT a + 1 AS k, count(*) AS n FROM t GROUP BY 1 HAVING n > 3) x", HAVING, True),
    ("SELECT kk FROM (SELECT upper(b) AS kk, count(*) AS n FROM t GROUP BY kk) x", "freshgate_n", True),
    ("SELECT n, a FROM other.counted", "freshgate_n", True),
    ("SELECT p, count(*) FROM other.renamed GROUP BY p", "freshgate_n", True),
    ("SELECT b AS a, count(*) FROM t GROUP BY b HAVING a > 'x'", HAVING, True),
    (
        "SELECT b AS a, a AS c, count(*) FROM t GROUP BY a, b HAVING a > 1",
        HAVING.replace("k0", "k0 freshgate_k1"),
        True,
    ),
    ("SELECT a, sum(v) AS v FROM t GROUP BY a HAVING sum(v) > 5 AND v < 9", f"{HAVING_SUM} freshgate_shown", True),
    (
        "SELECT a, sum(v) AS v FROM t GROUP BY a HAVING count(*) FILTER (WHERE v > 1) > 5",
        f"{HAVING_SUM} freshgate_s2 freshgate_shown",
        True,
    ),
]
"""Definitions, their hidden columns, and whether rows can be subtracted."""

LAYERS = [
    ("SELECT a, v, rank() OVER (PARTITION BY a ORDER BY v) FROM t", "a"),
    ("SELECT v, lag(v) OVER (PARTITION BY t.a ORDER BY ts) FROM t", "t.a freshgate_k0"),
    (
        "SELECT a, sum(v) OVER (PARTITION BY (a), b ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW),"
        " count(v) OVER (PARTITION BY upper(b), a) FROM t WHERE v > 0",
        "a",
    ),
    ("SELECT a, b FROM (SELECT *, row_number() OVER (PARTITION BY a ORDER BY ts, v) AS n FROM t) x WHERE n = 1", "a"),
    (
        "SELECT x.*, n + 1 AS m FROM (SELECT b, v, row_number() OVER (PARTITION BY a ORDER BY ts, v) AS n FROM t) x"
        " WHERE x.n <= 3",
        "a freshgate_k0",
    ),
    (
        "WITH x(k, y, n) AS (SELECT upper(b), v, dense_rank() OVER (PARTITION BY upper(b) ORDER BY v DESC) FROM t)"
        " SELECT y, n + 1 FROM x WHERE n < 3 ORDER BY y",
        "upper(b) freshgate_k0",
    ),
    (
        "SELECT a, b, sum(v) AS s, rank() OVER (PARTITION BY a ORDER BY sum(v) DESC) AS r FROM t GROUP BY a, b"
        " HAVING count(*) > 1",
        "a",
    ),
    (
        "SELECT p.a, q.c, first_value(p.v) OVER (PARTITION BY q.c, p.a ORDER BY p.ts) FROM t p JOIN u q ON p.a = q.a",
        "q.c p.a",
    ),
    ("SELECT k, max(s) FROM (SELECT a AS k, b, sum(v) AS s FROM t GROUP BY 1, b) x GROUP BY k", "a"),
    ("SELECT max(s) FROM (SELECT a AS k, b, sum(v) AS s FROM t GROUP BY 1, b) x GROUP BY k", "a freshgate_k0"),
    (
        "SELECT x.a, x.s - lag(x.s) OVER (PARTITION BY x.a ORDER BY x.b) FROM"
        " (SELECT a, b, sum(v) AS s FROM t GROUP BY a, b) x",
        "a",
    ),
    ("SELECT DISTINCT a, count(*) FROM t GROUP BY a, b", "a"),
    ("SELECT a FROM (SELECT DISTINCT a, b FROM t) x WHERE a > 1", "a b freshgate_k1"),
    ("SELECT transform(arr, n -> n + 1) FROM (SELECT max(arr) AS arr, b FROM t GROUP BY b) x", "b freshgate_k0"),
    ("SELECT a, sum(n) OVER (PARTITION BY a) FROM other.counted WHERE n > 1", "a"),
]
"""Definitions that are computed within keys, the keys, and the hidden columns."""
