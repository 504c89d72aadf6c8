"""Classifies statements: first by a fast scan of their words, and by parsing only if necessary."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import chain

from sql.grammar import misspelt, parser, transactions
from sql.lexed import Lexed
from sql.reading import effects
from sql.scan import folded, skip_blank
from sql.statement import Forwarded, Glance, Statement
from sql.words import CHARACTERS_MAX

NAMES_MAX = 5_000
"""Names of one statement that are kept; one with more counts as reading and writing everything."""
_WORD = re.compile(r"\w+")
_SEPARATORS = {code: " " for code in range(128) if not _WORD.match(chr(code))}
_HEAD = re.compile(r"[\s(]*(\w+)")
# An unclosed quote extends to the end: trying again from each later quote would take quadratic time.
_WHOLE = {quote: re.compile(rf"{quote}((?:[^{quote}]|{quote}{quote})*+)(?:{quote}|\Z)") for quote in '`"'}
_FIRST_WORDS = ("create", "drop", "refresh", "alter", "show", "comment", "analyze", "pause", "resume", "cancel")
_SECOND_WORDS = {
    **dict.fromkeys(_FIRST_WORDS, frozenset({"materialized"})),
    **dict.fromkeys(("describe", "desc"), frozenset({"materialized"})),
    "explain": frozenset({"materialized", "rewrite"}),
    "show": frozenset({"materialized", "jobs", "tasks", "gateways"}),
    "call": frozenset({"refresh_materialized_view"}),
    **dict.fromkeys(("grant", "revoke"), frozenset({"materialized", "refresh"})),
}
"""By first word, the words of which each of the gateway's own statements contains one."""
_NONE = frozenset[str]()
_DOUBLE_QUOTED_NAME = re.compile(
    r"""\.\s?"|"\s?\.|(?:,|\b(?:from|join|table|stream|into|view|using|update|function|exists|overwrite))[\s(]*+\"""",
    re.IGNORECASE,
)
"""The contexts in which a double-quoted text may be a name."""
_RUNS_STRINGS = frozenset({"immediate", "identifier", "call"})
"""Words that indicate that a statement executes its strings, or uses them as names."""


def glance(lexed: Lexed) -> Glance:
    """Scans the text for its first word and all its words, folded; takes about 10 microseconds for a short query.

    `words` is a superset that includes words in comments and strings, so a name that is not in it does not occur in the
    text. (No scan of the text can find a name that is composed at run time.)
    """
    text = lexed.text
    words = _words(text)
    if not words.isdisjoint(_RUNS_STRINGS):
        words = words.union(*(_words(inner.text) for inner in lexed.within.texts))
    keyword = _keyword(folded(text))
    ours = keyword in transactions.FIRST_WORDS or not _SECOND_WORDS.get(keyword, _NONE).isdisjoint(words)
    ours = ours or (keyword in misspelt.FIRST_WORDS and misspelt.may_be(text))
    return Glance(keyword, words, ours)


def _words(text: str) -> frozenset[str]:
    """The words of a text, folded in the way of names and in the way of keywords."""
    if text.isascii():
        # Three times as fast as the regular expression, which supports the letters of all languages.
        text = text.lower()
        words = frozenset(text.translate(_SEPARATORS).split())
    else:
        words = frozenset([*(word.lower() for word in _WORD.findall(text)), *_WORD.findall(folded(text))])
    if "`" in text:
        words |= _quoted(text, "`")
    # Names such as "x-y", with spark.sql.ansi.doubleQuotedIdentifiers. Most double quotes contain strings, of which
    # there may be many.
    if '"' in text and ("/*" in text or "--" in text or _DOUBLE_QUOTED_NAME.search(text) is not None):
        words |= _quoted(text, '"')
    return words


def _keyword(text: str) -> str:
    found = _HEAD.match(text)
    position = 0 if found is None else found.start(1)
    while found is None or text[position : position + 1] in ("(", "-", "/"):
        position = skip_blank(text, position)
        if text[position : position + 1] != "(":
            found = _HEAD.match(text, position)
            break
        position += 1
    return "" if found is None else found.group(1)


def _quoted(text: str, quote: str) -> set[str]:
    """The names in backquotes or double quotes, as a whole and split at their dots.

    Every stretch between two quotes counts, so that a single quote in a string or a comment hides nothing. Names with
    doubled quotes are searched from the first, third, … quote, and from the second, fourth, … one.
    """
    stretches = set(text.split(quote))
    if quote * 2 in text:
        first = text.find(quote)
        for start in (first, text.find(quote, first + 1)):
            stretches.update(name.replace(quote * 2, quote) for name in _WHOLE[quote].findall(text, start))
    names = set(stretches)
    for stretch in stretches:
        if "." in stretch:
            names.update(stretch.split("."))
    names.discard("")
    # Each by itself, because the folding of a Greek sigma depends on what follows.
    return names if text.isascii() else {name.lower() for name in names}


def classify(lexed: Lexed, look: Glance | None = None) -> Statement:
    """Classifies a statement. Raises `parser.SyntaxProblem` only if one of the gateway's own statements is malformed.
    `look`: the text's glance, if already known."""
    look = glance(lexed) if look is None else look
    if look.maybe_command and (command := parser.parse(lexed)) is not None:
        return command
    return effects.forwarded(lexed, look.keyword)


def with_few_names(statement: Forwarded) -> Forwarded:
    """The statement, or what stands for one of too many names."""
    if len(statement.reads) + len(statement.writes) + len(statement.calls) <= NAMES_MAX:
        names = chain((reference.parts for reference in statement.reads), statement.writes, statement.calls)
        if sum(len(part) for parts in names for part in parts) <= CHARACTERS_MAX:
            return statement
    reason = statement.reason or f"it has more than {NAMES_MAX} names"
    return replace(statement, reads=(), writes=(), calls=(), exact=False, everything=True, reason=reason)
