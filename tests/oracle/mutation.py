"""Generates texts for the oracle: statements of a corpus, mutated or nested, and statements of a grammar."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from oracle.grammar import LITERALS, NAMES, Grammar
from oracle.plans import APART, DEFINED, Settings

LONGEST = 1_200
_PIECE = re.compile(
    r"""\s+ | --[^\r\n]* | /\*.*?\*/ | [rR]?'(?:[^'\\]|\\.|'')*' | [rR]?"(?:[^"\\]|\\.|"")*" | `[^`]*` | \w+ | .""",
    re.VERBOSE | re.DOTALL,
)
BLANKS = (
    *(
        "/**/",
        "/* x */",
        "/* ' */",
        '/* " */',
        "/* ` */",
        "/* /* */ */",
        "/* /* x */ FROM mv */",
        "/*/**/*/",
        "/* -- */",
    ),
    *("--\n", "-- x\n", "-- '\n", "-- /*\n", "--\\\n x\n", "-- \\\nFROM mv\n", "--\r", "--x\r\n", "/* ; */", "-- ;\n"),
    *("\t", "\n", "\r\n", "\r", "  ", "\f", "\v", "\u00a0", "\u2003", "\u3000", "\u1680", "\u200b", "\ufeff", "\x85"),
    *(
        "\u2028",
        "\u180e",
        "\x1c",
        "\x00",
        "/*+ */",
        "/* /*+ */",
        "/* /*+ */ */",
        "/*! x */",
        "/*\n*/",
        "/***/",
        "/*+x*/",
    ),
)
_FOLDING = {"i": "ı", "I": "ı", "s": "ſ", "S": "ſ", "k": "\u212a", "K": "\u212a"}  # noqa: RUF001
_WORDS = (
    *("SELECT", "FROM", "JOIN", "WITH", "AS", "TABLE", "WHERE", "UNION", "LATERAL", "ON", "USING", "VALUES", "LIMIT"),
    *("GROUP", "BY", "ORDER", "INSERT", "INTO", "VIEW", "TEMPORARY", "LEFT", "IN", "EXISTS", "STREAM", "ALL", "SET"),
)
_SYMBOLS = (
    ",",
    "(",
    ")",
    ";",
    ".",
    "|>",
    "*",
    "=",
    "'",
    '"',
    "`",
    "--",
    "/*",
    "*/",
    "+",
    ":",
    "@",
    "{",
    "}",
    "->",
    "?",
)
_TAIL = (
    ";",
    " ;",
    ";;",
    " -- x",
    " /* x */",
    " --",
    "; -- x\n",
    " /*",
    " \\",
    "; SELECT 1",
    "\x00",
    ")",
    " \u3000",
    "--\\\n",
)
_CORPUS_SHARE = 0.45


@dataclass(frozen=True, slots=True)
class Sample:
    """A text with its settings; `number` and the seed reproduce it."""

    number: int
    text: str
    settings: Settings


class Texts:
    """Generates the sample of any number; the same seed always gives the same samples."""

    def __init__(self, corpus: Sequence[str], seed: int) -> None:
        self._seed = seed
        kinds: dict[str, list[str]] = defaultdict(list)
        for text in corpus:
            if len(text) <= LONGEST and APART.isdisjoint(text):
                word = re.search(r"[a-zA-Z]+", text)
                kinds[word.group().lower() if word else ""].append(text)
        self._kinds = list(kinds.values())
        self._all = [text for kind in self._kinds for text in kind]

    def sample(self, number: int) -> Sample:
        random = Random(f"{self._seed}:{number}")
        settings = Settings(*(random.random() < 0.2 for _ in range(3)))
        text = self._base(random)
        for _ in range(random.choice((0, 1, 1, 1, 2, 2, 3))):
            way, _ = random.choices(_WAYS, _WEIGHTS)[0]
            changed = way(self, random, text)
            if len(changed) <= 2 * LONGEST:
                text = changed
        return Sample(number, "".join(each for each in text if each not in APART), settings)

    def _base(self, random: Random) -> str:
        if random.random() > _CORPUS_SHARE:
            return Grammar(random).make("statement")
        return random.choice(random.choice(self._kinds) if random.random() < 0.4 else self._all)

    # --- mutations ---------------------------------------------------------------------------------

    def blanks(self, random: Random, text: str) -> str:
        """Replaces and inserts blanks."""
        parts = pieces(text)
        for _ in range(random.randint(1, 4)):
            place = random.randrange(len(parts)) if parts else 0
            if parts and parts[place].isspace() and random.random() < 0.6:
                parts[place] = random.choice(BLANKS)
            else:
                parts.insert(place, random.choice(BLANKS))
        return "".join(parts)

    def case(self, random: Random, text: str) -> str:
        chance = random.choice((0.1, 0.5, 1.0))
        folding = random.random() < 0.3

        def other(character: str) -> str:
            if random.random() > chance:
                return character
            return _FOLDING.get(character, character) if folding and random.random() < 0.3 else character.swapcase()

        return "".join(map(other, text))

    def quoting(self, random: Random, text: str) -> str:
        """Quotes or unquotes a word."""
        parts = pieces(text)
        if places := _places(parts, lambda piece: piece[0].isalpha() or piece[0] in "`_"):
            place = random.choice(places)
            inside = parts[place].strip("`")
            quote = random.choice(("`", "`", '"', "'", ""))
            parts[place] = quote + inside + quote
        return "".join(parts)

    def literals(self, random: Random, text: str) -> str:
        parts = pieces(text)
        places = _places(parts, lambda piece: piece[0] in "'\"" or piece[0].isdigit())
        if not places:
            return text
        parts[random.choice(places)] = random.choice(LITERALS)
        return "".join(parts)

    def names(self, random: Random, text: str) -> str:
        """Replaces a word, possibly a keyword, by a name."""
        parts = pieces(text)
        if places := _places(parts, lambda piece: piece[0].isalpha()):
            parts[random.choice(places)] = random.choice(NAMES)
        return "".join(parts)

    def behind_from(self, random: Random, text: str) -> str:
        """Inserts another relation after FROM or JOIN."""
        grammar = Grammar(random)

        def relation(found: re.Match[str]) -> str:
            other = grammar.make("relation", random.randint(0, 2))
            return f"{found[1]} {other}{random.choice((', ', ', ', ' JOIN '))}"

        spot = r"(?i)\b(FROM|JOIN)\b(?=\s+[\w`(])"
        return _once(random, spot, relation, text)

    def brackets(self, random: Random, text: str) -> str:
        """Replaces the contents of a pair of parentheses, or adds a query to them."""
        parts = pieces(text)
        spans = _spans(parts)
        if not spans:
            return text
        start, end = random.choice(spans)
        inside = self._inside(random)
        if random.random() < 0.4:
            inside = f"{''.join(parts[start + 1 : end])}{random.choice((', ', ' AND ', ' + ', ' '))}({inside})"
        return "".join([*parts[: start + 1], inside, *parts[end:]])

    def _inside(self, random: Random) -> str:
        if random.random() < 0.5:
            return Grammar(random).make("query", 2)
        parts = pieces(random.choice(self._all))
        spans = _spans(parts)
        if not spans:
            return Grammar(random).make("expression", 2)
        start, end = random.choice(spans)
        return "".join(parts[start + 1 : end])

    def splice(self, random: Random, text: str) -> str:
        """Joins the beginning of one statement to the end of another, before a word that both have."""
        mine, others = pieces(text), pieces(random.choice(self._all))
        ends = {piece.upper(): place for place, piece in enumerate(others) if piece[0].isalpha()}
        shared = _places(mine, lambda piece: piece.upper() in ends)
        if not shared:
            return text
        place = random.choice(shared)
        return "".join(mine[:place] + others[ends[mine[place].upper()] :])

    def damage(self, random: Random, text: str) -> str:
        """Deletes, duplicates, swaps or inserts a part."""
        parts = pieces(text)
        if not parts:
            return text
        place = random.randrange(len(parts))
        match random.randrange(5):
            case 0:
                del parts[place]
            case 1:
                parts.insert(place, parts[place])
            case 2:
                other = random.randrange(len(parts))
                parts[place], parts[other] = parts[other], parts[place]
            case 3:
                parts.insert(place, f" {random.choice(_WORDS)} ")
            case _:
                parts.insert(place, random.choice(_SYMBOLS))
        return "".join(parts)

    def tail(self, random: Random, text: str) -> str:
        return (
            random.choice(("", "", " ", "\n", "-- x\n", "/* */", "(", "\ufeff", "\x00")) + text + random.choice(_TAIL)
        )

    def variables(self, random: Random, text: str) -> str:
        """Replaces a word, or a part of it, by something whose value is known only later."""
        parts = pieces(text)
        if places := _places(parts, lambda piece: piece[0].isalpha()):
            place = random.choice(places)
            word = parts[place]
            cut = random.randrange(len(word))
            parts[place] = random.choice(
                (
                    *(f"${{{word}}}", f"{word[:cut]}${{x}}{word[cut:]}", f"{word[:cut]}${{{DEFINED}{word[cut:]}}}"),
                    *(f"${{{DEFINED}{word}}}", f"${{hivevar:{DEFINED}{word}}}", f"${{x}}{word}", f"${{日本}}{word}"),
                    *(f"IDENTIFIER('{word}')", f"IDENTIFIER({word})", "?", ":p"),
                )
            )
        return "".join(parts)

    def within(self, random: Random, text: str) -> str:
        """Embeds the whole text in another one."""
        grammar, text = Grammar(random), text.strip().rstrip(";")
        queries = re.match(r"(?i)[\s(]*(select|with|from|values|table)\b", text) is not None and random.random() < 0.6
        around = grammar.fill(random.choice(_AROUND_QUERIES if queries else _AROUND_STATEMENTS), 3)
        return around.replace("@", text, 1) if "@" in around else around.replace("?", grammar.literal(text), 1)


def pieces(text: str) -> list[str]:
    """Splits a text into words, strings, quoted names, blanks, comments and symbols, without losing anything."""
    return _PIECE.findall(text)


def _places(parts: Sequence[str], wanted: Callable[[str], bool]) -> list[int]:
    return [place for place, piece in enumerate(parts) if wanted(piece)]


def _spans(parts: Sequence[str]) -> list[tuple[int, int]]:
    """The positions of matching parentheses."""
    spans, opened = [], list[int]()
    for place, piece in enumerate(parts):
        if piece == "(":
            opened.append(place)
        elif piece == ")" and opened:
            spans.append((opened.pop(), place))
    return spans


def _once(random: Random, spot: str, change: Callable[[re.Match[str]], str], text: str) -> str:
    found = list(re.finditer(spot, text))
    if not found:
        return text
    chosen = random.choice(found)
    return text[: chosen.start()] + change(chosen) + text[chosen.end() :]


_AROUND_STATEMENTS = (
    *["EXECUTE IMMEDIATE ?"] * 3,
    "BEGIN EXECUTE IMMEDIATE ?; END",
    "BEGIN @; {part}; END",
    "BEGIN {part}; @; END;",
    "BEGIN IF {condition} THEN @; ELSE {change}; END IF; END",
    "BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN @; END; {change}; END",
    "EXPLAIN @",
)
_AROUND_QUERIES = (
    "SELECT * FROM (@)",
    "SELECT * FROM (@) JOIN {relation} USING (a)",
    "WITH q AS (@) {query}",
    "WITH {ctes} @",
    "SELECT (@) FROM {relation}",
    "SELECT {expression} FROM {relation} WHERE EXISTS (@)",
    "@ UNION ALL {query}",
    "{query} EXCEPT (@)",
    "@ |> {steps}",
    "(@) ORDER BY 1",
    "CREATE OR REPLACE {session}VIEW {name} AS @",
    "CREATE TABLE {name} AS @",
    "INSERT INTO {name} @",
    "INSERT OVERWRITE {name} (@)",
    "MERGE INTO {name} x USING (@) y ON x.a = y.a WHEN MATCHED THEN DELETE",
    "CACHE TABLE q AS @",
    "CREATE TEMPORARY FUNCTION fn() RETURNS TABLE (a INT) RETURN @",
    "SET VAR x = (@)",
    "BEGIN FOR r AS @ DO {change}; END FOR; END",
    "UPDATE {name} SET a = (@)",
    "DELETE FROM {name} WHERE a IN (@)",
    "SELECT * FROM f(TABLE(@))",
    "SELECT * FROM u, LATERAL (@)",
)
"""`@` is replaced by the text, `?` by a string literal of the text."""
_Way = Callable[[Texts, Random, str], str]
_WAYS: tuple[tuple[_Way, int], ...] = (
    (Texts.blanks, 5),
    (Texts.case, 3),
    (Texts.quoting, 4),
    (Texts.literals, 3),
    (Texts.names, 3),
    (Texts.behind_from, 2),
    (Texts.brackets, 3),
    (Texts.splice, 3),
    (Texts.damage, 2),
    (Texts.tail, 2),
    (Texts.variables, 2),
    (Texts.within, 8),
)
_WEIGHTS = tuple(weight for _, weight in _WAYS)
