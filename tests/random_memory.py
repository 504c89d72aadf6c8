"""Random queries on the table of memory_corpus.py, of the classes that the engine answers."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count

from memory_corpus import TABLE

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
CHOICES = "coalesce({0}, {1})", "CASE WHEN {2} THEN {0} ELSE {1} END", "if({2}, {0}, {1})", "nullif({0}, {1})"
PARTS = (
    *("year({2})", "month({2})", "quarter({2})", "dayofweek({2})", "weekofyear({2})", "datediff({2}, {4})"),
    *("length({3})", "hour({5})", "minute({5})", "second({5})", "dayofyear(CAST({5} AS DATE))"),
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
)
DATES = (
    *("trunc({0}, 'MM')", "trunc({0}, 'WEEK')", "date_add({0}, {1})", "add_months({0}, {1})", "last_day({0})"),
    "CAST({2} AS DATE)",
)
TIMES = (
    *("date_trunc('HOUR', {0})", "date_trunc('WEEK', {0})", "date_trunc('MONTH', {1})", "CAST({1} AS TIMESTAMP)"),
    *("date_trunc('MINUTE', {0})", "date_trunc('DAY', {0})", "CAST(tn AS TIMESTAMP)", "date_trunc('DAY', tn)"),
    "CAST(CAST({0} AS TIMESTAMP_NTZ) AS TIMESTAMP)",
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
            (self._selection, self._groups, self._groups, self._nested, self._joined, self._windows, self._changes)
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

    def _windows(self) -> str:
        """Windows whose frames do not depend on the order of equal rows."""
        items = [f"{self._framed()} OVER ({self._window()})" for _ in range(self.chance.randint(1, 4))]
        return f"SELECT {_named(['shop', 'n', *items])} FROM {TABLE}{self._where()}"

    def _framed(self) -> str:
        kind = self.chance.choice(NUMBERS)
        function = self.chance.choice(
            ("sum({})", "avg({})", "min({})", "max({})", "count({})", "rank()", "cume_dist()")
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
        function = self.chance.choice(("sum({})", "avg({})", "min({})", "max({})", "count({})", "count(DISTINCT {})"))
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
        forms = ["{0} + {1}", "{0} - {1}", "-({0})", "abs({0})", "greatest({0}, {1})", "least({0}, {1})"]
        if kind == "decimal":
            forms += ["({0}) / nullif({1}, 0)", "round({0}, 1)", "round({0})", "({0}) * 3", "({0}) * 1.25"]
        else:
            forms += ["({0}) % nullif({1}, 0)", "({0}) * ({1})"]
        if kind == "int":
            forms += PARTS
        if kind == "bigint":
            forms += ["unix_timestamp({5})", "unix_timestamp({2})"]
        form = self.chance.choice(forms)
        texts = [self.value(each, depth - 1) for each in ("date", "string", "date", "timestamp")]
        return "(" + form.format(left, right, *texts) + ")"

    def _double(self, depth: int) -> str:
        form = self.chance.choice(("({0}) + ({1})", "({0}) * 0.5D", "CAST({2} AS DOUBLE)", "({2}) / nullif({3}, 0)"))
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
        return f"({self.chance.choice(forms)})"


def _named(items: list[str]) -> str:
    numbers = count()
    return ", ".join(f"{each} AS c{next(numbers)}" for each in items)
