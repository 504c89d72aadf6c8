"""Finds the relations that a query or DML statement reads and writes, with the offsets of their names.

Ordinary queries are skimmed (`sql.reading.skim`). sqlglot parses the others, and DML; its tree is used to find names,
never to print SQL. In case of doubt the result is a guess: every dotted chain of identifiers in the text and in its
strings, so that no mention is missed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from string import ascii_letters

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from sql.lexed import Lexed
from sql.names import Parts
from sql.query.ctes import Ctes
from sql.reading.doubts import FUNCTION_NAMES, adapted, check_none_left_out, is_name
from sql.reading.hidden import moves
from sql.reading.parsing import SPARK, Doubt, trees_of
from sql.reading.skim import skim
from sql.scan import Lexeme, dotted_name, folded, is_whole, lexemes
from sql.statement import Forwarded, Reference

# sqlglot logs a warning when it cannot parse a text. Here that is an ordinary outcome: see Forwarded.reason.
logging.getLogger("sqlglot").setLevel(logging.ERROR)

PARSED_CHARACTERS_MAX = 100_000
"""Longer texts that cannot be skimmed are guessed; sqlglot takes 0.8 ms and much memory per thousand characters."""
_FOREIGN = ("{{", "{%", "{#")
"""Characters that sqlglot takes for Jinja."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """What a definition reads. Not `exact`: this is a superset, for the given `reason`."""

    reads: tuple[Reference, ...] = ()
    calls: tuple[Parts, ...] = ()
    exact: bool = True
    reason: str = ""


def relations(query: Lexed) -> Lineage:
    """What a definition reads. Never raises."""
    found = parsed(query)
    if found.exact and found.writes:
        found = guess(query, "not a query", writes=False)
    return Lineage(found.reads, found.calls, found.exact, found.reason)


def parsed(lexed: Lexed, place: int = 0) -> Forwarded:
    """Parses the query or DML statement that begins with the piece at `place`. Never raises."""
    if (found := skim(lexed, place)) is not None:
        return found
    return parsed_closely(lexed, place)


def parsed_closely(lexed: Lexed, place: int = 0) -> Forwarded:
    """The same with sqlglot, which takes about five times as long. Never raises."""
    try:
        tree, calls = _parse(lexed, place)
        return _describe(tree, calls, lexed.text)
    except Doubt as doubt:
        return guess(lexed, str(doubt))
    except RecursionError:
        return guess(lexed, "nested too deeply")
    except Exception as error:  # No exception of the parser may stop a client's statement.
        return guess(
            lexed, f"not parsed: {type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}"
        )


def query_tree(query: Lexed) -> exp.Query:
    """sqlglot's tree of a query, which must not be printed as SQL. Raises only Doubt."""
    try:
        tree, _ = _parse(query, 0)
    except Doubt:
        raise
    except RecursionError:
        raise Doubt("nested too deeply") from None
    except Exception as error:  # As above.
        raise Doubt(f"not parsed: {type(error).__name__}") from error
    if not isinstance(tree, exp.Query):
        raise Doubt("not a query")
    return tree


def expression(lexed: Lexed, place: int) -> Forwarded:
    """What the expression at `place` reads. It is parsed with SELECT in place of the characters before it."""
    if lexed.start_of(place) < len("SELECT "):
        return guess(lexed, "no place for a SELECT")
    return parsed(lexed.behind(place, "SELECT"))


# --- guessing ----------------------------------------------------------------------------------------

_READ_ONLY = frozenset(
    {"select", "values", "table", "from", "with", "map", "reduce", "explain", "describe", "desc", "show"}
)
_NEVER_CHANGING = frozenset({"select", "values", "table", "describe", "desc", "show"})
_CHANGING = frozenset({"insert", "merge", "update", "delete"})
_PART = r"(?:\w++|`(?:[^`]|``)*+(?:`|\Z))"
_PLAIN_CHAIN = re.compile(r"\w++(?:\s*+\.\s*+\w++)*")
_STEP = rf"""\s*+\.\s*+(?:{_PART}|"[^"]++")"""
_QUOTED_CHAIN = re.compile(rf"""{_PART}(?:{_STEP})*|"[^"]++"(?:{_STEP})+""")
_DOUBLE_QUOTED_PART = re.compile(r"""\.\s*+"|"\s*+\.""")


def guess(lexed: Lexed, reason: str, *, writes: bool | None = None) -> Forwarded:
    """Every chain of identifiers as read, and as written unless the statement can only read.

    `writes` overrides that rule. USE anywhere, in a string too, may change the current database, and so may what is put
    together when the text runs.
    """
    text = lexed.text
    found = list(_chains(lexed))
    chains = tuple(chain for chain, _ in found)
    words = {folded(part) for chain in chains for part in chain.parts}
    first = folded(chains[0].parts[0]) if chains else ""
    if writes is None:
        writes = first not in _READ_ONLY or not words.isdisjoint(_CHANGING) or _may_become_another(text, first, chains)
    written = dict.fromkeys(chain.parts for chain, is_path in found if not is_path) if writes else {}
    return Forwarded(
        reads=chains,
        writes=tuple(written),
        calls=tuple(dict.fromkeys(chain.parts for chain in chains)),
        changes_namespace="use" in words
        or {"set", "catalog"} <= words
        or "defaultcatalog" in words
        or _is_torn(text)
        or moves(lexed, words),
        exact=False,
        reason=reason,
    )


def _may_become_another(text: str, first: str, chains: tuple[Reference, ...]) -> bool:
    """Whether variables, whose values are not known here, may turn the text into another statement."""
    place = text.find("${")
    return place >= 0 and (not chains or place < chains[0].end or first not in _NEVER_CHANGING)


def _is_torn(text: str) -> bool:
    """Whether its names may contain comments, which are not recognized in a long text."""
    return len(text) > PARSED_CHARACTERS_MAX and ("/*" in text or "--" in text)


def _chains(lexed: Lexed) -> Iterator[tuple[Reference, bool]]:
    """The chains of the text, with their offsets, and those of all texts that it may run; each with whether it is a
    path."""
    is_long = len(lexed.text) > PARSED_CHARACTERS_MAX
    # The first is ten times as fast, without recognizing comments and strings.
    chains = _chains_in_long(lexed.text) if is_long else _chains_in(lexed.pieces)
    yield from ((chain, _is_path(chain, lexed.text)) for chain in chains)
    for inner in lexed.within.texts:
        for chain in _chains_in(inner.pieces):
            # What begins the inner text may be joined to a text that ends in INSERT INTO.
            is_path = _is_path(chain, inner.text) and not inner.text[: chain.start].isspace() and chain.start > 0
            yield Reference(chain.parts, 0, 0), is_path  # It has no offset in this text.


def _chains_in(pieces: Sequence[Lexeme]) -> Iterator[Reference]:
    place = 0
    while place < len(pieces):
        is_number = pieces[place].text.isdecimal()
        chain, place = _chain(pieces, place)
        if chain is not None and chain.parts[0] and not is_number:
            yield chain


_NAME_PIECES = 64
"""More than any name has."""


def _is_path(chain: Reference, text: str) -> bool:
    """Whether it is a path in double quotes, in a position where no table with such a name can be."""
    if len(chain.parts) > 1 or "/" not in chain.parts[0] or text[chain.start] != '"':
        return False
    before = text[max(0, chain.start - _BEFORE_CHARACTERS) : chain.start]
    seen = before.rstrip()
    commented = seen.endswith("*/") or "\n" in before[len(seen) :]
    return not commented and seen[len(seen.rstrip(ascii_letters)) :].lower() not in _BEFORE_TABLE


_BEFORE_CHARACTERS = 200
_BEFORE_TABLE = frozenset({"into", "overwrite", "from", "table", "update", "view", "exists", "using"})
"""Words before the name of a table that is written."""


def mention(lexed: Lexed, place: int) -> Reference | None:
    """The name at `place`; None if there is none or it is incomplete."""
    pieces = [piece for at in range(place, place + _NAME_PIECES) if (piece := lexed.at(at)) is not None]
    chain, after = _chain(pieces, 0)
    return chain if is_whole(pieces, after) else None


def _chain(pieces: Sequence[Lexeme], start: int) -> tuple[Reference | None, int]:
    """The dotted name at place `start`, if there is one, and the place to continue at."""
    parts, after = dotted_name(pieces, start)
    chain = Reference(parts, pieces[start].start, pieces[after - 1].end) if parts else None
    return chain, max(after, start + 1)


def _chains_in_long(text: str) -> Iterator[Reference]:
    """The chains with quotes as in Spark, and the chains without quotes, in case one of them is not closed."""
    for found in _PLAIN_CHAIN.finditer(text):
        name = found.group()
        if not name.isdecimal():  # Most long texts are lists of numbers.
            yield Reference(tuple(map(str.strip, name.split("."))), *found.span())
    if "`" not in text and _DOUBLE_QUOTED_PART.search(text) is None:
        return
    for found in _QUOTED_CHAIN.finditer(text):
        if parts := dotted_name(list(lexemes(found.group())))[0]:
            yield Reference(parts, *found.span())


# --- parsing -----------------------------------------------------------------------------------------


def _parse(lexed: Lexed, place: int) -> tuple[exp.Expr, tuple[Parts, ...]]:
    if len(lexed.text) - lexed.start_of(place) > PARSED_CHARACTERS_MAX:
        raise Doubt(f"longer than {PARSED_CHARACTERS_MAX} characters")
    if "${" in lexed.text:  # The value of a variable may end a comment.
        raise Doubt("'${' in the text")
    plain, quoted = _plain(lexed.text, lexed.pieces[place:])
    if foreign := next((mark for mark in _FOREIGN if mark in plain), None):
        raise Doubt(f"{foreign!r} in the text")
    tokens = SPARK.tokenize(plain)
    if any(token.token_type is TokenType.PIPE_GT for token in tokens):  # sqlglot drops what some steps read.
        raise Doubt("a pipe")
    if quoted != _joined(_quotes(tokens, plain)):
        raise Doubt("quotes that are read in two ways")
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    shown = list(adapted(tokens))
    trees = trees_of(shown, plain)
    if len(trees) != 1 or trees[0] is None:
        raise Doubt("not one statement")
    selects = sum(token.token_type is TokenType.SELECT for token in shown)
    if selects > sum(1 for _ in trees[0].find_all(exp.Select)):  # sqlglot drops unknown arguments.
        raise Doubt("a query that is left out")
    check_none_left_out(trees[0], tokens)
    return trees[0], _calls(tokens)


_Span = tuple[int, int]


def _plain(text: str, pieces: Sequence[Lexeme]) -> tuple[str, list[_Span]]:
    """The text of these pieces at the same offsets, with blanks in between, and the positions of its strings and quoted
    names. For sqlglot, other comments nest, and other quotes end a string."""
    kept: list[str] = []
    done = 0
    for _, piece, start, end in pieces:
        gap = text[done:start]
        kept += gap if gap.isspace() else " " * len(gap), piece
        done = end
    quoted = [(piece.start, piece.end) for piece in pieces if piece.kind in ("string", "quoted")]
    return "".join(kept), _joined(quoted)


_PREFIXES = {
    TokenType.STRING: 0,
    TokenType.RAW_STRING: 0,
    TokenType.IDENTIFIER: 0,
    TokenType.HEX_STRING: 1,
    TokenType.NATIONAL_STRING: 1,
}
"""Types of quoted tokens, with the number of characters before the quote that are a word to Spark."""


def _quotes(tokens: Iterable[Token], text: str) -> Iterator[_Span]:
    for token in tokens:
        kind = token.token_type
        if kind in _PREFIXES and (kind is not TokenType.IDENTIFIER or text[token.start] == "`"):
            yield token.start + _PREFIXES[kind], token.end + 1


def _joined(spans: Iterable[_Span]) -> list[_Span]:
    """Joins adjacent spans, because 'a''b' may be one string or two."""
    joined: list[_Span] = []
    for start, end in spans:
        if joined and joined[-1][1] == start:
            start, _ = joined.pop()
        joined.append((start, end))
    return joined


# --- names in a tree ---------------------------------------------------------------------------------


_RELATION_FUNCTIONS = frozenset({"TABLE", "STREAM"})
"""In f(TABLE(mv)) and STREAM(mv), mv is a relation, but a column for sqlglot."""


def _describe(tree: exp.Expr, calls: tuple[Parts, ...], text: str) -> Forwarded:
    for part in tree.find_all(exp.Command, exp.Directory, exp.Semicolon, exp.Anonymous, exp.Lateral):
        if isinstance(part, exp.Lateral):
            beside = part.this.expression if isinstance(part.this, exp.Dot) else part.this
            if isinstance(beside, exp.Identifier):
                raise Doubt("LATERAL before a relation's name")
            continue
        if not isinstance(part, exp.Anonymous):
            raise Doubt("holds a part that is not parsed")
        if part.name.upper() in _RELATION_FUNCTIONS:
            raise Doubt(f"{part.name} of a relation")
    targets = _targets(tree)
    ctes = Ctes()
    in_hints = {id(table) for hint in tree.find_all(exp.Hint) for table in hint.find_all(exp.Table)}
    reads: list[Reference] = []
    for table in tree.find_all(exp.Table):
        if id(table) in in_hints or any(table is target for target in targets):
            continue
        reference = _reference(table, text, ctes)
        if reference is not None:
            reads.append(reference)
    reads.sort(key=lambda reference: reference.start)
    return Forwarded(
        reads=tuple(reads),
        writes=tuple(dict.fromkeys(_named(target, text).parts for target in targets)),
        calls=calls,
        # The steps after a pipe may add rows.
        touches_rows=bool(targets) or "|>" in text or not _is_empty(tree),
    )


def _targets(tree: exp.Expr) -> list[exp.Table]:
    """The tables that DML changes; none for a query. Raises Doubt for any other statement."""
    match tree:
        case exp.Query() | exp.Values():
            return []
        case exp.Insert() | exp.Update() | exp.Delete() | exp.Merge():
            return [_target(tree)]
        case exp.MultitableInserts():
            return [_target(insert) for insert in tree.expressions]
    raise Doubt(f"read as {type(tree).__name__}")


def _target(change: exp.Expr) -> exp.Table:
    target = change.this
    if isinstance(target, exp.Schema):  # a column list follows the name
        target = target.this
    if not isinstance(target, exp.Table):
        raise Doubt(f"changes a {type(target).__name__}")
    return target


def _reference(table: exp.Table, text: str, ctes: Ctes) -> Reference | None:
    """The mention; None for a table function or the name of a CTE."""
    if isinstance(table.this, exp.Func):
        return None
    bound = ctes.meant(table, str) is not None
    # sqlglot turns the steps between pipes into CTEs, which it names itself or by `|> AS t`.
    if bound and ("|>" not in text or table.name not in text):
        return None
    return replace(_named(table, text), perhaps=bound or ctes.meant(table) is not None)


def _named(table: exp.Table, text: str) -> Reference:
    """The name with its offsets. Raises Doubt if the text there is not the name."""
    parts: list[str] = []
    start = end = -1
    for part in table.parts:
        first, last = part.meta.get("start"), part.meta.get("end")
        if not isinstance(part, exp.Identifier) or first is None or last is None:
            raise Doubt("a name without its place")
        written = text[first : last + 1]
        if written != part.name and written != "`" + part.name.replace("`", "``") + "`":
            raise Doubt(f"a name that stands elsewhere: {part.name}")
        parts.append(part.name)
        start, end = (first if start < 0 else start), last + 1
    if not parts:
        raise Doubt("a relation without a name")
    return Reference(tuple(parts), start, end, aliased=bool(table.args.get("alias")))


def _calls(tokens: Sequence[Token]) -> tuple[Parts, ...]:
    """The names before a bracket: functions, including built-in ones."""
    calls: dict[Parts, None] = {}
    for place, token in enumerate(tokens):
        if token.token_type is not TokenType.L_PAREN or not place:
            continue
        place -= 1
        if tokens[place].token_type is TokenType.STRING:
            raise Doubt("a function's name in double quotes")
        if tokens[place].token_type not in FUNCTION_NAMES and not is_name(tokens[place]):
            continue
        parts = [tokens[place].text]
        while place >= 2 and tokens[place - 1].token_type is TokenType.DOT:
            place -= 2
            parts.append(tokens[place].text)
        calls[tuple(reversed(parts))] = None
    return tuple(calls)


# --- probes ------------------------------------------------------------------------------------------


def _is_empty(tree: exp.Expr) -> bool:
    """Whether a constant at the top removes all rows of the query (schema probes of BI tools)."""
    while isinstance(tree, exp.Subquery) and isinstance(tree.this, exp.Query) and not tree.args.get("joins"):
        if _is_zero(tree.args.get("limit")):
            return True
        tree = tree.this
    if not isinstance(tree, exp.Query):
        return False
    if _is_zero(tree.args.get("limit")):
        return True
    where = tree.args.get("where")
    if where is None:
        return False
    conjuncts = where.this.flatten() if isinstance(where.this, exp.And) else [where.this]
    if not any(_is_false(part) for part in conjuncts):
        return False
    # An aggregate still returns a row, whose values must not come from a subquery outside of FROM.
    windows = tree.args.get("windows") or []
    shown = [*tree.expressions, *windows, tree.args.get("having"), tree.args.get("qualify")]
    return not any(part is not None and part.find(exp.Query) is not None for part in shown)


def _is_zero(limit: exp.Expr | None) -> bool:
    count = limit.args.get("expression") if isinstance(limit, exp.Limit) else None
    return isinstance(count, exp.Literal) and not count.is_string and count.name == "0"


def _is_false(condition: exp.Expr) -> bool:
    bracketed = isinstance(condition, exp.Paren)
    while isinstance(condition, exp.Paren):
        condition = condition.this
    if isinstance(condition, exp.Boolean):
        # To Spark, `FROM t WHERE (false)` gives t the alias `where` and its column the alias `false`.
        return condition.this is False and not bracketed
    if not isinstance(condition, exp.EQ):
        return False
    left, right = condition.this, condition.expression
    numbers = all(
        isinstance(side, exp.Literal) and not side.is_string and side.name.isdecimal() for side in (left, right)
    )
    return numbers and int(left.name) != int(right.name)


def without_rows(found: Forwarded) -> Forwarded:
    """The same statement under EXPLAIN or DESCRIBE, which neither run nor change anything."""
    return replace(found, writes=(), touches_rows=False, creates_view=None, drops=None, changes_namespace=False)
