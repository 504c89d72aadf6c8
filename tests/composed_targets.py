"""Statements whose target is put together when they run, in all ways that Spark has, for tests that nothing reaches the
storage database so, and that everything else runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

COMMANDS = [
    "INSERT INTO {0} VALUES (9)",
    "INSERT INTO TABLE {0} SELECT 9",
    "INSERT OVERWRITE {0} VALUES (9)",
    "INSERT OVERWRITE TABLE {0} SELECT 9 AS n",
    "WITH c AS (SELECT 9 AS n) INSERT INTO {0} SELECT * FROM c",
    "TRUNCATE TABLE {0}",
    "DROP TABLE {0}",
    "DROP TABLE IF EXISTS {0}",
    "DELETE FROM {0}",
    "DELETE FROM {0} WHERE 1 = 1",
    "UPDATE {0} SET n = 9",
    "MERGE INTO {0} USING (SELECT 9 AS n) AS u ON true WHEN MATCHED THEN DELETE",
    "ALTER TABLE {0} ADD COLUMNS (odd INT)",
    "ALTER TABLE {0} SET TBLPROPERTIES ('odd' = 'true')",
    "CREATE OR REPLACE TABLE {0} (n BIGINT) USING parquet",
    "COMMENT ON TABLE {0} IS 'odd'",
    "ANALYZE TABLE {0} COMPUTE STATISTICS",
    "MSCK REPAIR TABLE {0}",
    "REPAIR TABLE {0}",
]
UNREAD_COMMANDS = ["FROM (SELECT 9 AS n) INSERT INTO {0} SELECT n INSERT INTO {0} SELECT n"]
"""Commands that the gateway does not understand in a script."""


@dataclass
class Attempt:
    """A statement with what its session has done before."""

    text: str
    namespace: str = ""
    """The current database, if the session has chosen one."""
    settings: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    told: bool = True
    """Whether its target can be told without running it."""

    @property
    def prelude(self) -> list[str]:
        """What the session executes before, at a real Spark."""
        chosen = [f"USE {self.namespace}"] if self.namespace else []
        declared = [
            f"DECLARE OR REPLACE VARIABLE {name} STRING DEFAULT {literal(text)}"
            for name, text in self.variables.items()
        ]
        return [*declared, *(f"SET {name}={text}" for name, text in self.settings.items()), *chosen]


def literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


class Attempts:
    """Draws attempts to change `database`.`table`."""

    def __init__(self, seed: int, database: str, table: str, commands: list[str] = COMMANDS) -> None:
        self._random = Random(seed)
        self._database, self._table, self._commands = database, table, commands
        self._ways: list[Callable[[], Attempt]] = [
            *(self._by_clause, self._by_clause, self._by_substitution, self._by_words, self._by_use),
            *(self._by_immediate, self._by_parameter, self._by_nested, self._by_script, self._by_script_text),
            *(self._by_appending, self._by_loop, self._by_handler, self._by_explain),
        ]

    def __iter__(self) -> Iterator[Attempt]:
        while True:
            yield self._random.choice(self._ways)()

    # --- pieces --------------------------------------------------------------------------------------

    def _name(self) -> str:
        """The name in one of its spellings."""
        database, table = self._database, self._table
        if self._random.random() < 0.3:
            database, table = database.upper(), table.upper()
        spelt = [
            f"{database}.{table}",
            f"`{database}`.`{table}`",
            f"{database}.`{table}`",
            f"spark_catalog.{database}.{table}",
        ]
        return self._random.choice(spelt)

    def _command(self, target: str) -> str:
        command = self._random.choice(self._commands)
        if self._random.random() < 0.2:
            command = " ".join(word.lower() if word.isupper() else word for word in command.split(" "))
        # (A path might be in /* comments */ that are cut in pieces.)
        blank = self._random.choice([" ", " ", "\n", "\t", " -- odd '\n"])
        if command.count("'") == 0 and self._random.random() < 0.5:
            command = command.replace(" ", blank, 1)
        return command.replace("{0}", target)

    def _pieces(self, text: str) -> list[str]:
        """The text in pieces."""
        cuts = sorted(self._random.randrange(1, len(text)) for _ in range(self._random.randrange(1, 4)))
        return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True) if start < end]

    def _expression(self, text: str, variables: dict[str, str], *, local: bool = False) -> str:
        """An expression with this value; some of its operands are variables of the session."""
        operands = []
        for piece in self._pieces(text):
            if not local and self._random.random() < 0.3:
                name = f"v{len(variables)}"
                variables[name] = piece
                operands.append(self._random.choice([name, f"`{name}`", name.upper()]))
            else:
                operands.append(literal(piece))
        joined = self._random.choice([" || ", "||", " -- odd\n || "]).join(operands)
        return f"({joined})" if self._random.random() < 0.2 else joined

    def _clause(self, text: str, variables: dict[str, str], *, local: bool = False) -> str:
        word = self._random.choice(["IDENTIFIER", "identifier", "Identifier "])
        return f"{word}({self._expression(text, variables, local=local)})"

    # --- ways ----------------------------------------------------------------------------------------

    def _by_clause(self) -> Attempt:
        made = Attempt("")
        made.text = self._command(self._clause(self._name(), made.variables))
        return made

    def _by_substitution(self) -> Attempt:
        """The name, or parts of it, are values of settings, which may name others."""
        pieces = self._pieces(f"{self._database}.{self._table}")
        settings = {f"w{number}": piece for number, piece in enumerate(pieces)}
        target = "".join(
            self._random.choice(["${w%d}", "${hivevar:w%d}", "${hiveconf:w%d}"]) % n for n in range(len(pieces))
        )
        return Attempt(self._command(target), settings=settings)

    def _by_words(self) -> Attempt:
        command = self._command(f"{self._database}.{self._table}")
        while any(sign in command for sign in ";\n'-\t"):
            command = self._command(f"{self._database}.{self._table}")
        words = command.split(" ")
        number = self._random.randrange(1, len(words))
        head, tail = " ".join(words[:number]), " ".join(words[number:])
        return Attempt("${w0} ${w1}", settings={"w0": head, "w1": tail})

    def _by_use(self) -> Attempt:
        bare = self._random.choice([self._table, f"`{self._table}`", self._table.upper()])
        made = Attempt("", namespace=self._database)
        target = bare if self._random.random() < 0.5 else self._clause(bare, made.variables)
        made.text = self._command(target)
        return made

    def _by_immediate(self) -> Attempt:
        made = Attempt("")
        made.text = f"EXECUTE IMMEDIATE {self._expression(self._command(self._name()), made.variables)}"
        return made

    def _by_explain(self) -> Attempt:
        made = self._by_immediate()
        made.text = f"{self._random.choice(['EXPLAIN', 'explain EXTENDED'])} {made.text}"
        return made

    def _by_parameter(self) -> Attempt:
        made = Attempt("")
        value = self._expression(self._name(), made.variables)
        marker, given = self._random.choice([("?", value), (":t", f"{value} AS t"), ("'' || :t", f"{value} AS t")])
        inner = self._command(f"IDENTIFIER({marker})")
        if "{0}" in inner or inner.count("IDENTIFIER") != 1:
            return self._by_parameter()
        made.text = f"EXECUTE IMMEDIATE {literal(inner)} USING {given}"
        return made

    def _by_nested(self) -> Attempt:
        made = Attempt("")
        inner = f"EXECUTE IMMEDIATE {self._expression(self._command(self._name()), {}, local=True)}"
        made.text = f"EXECUTE IMMEDIATE {self._expression(inner, made.variables)}"
        return made

    def _by_script(self) -> Attempt:
        """Local variables with the parts of the name."""
        pieces = self._pieces(self._name())
        declared = " ".join(f"DECLARE p{n} STRING DEFAULT {literal(piece)};" for n, piece in enumerate(pieces))
        target = f"IDENTIFIER({' || '.join(f'p{n}' for n in range(len(pieces)))})"
        return Attempt(f"BEGIN {declared} {self._command(target)}; END")

    def _by_script_text(self) -> Attempt:
        pieces = self._pieces(self._command(self._name()))
        declared = " ".join(f"DECLARE p{n} STRING;" for n in range(len(pieces)))
        sets = " ".join(f"SET p{n} = {literal(piece)};" for n, piece in enumerate(pieces))
        whole = " || ".join(f"p{n}" for n in range(len(pieces)))
        return Attempt(f"BEGIN {declared} {sets} EXECUTE IMMEDIATE {whole}; END")

    def _by_appending(self) -> Attempt:
        pieces = self._pieces(self._command(self._name()))
        sets = " ".join(f"SET q = q || {literal(piece)};" for piece in pieces)
        return Attempt(f"BEGIN DECLARE q STRING DEFAULT ''; {sets} EXECUTE IMMEDIATE q; END", told=False)

    def _by_loop(self) -> Attempt:
        name = self._expression(self._name(), {}, local=True)
        if self._random.random() < 0.5:
            body = self._command(self._random.choice(["IDENTIFIER(r.x)", "IDENTIFIER(x)"]))
        else:
            command = self._command("\0").split("\0")
            body = f"EXECUTE IMMEDIATE {' || r.x || '.join(map(literal, command))}"
        return Attempt(f"BEGIN FOR r AS SELECT {name} AS x DO {body}; END FOR; END", told=False)

    def _by_handler(self) -> Attempt:
        name = self._expression(self._name(), {}, local=True)
        body = self._command("IDENTIFIER(t)")
        return Attempt(
            f"BEGIN DECLARE t STRING DEFAULT {name}; DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN {body}; END; "
            f"SELECT raise_error('odd'); END"
        )


READS = [
    "BEGIN DECLARE n BIGINT; EXECUTE IMMEDIATE 'SELECT count(*) FROM ' || {0} INTO n; SELECT n; END",
    "BEGIN FOR r AS SELECT {0} AS x DO EXECUTE IMMEDIATE 'SELECT count(*) FROM ' || r.x; END FOR; END",
    "BEGIN FOR r AS SELECT {0} AS x DO SELECT * FROM IDENTIFIER(r.x); END FOR; END",
    "EXECUTE IMMEDIATE 'SELECT * FROM ' || {0}",
    "EXECUTE IMMEDIATE 'SELECT * FROM IDENTIFIER(:t)' USING {0} AS t",
    "SELECT * FROM IDENTIFIER({0})",
    "WITH c AS (SELECT * FROM IDENTIFIER({0})) SELECT * FROM c",
    "DESCRIBE TABLE IDENTIFIER({0})",
    "EXPLAIN SELECT * FROM IDENTIFIER({0})",
    "CREATE OR REPLACE TEMPORARY VIEW odd AS SELECT * FROM IDENTIFIER({0})",
    "BEGIN DECLARE k INT DEFAULT 1; WHILE k < 3 DO SET k = k + 1; END WHILE; SELECT k; END",
    "BEGIN FOR r AS SELECT 5 AS k DO EXECUTE IMMEDIATE 'INSERT INTO {1} VALUES (' || r.k || ')'; END FOR; END",
    "BEGIN INSERT INTO {1} SELECT * FROM IDENTIFIER({0}); END",
    "INSERT INTO {1} SELECT * FROM IDENTIFIER({0})",
]
"""Statements that read a relation whose name is an expression ({0}), or that name what they change ({1})."""
