"""What a script puts together at run time: the texts that its EXECUTE IMMEDIATE may execute, and the names that its
IDENTIFIER clauses may mean, as far as its literals and its assignments to local variables tell.

Spark cannot be asked, because a script's variables have no values before it runs. A value is known up to the first part
of it that is not: `'INSERT INTO log VALUES (' || n || ')'` begins with all that says what it changes.

Tests: `test_composed_targets`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

from sql.lexed import Cursor, Lexed
from sql.names import Parts, quote
from sql.reading import identifier_clause, immediate
from sql.reading.effects import TARGETED, UNCHANGING, forwarded
from sql.reading.identifier_clause import Clause
from sql.scan import QUOTES, Lexeme, folded, identifier, is_identifier, string_values
from sql.scripts import begins

VALUES_MAX = 32
"""The maximum number of values that an expression may have. One with more counts as unknown."""
STEPS_MAX = 5_000
"""The maximum number of expressions that are evaluated: variables may be assigned to each other in many ways."""
TEXT_MAX = 1 << 20
"""The maximum length of a value."""
_READING = frozenset({"select", "values", "table", "show", "describe", "desc", "list", "use"})
"""A text that begins with one of these words changes nothing but the current database."""
_WRITING = frozenset(
    [
        *("insert", "merge", "update", "delete", "truncate", "load", "overwrite", "into", "copy", "restore", "comment"),
        *("create", "replace", "alter", "drop", "msck", "repair", "call", "cache", "analyze", "vacuum", "optimize"),
    ]
)
"""A statement that changes something has one of these words."""
_PLACEHOLDER = "freshgate_unknown_"


@dataclass(frozen=True, slots=True)
class Composed:
    """`texts`: statements that stand for what is put together: they change the same, or more. `unknown`: what cannot be
    told, as written; empty if everything can."""

    texts: tuple[str, ...] = ()
    unknown: str = ""


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a string expression. Not `whole`: it only begins so."""

    text: str = ""
    whole: bool = False


_UNKNOWN = frozenset({Value()})


def composed(script: Lexed) -> Composed:
    """What the script puts together."""
    if any(piece.kind == "symbol" and piece.text in QUOTES for piece in script.pieces):
        return Composed(unknown="a quote that is not closed")
    return _Script(script).composed()


@dataclass(slots=True)
class _Script:
    lexed: Lexed
    texts: list[str] = field(default_factory=list)
    _assigned: dict[str, list[tuple[int, int] | None]] = field(default_factory=dict)
    """The places of the expressions that are assigned to each variable; None: something unknown."""
    _steps: int = 0

    def composed(self) -> Composed:
        pieces = self.lexed.pieces
        self._assigned = {} if _has_loop_rows(pieces) else assignments(pieces)
        for start, end in _statements(pieces):
            if unknown := self._immediate(start, end) or self._names(start, end):
                return Composed(unknown=unknown[:200])
        return Composed(tuple(dict.fromkeys(self.texts)))

    # --- EXECUTE IMMEDIATE -------------------------------------------------------------------------

    def _immediate(self, start: int, end: int) -> str:
        pieces = self.lexed.pieces
        for place in range(start, end - 2):
            words = [piece.text.upper() if piece.kind == "word" else "" for piece in pieces[place : place + 2]]
            if words == ["EXECUTE", "IMMEDIATE"]:
                found = immediate.at(self.lexed, place + 2, end)
                close = self.lexed.place_of(found.end)
                if not all(map(self._is_told, self._values(place + 2, close, frozenset()))):
                    return f"EXECUTE IMMEDIATE {found.expression}"
        return ""

    def _is_told(self, value: Value) -> bool:
        """Whether the value tells what a statement that begins so changes, which is then in `texts`."""
        if "${" in value.text or (not value.whole and value.text.endswith("$")):
            return False  # Spark fills variables in before it reads the text.
        if not value.whole:
            changed = _changed_by_beginning(value.text)
            self.texts += map(_changed, changed or ())
            return changed is not None
        self.texts.append(value.text)
        inner = _Script(self.lexed.inside(value.text)).composed()
        self.texts += inner.texts
        return not inner.unknown

    # --- IDENTIFIER --------------------------------------------------------------------------------

    def _names(self, start: int, end: int) -> str:
        """The statement's first target that is not known."""
        words = {folded(piece.text) for piece in self.lexed.pieces[start:end] if piece.kind == "word"}
        if "identifier" not in words or words.isdisjoint(_WRITING):
            return ""
        start = begins(self.lexed.pieces, start, end)
        part, offset = self.lexed.part(start, end), self.lexed.start_of(start)
        found = identifier_clause.clauses(part)
        if all(clause.literal for clause in found):
            return ""
        names = [(f"{_PLACEHOLDER}{number}",) for number in range(len(found))]
        text = identifier_clause.named(part.text, found, names)
        lexed = Lexed(text)
        first = lexed.at(0)
        statement = None if first is None else forwarded(lexed, folded(first.text))
        if first is None or statement is None or not statement.exact:
            return part.text
        targets = [*statement.writes, statement.changes_function, statement.alters_database]
        keyword = folded(first.text)
        if keyword in _READING:
            return ""
        if keyword in UNCHANGING:
            return part.text  # Not a statement of its own: DECLARE HANDLER, or what begins with a condition.
        if keyword not in TARGETED:
            targets += (reference.parts for reference in statement.reads)
        changed = {each for parts in targets for each in parts or ()}
        for clause, (placeholder,) in zip(found, names, strict=True):
            if placeholder in changed and not self._is_named(clause, offset):
                return part.text[clause.start : clause.end]
        return ""

    def _is_named(self, clause: Clause, offset: int) -> bool:
        """Whether the name is known, which is then in `texts`. `offset`: that of the text that has the clause."""
        start, end = self.lexed.place_of(offset + clause.start), self.lexed.place_of(offset + clause.end)
        values = self._values(start + 2, end - 1, frozenset())
        names = [identifier_clause.name(value.text) if value.whole else None for value in values]
        self.texts += map(_changed, filter(None, names))
        return None not in names

    # --- values ------------------------------------------------------------------------------------

    def _values(self, start: int, end: int, within: frozenset[str]) -> frozenset[Value]:
        """The values that the expression may have. `within`: the variables whose values are being determined."""
        pieces = self.lexed.pieces
        self._steps += 1
        if start >= end or self._steps > STEPS_MAX:
            return _UNKNOWN
        operands = list(_operands(pieces, start, end))
        if len(operands) > 1:
            return _joined([self._values(*each, within) for each in operands])
        first = pieces[start]
        if all(piece.kind == "string" for piece in pieces[start:end]):
            return self._literals(pieces[start:end], within)
        if first.text == "(" and immediate.closing(pieces, start) == end - 1:
            return self._values(start + 1, end - 1, within)
        if end - start == 1 and is_identifier(first):
            return self._variable(identifier(first).lower(), within)
        return _UNKNOWN

    def _literals(self, pieces: Sequence[Lexeme], within: frozenset[str]) -> frozenset[Value]:
        if any(piece.text[0] == '"' for piece in pieces):
            return _UNKNOWN  # It may be the name of a variable.
        return frozenset(Value(text, whole=True) for text in string_values([piece.text for piece in pieces]).values())

    def _variable(self, name: str, within: frozenset[str]) -> frozenset[Value]:
        if name in within or name not in self._assigned:
            return _UNKNOWN
        found, grows = set[Value](), False
        for span in self._assigned[name]:
            if span is None:
                return _UNKNOWN
            operands = list(_operands(self.lexed.pieces, *span))
            piece = self.lexed.pieces[span[0]]
            if len(operands) > 1 and operands[0][1] - span[0] == 1 and _is_variable(piece, name):
                grows = True
                continue
            found |= self._values(*span, within | {name})
        if grows:
            found |= {Value(value.text) for value in found}
        return frozenset(found) if found and len(found) <= VALUES_MAX else _UNKNOWN


def _is_variable(piece: Lexeme, name: str) -> bool:
    return is_identifier(piece) and identifier(piece).lower() == name


def _joined(parts: Sequence[frozenset[Value]]) -> frozenset[Value]:
    """The values of a concatenation."""
    number = 1
    for values in parts:
        number *= len(values)
    if number > VALUES_MAX:
        return _UNKNOWN
    return frozenset(map(_concatenated, product(*parts)))


def _concatenated(values: Sequence[Value]) -> Value:
    text = ""
    for value in values:
        text += value.text
        if not value.whole or len(text) > TEXT_MAX:
            return Value(text[:TEXT_MAX])
    return Value(text, whole=True)


def _operands(pieces: Sequence[Lexeme], start: int, end: int) -> Iterator[tuple[int, int]]:
    """The places of what `||` joins."""
    depth, place = 0, start
    while place < end:
        text = pieces[place].text
        depth += {"(": 1, ")": -1}.get(text, 0)
        if text == "|" and not depth and place + 1 < end and pieces[place + 1].text == "|":
            yield start, place
            start = place = place + 2
        else:
            place += 1
    yield start, end


def _changed(parts: Parts) -> str:
    """A statement that changes the table of this name."""
    return f"TRUNCATE TABLE {'.'.join(map(quote, parts))}"


# --- variables -----------------------------------------------------------------------------------------


def _has_loop_rows(pieces: Sequence[Lexeme]) -> bool:
    """Whether it has a FOR loop, whose columns may hide variables, or a statement that fills variables."""
    words = [folded(piece.text) if piece.kind == "word" else "" for piece in pieces]
    loops = any(word == "for" and words[place - 1] != "handler" for place, word in enumerate(words))
    return loops or not {"fetch", "diagnostics"}.isdisjoint(words)


def assignments(pieces: Sequence[Lexeme]) -> dict[str, list[tuple[int, int] | None]]:
    """The expressions that DECLARE, SET and INTO assign to each variable that the script declares."""
    declared, found, blocks = set[str](), dict[str, list[tuple[int, int] | None]](), 0
    for start, end in _statements(pieces):
        words = [folded(piece.text) if piece.kind == "word" else piece.text for piece in pieces[start:end]]
        for place, word in enumerate(words):
            if word == "begin":
                blocks += 1
            elif word == "declare":
                names, value = _declared(pieces, words, start, place, end)
                # Behind the block of an inner one, its name may mean a variable of the session.
                declared.update(names if blocks < 2 else ())
                for name in names:
                    found.setdefault(name, []).extend([value] if value else [])
            elif word == "set":
                _note_set(pieces, start + place + 1, end, found)
            elif word == "into" and "immediate" in words[:place]:
                for piece in pieces[start + place + 1 : end]:
                    if is_identifier(piece):
                        found.setdefault(identifier(piece).lower(), []).append(None)
    return {name: values for name, values in found.items() if name in declared}


def _declared(
    pieces: Sequence[Lexeme], words: Sequence[str], start: int, place: int, end: int
) -> tuple[list[str], tuple[int, int] | None]:
    """The names that DECLARE at `place` declares, and the places of their default."""
    at = start + place + 1
    if words[place + 1 : place + 3] == ["or", "replace"]:
        at += 2
    if words[at - start : at - start + 1] in (["variable"], ["var"]):
        at += 1
    names = list[str]()
    while at < end and is_identifier(pieces[at]):
        names.append(identifier(pieces[at]).lower())
        at += 1
        if at >= end or pieces[at].text != ",":
            break
        at += 1
    while at < end:
        if pieces[at].text == "=" or (pieces[at].kind == "word" and folded(pieces[at].text) == "default"):
            return names, (at + 1, end)
        at += 1
    return names, None


def _note_set(pieces: Sequence[Lexeme], start: int, end: int, found: dict[str, list[tuple[int, int] | None]]) -> None:
    if start < end and folded(pieces[start].text) in ("var", "variable"):
        start += 1
    for first, last in immediate.split(pieces, start, end):
        equals = next((place for place in range(first, last) if pieces[place].text == "="), None)
        names = [piece for piece in pieces[first : equals or last] if is_identifier(piece)]
        known = equals is not None and pieces[first].text != "("
        for piece in names if not known else names[-1:]:
            span = (equals + 1, last) if known and equals is not None else None
            found.setdefault(identifier(piece).lower(), []).append(span)


def _statements(pieces: Sequence[Lexeme]) -> Iterator[tuple[int, int]]:
    start = 0
    for place, piece in enumerate(pieces):
        if piece.text == ";":
            if place > start:
                yield start, place
            start = place + 1
    if start < len(pieces):
        yield start, len(pieces)


# --- beginnings ----------------------------------------------------------------------------------------


def _changed_by_beginning(text: str) -> tuple[Parts, ...] | None:
    """What a statement that begins with this text changes; None if that depends on how it goes on."""
    lexed = Lexed(text)
    pieces = list(lexed.pieces)
    if pieces and not text[pieces[-1].end :].isspace():
        pieces.pop()  # It may go on.
    if not pieces:
        return None
    cursor = Cursor(lexed)
    keyword = folded(pieces[0].text)
    if keyword in _READING:
        return ()
    cursor.take()
    if not _takes_head(cursor, keyword):
        return None
    target, after = cursor.name(), cursor.peek()
    # A name may go on behind a blank or a comment.
    if target is None or target[-1].upper() == "IDENTIFIER" or after is None:
        return None
    return (target,) if after.kind == "word" or after.text == "(" else None


def _takes_head(cursor: Cursor, keyword: str) -> bool:
    """Consumes what stands between the first word and the name of the only thing that the statement changes."""
    match keyword:
        case "insert":
            taken = cursor.accept_any("INTO", "OVERWRITE") is not None
            cursor.accept("TABLE")
            return taken and not cursor.sees("DIRECTORY") and not cursor.sees("LOCAL")
        case "update":
            return True
        case "delete":
            return cursor.accept("FROM")
        case "merge":
            cursor.accept("WITH", "SCHEMA", "EVOLUTION")
            return cursor.accept("INTO")
        case "truncate":
            return cursor.accept("TABLE")
    return False
