"""Text -> decision: a cheap look first, a parse only when it is needed."""

from __future__ import annotations

import re

from sql.grammar import parser, transactions
from sql.reading import effects
from sql.reading.within import within
from sql.scan import folded, skip_blank
from sql.statement import Glance, Statement

_WORD = re.compile(r"\w+")
_SEPARATORS = {code: " " for code in range(128) if not _WORD.match(chr(code))}
_HEAD = re.compile(r"[\s(]*(\w+)")
# An unclosed quote takes the rest: to try again from each quote after it would take quadratic time.
_WHOLE = {quote: re.compile(rf"{quote}((?:[^{quote}]|{quote}{quote})*+)(?:{quote}|\Z)") for quote in '`"'}
_FIRST_WORDS = ("create", "drop", "refresh", "alter", "show", "comment", "analyze", "pause", "resume", "cancel")
_SECOND_WORDS = {
    **dict.fromkeys(_FIRST_WORDS, frozenset({"materialized"})),
    **dict.fromkeys(("describe", "desc", "explain"), frozenset({"materialized"})),
    "show": frozenset({"materialized", "jobs", "tasks"}),
    "call": frozenset({"refresh_materialized_view"}),
}
"""Words of which a statement of ours holds one, by its first word."""
_NONE = frozenset[str]()
_DOUBLE_QUOTED_NAME = re.compile(
    r"""\.\s?"|"\s?\.|(?:,|\b(?:from|join|table|stream|into|view|using|update|function|exists|overwrite))[\s(]*+\"""",
    re.IGNORECASE,
)
"""Where what stands between double quotes may be a name."""
_RUNS_STRINGS = frozenset({"immediate", "identifier", "call"})
"""Words of texts that run, or name something by, what their strings hold."""


def glance(text: str) -> Glance:
    """One cheap look, about 10 microseconds for a short query: the first word, and every word of the text, folded.

    `words` is a superset: words in comments and strings are in it too, so a name that is not in it is nowhere in the
    text. (A name composed at run time is beyond any look at the text.)
    """
    words = _words(text)
    if not words.isdisjoint(_RUNS_STRINGS):
        words.update(*map(_words, within(text).texts))
    keyword = _keyword(folded(text))
    ours = keyword in transactions.FIRST_WORDS or not _SECOND_WORDS.get(keyword, _NONE).isdisjoint(words)
    return Glance(keyword, frozenset(words), ours)


def _words(text: str) -> set[str]:
    """Those of one text, as names are folded and as keywords are."""
    if text.isascii():
        # Three times as fast as the expression, which knows letters of all languages.
        text = text.lower()
        words = set(text.translate(_SEPARATORS).split())
    else:
        words = {word.lower() for word in _WORD.findall(text)}
        words.update(_WORD.findall(folded(text)))
    if "`" in text:
        words |= _quoted(text, "`")
    # "x-y", with spark.sql.ansi.doubleQuotedIdentifiers. Mostly double quotes hold strings, which may be many.
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
    """Names between back quotes, or double quotes, whole and by their dots.

    Every stretch between two quotes counts, so that a lone one in a string or a comment hides nothing; of names that
    hold doubled quotes those that begin at the first, third … quote, and those that begin at the others.
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
    # Each by itself: how a Greek sigma is folded depends on what follows.
    return names if text.isascii() else {name.lower() for name in names}


def classify(text: str, look: Glance | None = None) -> Statement:
    """What `text` is. Raises `parser.SyntaxProblem` for a faulty statement of ours; never for any other text. `look`:
    its glance, where that is at hand."""
    look = glance(text) if look is None else look
    if look.maybe_command and (command := parser.parse(text)) is not None:
        return command
    return effects.forwarded(text, look.keyword)
