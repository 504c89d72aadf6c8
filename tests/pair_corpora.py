"""Views, queries that they are expected to answer or not, and what becomes of them: the files in tests/corpora, each in
the manner of another project's tests of rewriting.

A file has tables, then groups: views and the queries that are tried with them. `record_pairs` records Spark's plans, so
that the tests need no Spark.
"""

from __future__ import annotations

import random
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from gateway.mv.ports import Plans, PlanUnavailable
from gateway.mv.rewriting.proving import difference
from sql.names import Namespace, TableName
from sql.rewriting.candidate import RewritableView
from sql.rewriting.matching import Proposal, propose
from sql.rewriting.shape import shape_of
from sql.table_keys import TableKeys, keys_in

CORPORA = tuple(sorted(each.stem for each in Path(__file__).with_name("corpora").glob("*.sql")))
_STATEMENT = re.compile(r"/\*(table|view|used|together|above|not)\*/ (.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Question:
    """A query that is tried with views."""

    topic: str
    text: str
    expected: bool
    """Whether the other project's authors expect a view to be used."""
    kind: str = "used"
    """How, if that is said: several views together, or a view of a view (above)."""


@dataclass(slots=True)
class Group:
    views: dict[str, str] = field(default_factory=dict)
    """The definitions by the views' names."""
    questions: list[Question] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Corpus:
    name: str
    tables: dict[str, str]
    """The statements that create them."""
    groups: tuple[Group, ...]

    @property
    def namespace(self) -> Namespace:
        return Namespace(self.database)

    @property
    def database(self) -> str:
        return f"pairs_of_{self.name}"

    @property
    def views(self) -> dict[str, str]:
        return {name: query for group in self.groups for name, query in group.views.items()}


@cache
def corpus(name: str) -> Corpus:
    text = Path(__file__).with_name("corpora").joinpath(f"{name}.sql").read_text(encoding="utf-8")
    tables: dict[str, str] = {}
    groups: list[Group] = []
    topic, number = "", 0
    for line in re.split(r"\n(?=/\*|--)", text):
        if line.startswith("--"):
            topic = line.removeprefix("--").strip()
            continue
        found = _STATEMENT.match(line)
        assert found is not None, line
        kind, statement = found[1], " ".join(found[2].split()).removesuffix(";")
        if kind == "table":
            tables[statement.split()[2]] = statement
        elif kind == "view":
            if not groups or groups[-1].questions:
                groups.append(Group())
            number += 1
            groups[-1].views[f"view_{number}"] = statement
        else:
            groups[-1].questions.append(Question(topic, statement, kind != "not", kind))
    return Corpus(name, tables, tuple(groups))


Columns = Mapping[str, Sequence[tuple[str, str]]]
"""By the names of tables and views, their columns: name and type."""


def rewritable(corpus: Corpus, name: str, columns: Columns) -> RewritableView:
    names, types = zip(*columns[name], strict=True)
    query = corpus.views[name]
    bases = {table: its for table, its in _bases(corpus, columns).items() if re.search(rf"\b{table.table}\b", query)}
    return RewritableView(
        TableName(corpus.database, name), names, types, query, corpus.namespace, bases, keys_of(corpus)
    )


@cache
def _declared(name: str) -> dict[TableName, TableKeys]:
    its = corpus(name)
    texts = {table: found[1] for table, statement in its.tables.items() if (found := _KEYS.search(statement))}
    return {TableName(its.database, table): keys_in(text, its.namespace) for table, text in texts.items()}


def keys_of(corpus: Corpus) -> dict[TableName, TableKeys]:
    """The keys that the tables declare."""
    return _declared(corpus.name)


def _bases(corpus: Corpus, columns: Columns) -> dict[TableName, tuple[str, ...]]:
    return {TableName(corpus.database, each): tuple(name for name, _ in its) for each, its in columns.items()}


@dataclass(frozen=True, slots=True)
class Outcome:
    question: Question
    reason: str
    """Why no view answers; empty if one is proved to."""
    proposals: tuple[Proposal, ...]
    """Those that are proved."""


async def outcomes(corpus: Corpus, columns: Columns, plans: Plans) -> list[Outcome]:
    """What is proposed and proved."""
    bases = _bases(corpus, columns)
    found: list[Outcome] = []
    for group in corpus.groups:
        views = [rewritable(corpus, name, columns) for name in group.views]
        for question in group.questions:
            reasons: list[str] = []
            proved: list[Proposal] = []
            for made in propose(question.text, corpus.namespace, views, bases.get):
                if isinstance(made, Proposal):
                    reason = await _refuted(plans, question, made, keys_of(corpus))
                else:
                    reason = made.reason
                if reason:
                    reasons.append(reason)
                else:
                    assert isinstance(made, Proposal)
                    proved.append(made)
            if question.kind == "together":
                proved = [each for each in proved if len(each.views) > 1]
            elif question.kind == "above":
                proved = [each for each in proved if each.through is not None]
            missed = "; ".join(reasons) or f"no view is proposed so: {question.kind}"
            found.append(Outcome(question, "" if proved else missed, tuple(proved)))
    return found


async def _refuted(plans: Plans, question: Question, proposal: Proposal, keys: Mapping[TableName, TableKeys]) -> str:
    shape = shape_of(question.text)
    definitions = {view: view.table for view in (*proposal.views, *proposal.below)}
    try:
        reason = await difference(plans, b"", shape, proposal, definitions, keys)
    except PlanUnavailable as error:
        return f"no plan: {error}"
    return "" if reason is None else f"not proved: {reason}"


def share(found: Sequence[Outcome]) -> tuple[int, int, int]:
    """How many are proved of those that are expected, how many these are, and how many others are proved."""
    expected = [each for each in found if each.question.expected]
    others = [each for each in found if not each.question.expected and not each.reason]
    return sum(not each.reason for each in expected), len(expected), len(others)


def told(corpus: Corpus, found: Sequence[Outcome]) -> Iterator[str]:
    """The share, and why each of the others is missed."""
    proved, expected, others = share(found)
    yield f"{corpus.name}: {proved} of {expected} proved ({100 * proved / expected:.0f} %), {others} not expected"
    for each in found:
        if each.question.expected and each.reason:
            yield f"  [{each.question.topic}] {each.question.text}\n      {each.reason}"
        elif not each.question.expected and not each.reason:
            yield f"  PROVED, not expected: [{each.question.topic}] {each.question.text}"


# --- rows ----------------------------------------------------------------------------------------------

_CREATE = re.compile(r"CREATE TABLE \w+ \((.*?)\) USING")
_KEYS = re.compile(r"'freshgate.keys' = '([^']*)'")
_KEY = re.compile(r"(PRIMARY KEY|NOT NULL|FOREIGN KEY) \(([^)]*)\)(?: REFERENCES (\w+) \(([^)]*)\))?")
_VALUES = {
    "STRING": ("'a'", "'ab'", "'x'", "'sales'", "'ASIA'", "'AMERICA'", "'o'", "'MFGR#12'", "'UNITED KI1'"),
    "DATE": ("DATE '2023-10-03'", "DATE '2023-12-08'", "DATE '2024-01-01'", "DATE '2023-02-28'", "DATE '1994-05-01'"),
    "TIMESTAMP": (
        "TIMESTAMP '2024-01-31 23:59:59'",
        "TIMESTAMP '2024-02-01 00:00:00'",
        "TIMESTAMP '2023-06-01 12:30:00'",
    ),
}
_NUMBERS = (0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 15, 20, 99, 101, 205, 301, 450, 600, 1993, 1994, 2500)
ROWS = 60


def random_rows(corpus: Corpus, chance: random.Random) -> dict[str, list[list[str]]]:
    """Rows of the tables as SQL, for which the declared keys hold."""
    made: dict[str, list[list[str]]] = {}
    waiting = list(corpus.tables)
    while waiting:
        table = next(each for each in waiting if all(other in made for other, *_ in _foreign(corpus, each)))
        waiting.remove(table)
        made[table] = list(_rows(corpus, table, made, chance))
    return made


def columns_of(corpus: Corpus, table: str) -> list[tuple[str, str]]:
    found = _CREATE.match(corpus.tables[table])
    assert found is not None
    parts = re.split(r", (?![0-9])", found[1].replace(",", ", ").replace("  ", " "))
    return [(name, kind.replace(" ", "")) for name, kind in (each.split(" ", 1) for each in parts)]


def _keys(corpus: Corpus, table: str) -> list[tuple[str, list[str], str, list[str]]]:
    found = _KEYS.search(corpus.tables[table])
    return (
        [(kind, names.split(", "), other, others.split(", ")) for kind, names, other, others in _KEY.findall(found[1])]
        if found
        else []
    )


def _foreign(corpus: Corpus, table: str) -> list[tuple[str, list[str], list[str]]]:
    return [(other, names, others) for kind, names, other, others in _keys(corpus, table) if kind == "FOREIGN KEY"]


def _rows(
    corpus: Corpus, table: str, made: Mapping[str, list[list[str]]], chance: random.Random
) -> Iterator[list[str]]:
    columns = columns_of(corpus, table)
    places = {name: place for place, (name, _) in enumerate(columns)}
    keys = _keys(corpus, table)
    needed = {name for kind, names, _, _ in keys if kind != "FOREIGN KEY" for name in names}
    unique = [[places[name] for name in names] for kind, names, _, _ in keys if kind == "PRIMARY KEY"]
    seen = set[tuple[str, ...]]()
    for _ in range(ROWS):
        row = [_value(kind, chance, nullable=name not in needed) for name, kind in columns]
        for other, names, others in _foreign(corpus, table):
            known = [each for each, _ in columns_of(corpus, other)]
            parent = chance.choice(made[other])
            nothing = chance.random() < 0.15
            for name, its in zip(names, others, strict=True):
                row[places[name]] = "NULL" if nothing and name not in needed else parent[known.index(its)]
        key = [tuple(row[place] for place in each) for each in unique]
        if seen.isdisjoint(key):
            seen.update(key)
            yield row


def _value(kind: str, chance: random.Random, *, nullable: bool) -> str:
    if nullable and chance.random() < 0.15:
        return "NULL"
    return chance.choice(_VALUES[kind]) if kind in _VALUES else str(chance.choice(_NUMBERS))


Execute = Callable[[str], Awaitable[Any]]


async def create(corpus: Corpus, execute: Execute) -> None:
    """Creates the tables, and each view's definition, in a database of their own."""
    for statement in (
        f"CREATE DATABASE {corpus.database}",
        f"USE {corpus.database}",
        "SET TIME ZONE 'UTC'",
        *corpus.tables.values(),
        *(f"CREATE VIEW {name} AS {query}" for name, query in corpus.views.items()),
    ):
        await execute(statement)


async def described(corpus: Corpus, execute: Execute) -> Columns:
    """The columns of the tables and views, which exist."""
    return {
        name: [(row[0], row[1]) for row in (await execute(f"DESCRIBE TABLE {name}")).rows]
        for name in (*corpus.tables, *corpus.views)
    }
