"""Random queries on the table of memory_corpus.py, of the classes that the engine answers."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count

from memory_corpus import BASE, TABLE

COLUMNS = {
    "int": ("n",),
    "bigint": ("orders",),
    "smallint": ("s",),
    "tinyint": ("t",),
    "decimal": ("amount", "rate"),
    "double": ("d",),
    "string": ("shop",),
    "date": ("day",),
    "timestamp": ("ts",),
    "boolean": ("b",),
}
NUMBERS = ("int", "bigint", "smallint", "tinyint", "decimal")
CHOICES = (
    *("coalesce({0}, {1})", "CASE WHEN {2} THEN {0} ELSE {1} END", "if({2}, {0}, {1})", "nullif({0}, {1})"),
    *("CASE WHEN {2} THEN {0} WHEN b THEN {1} END", "nvl2({0}, {0}, {1})", "CASE {0} WHEN {1} THEN {1} ELSE {0} END"),
)
PARTS = (
    *("year({2})", "month({2})", "quarter({2})", "dayofweek({2})", "weekofyear({2})", "datediff({2}, {4})"),
    *("length({3})", "hour({5})", "minute({5})", "second({5})", "dayofyear(CAST({5} AS DATE))"),
    *("dayofmonth({2})", "weekday({2})", "hour(tn)", "second(tn)", "CAST(s AS INT)", "CAST(t AS INT) * s"),
)
STRINGS = (
    *(
        "concat({0}, '-', {1})",
        "substring({0}, 2, 3)",
        "substring({0}, -3, 2)",
        "right({0}, 2)",
        "trim({0})",
        "left({0}, 1)",
    ),
    *("CAST({2} AS STRING)", "CAST({3} AS STRING)", "CAST({4} AS STRING)", "date_format({4}, 'yyyy-MM-dd HH:mm:ss')"),
    *("upper(shop)", "lower(shop)", "ltrim({0})", "rtrim({0})", "substring({0}, -4, 3)", "substring({0}, 0, 2)"),
    *("date_format({4}, 'd MMM yy, h:m:s a')", "date_format({3}, 'EEEE dd MMMM y')", "date_format({4}, 'E H.DDD')"),
    *("from_unixtime({2} * 1000000, 'yyyy MM dd')", "CAST(tn AS STRING)", "CAST(b AS STRING)", "{0} || {1}"),
    *("CAST(amount AS STRING)", "CAST(rate AS STRING)", "CAST(orders AS STRING)", "substring({0}, 2)"),
)
DATES = (
    *("trunc({0}, 'MM')", "trunc({0}, 'WEEK')", "date_add({0}, {1})", "add_months({0}, {1})", "last_day({0})"),
    *("CAST({2} AS DATE)", "date_sub({0}, s)", "trunc({0}, 'YEAR')", "trunc({0}, 'QUARTER')", "CAST(tn AS DATE)"),
)
TIMES = (
    *("date_trunc('HOUR', {0})", "date_trunc('WEEK', {0})", "date_trunc('MONTH', {1})", "CAST({1} AS TIMESTAMP)"),
    *("date_trunc('MINUTE', {0})", "date_trunc('DAY', {0})", "CAST(tn AS TIMESTAMP)", "date_trunc('DAY', tn)"),
    *("CAST(CAST({0} AS TIMESTAMP_NTZ) AS TIMESTAMP)", "date_trunc('QUARTER', {0})", "date_trunc('YEAR', {1})"),
    *("date_trunc('SECOND', {0})", "CAST(concat({1}, ' 00:00:00') AS TIMESTAMP)", "CAST({1} AS TIMESTAMP)"),
)
DECIMALS = (
    *("({0}) / nullif({1}, 0)", "round({0}, 1)", "round({0})", "({0}) * 3", "({0}) * 1.25"),
    *("CAST({0} AS DECIMAL(20, 1))", "CAST({0} AS DECIMAL(38, 12))", "CAST({6} AS DECIMAL(12, 2))", "({0}) * rate"),
    *("CASE WHEN b THEN {0} ELSE 0 END", "({0}) / nullif(n, 0)", "CAST({6} AS DECIMAL(5, 0)) / 7", "rate / 3"),
)
CALLS = (
    *("sum({})", "avg({})", "min({})", "max({})", "count({})", "count(DISTINCT {})", "sum(DISTINCT {})"),
    *("avg(DISTINCT {})", "sum(CASE WHEN b THEN {} ELSE 0 END)"),
)
DOUBLES = (
    *("({0}) + ({1})", "({0}) - ({1})", "({0}) * 0.5D", "CAST({2} AS DOUBLE)", "({2}) / nullif({3}, 0)"),
    *("CAST(f AS DOUBLE)", "CAST(amount AS DOUBLE)", "CAST(orders AS DOUBLE)", "CAST(amount AS DOUBLE) / 7"),
)
GROUPED = ("int", "smallint", "string", "date", "boolean", "decimal")


class Maker:
    """Makes queries by chance."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self._values: dict[str, Callable[[int], str]] = {
            "boolean": self._condition,
            "string": self._string,
            "date": self._date,
            "timestamp": self._timestamp,
            "double": self._double,
        }

    def query(self) -> str:
        """A query: a selection, groups, or one of these within another one."""
        make = self.chance.choice(
            (
                *(self._selection, self._groups, self._groups, self._nested, self._joined, self._windows),
                *(
                    self._changes,
                    self._sets,
                    self._union,
                    self._among,
                    self._ranked,
                    self._first_rows,
                    self._determined,
                    self._beside,
                    self._beside_groups,
                ),
            )
        )
        return make()

    # --- queries

    def _selection(self) -> str:
        items = [self.value(self._type(), 3) for _ in range(self.chance.randint(3, 9))]
        return f"SELECT {_named(items)} FROM {TABLE}{self._where()}"

    def _groups(self, table: str = TABLE) -> str:
        kinds = [self.chance.choice(GROUPED) for _ in range(self.chance.randint(0, 3))]
        keys = [self.value(kind, self.chance.randint(0, 2)) for kind in kinds]
        items = [*keys, *(self._aggregate() for _ in range(self.chance.randint(1, 5)))]
        places = ", ".join(map(str, range(1, len(keys) + 1)))
        group = f" GROUP BY {places}" if keys else ""
        having = f" HAVING count(*) > {self.chance.randint(0, 3)}" if keys and self.chance.random() < 0.3 else ""
        order = f" ORDER BY {places}" if keys and self.chance.random() < 0.4 else ""
        return f"SELECT {_named(items)} FROM {table}{self._where()}{group}{having}{order}"

    def _nested(self) -> str:
        inner = f"SELECT shop, day, sum(n) AS n, sum(amount) AS amount FROM {TABLE}{self._where()} GROUP BY shop, day"
        aggregates = ("sum(n)", "max(amount)", "count(*)", "avg(n)", "min(day)", "sum(amount) / count(*)")
        return f"SELECT shop, {_named(self.chance.sample(aggregates, 3))} FROM ({inner}) GROUP BY shop"

    def _joined(self) -> str:
        kind = self.chance.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
        values = "sum(n)", "max(day)"
        sides = [f"(SELECT shop, {each} AS v FROM {TABLE}{self._where()} GROUP BY shop)" for each in values]
        return f"SELECT a.shop, a.v, b.shop AS other, b.v AS w FROM {sides[0]} a {kind} {sides[1]} b ON a.shop = b.shop"

    def _beside(self) -> str:
        """Rows of the view beside those of a base table."""
        items = [self.value(self._type(), 1) for _ in range(self.chance.randint(1, 3))]
        joined = self._with_base(("shop", "n", "day", "s"))
        return f"SELECT {_named(['c.k', 'c.x', *items])} FROM {joined}{self._where()}"

    def _beside_groups(self) -> str:
        """Groups of such rows; or rows of one that are chosen by the other."""
        if self.chance.random() < 0.3:
            return self._among(BASE)
        keys = self.chance.sample(("c.k", "c.x", "shop", "year(day)", "b"), self.chance.randint(0, 2))
        of_base = ("count(c.k)", "min(c.x)", "count(DISTINCT c.x)", "sum(c.y)", "avg(c.y)", "max(c.x)")
        items = [*keys, *self.chance.sample(of_base, 2), *(self._aggregate() for _ in range(self.chance.randint(1, 2)))]
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
        joined = self._with_base(("shop", "n", "day", "s", "b", "orders", "amount"))
        return f"SELECT {_named(items)} FROM {joined}{self._where()}{group}"

    def _with_base(self, keys: tuple[str, ...]) -> str:
        """The view joined with the base table, of which it has a key k, and values x and y."""
        key = self.chance.choice(keys)
        kind = self.chance.choice(("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
        x, y = self.value(self.chance.choice(GROUPED), 1), self.value(self.chance.choice(NUMBERS), 1)
        base = f"(SELECT {key} AS k, {x} AS x, {y} AS y FROM {BASE}{self._where()})"
        further = f" AND {self._condition(1)}" if kind != "FULL JOIN" and self.chance.random() < 0.3 else ""
        return f"{TABLE} {kind} {base} c ON {TABLE}.{key} {self.chance.choice(('=', '=', '<=>'))} c.k{further}"

    def _sets(self) -> str:
        """Several groupings."""
        keys = self.chance.sample(("shop", "b", "n % 3", "year(day)", "s"), self.chance.randint(2, 3))
        among = ", ".join(keys)
        grouping = self.chance.choice(
            (f"ROLLUP ({among})", f"CUBE ({among})", f"GROUPING SETS (({among}), ({keys[1]}), ())")
        )
        items = [*keys, f"grouping({keys[0]})", *(self._aggregate() for _ in range(self.chance.randint(1, 3)))]
        if self.chance.random() < 0.3:
            items.append(f"grouping_id({among})")
        return f"SELECT {_named(items)} FROM {TABLE}{self._where()} GROUP BY {grouping}"

    def _union(self) -> str:
        kinds = [self._type() for _ in range(self.chance.randint(1, 3))]
        branches = [
            f"SELECT {_named([self.value(kind, 1) for kind in kinds])} FROM {TABLE}{self._where()}"
            for _ in range(self.chance.randint(2, 3))
        ]
        return self.chance.choice((" UNION ALL ", " UNION ", " UNION ALL ")).join(branches)

    def _among(self, other: str = TABLE) -> str:
        """Rows that are chosen by a subquery of the same table, or of another one with its columns."""
        items = [self.value(self._type(), 1) for _ in range(2)]
        key, rows = self.chance.choice(("shop", "n", "day", "s", "b")), f"{other}{self._where()}"
        test = self.chance.choice(
            (
                f"{key} IN (SELECT {key} FROM {rows})",
                f"EXISTS (SELECT 1 FROM {other} i WHERE i.{key} = o.{key} AND {self._condition(1)})",
                f"NOT EXISTS (SELECT 1 FROM {other} i WHERE i.{key} = o.{key} AND i.n > {self.chance.randint(-9, 9)})",
                f"n {self.chance.choice('<>')} (SELECT {self.chance.choice(('min', 'avg', 'max'))}(n) FROM {rows})",
                f"amount = (SELECT max(amount) FROM {rows})",
            )
        )
        return f"SELECT {_named(['shop', *items])} FROM {TABLE} o WHERE {test}"

    def _ranked(self) -> str:
        """Rows of the first ranks."""
        rank, order = self.chance.choice(("rank()", "dense_rank()", "row_number()")), self.chance.choice(GROUPED)
        part = self.chance.choice(("", "PARTITION BY shop ", "PARTITION BY b, s "))
        inner = (
            f"SELECT *, {rank} OVER ({part}ORDER BY {self._column(order)} DESC) AS place FROM {TABLE}{self._where()}"
        )
        items = [self.value(self._type(), 1) for _ in range(2)]
        return f"SELECT place, {_named(items)} FROM ({inner}) WHERE place <= {self.chance.randint(1, 4)}"

    def _first_rows(self) -> str:
        """The first rows in an order, or different ones."""
        kinds = self.chance.sample(GROUPED, 3)
        items = [self.value(kind, 1) for kind in kinds]
        if self.chance.random() < 0.3:
            return f"SELECT DISTINCT {_named(items)} FROM {TABLE}{self._where()}"
        order = ", ".join(f"c{n}{self.chance.choice(('', ' DESC', ' NULLS LAST'))}" for n in range(3))
        first = f"LIMIT {self.chance.randint(0, 9)}{self.chance.choice(('', ' OFFSET 2'))}"
        return f"SELECT {_named(items)} FROM {TABLE}{self._where()} ORDER BY {order} {first}"

    def _determined(self) -> str:
        """Aggregates of truth, of what a key determines, and of windows over groups."""
        items = self.chance.sample(
            (
                *(
                    "first(upper(shop))",
                    "any_value(shop)",
                    "bool_or(b)",
                    "bool_and(b)",
                    "count_if(b)",
                    "max(b)",
                    "min(tn)",
                ),
                *("min(d)", "max(d)", "max(CAST(f AS DOUBLE))", "sum(n & 3)", "sum(n | 4)", "sum(n div 4)", "max(ts)"),
                *("sum(sum(amount)) OVER ()", "rank() OVER (ORDER BY sum(n) DESC)", "sum(n) / sum(sum(n)) OVER ()"),
                *(
                    "count(DISTINCT n)",
                    "count(DISTINCT day)",
                    f"sum(amount) * 100.0 / (SELECT sum(amount) FROM {TABLE})",
                ),
            ),
            4,
        )
        return f"SELECT {_named(['shop', *items])} FROM {TABLE}{self._where()} GROUP BY shop"

    def _windows(self) -> str:
        """Windows whose frames do not depend on the order of equal rows."""
        items = [f"{self._framed()} OVER ({self._window()})" for _ in range(self.chance.randint(1, 4))]
        return f"SELECT {_named(['shop', 'n', *items])} FROM {TABLE}{self._where()}"

    def _framed(self) -> str:
        kind = self.chance.choice(NUMBERS)
        function = self.chance.choice(
            (
                *("sum({})", "avg({})", "min({})", "max({})", "count({})"),
                *("rank()", "dense_rank()", "percent_rank()", "cume_dist()"),
            )
        )
        return function.format(self.value(kind, 1))

    def _window(self) -> str:
        parts = self.chance.choice(("", "PARTITION BY shop ", "PARTITION BY b, t "))
        nulls = self.chance.choice(("", " NULLS LAST", " DESC", " DESC NULLS FIRST"))
        return f"{parts}ORDER BY {self._column(self.chance.choice(GROUPED))}{nulls}"

    def _changes(self) -> str:
        """Windows over rows that are not equal in the order."""
        rows = self.chance.randint(1, 3)
        calls = (
            f"lag(v, {rows})",
            f"lead(v, {rows}, 0)",
            "row_number()",
            f"ntile({rows})",
            "sum(v)",
            "max(v)",
            "first(v)",
        )
        items = list[str]()
        for call in self.chance.sample(calls, 3):
            order = self.chance.choice(("s, n", "n DESC, s", "s DESC NULLS LAST, n"))
            frame = f" ROWS BETWEEN {rows} PRECEDING AND CURRENT ROW" if call.endswith("(v)") else ""
            items.append(f"{call} OVER (ORDER BY {order}{frame})")
        inner = f"SELECT n, s, sum(n) AS v FROM {TABLE}{self._where()} GROUP BY n, s"
        return f"SELECT {_named(['n', 's', *items])} FROM ({inner})"

    def _where(self) -> str:
        return f" WHERE {self._condition(2)}" if self.chance.random() < 0.6 else ""

    def _aggregate(self) -> str:
        kind = self.chance.choice(NUMBERS)
        value = self.value(kind, self.chance.randint(0, 2))
        function = self.chance.choice(CALLS)
        if self.chance.random() < 0.15:
            return f"sum({value}) / nullif(count({value}), 0)"
        if self.chance.random() < 0.15:
            return f"round(avg({value}), 2)" if kind == "decimal" else f"max({self.value('string', 1)})"
        filtered = f" FILTER (WHERE {self._condition(1)})" if self.chance.random() < 0.2 else ""
        return function.format(value) + filtered

    # --- values

    def _type(self) -> str:
        return self.chance.choice(tuple(COLUMNS))

    def _column(self, kind: str) -> str:
        return self.chance.choice(COLUMNS[kind])

    def value(self, kind: str, depth: int) -> str:
        """An expression of a type, at most so many operations deep."""
        if depth == 0 or self.chance.random() < 0.2:
            return self._column(kind) if self.chance.random() < 0.8 else self._literal(kind)
        if self.chance.random() < 0.2:
            arms = self.value(kind, depth - 1), self.value(kind, depth - 1)
            return self.chance.choice(CHOICES).format(*arms, self._condition(depth - 1))
        return self._values[kind](depth) if kind in self._values else self._number(kind, depth)

    def _literal(self, kind: str) -> str:
        number = self.chance.randint(-20, 20)
        return {
            "int": f"{number}",
            "bigint": f"{number}L",
            "smallint": f"{number}S",
            "tinyint": f"{number}Y",
            "decimal": f"{number}.{self.chance.randint(0, 99):02d}",
            "double": f"{number}.5D",
            "string": "'" + self.chance.choice(("a", "xy", "", " b ", "z%", "A")) + "'",
            "date": f"DATE'2023-{self.chance.randint(1, 12):02d}-{self.chance.randint(1, 28):02d}'",
            "timestamp": f"TIMESTAMP'2024-01-{self.chance.randint(1, 28):02d} 10:11:12.5'",
            "boolean": self.chance.choice(("true", "false")),
        }[kind]

    def _number(self, kind: str, depth: int) -> str:
        left, right = self.value(kind, depth - 1), self.value(kind, depth - 1)
        forms = ["{0} + {1}", "{0} - {1}", "-({0})", "+({0})", "abs({0})", "greatest({0}, {1})", "least({0}, {1})"]
        if kind == "decimal":
            forms += DECIMALS
        else:
            forms += ["({0}) % nullif({1}, 0)", "({0}) * ({1})", "({0}) & ({1})", "({0}) | ({1})"]
        if kind == "int":
            forms += PARTS
        if kind == "bigint":
            forms += ["unix_timestamp({5})", "unix_timestamp({2})", "({0}) div nullif({1}, 0)", "CAST({6} AS BIGINT)"]
        form = self.chance.choice(forms)
        texts = [self.value(each, depth - 1) for each in ("date", "string", "date", "timestamp", "int")]
        return "(" + form.format(left, right, *texts) + ")"

    def _double(self, depth: int) -> str:
        form = self.chance.choice(DOUBLES)
        numbers = [self.value("int", depth - 1) for _ in range(2)]
        return "(" + form.format(self.value("double", depth - 1), self.value("double", depth - 1), *numbers) + ")"

    def _string(self, depth: int) -> str:
        values = self.value("string", depth - 1), self.value("string", depth - 1)
        others = (self.value(each, depth - 1) for each in ("int", "date", "timestamp"))
        return self.chance.choice(STRINGS).format(*values, *others)

    def _date(self, depth: int) -> str:
        moved = self.value("date", depth - 1), self.chance.randint(-40, 40)
        return self.chance.choice(DATES).format(*moved, self._column("timestamp"))

    def _timestamp(self, depth: int) -> str:
        return self.chance.choice(TIMES).format(self.value("timestamp", depth - 1), self.value("date", depth - 1))

    def _condition(self, depth: int) -> str:
        kind = self._type()
        if depth <= 0:
            return f"{self._column(kind)} = {self._literal(kind)}"
        left, right = self.value(kind, depth - 1), self.value(kind, depth - 1)
        forms = [f"{left} {operator} {right}" for operator in ("=", "<>", "<", "<=", ">", ">=", "<=>")]
        forms += [f"{left} IS NULL", f"{left} IS NOT NULL", f"{left} BETWEEN {right} AND {self._literal(kind)}"]
        forms += [f"{left} IN ({self._literal(kind)}, {self._literal(kind)})"]
        forms += [f"NOT ({self._condition(depth - 1)})"]
        forms += [f"({self._condition(depth - 1)} OR {self._condition(depth - 1)})"]
        pattern = self.chance.choice(("x%", "%b", "%y%", "a_", "_", "%!_%", "!%"))
        forms += [f"{self.value('string', depth - 1)} LIKE '{pattern}' ESCAPE '!'"]
        test = self.chance.choice(("startswith", "endswith", "contains"))
        forms += [f"{test}({self.value('string', depth - 1)}, {self.value('string', 0)})", "shop LIKE '%\\\\_z'"]
        forms += [f"n IN ({self._literal('int')}, NULL)", "f < 1", "tn > TIMESTAMP_NTZ'2024-03-01 00:00:00'"]
        return f"({self.chance.choice(forms)})"


def _named(items: list[str]) -> str:
    numbers = count()
    return ", ".join(f"{each} AS c{next(numbers)}" for each in items)
