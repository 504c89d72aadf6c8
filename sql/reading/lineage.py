"""Query -> the relations that it reads and writes, with the places where their names stand.

Ordinary queries are skimmed (`sql.reading.skim`). sqlglot parses the others and DML; its tree is used to find names,
never to print SQL. Whatever is in doubt is a guess: every dotted chain of identifiers in the text, inside strings too,
so that a mention is never missed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.tokenizer_core import Token, TokenType

from sql.reading.hidden import moves
from sql.reading.skim import skim
from sql.reading.within import within
from sql.scan import Lexeme, dotted_name, folded, is_whole, lexemes, marks
from sql.statement import Forwarded, Parts, Reference

_SPARK = Dialect.get_or_raise("spark")
# sqlglot warns each time it gives up on a text; here that is an ordinary outcome, reported as Forwarded.reason.
logging.getLogger("sqlglot").setLevel(logging.ERROR)

PARSED_CHARACTERS_MAX = 100_000
"""Longer texts that cannot be skimmed are guessed: sqlglot takes 0.8 ms, and much memory, for a thousand characters."""
_DEPTH_MAX = 100
"""Brackets within brackets. The compiled parser overflows the C stack at tens of thousands: the process dies."""
_QUERIES_MAX = 1_000
"""FROMs in one text, for the same reason: `FROM FROM FROM …` nests without brackets."""
_OPEN_JOINS_MAX = 8
"""Joins in a row without ON or USING. sqlglot tries each as nested: 18 take a second, each more doubles it."""

_TYPES_DEPTH_MAX = 6
_TYPES_WITHIN_MAX = 200
"""Types with arguments within such, DECIMAL(DECIMAL(…)): how deep, and how many below the second level. sqlglot tries
each as a type and then as a function, so that each level doubles the time."""

_FOREIGN = ("{{", "{%", "{#")
"""What sqlglot takes for Jinja."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """What a definition reads. Not `exact`: a superset, and `reason` says why."""

    reads: tuple[Reference, ...] = ()
    calls: tuple[Parts, ...] = ()
    exact: bool = True
    reason: str = ""


class Doubt(Exception):
    """The text is not understood well enough to be exact."""


def relations(query_text: str) -> Lineage:
    """What a definition reads. Never raises."""
    found = parsed(query_text)
    if found.exact and found.writes:
        found = guess(query_text, "not a query", writes=False)
    return Lineage(found.reads, found.calls, found.exact, found.reason)


def parsed(text: str, start: int = 0) -> Forwarded:
    """The query or DML statement that begins at `start`. Never raises."""
    if (found := skim(text, start)) is not None:
        return found
    return parsed_closely(text, start)


def parsed_closely(text: str, start: int) -> Forwarded:
    """The same by way of sqlglot's tree, which takes about five times as long. Never raises."""
    try:
        tree, calls = _parse(text, start)
        return _describe(tree, calls, text)
    except Doubt as doubt:
        return guess(text, str(doubt))
    except RecursionError:
        return guess(text, "nested too deeply")
    except Exception as error:  # the parser is not ours: whatever it raises must not stop a client's statement
        return guess(
            text, f"not parsed: {type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}"
        )


def query_tree(text: str) -> exp.Query:
    """sqlglot's tree of one query, to look at, never to print SQL from. Raises Doubt, nothing else."""
    try:
        tree, _ = _parse(text, 0)
    except Doubt:
        raise
    except RecursionError:
        raise Doubt("nested too deeply") from None
    except Exception as error:  # the parser is not ours, as above
        raise Doubt(f"not parsed: {type(error).__name__}") from error
    if not isinstance(tree, exp.Query):
        raise Doubt("not a query")
    return tree


def expression(text: str, start: int) -> Forwarded:
    """What the expression at `start` reads: the parser is shown SELECT in the place of the characters before it."""
    if start < len("SELECT "):
        return guess(text, "no place for a SELECT")
    return parsed("SELECT".ljust(start) + text[start:])


# --- guessing ----------------------------------------------------------------------------------------

_READ_ONLY = frozenset(
    {"select", "values", "table", "from", "with", "map", "reduce", "explain", "describe", "desc", "show"}
)
_NEVER_CHANGING = frozenset({"select", "values", "table", "describe", "desc", "show"})
_CHANGING = frozenset({"insert", "merge", "update", "delete"})
_PART = r"(?:\w++|`(?:[^`]|``)*+(?:`|\Z))"
_PLAIN_CHAIN = re.compile(r"\w++(?:\s*+\.\s*+\w++)*+")
_STEP = rf"""\s*+\.\s*+(?:{_PART}|"[^"]++")"""
_QUOTED_CHAIN = re.compile(rf"""{_PART}(?:{_STEP})*+|"[^"]++"(?:{_STEP})++""")
_DOUBLE_QUOTED_PART = re.compile(r"""\.\s*+"|"\s*+\.""")


def guess(text: str, reason: str, *, writes: bool | None = None) -> Forwarded:
    """Every chain of identifiers as read, and as written unless the statement can only read.

    `writes` overrides that rule. USE anywhere, in a string too, may change the current database, and so may what is put
    together when the text runs.
    """
    chains = tuple(_chains(text))
    words = {folded(part) for chain in chains for part in chain.parts}
    first = folded(chains[0].parts[0]) if chains else ""
    if writes is None:
        writes = first not in _READ_ONLY or not words.isdisjoint(_CHANGING) or _may_become_another(text, first, chains)
    written = dict.fromkeys(chain.parts for chain in chains if not _is_path(chain, text)) if writes else {}
    return Forwarded(
        reads=chains,
        writes=tuple(written),
        calls=tuple(dict.fromkeys(chain.parts for chain in chains)),
        changes_namespace="use" in words
        or {"set", "catalog"} <= words
        or "defaultcatalog" in words
        or _is_torn(text)
        or moves(text, words),
        exact=False,
        reason=reason,
    )


def _may_become_another(text: str, first: str, chains: tuple[Reference, ...]) -> bool:
    """Whether variables, whose values are not known here, may make another statement of the one that stands there."""
    place = text.find("${")
    return place >= 0 and (not chains or place < chains[0].end or first not in _NEVER_CHANGING)


def _is_torn(text: str) -> bool:
    """Whether comments may stand within its names: they are not told apart in a long text."""
    return len(text) > PARSED_CHARACTERS_MAX and ("/*" in text or "--" in text)


def _chains(text: str) -> Iterator[Reference]:
    """Those of the text, with their places, and those of all texts that it may run."""
    if len(text) > PARSED_CHARACTERS_MAX:  # comments and strings are not told apart here, which is ten times faster
        yield from _chains_in_long(text)
    else:
        yield from _chains_in(text)
    for inner in within(text).texts:
        for chain in _chains_in(inner):
            yield Reference(chain.parts, 0, 0)  # It has no place in this text.


def _chains_in(text: str) -> Iterator[Reference]:
    pieces = list(lexemes(text))
    place = 0
    while place < len(pieces):
        is_number = pieces[place].text.isdecimal()
        chain, place = _chain(pieces, place)
        if chain is not None and chain.parts[0] and not is_number:
            yield chain


_NAME_PIECES = 64
"""More than any name has."""


def _is_path(chain: Reference, text: str) -> bool:
    """A path in double quotes, unless a table of such a name may stand there."""
    if len(chain.parts) > 1 or "/" not in chain.parts[0] or text[chain.start] != '"':
        return False
    return _BEFORE_TABLE.search(text[max(0, chain.start - _BEFORE_CHARACTERS) : chain.start]) is None


_BEFORE_CHARACTERS = 200
_BEFORE_TABLE = re.compile(
    r"\b(?:into|overwrite|from|table|update|view|exists|using)(?:\s|/\*[^*]{0,99}+\*/|--[^\n]{0,99}+\n)*+\Z",
    re.IGNORECASE,
)
"""Words before the name of a table that is written, with blanks and comments between them."""


def mention(text: str, start: int) -> Reference | None:
    """The name that stands at `start`; None if none does, or no whole one."""
    pieces = list(islice(lexemes(text, start), _NAME_PIECES))
    chain, after = _chain(pieces, 0)
    return chain if is_whole(pieces, after) else None


def _chain(pieces: Sequence[Lexeme], start: int) -> tuple[Reference | None, int]:
    """The dotted name that begins at place `start`, if one does, and the place to look on at."""
    parts, after = dotted_name(pieces, start)
    chain = Reference(parts, pieces[start].start, pieces[after - 1].end) if parts else None
    return chain, max(after, start + 1)


def _chains_in_long(text: str) -> Iterator[Reference]:
    """Twice: with quotes as Spark would read them, and without, should a lone one mislead."""
    for found in _PLAIN_CHAIN.finditer(text):
        name = found.group()
        if not name.isdecimal():  # Long texts are lists of numbers, mostly.
            yield Reference(tuple(map(str.strip, name.split("."))), *found.span())
    if "`" not in text and _DOUBLE_QUOTED_PART.search(text) is None:
        return
    for found in _QUOTED_CHAIN.finditer(text):
        if parts := dotted_name(list(lexemes(found.group())))[0]:
            yield Reference(parts, *found.span())


# --- parsing -----------------------------------------------------------------------------------------


def _parse(text: str, start: int) -> tuple[exp.Expr, tuple[Parts, ...]]:
    if len(text) - start > PARSED_CHARACTERS_MAX:
        raise Doubt(f"longer than {PARSED_CHARACTERS_MAX} characters")
    if "${" in text:  # A comment is none any more where the variable's value ends it.
        raise Doubt("'${' in the text")
    # Blanks in place of what stands before `start`, so that all offsets are those of the whole text.
    text = " " * start + text[start:]
    plain, quoted = _plain(text)
    if foreign := next((mark for mark in _FOREIGN if mark in plain), None):
        raise Doubt(f"{foreign!r} in the text")
    tokens = _SPARK.tokenize(plain)
    if any(token.token_type is TokenType.PIPE_GT for token in tokens):  # It leaves out what some steps read.
        raise Doubt("a pipe")
    if quoted != _joined(_quotes(tokens, plain)):
        raise Doubt("quotes that are read in two ways")
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    _check_types(tokens)
    adapted = list(_adapted(tokens))
    trees = _SPARK.parser().parse(adapted, plain)
    if len(trees) != 1 or trees[0] is None:
        raise Doubt("not one statement")
    selects = sum(token.token_type is TokenType.SELECT for token in adapted)
    if selects > sum(1 for _ in trees[0].find_all(exp.Select)):  # It drops arguments that it does not know.
        raise Doubt("a query that is left out")
    _check_none_left_out(trees[0], tokens)
    return trees[0], _calls(tokens)


def _check_none_left_out(tree: exp.Expr, tokens: Sequence[Token]) -> None:
    """Raises Doubt where a name behind FROM or JOIN is in the tree neither a relation's nor a column's."""
    names = (each.parts for each in tree.find_all(exp.Table, exp.Column) if isinstance(each, exp.Table | exp.Column))
    known = {part.meta.get("start") for parts in names for part in parts}
    for place, token in enumerate(tokens[:-1]):
        after = tokens[place + 1]
        if token.token_type not in _BEFORE_ANY_RELATION or token.token_type is TokenType.COMMA:
            continue
        if after.token_type in _NO_RELATION or not _is_name(after) or _opens(tokens, place + 2):
            continue
        if after.start not in known:
            raise Doubt(f"a relation that is left out: {after.text}")


_Span = tuple[int, int]


def _plain(text: str) -> tuple[str, list[_Span]]:
    """The text without comments and hints, and where its strings and quoted names stand: sqlglot nests other comments,
    and lets other quotes end a string. Everything keeps its place."""
    kept: list[str] = []
    quoted: list[_Span] = []
    done = 0
    for kind, start, end in marks(text):
        kept.append(text[done:start])
        if kind in ("string", "quoted"):
            kept.append(text[start:end])
            quoted.append((start, end))
        else:
            kept.append(" " * (end - start))
        done = end
    kept.append(text[done:])
    return "".join(kept), _joined(quoted)


_PREFIXES = {
    TokenType.STRING: 0,
    TokenType.RAW_STRING: 0,
    TokenType.IDENTIFIER: 0,
    TokenType.HEX_STRING: 1,
    TokenType.NATIONAL_STRING: 1,
}
"""What is read as quoted, and how many characters before the quote it takes that are a word to Spark."""


def _quotes(tokens: Iterable[Token], text: str) -> Iterator[_Span]:
    for token in tokens:
        kind = token.token_type
        if kind in _PREFIXES and (kind is not TokenType.IDENTIFIER or text[token.start] == "`"):
            yield token.start + _PREFIXES[kind], token.end + 1


def _joined(spans: Iterable[_Span]) -> list[_Span]:
    """'a''b' is one string to one reader, and two to another."""
    joined: list[_Span] = []
    for start, end in spans:
        if joined and joined[-1][1] == start:
            start, _ = joined.pop()
        joined.append((start, end))
    return joined


_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE, TokenType.STRUCT})
_OPENING_OF = {
    TokenType.R_PAREN: TokenType.L_PAREN,
    TokenType.R_BRACKET: TokenType.L_BRACKET,
    TokenType.GT: TokenType.LT,
}
_OPENING_TYPES = frozenset(_OPENING_OF.values())
_NESTED_TYPES = frozenset(_SPARK.parser_class.NESTED_TYPE_TOKENS)
_TYPES = frozenset({*_SPARK.parser_class.TYPE_TOKENS, TokenType.LATERAL})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END})
_UNCONDITIONAL = frozenset({TokenType.CROSS, TokenType.NATURAL})
_CONDITIONS = frozenset({TokenType.ON, TokenType.USING})
_BEFORE_QUERY = frozenset(
    {
        TokenType.L_PAREN,
        TokenType.UNION,
        TokenType.EXCEPT,
        TokenType.INTERSECT,
        TokenType.ALL,
        TokenType.DISTINCT,
    }
)
_BEFORE_RELATION = frozenset({TokenType.COMMA, TokenType.FROM})
_BEFORE_ANY_RELATION = _BEFORE_RELATION | {TokenType.JOIN}
_JOINS = frozenset(
    [
        *(TokenType.JOIN, TokenType.INNER, TokenType.CROSS, TokenType.LEFT, TokenType.RIGHT, TokenType.FULL),
        *(TokenType.SEMI, TokenType.ANTI, TokenType.NATURAL),
    ]
)
"""FROM t, JOIN u: to Spark a relation called join, whose alias is u. (With a bracket behind it a function.)"""
_BEFORE_NAME = ([TokenType.COMMA], [TokenType.SELECT], [TokenType.NOT], [TokenType.AND], [TokenType.OR])
_BEHIND_SELECT = ([TokenType.DISTINCT], [TokenType.ALL])
"""Behind these FROM is a name to Spark: SELECT a, from(b). sqlglot lets a list end with a comma, and be empty."""
_FUNCTION_NAMES = frozenset(_SPARK.parser_class.FUNC_TOKENS) | {TokenType.VAR, TokenType.IDENTIFIER}
_RELATION_FUNCTIONS = frozenset({"TABLE", "STREAM"})
"""f(TABLE(mv)) and STREAM(mv) name relations, where sqlglot sees functions of columns."""
_WORD = re.compile(r"\w")
_QUERY_WORDS = frozenset({TokenType.SELECT, TokenType.FROM, TokenType.WITH, TokenType.VALUES, TokenType.TABLE})
_SET_OPERATIONS = frozenset({TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT})
_BEHIND_LATERAL = (_FUNCTION_NAMES - _SET_OPERATIONS - _JOINS) | {TokenType.VIEW}
_NO_RELATION = frozenset(
    [*_QUERY_WORDS, TokenType.LATERAL, TokenType.NULL, TokenType.TRUE, TokenType.FALSE, TokenType.NUMBER]
)
"""What may stand behind FROM, in IS DISTINCT FROM NULL too, that names no relation."""
_OF_ROWS = frozenset({TokenType.L_PAREN, TokenType.NUMBER, TokenType.STRING})
"""What surely begins a row of VALUES."""
_SELECT_ALL = ((TokenType.SELECT, "SELECT"), (TokenType.STAR, "*"), (TokenType.FROM, "FROM"))


def _adapted(tokens: Sequence[Token]) -> Iterator[Token]:
    """The tokens, TABLE t made readable for sqlglot (SELECT * FROM t); what is dangerous to parse raises Doubt."""
    if [token.text.upper() for token in tokens[:4]] == ["MERGE", "WITH", "SCHEMA", "EVOLUTION"]:
        tokens = [tokens[0], *tokens[4:]]
    if sum(token.token_type is TokenType.FROM for token in tokens) > _QUERIES_MAX:
        raise Doubt(f"more than {_QUERIES_MAX} FROMs")
    open_joins = [0]
    previous: TokenType | None = None
    clauses = _Clauses()
    for place, token in enumerate(tokens):
        kind = token.token_type
        clauses.see(kind)
        if kind in _OPENING:
            open_joins.append(0)
            if len(open_joins) > _DEPTH_MAX:
                raise Doubt("nested too deeply")
            if kind is TokenType.L_PAREN and place and tokens[place - 1].text.upper() == "IDENTIFIER":
                raise Doubt("IDENTIFIER(…) names something at run time")
        elif kind in _CLOSING and len(open_joins) > 1:
            open_joins.pop()
        elif kind in _JOINS and previous in _BEFORE_RELATION and not _opens(tokens, place + 1):
            raise Doubt("a relation called join")
        elif kind is TokenType.JOIN and previous not in _UNCONDITIONAL:
            open_joins[-1] += 1
            if open_joins[-1] > _OPEN_JOINS_MAX:
                raise Doubt("many joins without a condition")
        elif kind is TokenType.SELECT and previous in _BEFORE_ANY_RELATION:
            raise Doubt("a relation called select")
        elif token.text.upper() == "STREAM" and place + 1 < len(tokens) and _may_be_name(tokens[place + 1]):
            raise Doubt("STREAM of a relation")
        elif kind is TokenType.VALUES and not _has_row(tokens, place + 1):
            raise Doubt("something is called values")
        elif kind is TokenType.FROM and _is_name_there(tokens, place):
            raise Doubt("something is called from")
        elif kind is TokenType.LATERAL and not _is_lateral(tokens, place):
            raise Doubt("something is called lateral")
        elif kind is TokenType.STRAIGHT_JOIN:
            raise Doubt("no word of Spark's: STRAIGHT_JOIN")
        elif kind in _CONDITIONS and open_joins[-1]:
            open_joins[-1] -= 1
        elif kind is TokenType.TABLE and _begins_query(tokens, place):
            yield from (Token(kind, text, token.line, token.col, token.start, token.end) for kind, text in _SELECT_ALL)
            continue
        previous = kind
        yield token


class _Clauses:
    """FROM t SELECT a: another FROM in the same brackets is a name to Spark."""

    def __init__(self) -> None:
        self._first: list[TokenType | None] = [None]
        """Of each open bracket, and of the text outside of all: SELECT or FROM, as the query there begins, and"""
        self._selected = [False]
        """whether its SELECT has come."""

    def see(self, kind: TokenType) -> None:
        """Raises Doubt."""
        if kind is TokenType.L_PAREN:
            self._first.append(None)
            self._selected.append(False)
        elif kind is TokenType.R_PAREN and len(self._first) > 1:
            self._first.pop()
            self._selected.pop()
        elif kind in _SET_OPERATIONS:
            self._first[-1], self._selected[-1] = None, False
        elif kind is TokenType.FROM and self._first[-1] is TokenType.FROM and self._selected[-1]:
            raise Doubt("a second FROM")
        elif kind is TokenType.SELECT or kind is TokenType.FROM:
            self._first[-1] = self._first[-1] or kind
            self._selected[-1] |= kind is TokenType.SELECT


def _has_row(tokens: Sequence[Token], place: int) -> bool:
    kinds = [token.token_type for token in tokens[place : place + 2]]
    return kinds[:1] != [] and kinds[0] in _OF_ROWS and kinds != [TokenType.L_PAREN, TokenType.R_PAREN]


def _opens(tokens: Sequence[Token], place: int) -> bool:
    return place < len(tokens) and tokens[place].token_type is TokenType.L_PAREN


def _is_lateral(tokens: Sequence[Token], place: int) -> bool:
    """Whether the word LATERAL at `place` stands before a query, VIEW, or a function of rows."""
    if _opens(tokens, place + 1):
        return _holds_query(tokens, place + 1)
    after = tokens[place + 1].token_type if place + 1 < len(tokens) else None
    return after in _BEHIND_LATERAL


def _holds_query(tokens: Sequence[Token], place: int) -> bool:
    """Whether a query stands behind the bracket at `place`, and those that follow it."""
    while _opens(tokens, place):
        place += 1
    return place < len(tokens) and tokens[place].token_type in _QUERY_WORDS


def _is_name_there(tokens: Sequence[Token], place: int) -> bool:
    """Whether the word FROM at `place` can be no clause: behind a comma, SELECT DISTINCT, or the bracket of a call; or
    where a row (SELECT * from(a), b) begins like a query."""
    before = [token.token_type for token in tokens[max(0, place - 2) : place]]
    if before == [TokenType.SELECT, TokenType.STAR] and place > 2 and _opens(tokens, place - 3):
        return _opens(tokens, place + 1) and not _holds_query(tokens, place + 1)
    if before[-1:] == [TokenType.L_PAREN]:
        return _opens(tokens, place + 1)
    return before[-1:] in _BEFORE_NAME or (before[:1] == [TokenType.SELECT] and before[1:] in _BEHIND_SELECT)


def _check_types(tokens: Iterable[Token]) -> None:
    """Raises Doubt for types within types that would take long to parse."""
    opened: list[tuple[TokenType, bool]] = []
    depth = within = 0
    after_type = after_nested = False
    before = ""
    for token in tokens:
        kind, of_type, after_type = token.token_type, after_type, token.token_type in _TYPES
        of_nested, after_nested = after_nested, kind in _NESTED_TYPES
        if kind is TokenType.L_BRACKET and before == "IF":
            raise Doubt("no expression of Spark's: IF[")
        before = token.text.upper()
        # (After the name of another type, as many columns have one, a < is a comparison.)
        if kind in _OPENING_TYPES and (of_nested or kind is not TokenType.LT):
            opened.append((kind, of_type))
            depth += of_type
            within += of_type and depth > 2
            if depth > _TYPES_DEPTH_MAX or within > _TYPES_WITHIN_MAX:
                raise Doubt("types nested too deeply")
        elif opener := _OPENING_OF.get(kind):
            # A < that was no type's has no >, and ends with the bracket around it.
            while opened and opened[-1][0] is TokenType.LT is not opener:
                depth -= opened.pop()[1]
            if opened and opened[-1][0] is opener:
                after_type = opener is TokenType.LT
                depth -= opened.pop()[1]


def _is_name(token: Token) -> bool:
    return token.token_type is TokenType.IDENTIFIER or _WORD.match(token.text) is not None


def _may_be_name(token: Token) -> bool:
    """A string is one where double quotes hold identifiers."""
    return _is_name(token) or token.token_type is TokenType.STRING


def _begins_query(tokens: Sequence[Token], place: int) -> bool:
    """Is the word TABLE at `place` the query TABLE t?"""
    if place + 1 >= len(tokens):
        return False
    after = tokens[place + 1]
    if after.token_type is TokenType.FROM or not _is_name(after):
        return False
    before = tokens[place - 1].token_type if place else None
    if before is TokenType.R_PAREN:  # after the CTEs, perhaps of a query in brackets
        return any(token.token_type is TokenType.WITH for token in tokens[:place])
    return before is None or before in _BEFORE_QUERY


# --- what a tree says --------------------------------------------------------------------------------


def _describe(tree: exp.Expr, calls: tuple[Parts, ...], text: str) -> Forwarded:
    for part in tree.find_all(exp.Command, exp.Directory, exp.Semicolon, exp.Anonymous, exp.Lateral):
        if isinstance(part, exp.Lateral):
            if isinstance(part.this, exp.Identifier):
                raise Doubt("LATERAL before a relation's name")
            continue
        if not isinstance(part, exp.Anonymous):
            raise Doubt("holds a part that is not parsed")
        if part.name.upper() in _RELATION_FUNCTIONS:
            raise Doubt(f"{part.name} of a relation")
    targets = _targets(tree)
    reads: list[Reference] = []
    for table in tree.find_all(exp.Table):
        if any(table is target for target in targets):
            continue
        reference = _reference(table, text)
        if reference is not None:
            reads.append(reference)
    reads.sort(key=lambda reference: reference.start)
    return Forwarded(
        reads=tuple(reads),
        writes=tuple(dict.fromkeys(_named(target, text).parts for target in targets)),
        calls=calls,
        # What follows a pipe may bring rows again.
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


def _reference(table: exp.Table, text: str) -> Reference | None:
    """The mention; None for a table function, a hint's argument or the name of a CTE."""
    if isinstance(table.this, exp.Func):
        return None
    if table.args.get("db"):
        return _named(table, text)
    bound = _is_bound(table, str)
    # sqlglot makes CTEs of what stands between pipes, named by itself or by `|> AS t`.
    if bound and ("|>" not in text or table.name not in text):
        return None
    return replace(_named(table, text), perhaps=bound or _is_bound(table, str.lower))


def _named(table: exp.Table, text: str) -> Reference:
    """The name with its place. Raises Doubt where the text at that place is not the name."""
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


def _is_bound(table: exp.Table, fold: Callable[[str], str]) -> bool:
    """Does the name mean a CTE here, or nothing (in a hint)? `fold` makes names equal.

    A CTE's body sees the CTEs before it; its own name only if it is recursive: `WITH t AS (SELECT * FROM t)` reads
    the table t.
    """
    name = fold(table.name)
    child: exp.Expr = table
    own: exp.CTE | None = None
    while (parent := child.parent) is not None:
        if isinstance(parent, exp.Hint):
            return True
        if isinstance(child, exp.CTE):
            own = child
        with_ = parent.args.get("with_")
        if with_ is not None and _binds(with_, name, own if child is with_ else None, fold):
            return True
        child = parent
    return False


def _binds(with_: exp.Expr, name: str, inside: exp.CTE | None, fold: Callable[[str], str]) -> bool:
    """Does this WITH give `name` a meaning, seen from the body of its CTE `inside` or from outside all of them?"""
    for cte in with_.expressions:
        if cte is inside:
            return bool(with_.args.get("recursive")) and inside is not None and fold(inside.alias) == name
        if fold(cte.alias) == name:
            return True
    return False


def _calls(tokens: Sequence[Token]) -> tuple[Parts, ...]:
    """The names that stand before a bracket: functions, built-in ones among them."""
    calls: dict[Parts, None] = {}
    for place, token in enumerate(tokens):
        if token.token_type is not TokenType.L_PAREN or not place:
            continue
        place -= 1
        if tokens[place].token_type is TokenType.STRING:
            raise Doubt("a function's name in double quotes")
        if tokens[place].token_type not in _FUNCTION_NAMES and not _WORD.match(tokens[place].text):
            continue
        parts = [tokens[place].text]
        while place >= 2 and tokens[place - 1].token_type is TokenType.DOT:
            place -= 2
            parts.append(tokens[place].text)
        calls[tuple(reversed(parts))] = None
    return tuple(calls)


# --- probes ------------------------------------------------------------------------------------------


def _is_empty(tree: exp.Expr) -> bool:
    """Does a constant at the top leave no row of the query, whatever the tables hold (schema probes of BI tools)?"""
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
    # An aggregate answers one row all the same; what it shows must not come from a subquery beside FROM.
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
        # To Spark `FROM t WHERE (false)` gives t the name `where` and its column the name `false`.
        return condition.this is False and not bracketed
    if not isinstance(condition, exp.EQ):
        return False
    left, right = condition.this, condition.expression
    numbers = all(
        isinstance(side, exp.Literal) and not side.is_string and side.name.isdecimal() for side in (left, right)
    )
    return numbers and int(left.name) != int(right.name)


def without_rows(found: Forwarded) -> Forwarded:
    """The same statement, only looked at: EXPLAIN and DESCRIBE run nothing and change nothing."""
    return replace(found, writes=(), touches_rows=False, creates_view=None, drops=None, changes_namespace=False)
