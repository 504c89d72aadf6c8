"""A definition's text with its pieces and tree: where each clause, item and call stands. Texts for Spark are spliced
from it, never printed from the tree.

Tests: `test_increment_definitions`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sql.definition.functions import calls
from sql.increments.reasons import NotIncremental, Reason
from sql.increments.vocabulary import QUANTIFIERS
from sql.lexed import Lexed
from sql.query.aggregates import AGGREGATES, MERGED
from sql.query.trees import unseen_word
from sql.reading.lineage import query_tree
from sql.reading.parsing import Doubt
from sql.scan import Lexeme

_OPENING = {"(": ")", "[": "]"}
_AFTER_JOIN_WORDS = (
    "join inner cross full natural semi anti where group having order union lateral limit window on using"
)
_AFTER_JOINS = frozenset(_AFTER_JOIN_WORDS.split())
_LIKE = frozenset({"like", "ilike", "rlike", "regexp"})


def refuse(detail: str, reason: Reason = Reason.OPERATOR) -> NotIncremental:
    return NotIncremental(reason, detail)


@dataclass(frozen=True, slots=True)
class Span:
    """Some of the pieces; `end` is exclusive."""

    start: int
    end: int

    def holds(self, place: int) -> bool:
        return self.start <= place < self.end


@dataclass(frozen=True, slots=True)
class Edit:
    """A replacement of the characters from `start` to `end` (exclusive)."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Clauses:
    """The clauses of one SELECT."""

    distinct: int | None
    """The place of the word DISTINCT."""
    items: tuple[Span, ...]
    body: Span
    """FROM and WHERE."""
    group: Span | None
    """What follows GROUP BY."""
    having: Span | None


class Written:
    """Raises NotIncremental for a text that is not understood."""

    def __init__(self, text: str) -> None:
        self.text = text
        lexed = Lexed(text)
        try:
            self.tree = query_tree(lexed)
        except Doubt as doubt:
            raise refuse(f"it is not understood: {doubt}") from None
        self.pieces: Sequence[Lexeme] = [*lexed.pieces]
        while self.pieces and self.pieces[-1].text == ";":
            self.pieces = self.pieces[:-1]
        self.place_of = {piece.start: place for place, piece in enumerate(self.pieces)}
        """The place of the piece that begins at an offset."""
        self.partner = _partners(self.pieces)
        words = [piece.text.lower() for piece in self.pieces if piece.kind == "word"]
        if (word := unseen_word(self.tree, words)) is not None:
            self._refuse_aggregates()
            raise refuse(f"the word {word.upper()} is not understood")
        selects = list(self.tree.find_all(exp.Select))
        if words.count("select") != len(selects):
            raise refuse("it has a query without SELECT")
        self.columns = self._starts(exp.Column)
        """Each column of the tree by the place of its first piece."""

    def _refuse_aggregates(self) -> None:
        """Names the aggregate function that is the likely cause."""
        for place in self.aggregates():
            if self.word(place) not in MERGED:
                raise refuse(self.word(place), Reason.FUNCTION_NOT_MERGEABLE)

    def _starts(self, kind: type[exp.Column]) -> dict[int, exp.Column]:
        found = {}
        for node in self.tree.find_all(kind):
            if not isinstance(node.this, exp.Star):
                found[self.place(node.parts[0])] = node
        return found

    def place(self, name: exp.Expr) -> int:
        """The place of an identifier's piece."""
        start = name.meta.get("start")
        if start is None or start not in self.place_of:
            raise refuse(f"the name {name.name} is not found in the text")
        return self.place_of[start]

    @property
    def all(self) -> Span:
        return Span(0, len(self.pieces))

    def word(self, place: int) -> str:
        """The word at the place in lower case; empty for anything else."""
        if not 0 <= place < len(self.pieces) or self.pieces[place].kind != "word":
            return ""
        return self.pieces[place].text.lower()

    def symbol(self, place: int) -> str:
        return self.pieces[place].text if 0 <= place < len(self.pieces) and not self.word(place) else ""

    def slice(self, span: Span) -> str:
        """The text of the pieces; a comment that ends with the line cannot be at its end."""
        if span.start >= span.end:
            return ""
        return self.text[self.pieces[span.start].start : self.pieces[span.end - 1].end]

    def edited(self, span: Span, edits: Sequence[Edit]) -> str:
        """The text of the pieces with those edits that are within it."""
        start, end = self.pieces[span.start].start, self.pieces[span.end - 1].end
        return spliced(self.text, start, end, edits)

    def outer(self, span: Span) -> Iterator[int]:
        """The places that are in no brackets within the span; of a bracket only its beginning."""
        place = span.start
        while place < span.end:
            yield place
            place = self.partner.get(place, place) + 1

    def split(self, span: Span, separator: str = ",") -> tuple[Span, ...]:
        found, start = [], span.start
        for place in self.outer(span):
            if self.symbol(place) == separator:
                found.append(Span(start, place))
                start = place + 1
        return (*found, Span(start, span.end))

    def condition(self, place: int) -> Span | None:
        """What follows the ON behind the table whose name begins at the place, up to what can follow a join."""
        while place < len(self.pieces) and self.word(place) != "on":
            if self._ends_join(place):
                return None
            place += 1
        start = end = place + 1
        while end < len(self.pieces) and not self._ends_join(end):
            end = self.partner.get(end, end) + 1
        return Span(start, end) if start < end else None

    def _ends_join(self, place: int) -> bool:
        word, after = self.word(place), self.word(place + 1)
        if word in ("left", "right"):
            return after in ("join", "outer", "semi", "anti")
        return word in _AFTER_JOINS or self.symbol(place) in (",", ")", ";")

    def clauses(self, span: Span, select: exp.Select) -> Clauses:
        """The clauses of the SELECT that the span consists of."""
        start = next((place for place in self.outer(span) if self.word(place) == "select"), None)
        if start is None:
            raise refuse("it does not begin with SELECT")
        first = start + 1
        distinct = first if self.word(first) == "distinct" else None
        if (distinct is not None) != bool(select.args.get("distinct")):
            raise refuse("it is not clear whether DISTINCT is a name")
        first += 1 if self.word(first) in ("distinct", "all") else 0
        marks = self._marks(Span(first, span.end), select)
        ends = [*marks.values(), span.end]
        body_end = ends[1] if "where" not in marks else ends[2]
        items = self.split(Span(first, marks["from"]))
        if len(items) != len(select.expressions) or any(each.start == each.end for each in items):
            raise refuse("its items are not understood")
        rest = {name: Span(at, after) for (name, at), after in zip(marks.items(), ends[1:], strict=True)}
        group, having = rest.get("group"), rest.get("having")
        return Clauses(
            distinct,
            items,
            Span(marks["from"], body_end),
            Span(group.start + 2, group.end) if group else None,
            Span(having.start + 1, having.end) if having else None,
        )

    def _marks(self, span: Span, select: exp.Select) -> dict[str, int]:
        """Where each clause begins, in order."""
        found: dict[str, int] = {}
        for place in self.outer(span):
            word = self.word(place)
            if word not in ("from", "where", "group", "having", "order") or self.symbol(place - 1) == ".":
                continue
            if word in ("group", "order") and self.word(place + 1) != "by":
                continue
            if word == "from" and self.word(place - 1) == "distinct":
                continue
            if word in found:
                raise refuse(f"it has two clauses {word.upper()}")
            found[word] = place
        expected = [name for name in ("from", "where", "group", "having", "order") if _clause(select, name)]
        if list(found) != expected:
            raise refuse("its clauses are not understood")
        return found

    def calls(self) -> Iterator[tuple[str, int]]:
        """As `functions.calls`."""
        return calls(self.pieces)

    def aggregates(self) -> Iterator[int]:
        """The places of the names of aggregate functions."""
        for name, place in self.calls():
            quantifier = name in QUANTIFIERS and self.word(place - 1) in _LIKE
            if name in AGGREGATES and not quantifier and self.symbol(place - 1) != ".":
                yield place


def spliced(text: str, start: int, end: int, edits: Sequence[Edit]) -> str:
    """The characters from `start` to `end` with the edits within them."""
    parts: list[str] = []
    at = start
    for edit in sorted(edits, key=lambda each: each.start):
        if start <= edit.start and edit.end <= end:
            parts += text[at : edit.start], edit.text
            at = edit.end
    return "".join((*parts, text[at:end]))


def _clause(select: exp.Select, name: str) -> bool:
    return bool(select.args.get("from_" if name == "from" else name))


def _partners(pieces: Sequence[Lexeme]) -> dict[int, int]:
    """The closing bracket of each opening one."""
    found: dict[int, int] = {}
    opened: list[int] = []
    for place, piece in enumerate(pieces):
        if piece.text in _OPENING:
            opened.append(place)
        elif piece.text in _OPENING.values():
            if not opened or _OPENING[pieces[opened[-1]].text] != piece.text:
                raise refuse("its brackets are not understood")
            found[opened.pop()] = place
    if opened:
        raise refuse("its brackets are not understood")
    return found
