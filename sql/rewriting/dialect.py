"""Parses the shape of a query with sqlglot, and prints trees.

sqlglot's own functions would be printed in other words than the client's, so that names of functions are hidden from
its parser: every call is `exp.Anonymous`, with its name and arguments as written. Each hole is a string literal with a
mark. What is printed is only proposed: Spark's plans show whether it means the same.
"""

from __future__ import annotations

import re

from sqlglot import exp

from sql.definition.functions import NO_FUNCTIONS
from sql.reading.doubts import adapted
from sql.reading.parsing import SPARK, Doubt, trees_of
from sql.rewriting.shape import HOLE, Shape
from sql.rewriting.template import RELATION, hole_of, mark_of

PIECES_MAX = 3_000
"""Words and symbols of a query: a tenth of a second of work."""
WRITTEN = "written"
"""What a literal with a mark stands for, among its notes."""
_PREFIX = "f__"
_WORD = re.compile(r"\w+\Z")
_PARSED_CALLS = NO_FUNCTIONS | frozenset(
    {"cast", "try_cast", "extract", "decimal", "dec", "numeric", "char", "character", "values", "partition", "by"}
)
"""Words before brackets that sqlglot must see: those of the grammar, and calls with words between their arguments."""
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_KEYWORDS = frozenset(SPARK.tokenizer_class.KEYWORDS)
_BEFORE_ALIAS = frozenset({"AS", ")", "WITH"})


def parsed(shape: Shape) -> exp.Query:
    """The tree of a query. Raises Doubt, nothing else."""
    if len(shape.pieces) > PIECES_MAX:
        raise Doubt("it is too long")
    try:
        text = _marked(shape)
        tokens = SPARK.tokenize(text)
        trees = trees_of(list(adapted(tokens)), text)
    except Doubt:
        raise
    except RecursionError:
        raise Doubt("it is nested too deeply") from None
    except Exception as error:  # whatever another parser raises must not stop a client's statement
        raise Doubt(f"it is not parsed ({type(error).__name__})") from error
    tree = trees[0] if len(trees) == 1 else None
    if not isinstance(tree, exp.Query):
        raise Doubt("it is not a query")
    for node in tree.find_all(exp.Anonymous, exp.Literal):
        if isinstance(node, exp.Anonymous):
            node.set("this", node.name.removeprefix(_PREFIX))
        elif (number := hole_of(node.name)) is not None:
            node.meta[WRITTEN] = shape.literals[number]
    return tree


def _marked(shape: Shape) -> str:
    """The text that is parsed: without hints, marks in its holes, names of functions hidden."""
    words: list[str] = []
    number = 0
    previous = ""
    pieces = shape.pieces
    for place, piece in enumerate(pieces):
        if piece[0] == HOLE:
            words.append(f"'{mark_of(number)}'")
            number += 1
        elif piece.startswith("/*+"):
            continue
        elif place + 1 < len(pieces) and pieces[place + 1] == "(" and _is_call(piece, previous):
            words.append(_PREFIX + piece)
        else:
            words.append(piece)
        previous = piece
    return " ".join(words)


def _is_call(piece: str, previous: str) -> bool:
    return piece.lower() not in _PARSED_CALLS and previous not in _BEFORE_ALIAS and _WORD.match(piece) is not None


def printed(tree: exp.Expr) -> str:
    """The tree as SQL, with the marks of its holes."""
    return SPARK.generate(tree, copy=False, normalize_functions=False, comments=False)


def identifier(name: str) -> exp.Identifier:
    """A name, in back quotes where it could be read as anything else."""
    plain = _PLAIN_NAME.fullmatch(name) is not None and name.upper() not in _KEYWORDS
    return exp.Identifier(this=name, quoted=not plain)


def view_relation(alias: str) -> exp.Table:
    """The view in FROM."""
    return exp.Table(this=exp.Identifier(this=RELATION, quoted=False), alias=exp.TableAlias(this=identifier(alias)))
