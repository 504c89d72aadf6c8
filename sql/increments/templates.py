"""Expressions over the keys and aggregates of a group: their text with holes for these.

Tests: `test_increment_mutants`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sql.increments.reasons import Reason
from sql.increments.scopes import FromScope
from sql.increments.written import Span, Written, refuse
from sql.query.aggregates import MERGED, ORDERED
from sql.scan import identifier

_OF_SETS = frozenset({"grouping", "grouping_id"})
_AFTER_CALLS = frozenset({"over", "filter", "within", "ignore", "respect"})


@dataclass(frozen=True, slots=True)
class KeyHole:
    number: int


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A call of an aggregate function."""

    function: str
    arguments: tuple[str, ...]
    tail: str = ""
    """` FILTER (WHERE ...)`, or nothing."""
    ignores_nulls: bool = False
    verbatim: str = ""
    """The call as it is written, if its result does not follow from states; it has no arguments then."""

    @property
    def text(self) -> str:
        return self.verbatim or self.of(self.function, *self.arguments)

    def of(self, function: str, *arguments: str) -> str:
        """Another function of the same rows."""
        if function == "any_value" and self.ignores_nulls:
            arguments = (*arguments[:1], "true")
        return f"{function}({', '.join(arguments)}){self.tail}"


Piece = str | KeyHole | Aggregate
Template = tuple[Piece, ...]


def is_key(template: Template) -> bool:
    """Whether it is nothing but a key."""
    return len(template) == 1 and isinstance(template[0], KeyHole)


def rendered(template: Template, key: Callable[[int], str], aggregate: Callable[[Aggregate], str]) -> str:
    parts = []
    for piece in template:
        match piece:
            case KeyHole(number):
                parts.append(key(number))
            case Aggregate():
                parts.append(aggregate(piece))
            case str():
                parts.append(piece)
    return "".join(parts)


@dataclass(frozen=True, slots=True)
class Key:
    """What the rows are grouped by."""

    text: str
    words: tuple[object, ...]
    """Its pieces, the same for all ways to write them."""
    atomic: bool
    """Whether it is one operand wherever it stands: a column, or a call."""


class TemplateReader:
    """Makes templates of the items and of HAVING. Raises NotIncremental."""

    def __init__(self, written: Written, scope: FromScope, select: exp.Select) -> None:
        """`select`: where the items stand."""
        self._written = written
        self._scope = scope
        self._select = select
        self._canonical = {place: self._column(node) for place, node in written.columns.items()}
        self._aggregates = set(written.aggregates())
        self.seen: set[int] = set()
        """The places of the aggregate functions that templates contain."""

    def _column(self, node: exp.Column) -> tuple[int, tuple[str, ...] | None]:
        """How many pieces a column has, and its canonical form."""
        parts = [part.name for part in node.parts]
        return 2 * len(parts) - 1, self._scope.canonical(parts) if self._is_own(node) else None

    def _is_own(self, node: exp.Column) -> bool:
        """Whether it stands in this SELECT: others may mean columns of other relations."""
        return node.find_ancestor(exp.Select) is self._select

    def unresolved(self, span: Span) -> Iterator[exp.Column]:
        """The columns that no relation has."""
        for place in range(span.start, span.end):
            if place in self._canonical and self._canonical[place][1] is None:
                yield self._written.columns[place]

    def is_known(self, name: str) -> bool:
        """Whether a relation has a column of the name."""
        return self._scope.canonical([name]) is not None

    def has_aggregate(self, span: Span) -> bool:
        return any(span.holds(place) for place in self._aggregates)

    def has_column(self, span: Span) -> bool:
        return any(span.holds(place) for place in self._canonical)

    def is_within(self, place: int) -> bool:
        """Whether it stands in the call of an aggregate, or in its FILTER."""
        return any(each < place < self._end(each) for each in self._aggregates)

    def _end(self, place: int) -> int:
        """The place after the call of an aggregate, and its FILTER."""
        end = self._written.partner[place + 1] + 1
        if self._written.word(end) == "filter" and self._written.symbol(end + 1) == "(":
            return self._written.partner[end + 1] + 1
        return end

    def key(self, span: Span) -> Key:
        if self.has_aggregate(span):
            raise refuse("it groups by an aggregate")
        if unknown := next(self.unresolved(span), None):
            raise refuse(f"the column {unknown.name} of GROUP BY is not known")
        words = tuple(word for _, _, word in self._words(span))
        if not any(isinstance(word, tuple) for word in words):
            raise refuse("it groups by a constant")
        if "->" in self._written.slice(span):
            raise refuse("it groups by a lambda")
        last = span.end - 1
        called = self._written.word(span.start) != "" and self._written.partner.get(span.start + 1) == last
        return Key(self._written.slice(span), words, len(words) == 1 or called)

    def _words(self, span: Span) -> Iterator[tuple[int, int, object]]:
        """Each piece, or column, with its first place and the place after it."""
        place = span.start
        while place < span.end:
            if place in self._canonical and self._canonical[place][1] is not None:
                length, canonical = self._canonical[place]
                yield place, place + length, canonical
                place += length
                continue
            piece = self._written.pieces[place]
            yield place, place + 1, self._folded(place) if piece.kind != "string" else piece.text
            place += 1

    def _folded(self, place: int) -> str:
        piece = self._written.pieces[place]
        return identifier(piece).lower() if piece.kind in ("word", "quoted") else piece.text

    def template(self, span: Span, keys: Sequence[Key], aliases: Mapping[str, Template]) -> Template:
        """`aliases`: what names may mean that are not keys."""
        found: list[Piece] = []
        place = span.start
        while place < span.end:
            made, after = self._next(place, span, keys, aliases)
            found += made
            if after < span.end:
                start, end = self._written.pieces[after - 1].end, self._written.pieces[after].start
                found.append(self._written.text[start:end])
            place = after
        return tuple(_joined(found))

    def _next(
        self, place: int, span: Span, keys: Sequence[Key], aliases: Mapping[str, Template]
    ) -> tuple[Template, int]:
        if place in self._aggregates:
            return self._aggregate(place)
        if (match := self._key_at(place, span, keys)) is not None:
            return (KeyHole(match[0]),), match[1]
        if place in self._canonical:
            length = self._canonical[place][0]
            node = self._written.columns[place]
            if len(node.parts) == 1 and (meant := aliases.get(node.name.lower())) is not None:
                return ("(", *meant, ")"), place + length
            raise refuse(f"the column {'.'.join(part.name for part in node.parts)} is neither grouped nor aggregated")
        if (self._written.symbol(place), self._written.symbol(place + 1)) == ("-", ">"):
            raise refuse("it has a lambda over groups")
        return (self._written.pieces[place].text,), place + 1

    def _key_at(self, place: int, span: Span, keys: Sequence[Key]) -> tuple[int, int] | None:
        """The longest key that stands there, and the place after it."""
        words = list(self._words(Span(place, span.end)))
        fitting = [
            (len(key.words), number, words[len(key.words) - 1][1])
            for number, key in enumerate(keys)
            if len(key.words) <= len(words) and all(a == b[2] for a, b in zip(key.words, words, strict=False))
        ]
        for _, number, end in sorted(fitting, reverse=True):
            if self._stands_alone(place, end, span, keys[number]):
                return number, end
        return None

    def _stands_alone(self, start: int, end: int, span: Span, key: Key) -> bool:
        written = self._written
        if start == span.start and end == span.end:
            return True
        before = written.symbol(start - 1) if start > span.start else "("
        after = written.symbol(end) if end < span.end else ")"
        if before == ".":
            return False
        if key.atomic:
            return after != "." and written.word(end) not in _AFTER_CALLS
        return before in ("(", ",") and after in (")", ",")

    # --- aggregates

    def _aggregate(self, place: int) -> tuple[Template, int]:
        written = self._written
        self.seen.add(place)
        name = written.word(place)
        close = written.partner[place + 1]
        inside = Span(place + 2, close)
        arguments = written.split(inside) if inside.start < inside.end else ()
        if any(each.start == each.end for each in arguments):
            raise refuse(f"the call of {name} is not understood")
        if any(inside.holds(each) for each in self._aggregates):
            raise refuse(f"an aggregate within {name}")
        end, ignores, tail = self._tail(name, close + 1)
        self._check_columns(Span(place, end), name)
        texts = tuple(map(written.slice, arguments))
        if name == "any_value" and len(texts) == 2 and texts[1].lower() in ("true", "false"):
            ignores, texts = ignores or texts[1].lower() == "true", texts[:1]
        counted = bool(texts) and (len(texts) == (2 if name in ORDERED else 1) or name == "count")
        if name in MERGED and counted and tail is not None and written.word(inside.start) not in ("distinct", "all"):
            return (Aggregate(name, texts, tail, ignores),), end
        if name in _OF_SETS:
            raise refuse(name, Reason.FUNCTION_NOT_MERGEABLE)
        return (Aggregate(name, (), verbatim=written.slice(Span(place, end))),), end

    def _tail(self, name: str, place: int) -> tuple[int, bool, str | None]:
        """What follows the arguments: the place after it, whether it ignores NULLs, and the filter's text; None if it
        is anything else."""
        written = self._written
        tail: str | None = ""
        ignores = False
        while (word := written.word(place)) in _AFTER_CALLS:
            if word == "filter" and written.symbol(place + 1) == "(" and not tail:
                end = written.partner[place + 1] + 1
                tail, place = tail if tail is None else f" {written.slice(Span(place, end))}", end
            elif word == "ignore" and name == "any_value" and not ignores:
                ignores, place = True, place + 2
            elif word == "within" and written.symbol(place + 2) == "(":
                tail, place = None, written.partner[place + 2] + 1
            elif word in ("ignore", "respect"):
                tail, place = None, place + 2
            else:
                raise refuse(f"{name} with {word.upper()}", Reason.FUNCTION_NOT_MERGEABLE)
        return place, ignores, tail

    def _check_columns(self, span: Span, name: str) -> None:
        written = self._written
        if unknown := next(self.unresolved(span), None):
            raise refuse(f"the column {unknown.name} within {name} is not known")
        if any(written.word(place) == "select" for place in range(span.start, span.end)):
            raise refuse(f"a subquery within {name}")


def _joined(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Adjacent texts as one."""
    text = ""
    for piece in pieces:
        if isinstance(piece, str):
            text += piece
            continue
        if text:
            yield text
        yield piece
        text = ""
    if text:
        yield text
