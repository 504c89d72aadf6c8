"""Long statements of many kinds, by what is long in them. None of them may delay other clients."""

from __future__ import annotations

from sql.classify import NAMES_MAX

QUOTE = "'"
ROW = "(1,'abcdefghij',2.5),"
NAMES = NAMES_MAX - 100
"""Nearly the maximum number of names that are kept for one statement."""


def numbered(form: str, size: int) -> str:
    return ",".join(form.format(number) for number in range(size // len(form)))


def texts(size: int) -> dict[str, str]:
    """Statements of about `size` characters. `s.mv` is a materialized view of `s.t`."""
    return {**writes(size), **queries(size), **nests(size), **scripts(size), **commands(size), **odd(size)}


def writes(size: int) -> dict[str, str]:
    insert = "INSERT INTO s.t VALUES " + ROW * (size // len(ROW))
    return {
        "an INSERT": insert[:-1],
        "with the word jobs": insert + "(1,'jobs',2.5)",
        "with a call's name": insert + "(1,'jobs(',2.5)",
        "with words of queries": insert + "(1,'select from mv',2.5)",
        "with a comment": insert[:-1] + " -- tasks",
        "with accents": "INSERT INTO s.t VALUES " + ("(1,'abcd\u00e9fghij',2.5)," * (size // 22))[:-1],
        "with signs of four bytes": "INSERT INTO s.t VALUES " + ("(1,'abc\U0001f600ghij',2.5)," * (size // 24))[:-1],
        "a MERGE": f"MERGE INTO s.t USING (VALUES {insert[23:-1]}) x ON t.a = x.col1 WHEN MATCHED THEN DELETE",
        "variables": "INSERT INTO s.t SELECT '" + "${a}" * (size // 4) + "'",
        "open variables": "INSERT INTO s.t SELECT '" + "${" * (size // 2) + "'",
        "options": "INSERT INTO s.t OPTIONS (a = 'b', " + "options(" * (size // 8),
    }


def queries(size: int) -> dict[str, str]:
    return {
        "an IN list": f"SELECT * FROM s.mv WHERE a IN ({numbered('{:06}', size)})",
        "of strings": f"SELECT * FROM s.mv WHERE a IN ({numbered(QUOTE + '{:06}' + QUOTE, size)})",
        "a chain of WITH": f"WITH {numbered('c{0} AS (SELECT * FROM s.t{0})', size)} SELECT * FROM s.mv",
        "comments": "/**/" * (size // 4) + "SELECT * FROM s.mv",
        "an open comment": "SELECT 1 FROM s.mv " + "/*" * (size // 2),
        "line ends": "SELECT * " + "\n" * size + " FROM s.mv",
        "a string": f"SELECT '{'a' * size}' FROM s.mv",
        "a string of two bytes a sign": f"SELECT '{chr(0x436) * (size // 2)}' FROM s.mv",
        "a string of four bytes a sign": f"SELECT '{chr(0x1F600) * (size // 4)}' FROM s.mv",
        "escapes": "SELECT '" + "\\n" * (size // 2) + "' FROM s.mv",
        "brackets": "SELECT " + "(" * (size // 2) + "1" + ")" * (size // 2) + " FROM s.mv",
        "back quotes": f"SELECT {numbered('`a{}`', size)} FROM s.mv",
        "an unclosed quote": "SELECT 1 FROM s.mv WHERE a = '" + 'x " ` ' * (size // 6),
        "an unclosed back quote": "SELECT 1 FROM s.mv WHERE a = `" + "x " * (size // 2),
        "quotes and backslashes": "SELECT 1 FROM s.mv WHERE a = " + "'\\" * (size // 2),
        "a union": "SELECT 1 FROM s.mv" + " UNION ALL SELECT a FROM s.t" * (size // 28),
        "a view again and again": "SELECT 1 FROM s.mv" + ", s.mv" * (size // 6),
        "a view as often as can be": f"SELECT 1 FROM s.mv{', s.mv' * NAMES} WHERE a = '{'a' * size}'",
        "as many tables as can be": f"SELECT '{'a' * size}' FROM s.mv, {numbered('s.t{}', NAMES * 5)}",
        "many calls": f"SELECT {numbered('f{}()', size)} FROM s.mv",
        "a version": f"SELECT * FROM s.other VERSION AS OF 1 WHERE a IN ({numbered('{:06}', size)})",
        "a version of a view": f"SELECT '{'a' * size}' FROM s.mv VERSION AS OF 1",
        "a long moment": f"SELECT * FROM s.mv TIMESTAMP AS OF '{'a' * (size // 16)}'",
        "a table function": f"SELECT '{'x' * size}' FROM s.t, jobs",
        "a call of one": f"SELECT '{'x' * size}' FROM jobs('type'='mv')",
        "the catalog": "SELECT count(*) FROM freshgate.materialized_views WHERE 1 IN ("
        + "count(*)," * (size // 9)
        + "1)",
        "the catalog with stars": "SELECT " + "*," * (size // 2) + "1 FROM freshgate.materialized_views",
        "a name": "SELECT * FROM " + "a" * size,
        "dots in back quotes": "SELECT * FROM s.mv, `" + "a." * (size // 2) + "`",
        "dots in double quotes": 'SELECT * FROM s.mv, s."' + "a." * (size // 2) + '"',
        "a name at run time": f"SELECT * FROM IDENTIFIER('s.' || 'mv') WHERE x = '{'a' * size}'",
    }


def nests(size: int) -> dict[str, str]:
    """What a parser may have to try in many ways."""

    def nest(opening: str, closing: str, around: str = "SELECT a FROM s.mv y JOIN {}") -> str:
        times = size // len(opening + closing)
        return around.format(opening * times + "y" + closing * times)

    written = "INSERT INTO s.t SELECT a FROM s.mv "
    return {
        "joins in calls": nest("TRIM(y JOIN ", ")"),
        "outer joins in calls": nest("LISTAGG(y LEFT JOIN ", ")"),
        "joins in calls, written": nest("OPENJSON(y JOIN ", ")", written + "y JOIN {}"),
        "joins in calls, in a condition": nest(
            "CEIL(y JOIN ", ")", "SELECT * FROM s.t WHERE a IN (SELECT a FROM s.mv JOIN {})"
        ),
        "joins alone": written + "JOIN s.t " * (size // 9),
        "types": nest("ARRAY<", ">", "INSERT INTO s.t SELECT CAST(a AS {}) FROM s.mv"),
        "types like calls": nest("DECIMAL(", ")", "INSERT INTO s.t SELECT {} FROM s.mv"),
        "queries in queries": nest("(SELECT * FROM ", ")", "INSERT INTO s.t SELECT * FROM s.mv, {}"),
        "WHERE with brackets": written + "WHERE(a " * (size // 8),
        "VALUES in brackets": written + "WHERE a IN " + "(VALUES (1), " * (size // 13),
        "TABLE behind brackets": "INSERT INTO s.t (SELECT 1 FROM s.mv) " + "(SELECT 1) TABLE t " * (size // 19),
        "differences": written + "EXCEPT SELECT a FROM s.t " * (size // 25),
        "CASE": nest("CASE WHEN a = ", " THEN 1 END ", "INSERT INTO s.t SELECT {} FROM s.mv"),
        "functions of functions": written + "WHERE a = " + "x -> " * (size // 5) + "1",
    }


def scripts(size: int) -> dict[str, str]:
    return {
        "a script": "BEGIN " + "INSERT INTO s.t VALUES (1);" * (size // 27) + " END",
        "a script with a view": "BEGIN " + "INSERT INTO s.t SELECT 1 FROM s.mv;" * (size // 35) + " END",
        "a script elsewhere": "BEGIN USE s; INSERT INTO t SELECT * FROM mv; " + " " * size + " END",
        "an empty script": "BEGIN" + " " * size,
        "EXECUTE IMMEDIATE": "EXECUTE IMMEDIATE '" + "INSERT INTO s.t VALUES (1,2,3) " * (size // 31) + "'",
        "with a variable": "EXECUTE IMMEDIATE x || '" + "INSERT INTO s.t VALUES (1,2,3) " * (size // 31) + "'",
        "DROP of many views": "BEGIN " + numbered("DROP VIEW v{};", size).replace(";,", ";") + " END",
        "DROP of many databases": "BEGIN " + numbered("DROP DATABASE d{};", size).replace(";,", ";") + " END",
        "many temporary views": "BEGIN "
        + numbered("CREATE TEMP VIEW v{} AS SELECT 1;", size).replace(";,", ";")
        + " END",
        "many paths": "BEGIN VALUES " + numbered("'a/{}/../b*/c'", size) + "; END",
        "a long path": "BEGIN LOAD DATA INPATH '" + "*a/../" * (size // 6) + "' INTO TABLE s.t; END",
        "DROP again and again": "EXECUTE IMMEDIATE '" + "DROP " * (size // 5) + "'",
    }


def commands(size: int) -> dict[str, str]:
    return {
        "a temporary view": f"CREATE TEMPORARY VIEW v AS SELECT {numbered('{0} AS c{0}', size)} FROM s.mv",
        "a materialized view": f"CREATE MATERIALIZED VIEW s.mv2 AS SELECT '{'a' * size}' FROM s.t",
        "SET": "SET x=" + "a" * size,
        "SET of ours": "/**/" * (size // 4) + "SET freshgate.snapshot=statement",
        "SET with blanks": "SET freshgate.snapshot=" + " " * size + "statement",
        "USE": "USE " + "a" * size,
        "SHOW DATABASES": "/**/" * (size // 4) + "SHOW DATABASES",
        "SHOW DATABASES LIKE": f"SHOW DATABASES LIKE '{'a' * size}'",
        "SHOW TABLES": f"SHOW TABLES IN `{'a' * size}`",
        "SHOW TABLES of quotes": f"SHOW TABLES IN `{'``' * (size // 2)}`",
        "a pattern": f"SHOW MATERIALIZED VIEWS LIKE '{'*a|' * (size // 3)}'",
        "a faulty statement of ours": f"DROP MATERIALIZED VIEW {'a.' * (size // 2)}",
        "a view's command": f"SHOW CREATE TABLE s.t {'/**/' * (size // 4)}",
        "DESCRIBE": "DESCRIBE s.mv " + " " * size,
        "EXPLAIN": f"EXPLAIN SELECT '{'a' * size}' FROM s.mv",
        "DROP VIEW": "DROP VIEW IF EXISTS s.mv " + "/**/" * (size // 4),
    }


def odd(size: int) -> dict[str, str]:
    return {"semicolons": ";" * size, "blanks": " " * size, "signs": "$%&" * (size // 3), "words": "a " * (size // 2)}
