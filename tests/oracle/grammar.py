"""Generates statements from a grammar like Spark's: queries, changes, and statements that run other statements."""

from __future__ import annotations

import re
from random import Random

NAMES = (
    *("t", "u", "s.t", "s.mv", "mv", "MV", "q", "emp", "spark_catalog.s.mv", "`s`.`mv`", "s.`mv`", "`a b`.c"),
    *("`x``y`.z", "s . t", "s./**/mv", "`t.u`", "parquet.`/Data/x`", "date", "left", "from_t", "s.table", "_x.y1"),
    *("global_temp.g", "`from`", "values", "t1", "1a", "s.2b", "tàble", "`日本`", "日本.x", "s.`--t`", "`/*t`"),
)
LITERALS = (
    *("'x'", "''", "'it''s'", "'\\''", "'\\\\'", "r'\\'", "R'x'", "X'1F'", "'FROM mv'", '"FROM mv"', "'--'", "'/*'"),
    *("'*/'", "'`'", "'\"'", "'a' 'b'", "'\\n'", "'\\u0041'", "'\\101'", "'${'", "'a\\\nb'", "1", "1.5", "1e3", "0x1"),
    *(
        "date '2020-01-01'",
        "timestamp '2020-01-01 00:00:00'",
        "interval 1 day",
        "interval '1' day",
        "1BD",
        "5S",
        "N'x'",
    ),
)
_COLUMNS = ("a", "b", "t.a", "`a b`", "x", "n", "count", "from", "date", "1", "'x'", "null", "true", "-1.5e3", "2L")
_DEPTH = 6
_PLACE = re.compile(r"\{(\w+)(\?)?\}")

_RULES: dict[str, tuple[str, ...]] = {
    "name": (*NAMES * 3, *NAMES, "IDENTIFIER('{name}')", "IDENTIFIER('s.' || 't')"),
    "column": _COLUMNS,
    "literal": LITERALS,
    # --- queries
    "query": (
        *["{select}"] * 5,
        "FROM {relation}{rows?}",
        "FROM {relation} {select}",
        *["WITH {ctes} {query}"] * 2,
        "WITH RECURSIVE {ctes} {query}",
        "{query} {set_operation} {query}",
        *["({query})"] * 2,
        "TABLE {name}",
        "VALUES ({expression}), ({expression})",
        *["{query} |> {steps}"] * 2,
    ),
    "select": (
        *["SELECT {hint?}{shown} FROM {relations}{rows?}"] * 8,
        "SELECT DISTINCT {shown} FROM {relations}{rows?}",
        "SELECT {shown}",
    ),
    "hint": ("/*+ BROADCAST(t) */ ", "/*+ REPARTITION(1, mv), x */ ", "/* x */ "),
    "rows": (
        *[" WHERE {condition}"] * 5,
        " GROUP BY a",
        " GROUP BY ALL HAVING {condition}",
        " ORDER BY {expression}",
        " SORT BY a",
        " LIMIT 1",
        " LIMIT 0",
        " LIMIT ALL OFFSET 1",
        " WHERE {condition} GROUP BY {expression} HAVING {condition} ORDER BY a LIMIT 1 + 1",
        " WINDOW w AS (PARTITION BY a ORDER BY b)",
    ),
    "shown": ("{item}", "{item}", "{item}, {shown}", "*"),
    "item": ("{expression}", "{expression}", "{expression} AS {alias}", "{expression} {alias}"),
    "alias": ("x", "y", "`from`", "c1", "mv"),
    "ctes": ("{cte}", "{cte}", "{cte}, {ctes}"),
    "cte": ("{cte_name} AS ({query})", "{cte_name} AS ({query})", "{cte_name}(x) AS ({query})", "{cte_name} ({query})"),
    "cte_name": ("q", "mv", "t", "MV", "`q`", "date", "x"),
    "set_operation": ("UNION", "UNION ALL", "EXCEPT", "INTERSECT", "MINUS", "UNION DISTINCT"),
    "steps": ("{step}", "{step} |> {steps}"),
    "step": (
        "WHERE {condition}",
        "SELECT {shown}",
        "EXTEND {expression} AS e",
        "SET a = {expression}",
        "DROP a",
        "AS {cte_name}",
        "LIMIT 1",
        "ORDER BY a",
        "JOIN {relation} USING (a)",
        "{set_operation} {query}",
        "AGGREGATE count(*) GROUP BY a",
        "TABLESAMPLE (10 PERCENT)",
    ),
    # --- relations
    "relations": ("{relation}", "{relation}", "{relation}", "{relation}, {relations}"),
    "relation": (
        *["{name}{behind?}"] * 8,
        *["{relation} {join}"] * 4,
        "({query}) {alias}",
        "({query})",
        "({relation})",
        "LATERAL ({query}) l",
        "range(10)",
        "VALUES (1), ({expression}) AS v(a)",
        "f(TABLE({name}))",
        "f(TABLE ({query}) PARTITION BY a)",
        "explode(array({expression})) x",
        "mv.fn({expression})",
        "STREAM {name}",
    ),
    "behind": (
        *[" x", " AS x", " AS x(a, b)", " TABLESAMPLE (1 ROWS)", " VERSION AS OF 1", " TIMESTAMP AS OF '2020-01-01' x"],
        *[" LATERAL VIEW explode(a) e AS c", " PIVOT (sum(a) FOR b IN (1, 2))", " WITH (a = 1)", " where (a)"],
    ),
    "join": (
        *["{join_kind}JOIN {relation} ON {condition}", "{join_kind}JOIN {relation} USING (a)"] * 2,
        "NATURAL JOIN {relation}",
        "CROSS JOIN {relation}",
        "{join_kind}JOIN {relation}",
    ),
    "join_kind": ("", "INNER ", "LEFT ", "LEFT OUTER ", "RIGHT ", "FULL ", "LEFT SEMI ", "ANTI "),
    # --- expressions
    "condition": (
        *["{column} {compared} {expression}"] * 4,
        "EXISTS ({query})",
        "a IN ({query})",
        "a NOT IN ({query})",
        "{condition} AND {condition}",
        "{condition} OR {condition}",
        "NOT ({condition})",
        "a BETWEEN {expression} AND 2",
        "1 = 0",
        "false",
        "(false)",
        "(a, b) IN ({query})",
    ),
    "compared": ("=", "<", "<=>", "<>", "LIKE", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"),
    "expression": (
        *["{column}"] * 6,
        *["{literal}"] * 4,
        *["({query})"] * 2,
        "f({expression})",
        "s.fn({expression})",
        "`f`({expression}, a)",
        "count(DISTINCT {expression}) FILTER (WHERE {condition})",
        "CASE WHEN {condition} THEN {expression} ELSE 1 END",
        "CAST({expression} AS {type})",
        "extract(YEAR FROM {expression})",
        "trim(BOTH FROM {expression})",
        "substring({expression} FROM 1 FOR 2)",
        "transform(a, x -> {expression})",
        "sum({expression}) OVER (PARTITION BY a ORDER BY b)",
        "a[{expression}]",
        "{expression} {operator} {expression}",
        "*",
        "t.*",
        "a::int",
        "a:b.c",
        "IDENTIFIER('a')",
        "current_date",
        "if({condition}, 1, 2)",
        "array({query})",
        "struct({expression} AS from)",
        "({expression}, {expression})",
    ),
    "type": ("INT", "ARRAY<INT>", "DECIMAL(1, 1)", "DATE", "STRUCT<a: INT, b: MAP<INT, STRING>>"),
    "operator": ("+", "-", "||", "/", "DIV", "%", "AND", "->"),
    # --- statements
    "statement": (*["{query}"] * 4, *["{change}"] * 6, "{immediate}", "{script}"),
    "change": (
        *["INSERT INTO {name} {query}", "INSERT INTO TABLE {name} (a) {query}", "INSERT OVERWRITE {name} {query}"],
        "INSERT OVERWRITE TABLE {name} PARTITION (p = 1) {query}",
        "INSERT INTO {name} REPLACE WHERE {condition} {query}",
        "INSERT INTO {name} BY NAME {query}",
        "INSERT INTO {name} VALUES ({expression})",
        "INSERT OVERWRITE DIRECTORY '/x' USING parquet {query}",
        "INSERT OVERWRITE LOCAL DIRECTORY '/x' STORED AS orc {query}",
        "FROM {relation} INSERT INTO {name} SELECT a INSERT INTO {name} SELECT b",
        "WITH {ctes} INSERT INTO {name} {query}",
        "UPDATE {name} SET a = {expression} WHERE {condition}",
        "DELETE FROM {name} WHERE {condition}",
        "DELETE FROM {name}",
        "MERGE INTO {name} USING {name} x ON a = b WHEN MATCHED THEN DELETE",
        "MERGE INTO {name} x USING ({query}) y ON {condition} WHEN NOT MATCHED THEN INSERT *",
        "CREATE {session}VIEW {name} AS {query}",
        "CREATE OR REPLACE {session}VIEW {name} (a) AS {query}",
        "CREATE VIEW IF NOT EXISTS {name} COMMENT 'x' TBLPROPERTIES ('a' = 'b') AS {query}",
        "CREATE TABLE {name} USING parquet AS {query}",
        "CREATE OR REPLACE TABLE {name} AS {query}",
        "CREATE TABLE IF NOT EXISTS {name} (a INT, `b c` STRING) USING parquet",
        "CREATE TABLE {name} LIKE {name}",
        "REPLACE TABLE {name} USING parquet AS {query}",
        "CREATE FUNCTION fn() RETURNS INT RETURN ({query})",
        "CREATE OR REPLACE TEMPORARY FUNCTION fn(x INT) RETURNS TABLE (a INT) RETURN {query}",
        "CREATE TEMPORARY VIEW {name} USING parquet OPTIONS (path '/x')",
        "ALTER VIEW {name} AS {query}",
        "ALTER VIEW {name} RENAME TO {name}",
        "ALTER VIEW {name} SET TBLPROPERTIES ('a' = 'b')",
        "ALTER TABLE {name} RENAME TO {name}",
        "ALTER TABLE {name} ADD IF NOT EXISTS PARTITION (p = 1)",
        "ALTER TABLE {name} DROP PARTITION (p = 1)",
        "ALTER TABLE {name} ADD COLUMNS (c INT)",
        "ALTER TABLE {name} DROP COLUMN c",
        "ALTER TABLE {name} SET LOCATION '/x'",
        "DROP TABLE {if_exists?}{name}",
        "DROP TABLE {name} PURGE",
        *["DROP VIEW {if_exists?}{name}"] * 2,
        "DROP {database} {if_exists?}{name} CASCADE",
        "DROP TEMPORARY FUNCTION {if_exists?}fn",
        "TRUNCATE TABLE {name}",
        "MSCK REPAIR TABLE {name}",
        "REPAIR TABLE {name}",
        "LOAD DATA INPATH '/x' OVERWRITE INTO TABLE {name}",
        "CACHE TABLE {cte_name} AS {query}",
        "CACHE LAZY TABLE {cte_name} OPTIONS ('storageLevel' 'DISK_ONLY') {query}",
        "CACHE TABLE {name}",
        "UNCACHE TABLE {name}",
        "REFRESH TABLE {name}",
        "ANALYZE TABLE {name} COMPUTE STATISTICS",
        "USE {name}",
        "USE SCHEMA {name}",
        "SET CATALOG spark_catalog",
        "RESET",
        "SET spark.sql.defaultCatalog = lake",
        "SET VAR x = ({query})",
        "DECLARE VARIABLE x INT DEFAULT ({query})",
        "EXPLAIN {statement}",
        "DESCRIBE QUERY {query}",
        "CALL s.p(a => 's.t')",
        "COMMENT ON TABLE {name} IS 'x'",
    ),
    "session": ("", "", "TEMPORARY ", "TEMP ", "GLOBAL TEMPORARY ", "GLOBAL TEMP "),
    "if_exists": ("IF EXISTS ",),
    "database": ("DATABASE", "SCHEMA", "NAMESPACE"),
    "immediate": ("EXECUTE IMMEDIATE {text}", "EXECUTE IMMEDIATE {text}", "EXECUTE IMMEDIATE {text} USING 1"),
    "script": ("BEGIN {parts} END",),
    "parts": ("{part};", "{part}; {parts}"),
    "part": (
        *["{statement}", "{change}", "{immediate}"] * 2,
        "IF {condition} THEN {statement}; END IF",
        "IF {condition} THEN {part}; ELSE {part}; END IF",
        "WHILE {condition} DO {part}; END WHILE",
        "FOR r AS {query} DO {part}; END FOR",
        "lbl: LOOP {part}; LEAVE lbl; END LOOP",
        "REPEAT {part}; UNTIL {condition} END REPEAT",
        "CASE WHEN {condition} THEN {part}; END CASE",
        "BEGIN {part}; END",
        "SET x = ({query})",
    ),
}
_SHALLOW = {
    **{"query": ("SELECT {column} FROM {name}", "TABLE {name}"), "relation": ("{name}",), "relations": ("{name}",)},
    **{"condition": ("{column} = 1",), "expression": _COLUMNS, "shown": _COLUMNS, "ctes": ("q AS (TABLE {name})",)},
    **{
        "steps": ("LIMIT 1",),
        "statement": ("{query}",),
        "part": ("DROP VIEW {name}", "{query}"),
        "parts": ("{part};",),
    },
    **{
        "name": NAMES,
        "change": ("INSERT INTO {name} TABLE {name}", "DROP VIEW {name}"),
        "select": ("SELECT {column}",),
    },
}
"""The alternatives of a rule at the maximum depth."""


class Grammar:
    """Generates texts from one source of random numbers."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def make(self, rule: str, depth: int = _DEPTH) -> str:
        """A text for a rule, nested to at most this depth."""
        if rule == "text":
            return self.literal(self.make("statement", depth - 1))
        ways = _SHALLOW.get(rule) if depth <= 0 else None
        return self.fill(self.random.choice(ways or _RULES[rule]), depth)

    def fill(self, template: str, depth: int = 2) -> str:
        """The template with every `{rule}` replaced by a text; a `{rule?}` is mostly left empty."""

        def part(found: re.Match[str]) -> str:
            return "" if found[2] and self.random.random() < 0.6 else self.make(found[1], depth - 1)

        return _PLACE.sub(part, template)

    # --- texts within texts ------------------------------------------------------------------------

    def literal(self, text: str) -> str:
        """A string literal with the value `text`, in one of the forms that a program may write."""
        quote = self.random.choice(("'", "'", '"'))
        how = self.random.random()
        if how < 0.1 and quote not in text:
            return f"r{quote}{text}{quote}"
        busy = self.random.choice(("", "", "blanks", "everything"))
        pieces = [self._escaped(character, quote, busy) for character in text]
        if how > 0.9 and len(pieces) > 2:
            pieces.insert(self.random.randrange(1, len(pieces)), f"{quote} {quote}")
        return quote + "".join(pieces) + quote

    def _escaped(self, character: str, quote: str, busy: str) -> str:
        if character == "\\":
            return "\\\\"
        if character == quote:
            return self.random.choice(("\\" + quote, quote * 2))
        chance = self.random.random()
        if character == " " and busy and chance < 0.4:
            return self.random.choice(("\\n", "\\t", "\\r", "\\n\\t", "\n"))
        if busy == "everything" and chance < 0.1:
            return self.random.choice(_numbered(ord(character)) + _plain(character))
        return character


def _numbered(code: int) -> list[str]:
    short = [f"\\u{code:04x}"] if code < 0x10000 else []
    return [*short, f"\\U{code:08X}", *([f"\\{code:03o}"] if code < 0o200 else [])]


def _plain(character: str) -> list[str]:
    """An escape that has no effect: a backslash before an ordinary character."""
    return ["\\" + character] if character.isascii() and character not in "0bnrtZuU123%_" else []
