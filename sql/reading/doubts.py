"""Finds texts that sqlglot does not parse like Spark, or cannot parse safely; their names are guessed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from sql.reading.parsing import SPARK, Doubt

_DEPTH_MAX = 100
"""The maximum nesting of brackets. At tens of thousands, the compiled parser overflows the C stack and crashes."""
_TYPES_DEPTH_MAX = 20
"""The maximum nesting of ARRAY<ARRAY<…, with which the time grows quadratically."""
_QUERIES_MAX = 1_000
"""The maximum number of FROMs, for the same reason: `FROM FROM FROM …` nests without brackets."""

_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE, TokenType.STRUCT})
_NESTED_TYPES = frozenset(SPARK.parser_class.NESTED_TYPE_TOKENS)
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END})
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
"""In FROM t, JOIN u, Spark reads a relation called join with the alias u (or a function, before a bracket)."""
_BEFORE_NAME = ([TokenType.COMMA], [TokenType.SELECT], [TokenType.NOT], [TokenType.AND], [TokenType.OR])
_BEHIND_SELECT = ([TokenType.DISTINCT], [TokenType.ALL])
"""After these, FROM is a name to Spark: SELECT a, from(b). For sqlglot, lists may be empty or end with a comma."""
FUNCTION_NAMES = frozenset(SPARK.parser_class.FUNC_TOKENS) | {TokenType.VAR, TokenType.IDENTIFIER}
_WORD = re.compile(r"\w")
_QUERY_WORDS = frozenset({TokenType.SELECT, TokenType.FROM, TokenType.WITH, TokenType.VALUES, TokenType.TABLE})
_SET_OPERATIONS = frozenset({TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT})
_BEHIND_LATERAL = (FUNCTION_NAMES - _SET_OPERATIONS - _JOINS) | {TokenType.VIEW}
_BEGIN_CLAUSES = frozenset(
    [
        *(TokenType.SELECT, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY, TokenType.LIMIT),
        *(TokenType.WINDOW, TokenType.OFFSET, TokenType.QUALIFY, *_SET_OPERATIONS),
    ]
)
_NO_RELATION = frozenset(
    [*_QUERY_WORDS, TokenType.LATERAL, TokenType.NULL, TokenType.TRUE, TokenType.FALSE, TokenType.NUMBER]
)
"""What may follow FROM, also in IS DISTINCT FROM NULL, and is not a relation."""
_OPERATORS = frozenset(
    ["AND", "OR", "IS", "IN", "NOT", "LIKE", "ILIKE", "RLIKE", "REGEXP", "BETWEEN", "DIV", "COLLATE"]
)
"""Words of an expression after a name."""
_PREFIXES = frozenset({TokenType.CASE, TokenType.NOT, TokenType.EXISTS, TokenType.INTERVAL, *_QUERY_WORDS})
"""Words of an expression before a name."""
_OF_ROWS = frozenset({TokenType.L_PAREN, TokenType.NUMBER})
"""What certainly begins a row of VALUES. (Text in double quotes may be an alias.)"""
_SELECT_ALL = ((TokenType.SELECT, "SELECT"), (TokenType.STAR, "*"), (TokenType.FROM, "FROM"))


def adapted(tokens: Sequence[Token]) -> Iterator[Token]:  # noqa: C901 (one pass over the tokens)
    """The tokens, with TABLE t written as SELECT * FROM t for sqlglot. Raises Doubt if parsing is dangerous."""
    if [token.text.upper() for token in tokens[:4]] == ["MERGE", "WITH", "SCHEMA", "EVOLUTION"]:
        tokens = [tokens[0], *tokens[4:]]
    if sum(token.token_type is TokenType.FROM for token in tokens) > _QUERIES_MAX:
        raise Doubt(f"more than {_QUERIES_MAX} FROMs")
    withs = [place for place, token in enumerate(tokens) if token.token_type is TokenType.WITH]
    if len(withs) > 1 and any(token.text.upper() == "RECURSIVE" for token in tokens):
        raise Doubt("WITH beside WITH RECURSIVE")  # sqlglot takes the CTEs of both for recursive ones.
    ends, depth, types = _ends(tokens), 0, 0
    previous: TokenType | None = None
    clauses = _Clauses()
    for place, token in enumerate(tokens):
        kind = token.token_type
        clauses.see(kind)
        if kind in _OPENING:
            depth += 1
            if depth >= _DEPTH_MAX:
                raise Doubt("nested too deeply")
            if kind is TokenType.L_PAREN and place and tokens[place - 1].text.upper() == "IDENTIFIER":
                raise Doubt("IDENTIFIER(…) names something at run time")
            if kind is TokenType.L_BRACKET and place and tokens[place - 1].text.upper() == "IF":
                raise Doubt("IF[ is not an expression of Spark")
        elif kind in _CLOSING and depth:
            depth -= 1
        elif kind is TokenType.LT and previous in _NESTED_TYPES:
            types += 1
            if types > _TYPES_DEPTH_MAX:
                raise Doubt("types nested too deeply")
        elif kind is TokenType.GT and types:
            types -= 1
        elif kind in _JOINS and previous in _BEFORE_RELATION and not _opens(tokens, place + 1):
            raise Doubt("a relation called join")
        elif (kind in _BEGIN_CLAUSES and previous in (TokenType.FROM, TokenType.JOIN)) or (
            kind is TokenType.SELECT and previous is TokenType.COMMA
        ):
            raise Doubt(f"a relation called {token.text.lower()}")
        elif token.text.upper() == "STREAM" and place + 1 < len(tokens) and _may_be_name(tokens[place + 1]):
            raise Doubt("STREAM of a relation")
        elif kind is TokenType.VALUES and not (_has_row(tokens, place + 1) and _are_rows(tokens, place + 1, ends)):
            raise Doubt("something is called values")
        elif kind is TokenType.FROM and _is_name_there(tokens, place):
            raise Doubt("something is called from")
        elif kind is TokenType.WHERE and _is_alias_there(tokens, place, ends):
            raise Doubt("something is called where")
        elif kind is TokenType.LATERAL and not _is_lateral(tokens, place):
            raise Doubt("something is called lateral")
        elif kind is TokenType.STRAIGHT_JOIN:
            raise Doubt("STRAIGHT_JOIN is not a Spark keyword")
        elif kind is TokenType.TABLE and _begins_query(tokens, place, follows_with=bool(withs) and withs[0] < place):
            yield from (Token(kind, text, token.line, token.col, token.start, token.end) for kind, text in _SELECT_ALL)
            continue
        previous = kind
        yield token


def _ends(tokens: Sequence[Token]) -> dict[int, int]:
    """The place of the closing bracket, by the place of the opening one. Those that stay open are left out."""
    opened: list[int] = []
    found: dict[int, int] = {}
    for place, token in enumerate(tokens):
        if token.token_type is TokenType.L_PAREN:
            opened.append(place)
        elif token.token_type is TokenType.R_PAREN and opened:
            found[opened.pop()] = place
    return found


class _Clauses:
    """After FROM t SELECT a, another FROM in the same brackets is a name to Spark."""

    def __init__(self) -> None:
        self._first: list[TokenType | None] = [None]
        """The first word of the query, SELECT or FROM, for each open bracket and the text outside of all brackets."""
        self._selected = [False]
        """Whether the query's SELECT has come, for each of these."""

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


def _are_rows(tokens: Sequence[Token], place: int, ends: Mapping[int, int]) -> bool:
    """Whether the brackets after VALUES contain rows. In VALUES (1), (t a), t may also be a relation with an alias."""
    while _opens(tokens, place):
        if place + 1 < len(tokens) and _is_relation_there(tokens, place + 1):
            return False
        place = ends.get(place, len(tokens))
        place += 2 if place + 1 < len(tokens) and tokens[place + 1].token_type is TokenType.COMMA else 1
    return True


def _is_relation_there(tokens: Sequence[Token], place: int) -> bool:
    """Whether a name at `place` is followed by an alias or a join."""
    if not is_name(tokens[place]) or tokens[place].token_type in _PREFIXES:
        return False
    place += 1
    while place + 2 < len(tokens) and tokens[place].token_type is TokenType.DOT:
        place += 2
    if place == len(tokens) or tokens[place].token_type in (TokenType.STRING, TokenType.NUMBER):
        return False
    return is_name(tokens[place]) and tokens[place].text.upper() not in _OPERATORS


def _opens(tokens: Sequence[Token], place: int) -> bool:
    return place < len(tokens) and tokens[place].token_type is TokenType.L_PAREN


def _is_lateral(tokens: Sequence[Token], place: int) -> bool:
    """Whether the word LATERAL at `place` precedes a query, VIEW or a table function."""
    after = tokens[place + 1].token_type if place + 1 < len(tokens) else None
    if after is TokenType.L_PAREN:
        # LATERAL (VALUES (1)) and LATERAL ((SELECT 1)) may be calls of a function.
        return place + 2 < len(tokens) and tokens[place + 2].token_type in _QUERY_WORDS - {TokenType.VALUES}
    return after in _BEHIND_LATERAL


def _is_alias_there(tokens: Sequence[Token], place: int, ends: Mapping[int, int]) -> bool:
    """Whether the word WHERE at `place` is an alias with columns: FROM t where(a), u. A condition has no comma."""
    behind = ends.get(place + 1, len(tokens)) + 1
    return behind < len(tokens) and tokens[behind].token_type is TokenType.COMMA


def _holds_query(tokens: Sequence[Token], place: int) -> bool:
    """Whether a query follows the bracket at `place` and any brackets after it."""
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


def is_name(token: Token) -> bool:
    """Whether it is a word or a name in back quotes."""
    return token.token_type is TokenType.IDENTIFIER or _WORD.match(token.text) is not None


def _may_be_name(token: Token) -> bool:
    """Strings count, because double quotes may contain identifiers."""
    return is_name(token) or token.token_type is TokenType.STRING


def _begins_query(tokens: Sequence[Token], place: int, *, follows_with: bool) -> bool:
    """Whether the word TABLE at `place` is the query TABLE t. `follows_with`: the word WITH stands before it."""
    if place + 1 >= len(tokens):
        return False
    after = tokens[place + 1]
    if after.token_type is TokenType.FROM or not is_name(after):
        return False
    before = tokens[place - 1].token_type if place else None
    if before is TokenType.R_PAREN:  # After CTEs, perhaps those of a query in brackets.
        return follows_with
    return before is None or before in _BEFORE_QUERY


def check_none_left_out(tree: exp.Expr, tokens: Sequence[Token]) -> None:
    """Raises Doubt if a name after FROM or JOIN is neither a relation nor a column in the tree."""
    names = (each.parts for each in tree.find_all(exp.Table, exp.Column) if isinstance(each, exp.Table | exp.Column))
    known = {part.meta.get("start") for parts in names for part in parts}
    for place, token in enumerate(tokens[:-1]):
        after = tokens[place + 1]
        if token.token_type not in _BEFORE_ANY_RELATION or token.token_type is TokenType.COMMA:
            continue
        if after.token_type in _NO_RELATION or not is_name(after) or _opens(tokens, place + 2):
            continue
        if after.start not in known:
            raise Doubt(f"a relation that is left out: {after.text}")
