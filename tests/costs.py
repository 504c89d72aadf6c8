"""Searches for the texts that take a reader of texts longest.

A text is a pattern: it consists of a head, a unit that is repeated until the text has the wanted size, a middle, what
closes the unit as often, and an end. Exponential and quadratic time shows in such texts. The search changes the pattern
that costs most so far, and starts anew now and then (hill climbing).
"""

from __future__ import annotations

import gc
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from gateway.service.clients import own_settings
from sql import redaction, wildcards
from sql.definition.bases import bases
from sql.definition.determinism import nondeterministic
from sql.definition.following import CannotFollow, Source, follow
from sql.definition.repeatable import is_repeatable
from sql.grammar import intervals
from sql.grammar.cursor import SyntaxProblem
from sql.increments.analysis import analyse
from sql.increments.reasons import NotIncremental
from sql.lexed import Lexed
from sql.names import Namespace, TableName
from sql.proof.plan_text import views_in
from sql.reading.lineage import parsed_closely, relations
from sql.rewriting.advice import Described, suggested, tables_of, without_literals
from sql.rewriting.candidate import RewritableView, candidate
from sql.rewriting.matching import propose
from sql.rewriting.shape import shape_of
from sql.texts import create_text, indentation, literals
from sql.understood import packed

Reader = Callable[[str], object]
SECONDS_MAX = 3.0
"""A reader is stopped after so much processor time."""
LINES_MAX = 300_000
"""A reader is stopped after so many lines of code."""
_ROOT = Path(__file__).parents[1]
_OWN = (f"{_ROOT}/gateway/", f"{_ROOT}/sql/")
_REFUSED = (SyntaxProblem, NotIncremental, CannotFollow, ValueError, RecursionError)
"""What readers raise for a text that they do not accept."""


# --- readers -------------------------------------------------------------------------------------------------

_NAMESPACE = Namespace("s")
_TABLE = TableName("s", "t")
_COLUMNS = {_TABLE: ("a", "b", "c", "d")}
_TYPES = {"a": "int", "b": "string", "c": "decimal(8,2)", "d": "date"}


def _view(number: int, query: str, *types: str) -> RewritableView:
    columns = tuple(f"c{place}" for place in range(len(types)))
    return RewritableView(TableName("s", f"v{number}"), columns, types, query, _NAMESPACE, _COLUMNS)


_VIEWS = [
    _view(
        0, "SELECT a, b, sum(c), count(*) FROM t WHERE a > 1 GROUP BY a, b", "int", "string", "decimal(18,2)", "bigint"
    ),
    _view(1, "SELECT a, b, c FROM t", "int", "string", "decimal(8,2)"),
    _view(2, "SELECT x.a, y.b FROM t x JOIN t y ON x.a = y.a", "int", "string"),
    _view(3, "SELECT a FROM t UNION ALL SELECT a FROM t", "int"),
]


def _of_definition(text: str) -> None:
    _quietly(analyse, text, _NAMESPACE, _COLUMNS, ("a", "b"), named=True)


def _followed(text: str) -> None:
    _quietly(follow, text, _NAMESPACE, 0, None, {_TABLE: Source(("a", "b", "c", "d"), ("a",))})


def _shown(text: str) -> None:
    found = relations(Lexed(text))
    create_text.qualified(text, found.reads if found.exact else (), _NAMESPACE)


def _pattern(text: str) -> None:
    if wildcards.problem(text) is None:
        wildcards.matcher(text)("a" * 200)


_EXPLAINED = "== Parsed Logical Plan ==\n== Analyzed Logical Plan ==\na: int\n{0}\n" + (
    "== Optimized Logical Plan ==\n{0}\n== Physical Plan ==\n{0}"
)


def _quietly(function: Callable[..., object], *arguments: object, **named: object) -> None:
    with suppress(*_REFUSED):
        function(*arguments, **named)


READERS: Mapping[str, Reader] = {
    "understood": lambda text: _quietly(packed, text, True, {}),
    "sqlglot": lambda text: parsed_closely(Lexed(text)),
    "passwords": redaction.redact,
    "shape": lambda text: without_literals(shape_of(text)),
    "matcher": lambda text: propose(text, _NAMESPACE, _VIEWS, _COLUMNS.get),
    "candidate": lambda text: _quietly(candidate.__wrapped__, _view(9, text, "int")),
    "advice": lambda text: suggested([(text, _NAMESPACE)], {_TABLE: Described(_TYPES)}),
    "tables": lambda text: tables_of(text, _NAMESPACE),
    "increments": _of_definition,
    "partitions": _followed,
    "bases": lambda text: bases.__wrapped__(text, _NAMESPACE),
    "nondeterminism": lambda text: nondeterministic(text, f"== Analyzed Logical Plan ==\n{text}"),
    "repeatable": lambda text: is_repeatable(Lexed(text)),
    "indentation": indentation.indented,
    "qualified": _shown,
    "wildcards": _pattern,
    "interval": intervals.seconds_of,
    "settings": own_settings.assigned,
    "plan": lambda text: _quietly(views_in, _EXPLAINED.format(text)),
    "literal": literals.safe_literal,
}
"""By what they find. `understood`: everything that is asked of every statement."""


# --- patterns ------------------------------------------------------------------------------------------------

_WORDS = """
    SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT OFFSET JOIN LEFT RIGHT FULL CROSS NATURAL INNER OUTER SEMI ANTI
    LATERAL VIEW ON USING UNION ALL EXCEPT INTERSECT MINUS DISTINCT AS WITH RECURSIVE VALUES TABLE INSERT INTO
    OVERWRITE UPDATE SET DELETE MERGE WHEN MATCHED THEN ELSE END CASE CREATE REPLACE TEMPORARY MATERIALIZED DROP
    ALTER EXPLAIN DESCRIBE SHOW USE CALL EXECUTE IMMEDIATE IDENTIFIER BEGIN DECLARE IF WHILE DO FOR LOOP NOT AND OR
    IN EXISTS LIKE RLIKE BETWEEN IS NULL TRUE INTERVAL DATE TIMESTAMP DAY MONTH YEAR CAST TRY_CAST EXTRACT TRIM
    SUBSTRING LISTAGG CEIL FLOOR INITCAP OPENJSON STRUCT ARRAY MAP DECIMAL VARCHAR OVER PARTITION ROWS RANGE
    PRECEDING FOLLOWING WINDOW QUALIFY PIVOT UNPIVOT TABLESAMPLE VERSION OF SYSTEM_TIME OPTIONS TBLPROPERTIES
    LOCATION COMMENT REFRESH MATCH_RECOGNIZE FILTER WITHIN COLLATE AT TIME ZONE password jobs tasks mv_infos
    materialized_views count sum date_trunc concat position overlay timestampadd any some stream escape s.mv s.t t u
    a b c x y `a` "y" `s`.`t` 'x' 'it''s' "a""b" r'x' X'1F' 1 2.5 1e3 10L 0x1F :p ? ${a} ${ @a $1 * ( ) [ ] { } < >
    , . ; : :: = == <> <=> <= + - / % || | & ^ ~ ! -> => |> '' "" ` ' " \\ \\' -- /* */ /*+ \n file:/x delta.`/x`
    http://u:p@h x.y.z a1 \u00e9 \ue000 _ $ # *a|
"""
WORDS = [word.replace("\\n", "\n") for word in _WORDS.split()]


@dataclass(frozen=True, slots=True)
class Pattern:
    """The words of a text. The unit and what closes it are repeated."""

    head: tuple[str, ...]
    unit: tuple[str, ...]
    middle: tuple[str, ...]
    closing: tuple[str, ...]
    end: tuple[str, ...]
    gap: str = " "
    numbered: bool = False
    """Whether each unit's names are its own: `a` is followed by the unit's number."""

    def text(self, size: int) -> str:
        """A text of about this many characters."""
        head, unit, middle, closing, end = (self.gap.join(part) for part in self.parts)
        around = len(head) + len(middle) + len(end) + 4
        digits = 3 * (unit.count("a") + closing.count("a")) if self.numbered else 0
        times = max(1, (size - around) // max(1, len(unit) + len(closing) + 2 * len(self.gap) + digits))
        units, closings = [unit] * times, [closing] * times if closing else []
        if self.numbered:
            units = [_A.sub(f"a{number}", each) for number, each in enumerate(units)]
            closings = [_A.sub(f"a{number}", each) for number, each in reversed(list(enumerate(closings)))]
        return self.gap.join([head, *units, middle, *closings, end])

    @property
    def parts(self) -> tuple[tuple[str, ...], ...]:
        return self.head, self.unit, self.middle, self.closing, self.end


_A = re.compile(r"\ba\b")
PARTS = tuple(field.name for field in fields(Pattern))[:5]
HEADS = (
    *("SELECT", "SELECT a FROM s.mv", "SELECT a FROM s.mv WHERE", "INSERT INTO s.t", "INSERT INTO s.t VALUES", "WITH"),
    *("MERGE INTO s.t USING u ON", "DELETE FROM s.t WHERE", "UPDATE s.t SET a =", "EXECUTE IMMEDIATE", "BEGIN"),
    *(
        "CREATE VIEW x AS SELECT",
        "CREATE MATERIALIZED VIEW x AS SELECT",
        "ALTER VIEW s.mv",
        "DROP VIEW",
        "EXPLAIN SELECT",
    ),
    *("CREATE TABLE x", "SET", "SHOW MATERIALIZED VIEWS LIKE", "SELECT sum(c) FROM t WHERE", "SELECT a, sum(c) FROM t"),
    *("", "FROM t", "CALL x (", "SELECT * FROM s.mv VERSION AS OF", "CREATE MATERIALIZED VIEW x", "SELECT a FROM ("),
)


def random_pattern(chance: Random, phrases: Sequence[tuple[str, ...]]) -> Pattern:
    def some(most: int) -> tuple[str, ...]:
        if phrases and chance.random() < 0.4:
            return chance.choice(phrases)
        return tuple(chance.choice(WORDS) for _ in range(chance.randrange(most + 1)))

    head = tuple(chance.choice(HEADS).split())
    return Pattern(
        *(head, some(4) or ("a",), some(2), some(2) if chance.random() < 0.5 else (), some(2)),
        gap=chance.choice((" ", " ", " ", "")),
        numbered=chance.random() < 0.2,
    )


def changed(pattern: Pattern, chance: Random, phrases: Sequence[tuple[str, ...]]) -> Pattern:
    """The pattern with a word more, less or another one, a phrase spliced in, or parts exchanged."""
    if (kind := chance.random()) < 0.08:
        return replace(pattern, gap="" if pattern.gap else " ")
    if kind < 0.14:
        return replace(pattern, numbered=not pattern.numbered)
    if kind < 0.2:
        return replace(pattern, head=tuple(chance.choice(HEADS).split()))
    name = chance.choice((*PARTS, "unit", "unit", "closing", "middle"))
    words = list(getattr(pattern, name))
    place = chance.randrange(len(words) + 1)
    match chance.randrange(6):
        case 0:
            words.insert(place, chance.choice(WORDS))
        case 1 if place < len(words):
            words[place] = chance.choice(WORDS)
        case 2 if len(words) > 1 or name != "unit":
            words = words[:place] + words[place + 1 :]
        case 3 if phrases:
            words[place:place] = chance.choice(phrases)
        case 4:
            words = words[:place] + words + words[place:]
        case _:
            words = list(getattr(pattern, chance.choice(PARTS)))
    part: dict[str, Any] = {name: tuple(words[:12]) or (("a",) if name == "unit" else ())}
    return replace(pattern, **part)


@cache
def phrases_of(files: tuple[Path, ...]) -> tuple[tuple[str, ...], ...]:
    """Up to five successive words of statements."""
    found: dict[tuple[str, ...], None] = {}
    for file in files:
        words = re.findall(r"\w+|'[^']*'|[^\w\s]", file.read_text(encoding="utf-8"))
        for place in range(0, len(words), 3):
            found[tuple(words[place : place + 1 + place % 5])] = None
    return tuple(found)


CORPUS = tuple(sorted((_ROOT / "tests/sql").rglob("*.sql")))


# --- costs ---------------------------------------------------------------------------------------------------


class TooSlow(BaseException):
    """The reader was stopped. (No reader may take it for an error of its own.)"""


def seconds(reader: Reader, text: str) -> float:
    """Processor time; SECONDS_MAX if the reader was stopped."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TooSlow

    collects, before = gc.isenabled(), signal.signal(signal.SIGVTALRM, stop)
    gc.disable()  # How long a collection takes depends on what other readers have left.
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS_MAX)
    began = time.thread_time()
    try:
        reader(text)
    except TooSlow:
        return SECONDS_MAX
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        if collects:
            gc.enable()
    return time.thread_time() - began


def lines(reader: Reader, text: str, most: int = LINES_MAX) -> int:
    """How many lines of our own code run: the same on every machine. Stops at `most`."""
    count = 0

    def line(_frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if event == "line":
            count += 1
            if count > most:
                raise TooSlow
        return line

    def call(frame: FrameType, _event: str, _: Any) -> Any:
        return line if frame.f_code.co_filename.startswith(_OWN) else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        reader(text)
    except TooSlow:
        pass
    finally:
        sys.settrace(before)
    return count


@dataclass(frozen=True, slots=True)
class Found:
    pattern: Pattern
    cost: float

    def __str__(self) -> str:
        return f"{self.pattern.text(120)!r} ({self.pattern})"


def worst(
    measure: Callable[[str], float], chance: Random, evaluations: int, size: int, phrases: Sequence[tuple[str, ...]]
) -> Found:
    """The costliest pattern of so many; `measure` is the cost of a text."""
    best = current = Found(Pattern(("SELECT",), ("a", ","), (), (), ("a",)), 0.0)
    since = 0
    for _ in range(evaluations):
        if since > 40:
            current, since = Found(current.pattern, 0.0), 0
            pattern = random_pattern(chance, phrases)
        else:
            pattern = changed(current.pattern, chance, phrases)
        found = Found(pattern, measure(pattern.text(size)))
        since += 1
        if found.cost >= current.cost:
            since = 0 if found.cost > 1.05 * current.cost else since
            current = found
        if found.cost > best.cost:
            best = found
    return best
