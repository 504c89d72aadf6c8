"""One reading of a statement's text: what the statement is, and everything that the gateway asks about it.

Each part is computed at most once, when it is first needed, from one sequence of lexemes. The parts of a long text are
computed in another process (`service.routing.long_texts`) and come back pickled, each separately, because unpickling
all of them at once could take too long.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from typing import Any, Generic, Self, TypeVar, overload

from sql.classify import classify, glance, with_few_names
from sql.composed import Composed, composed
from sql.grammar import parser
from sql.lexed import Lexed
from sql.names import Parts
from sql.reading import catalog_functions, hidden, identifier_clause, immediate, paths, time_travel
from sql.reading.effects import forwarded
from sql.redaction import redact
from sql.scan import skip_blank
from sql.scripts import ScriptStep, steps
from sql.statement import Forwarded, Glance, NamedCommand, Reference, Statement
from sql.texts import rewrite
from sql.words import bounded

PART_BYTES_MAX = 1_048_576
"""The maximum size of a pickled part: unpickling a longer one would block the event loop."""
LOOK_BYTES_MAX = 2 * PART_BYTES_MAX
"""The same for `look`, of which most is one filter of words: copying that is quick."""
SHOWN_CHARACTERS = 2_000
_FEW_WORDS_CHARACTERS = 10_000
"""The words of a shorter text take little space, including those of the texts within it."""

T = TypeVar("T")
Packed = Mapping[str, bytes | None]
"""The parts of a reading by name, pickled; None for a part that is too large."""


class TooMuch(Exception):
    """A part is larger than PART_BYTES_MAX, or its text is nested too deeply to compute it."""


class part(Generic[T]):
    """A property that is computed when it is first read.

    (functools.cached_property of Python 3.11 has one lock for all instances: while a thread computes a part of a long
    text, the event loop would wait.)
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, known: None, owner: type) -> Self: ...
    @overload
    def __get__(self, known: Understood, owner: type) -> T: ...
    def __get__(self, known: Understood | None, owner: type) -> Self | T:
        if known is None:
            return self
        found: T = self._compute(known) if known.packed is None else _unpacked(known.packed[self._name])
        known.__dict__[self._name] = found
        return found


class Understood:
    """One reading of a text. The first access to `statement` raises SyntaxProblem for a faulty statement of ours."""

    def __init__(self, text: str | Lexed, *, ours: bool = True, **given: object) -> None:
        """`ours`: the text may be a statement of the gateway's own, which the text of EXECUTE IMMEDIATE never is.
        `given`: parts that are known already, by name."""
        self.lexed = text if isinstance(text, Lexed) else Lexed(text)
        self.text = self.lexed.text
        self.packed: Packed | None = None
        """All parts, if another process has read the text."""
        self._ours, self._given = ours, given
        if given:
            self.__dict__.update(given)

    # --- what it is --------------------------------------------------------------------------------

    @part
    def look(self) -> Glance:
        """Its first word and all its words."""
        look = glance(self.lexed)
        return look if len(self.text) <= _FEW_WORDS_CHARACTERS else replace(look, words=bounded(look.words))

    @part
    def start(self) -> int:
        """The position of its first word, after blanks and comments."""
        return skip_blank(self.text)

    @part
    def statement(self) -> Statement:
        """A command for the gateway, or what a statement for Spark reads, writes, calls, creates and drops, and
        whether it changes the current database. Raises SyntaxProblem."""
        look = self.look
        found = classify(self.lexed, look) if self._ours else forwarded(self.lexed, look.keyword)
        return with_few_names(found) if isinstance(found, Forwarded) else found

    @property
    def sparks(self) -> Forwarded:
        """The statement, which must be one for Spark."""
        assert isinstance(self.statement, Forwarded)
        return self.statement

    @part
    def puts_together(self) -> bool:
        """Whether it may build a name or a statement at run time."""
        return hidden.puts_together(self.lexed, self.look.words)

    @part
    def composes(self) -> bool:
        """Whether it may build a name or a path at run time."""
        return "directory" in self.look.words or self.puts_together

    @part
    def shown(self) -> str:
        """Its beginning, with passwords redacted."""
        return redact(self.text[:SHOWN_CHARACTERS], cut=len(self.text) > SHOWN_CHARACTERS)

    # --- what a statement for Spark asks of the gateway --------------------------------------------

    @part
    def about(self) -> NamedCommand | None:
        """The gateway's command that it stands for if the name in it is that of a materialized view."""
        return parser.parse_about(self.lexed) if self.look.keyword in parser.ABOUT_WORDS else None

    @part
    def catalog_calls(self) -> tuple[catalog_functions.FunctionCall, ...]:
        """Its calls of mv_infos(), jobs() and tasks()."""
        return () if self.look.words.isdisjoint(catalog_functions.WORDS) else catalog_functions.find(self.lexed)

    @part
    def asks_for_all(self) -> bool:
        """Whether it may ask for all columns of freshgate.materialized_views."""
        return "materialized_views" in self.look.words and catalog_functions.asks_for_all(self.text)

    @part
    def travels(self) -> list[time_travel.Travel]:
        """Its clauses VERSION AS OF and TIMESTAMP AS OF."""
        return time_travel.find(self.lexed) if time_travel.may_be(self.look.words) else []

    @part
    def places(self) -> rewrite.Places:
        """Where a query can replace a name; nowhere if the text is not understood."""
        return rewrite.places(self.lexed) if self.sparks.exact and self.sparks.reads else rewrite.UNREAD

    # --- what it may do besides --------------------------------------------------------------------

    @part
    def runs(self) -> immediate.Immediate | None:
        """The expression whose value EXECUTE IMMEDIATE runs, also in EXPLAIN; None for other statements."""
        return immediate.find(self.lexed) if "immediate" in self.look.words else None

    @part
    def identifier_clauses(self) -> list[identifier_clause.Clause]:
        """Its IDENTIFIER clauses."""
        return identifier_clause.clauses(self.lexed) if "identifier" in self.look.words else []

    @part
    def composed(self) -> Composed:
        """What a script puts together."""
        return composed(self.lexed) if self.look.keyword == "begin" else Composed()

    @part
    def changes(self) -> hidden.HiddenChanges:
        """The views and databases that statements within it drop, alter or replace."""
        return hidden.changes(self.lexed) if self._hides else hidden.HiddenChanges()

    @part
    def temporaries(self) -> frozenset[Parts]:
        """The temporary views and functions that statements within it may create."""
        return hidden.temporaries(self.lexed) if self._hides else frozenset()

    @part
    def may_write_to_path(self) -> bool:
        """Whether it may write to a path, if it writes at all."""
        return paths.may_hold(self.text, self.look)

    @part
    def paths(self) -> paths.Paths:
        """The paths that it may write to, if it writes at all."""
        if not self._hides and not self.may_write_to_path:
            return paths.Paths()
        return paths.written(self.lexed, exact=not self._hides)

    @part
    def steps(self) -> list[ScriptStep]:
        """What each statement of a script does."""
        return steps(self.lexed) if self._hides and ";" in self.text else []

    @property
    def _hides(self) -> bool:
        """Whether it may contain statements that were not understood."""
        return not self.sparks.exact

    # --- as another text, or in another process ------------------------------------------------------

    def respelled(self, text: str, *, words: bool = False) -> Understood:
        """The same statement in another spelling. `words`: it keeps its words, too."""
        given = {"statement": self.sparks, "look": self.look} if words else {"statement": self.sparks}
        return Understood(text, **given)

    def with_reads(self, reads: tuple[Reference, ...]) -> Understood:
        """The same text, of which only these relations count as read."""
        other = copy(self)
        other.__dict__["statement"] = replace(self.sparks, reads=reads)
        return other

    @property
    def recipe(self) -> tuple[str, bool, Mapping[str, object]]:
        """The arguments with which `packed` computes all parts."""
        return self.text, self._ours, self._given


PARTS = tuple(name for name, each in vars(Understood).items() if isinstance(each, part))
_OF_COMMANDS = ("look", "start", "statement", "composes", "shown")
"""The parts of a statement that the gateway executes itself."""


def packed(text: str, ours: bool, given: Mapping[str, object]) -> Packed:
    """All parts of a text. Raises SyntaxProblem."""
    known = Understood(text, ours=ours, **given)
    names = PARTS if isinstance(known.statement, Forwarded) else _OF_COMMANDS
    return {name: _packed(known, name) for name in names}


def _packed(known: Understood, name: str) -> bytes | None:
    try:
        found = pickle.dumps(getattr(known, name))
    except (MemoryError, RecursionError):
        return None
    limit = LOOK_BYTES_MAX if name == "look" else PART_BYTES_MAX
    return found if len(found) <= limit else None


def _unpacked(found: bytes | None) -> Any:
    if found is None:
        raise TooMuch
    return pickle.loads(found)
