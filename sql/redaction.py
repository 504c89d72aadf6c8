"""Redacts passwords in texts that are logged: statements, and messages that quote them.

A value is secret if the name before it matches Spark's setting `spark.redaction.regex` or some further words. Names are
searched everywhere, also in literals and comments, because a literal may contain another statement, and the text may be
truncated anywhere. In doubt, more is redacted than necessary. Values in rows are not redacted: in `INSERT INTO users
VALUES ('eve', 'x')` no name indicates that `x` is a password.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import cached_property

REPLACEMENT = "***"
WORK_MAX = 20
"""How often each character may be read on average. If nesting exceeds it, the rest of the text is redacted."""

_SECRET = (
    r"secret|passw|pwd|passphrase|token|credential|signature|access[._-]?key|account[._-]?key|private[._-]?key|"
    r"api[._-]?key|(?<![a-z])pass(?![a-z])|(?<![a-z])sig(?==)"
)
_WORTH_A_LOOK = re.compile(rf"{_SECRET}|://|:thin:|identified|aes_|authorization|bearer", re.IGNORECASE)
_KEY = re.compile(rf"(?:{_SECRET})[\w.:$-]*", re.IGNORECASE)
_BLANK = re.compile(r"(?:\s|--[^\n]*\n)*")
_COMMENT_END = re.compile(r"\*/")
_REST_OF_KEY = re.compile(r"[^'\"`\n,;()=]{0,80}(?=\\*['\"`])")
_CLOSING = re.compile(r"\\*['\"`]+")
_ASSIGNED = re.compile(r"=>|==?|::?|%3d", re.IGNORECASE)
_OPENING = re.compile(r"[rRxX]?(\\*)(['\"])")
_NUMBER = re.compile(r"[+-]?[\d.]+\w*")
_WORD = re.compile(r"[^\W\d][\w.]*|`[^`]*`(?:\.`[^`]*`)*")
_RAW = re.compile(r"\{[^}]*\}?|\$\{[^}]*\}?|[^\s'\"`,;()&\\]+")
_JOINING = re.compile(r"\|\||\+")
_AFTER_NAMES = frozenset(
    {
        "and",
        "as",
        "asc",
        "at",
        "by",
        "desc",
        "end",
        "false",
        "from",
        "full",
        "group",
        "having",
        "in",
        "inner",
        "into",
        "is",
        "join",
        "left",
        "like",
        "limit",
        "not",
        "null",
        "on",
        "or",
        "order",
        "over",
        "right",
        "select",
        "set",
        "similar",
        "then",
        "true",
        "using",
        "values",
        "when",
        "where",
    }
)
"""Words that may be between a column's name and a parenthesis. They are not functions, so no value begins with them."""
_SETTING = re.compile(rf"\bset\s+[`'\"]?[\w.:$-]*(?:{_SECRET})[^=\n]{{0,80}}=", re.IGNORECASE)
_RUN = re.compile(r"[^\s'\"`]+")
_USER = re.compile(r"(?:://|:thin:)[^@/:?#]*[:/]", re.IGNORECASE)
_IDENTIFIED = re.compile(r"\bidentified\s+by\s+(?:password\s+)?", re.IGNORECASE)
_SCHEME = re.compile(r"(?:\bauthorization\W{1,6}\w+|\bbearer)\s+(?=[\w.~+/=-]{6})", re.IGNORECASE)
_CREDENTIALS = re.compile(r"[\w.~+/=-]+")
_CIPHER = re.compile(r"\baes_(?:en|de)crypt\s*(?=\()", re.IGNORECASE)


class _SearchedText(str):
    """A text whose comment ends are searched only once, because the start of a comment may follow many names."""

    @cached_property
    def comment_ends(self) -> list[int]:
        return [found.end() for found in _COMMENT_END.finditer(self)]

    def behind_comment(self, at: int) -> int:
        """The end of the comment that begins at `at`, or of the text if it is truncated."""
        # The end may not overlap the start: /*/ is unclosed.
        following = bisect_left(self.comment_ends, at + 4)
        return self.comment_ends[following] if following < len(self.comment_ends) else len(self)


def redact(text: str, *, cut: bool = False) -> str:
    """The text with `***` in place of each value that may be a password. `cut`: the end of the text is missing.

    It takes time in proportion to the text's length.
    """
    if _WORTH_A_LOOK.search(text) is None:
        return text
    if found := _SETTING.search(text):
        # The value of SET is everything after the =, including semicolons and line ends.
        return _redact_values(text[: found.end()]) + REPLACEMENT
    return _redact_values(_RUN.sub(lambda run: _without_userinfo(run[0], cut=cut and run.end() == len(text)), text))


def _without_userinfo(run: str, *, cut: bool) -> str:
    """A run of characters that may be a URL, such as `https://eve:password@host`, without the password. If it is
    truncated, the @ may be missing."""
    if "://" not in run and ":thin:" not in run.lower():
        return run
    user = _USER.search(run)
    end = run.rfind("@")
    if end < 0 and cut:
        end = len(run)
    return run if user is None or end < user.end() else run[: user.end()] + REPLACEMENT + run[end:]


def _redact_values(text: str) -> str:
    pieces: list[str] = []
    done = 0
    for start, end in _values(_SearchedText(text)):
        if end > done:
            pieces += text[done : max(start, done)], REPLACEMENT
            done = end
    pieces.append(text[done:])
    return "".join(pieces)


def _values(text: _SearchedText) -> list[tuple[int, int]]:
    """The start and end of each value that the name before it makes secret, sorted by start."""
    found = []
    for names, values_of in ((_KEY, _values_after_key), (_IDENTIFIED, _value_after_identified)):
        work, rest = WORK_MAX * len(text), len(text)
        for match in names.finditer(text):
            if match.start() >= rest:
                break  # The rest is already redacted.
            # Also search within found values: a truncated literal seems to extend to the start of the next literal.
            for start, end in values_of(text, match):
                found.append((start, end))
                work -= end - start
                if end == len(text):
                    rest = min(rest, start)
            if work < 0:
                found.append((match.end(), len(text)))
                break
    for match in _SCHEME.finditer(text):
        if (credentials := _CREDENTIALS.match(text, match.end())) is not None:
            found.append(credentials.span())
    inside = 0
    for match in _CIPHER.finditer(text):
        if match.start() >= inside:
            inside = _parenthesis_end(text, match.end())
            found.append((match.end() + 1, max(inside - 1, match.end() + 1)))
    return sorted(found)


def _value_after_identified(text: _SearchedText, name: re.Match[str]) -> list[tuple[int, int]]:
    at = _skip_blank(text, name.end())
    return [(at, _value_end(text, at) or at)]


def _values_after_key(text: _SearchedText, key: re.Match[str]) -> list[tuple[int, int]]:
    """The possible values that belong to a name."""
    at = key.end()
    rest = _REST_OF_KEY.match(text, at)
    closing = _CLOSING.match(text, rest.end()) if rest is not None else None
    if rest is None or closing is None:
        return _value_behind(text, at)
    if rest.end() == at and _begins_with_quote(text, key.start(), closing[0][-1]):
        return _value_behind(text, closing.end(), listed=True)
    # The quote either begins the value or ends the name: 'password of mine' 'x'.
    values = _value_behind(text, at)
    if _is_end_of_name(text, closing.end()):
        values += _value_behind(text, closing.end(), listed=True)
    return values


def _value_behind(text: _SearchedText, at: int, *, listed: bool = False) -> list[tuple[int, int]]:
    """The value of a name that ends at `at`, if there is one. `listed`: also after a comma, as in map('token', 'x')."""
    behind = _skip_blank(text, at)
    if listed and text.startswith(",", behind):
        start = _skip_blank(text, behind + 1)
        end = _literal_end(text, start)
    else:
        assigned = _ASSIGNED.match(text, behind)
        start = _skip_blank(text, assigned.end()) if assigned else behind
        end = _value_end(text, start, raw=assigned is not None)
    return [] if end is None else [(start, end)]


def _begins_with_quote(text: str, at: int, quote: str) -> bool:
    """Whether this quote directly precedes the name around `at`."""
    while at and (text[at - 1].isalnum() or text[at - 1] in "_.:$-"):
        at -= 1
    return text[at - 1 : at] == quote


def _is_end_of_name(text: _SearchedText, at: int) -> bool:
    """Whether a quote that ends at `at` closes a name, so that the value follows."""
    behind = _skip_blank(text, at)
    return bool(_ASSIGNED.match(text, behind) or _OPENING.match(text, behind) or text[behind : behind + 1] == ",")


def _skip_blank(text: _SearchedText, at: int) -> int:
    """The position after blanks and comments."""
    while True:
        blank = _BLANK.match(text, at)
        at = blank.end() if blank else at
        if not text.startswith("/*", at):
            return at
        at = text.behind_comment(at)


def _value_end(text: _SearchedText, at: int, *, raw: bool = False) -> int | None:
    """The end of the expression that begins at `at`; None if there is none. `raw`: any run of characters is an
    expression."""
    end = _operand_end(text, at, raw=raw)
    while end is not None:
        following = _skip_blank(text, end)
        joined = _JOINING.match(text, following)
        start = _skip_blank(text, joined.end()) if joined else following
        more = _operand_end(text, start, raw=False) if joined else _literal_end(text, start)
        if more is None:
            return end
        end = more
    return None


def _operand_end(text: _SearchedText, at: int, *, raw: bool) -> int | None:
    if (end := _literal_end(text, at)) is not None:
        return end
    if raw and text[at : at + 1] == "(":
        return _parenthesis_end(text, at)
    word = _WORD.match(text, at)
    if word is not None and word[0].lower() not in _AFTER_NAMES:
        opening = _skip_blank(text, word.end())
        if text[opening : opening + 1] == "(":
            return _parenthesis_end(text, opening)
    if raw and (run := _RAW.match(text, at)):
        return run.end()
    number = _NUMBER.match(text, at)
    return number.end() if number else None


def _literal_end(text: str, at: int) -> int | None:
    """The end of the literal that begins at `at`, or of the text if it is truncated; None if no literal begins there.

    The quotes of a literal within another one are escaped by backslashes or doubled; both of its ends are alike.
    """
    opening = _OPENING.match(text, at)
    if opening is None:
        return None
    slashes, quote = opening[1], opening[2]
    if slashes:
        return _behind(text, slashes + quote, opening.end())
    if text.startswith(quote, opening.end()):
        behind = text[opening.end() + 1 : opening.end() + 2]
        if not behind or behind.isspace() or behind in ",);|":
            return opening.end() + 1
        return _behind(text, quote * 2, opening.end() + 1)
    end = opening.end()
    while end < len(text):
        if text[end] == "\\":
            end += 2
        elif text[end] != quote:
            end += 1
        elif text.startswith(quote, end + 1):
            end += 2
        else:
            return end + 1
    return len(text)


def _behind(text: str, delimiter: str, at: int) -> int:
    end = text.find(delimiter, at)
    return len(text) if end < 0 else end + len(delimiter)


def _parenthesis_end(text: str, at: int) -> int:
    """The position after the parenthesis that closes the one at `at`."""
    depth = 0
    while at < len(text):
        literal = _literal_end(text, at) if text[at] in "'\"" else None
        if literal is not None:
            at = literal
            continue
        if text[at] == "(":
            depth += 1
        elif text[at] == ")":
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    return len(text)
