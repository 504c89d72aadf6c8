"""Parses property lists, with the forms of values in Spark, Doris, PostgreSQL and BigQuery."""

from __future__ import annotations

from sql.grammar import view_properties
from sql.grammar.cursor import SYNTAX, Grammar
from sql.scan import Lexeme
from sql.statement import Pairs

_BRACKETS = {"(": ")", "[": "]"}


def pairs(
    grammar: Grammar,
    *,
    free: bool,
    taken: Pairs = (),
    bare: bool = False,
    opened: bool = False,
    checked: bool = True,
) -> Pairs:
    """`(key = value, …)`: keys are strings or dotted words and must differ; `=` is optional.

    `free`: the clause takes unknown names (see view_properties). `taken`: the pairs of other clauses, whose keys may
    not be repeated. `bare`: a key without a value is true, as in PostgreSQL. `opened`: the opening parenthesis has been
    consumed. `checked=False`: names and values are not checked.
    """
    if not opened and not grammar.accept("("):
        raise grammar.problem("(properties)")
    found = _list(grammar, free=free, taken=taken, bare=bare, checked=checked)
    if not grammar.accept(")"):
        raise grammar.problem("a comma or ) after the property")
    return found


def unbracketed(grammar: Grammar) -> Pairs:
    """Parses Trino's ALTER … SET PROPERTIES key = value, …"""
    return _list(grammar, free=False, taken=(), bare=False, checked=True)


def _list(grammar: Grammar, *, free: bool, taken: Pairs, bare: bool, checked: bool) -> Pairs:
    found: dict[str, str] = dict(taken)
    while True:
        place = grammar.position
        name = key(grammar)
        if name in found:
            raise grammar.refusal(f"the property {name} is given twice", place, SYNTAX)
        if bare and (grammar.sees(",") or grammar.sees(")")):
            value = "true"
        else:
            grammar.accept("=")
            value = _value(grammar)
        found[name] = check(grammar, name, value, free=free, place=place) if checked else value
        if not grammar.accept(","):
            return tuple(found.items())[len(taken) :]


def key(grammar: Grammar) -> str:
    """A property's name: a string or a dotted word."""
    name = grammar.string() or ".".join(grammar.name() or ())
    if not name:
        raise grammar.problem("a property key")
    return name


def keys(grammar: Grammar, *, checked: bool = True) -> tuple[str, ...]:
    """`(key, …)`: names without values; duplicates are dropped."""
    grammar.expect("(")
    found: dict[str, None] = {}
    while True:
        place = grammar.position
        name = key(grammar)
        if checked and name.lower().startswith(view_properties.OWN_PREFIX):
            raise grammar.refusal(f"the property {name} belongs to Freshgate and cannot be removed", place)
        found[name] = None
        if not grammar.accept(","):
            break
    if not grammar.accept(")"):
        raise grammar.problem("a comma or ) after the property's name")
    return tuple(found)


def check(grammar: Grammar, name: str, value: str, *, free: bool, place: int) -> str:
    """The value as it is stored. Raises SyntaxProblem at `place` if the name or the value is not allowed."""
    try:
        return view_properties.normalised(name, value, free=free)
    except ValueError as error:
        raise grammar.refusal(str(error), place) from None


def _value(grammar: Grammar) -> str:
    """The value of a string; the text of a number, boolean, interval, timestamp or array."""
    if (value := grammar.string()) is not None:
        return value
    start = grammar.position
    if grammar.accept_any("INTERVAL", "TIMESTAMP", "DATE"):
        return _typed_literal(grammar, start)
    if grammar.accept("ARRAY") or grammar.sees("["):
        return grammar.text[start : _array_end(grammar)]
    grammar.accept_any("-", "+")
    piece = grammar.take()
    if (
        piece is None
        or piece.kind != "word"
        or not (piece.text[0].isdecimal() or piece.text.upper() in ("TRUE", "FALSE"))
    ):
        raise grammar.refusal("expected a string, a number, TRUE or FALSE as the property's value", start, SYNTAX)
    end = piece.end
    if grammar.accept(".") and (fraction := grammar.take()) is not None:
        end = fraction.end
    return grammar.text[start:end]


def _typed_literal(grammar: Grammar, start: int) -> str:
    """INTERVAL '30' MINUTE, INTERVAL "4:0:0" HOUR TO SECOND, TIMESTAMP '2030-01-01', after the first word."""
    last = grammar.take()
    if last is None or not (last.kind == "string" or last.text[0].isdecimal()):
        raise grammar.refusal("expected a string after INTERVAL, TIMESTAMP or DATE", start, SYNTAX)
    while grammar.sees_identifier():
        last = grammar.take() or last
    return grammar.text[start : last.end]


def _array_end(grammar: Grammar) -> int:
    """Consumes [… , …] with strings or tuples of strings, and returns its end."""
    if not grammar.sees("["):
        raise grammar.problem("[ after ARRAY")
    open_brackets: list[str] = []
    while (piece := grammar.peek()) is not None and _may_stand_in_array(piece):
        if piece.text in _BRACKETS:
            open_brackets.append(_BRACKETS[piece.text])
        elif piece.text in _BRACKETS.values() and piece.text != open_brackets.pop():
            break
        grammar.take()
        if not open_brackets:
            return piece.end
    raise grammar.problem("strings, commas and ] in the array")


def _may_stand_in_array(piece: Lexeme) -> bool:
    return piece.kind == "string" or piece.text in ("(", ")", "[", "]", ",")
