"""From Kerberos principals to user names, by Hadoop's rules (`hadoop.security.auth_to_local`).

Tests: `test_principals`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

NAME_CHARACTERS_MAX = 256
"""Longer principals are refused, because an operator's expressions may take more than linear time."""
_NAME = re.compile(r"([^/@\\]+)(?:/([^/@\\]+))?@([^/@\\]+)")
"""Kerberos writes a backslash before a special character in a part. Such names are refused: no two programs agree on
what they mean."""
_RULE = re.compile(
    r"DEFAULT|"
    r"(?P<rule>RULE:\[(?P<components>[0-9]{0,9}):(?P<format>[^\]]*)\]"
    r"(?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<old>[^/]*)/(?P<new>[^/]*)/(?P<repeats>g)?)?"
    r"(?:/?(?P<lowers>L))?)"
)
"""As KerberosName reads it: no part may contain the sign that ends it."""
_PARAMETER = re.compile(r"\$([0-9]+)")
_REFERENCE = re.compile(r"\\(.)|\$([0-9]+)")
"""In the text that Java's Matcher.replaceAll takes."""
_WELL_KNOWN = "WELLKNOWN"
"""The first part of names that stand for nobody in particular (RFC 6111), such as anonymous clients'."""


class BadRules(ValueError):
    """The text is not a list of rules. The message says where."""


class NoName(Exception):
    """The rules give this principal no user name."""


@dataclass(frozen=True, slots=True)
class KerberosName:
    """ada@EXAMPLE.COM, or hive/gate.example@EXAMPLE.COM."""

    first: str
    second: str
    realm: str

    @classmethod
    def parse(cls, text: str) -> KerberosName:
        """Raises NoName for a name that Hadoop does not read, or that names nobody."""
        found = _NAME.fullmatch(text) if len(text) <= NAME_CHARACTERS_MAX else None
        if found is None:
            raise NoName(f"{text[:NAME_CHARACTERS_MAX]!r} is not a name such as ada@REALM or ada/host@REALM")
        first, second, realm = found.groups()
        if first == _WELL_KNOWN or realm.startswith(f"{_WELL_KNOWN}:"):
            raise NoName(f"{text!r} is nobody in particular")
        return cls(first, second or "", realm)

    @property
    def parts(self) -> list[str]:
        """What $0, $1 and $2 stand for."""
        return [self.realm, self.first, *([self.second] if self.second else [])]


@dataclass(frozen=True, slots=True)
class Rule:
    """`RULE:[components:format](match)s/old/new/g/L`. Hadoop's terms are Java's: `old` and `match` are expressions."""

    components: int
    format: str
    match: re.Pattern[str] | None = None
    old: re.Pattern[str] | None = None
    new: str = ""
    repeats: bool = False
    lowers: bool = False

    def apply(self, principal: KerberosName) -> str | None:
        """None if the rule is not for this principal."""
        parts = principal.parts
        if len(parts) - 1 != self.components:
            return None
        base = _PARAMETER.sub(lambda found: parts[int(found[1])], self.format)
        if self.match is not None and self.match.fullmatch(base) is None:
            return None
        if self.old is not None:
            base = self.old.sub(self._replacement, base, count=0 if self.repeats else 1)
        return base.lower() if self.lowers else base

    def _replacement(self, found: re.Match[str]) -> str:
        def part(reference: re.Match[str]) -> str:
            escaped, number = reference.groups()
            if escaped is not None:
                return str(escaped)
            # Java takes further digits only while there is such a group.
            digits = 1
            while digits < len(number) and int(number[: digits + 1]) <= found.re.groups:
                digits += 1
            return (found[int(number[:digits])] or "") + number[digits:]

        return _REFERENCE.sub(part, self.new)


class Default:
    """`DEFAULT`: the first part of a principal of this machine's realm."""

    def __init__(self, realm: str) -> None:
        self._realm = realm

    def apply(self, principal: KerberosName) -> str | None:
        return principal.first if self._realm and principal.realm == self._realm else None


class LocalNames:
    """The user names of principals. Without rules, a principal of another realm than this machine's has none."""

    def __init__(self, rules: Sequence[Rule | Default]) -> None:
        self._rules = rules

    @classmethod
    def parse(cls, text: str, realm: str) -> LocalNames:
        """`realm`: this machine's default realm, or empty. Raises BadRules."""
        return cls(rules_of(text, realm) or [Default(realm)])

    def name_of(self, principal: str) -> str:
        """The first rule that is for a principal gives its name. Raises NoName."""
        parsed = KerberosName.parse(principal)
        for rule in self._rules:
            name = rule.apply(parsed)
            if name is None:
                continue
            if "/" in name or "@" in name or not name.strip() or not name.isprintable():
                raise NoName(f"kerberos.auth_to_local makes {name!r} of {principal}, which is not a user name")
            return name
        raise NoName(f"no rule of kerberos.auth_to_local is for {principal}")


def rules_of(text: str, realm: str = "") -> list[Rule | Default]:
    """Raises BadRules."""
    rules: list[Rule | Default] = []
    rest = text.strip()
    while rest:
        found = _RULE.match(rest)
        if found is None:
            raise BadRules(f"{_start(rest)} is not DEFAULT or RULE:[n:format](match)s/old/new/g")
        rules.append(_rule(found) if found["rule"] else Default(realm))
        rest = rest[found.end() :].lstrip()
    return rules


def _rule(found: re.Match[str]) -> Rule:
    components, text = int(found["components"] or 0), found["format"]
    if components not in (1, 2):
        raise BadRules(f"{_start(found[0])} is for {components} parts; principals have 1 or 2")
    if "$" in _PARAMETER.sub(lambda each: "" if int(each[1]) <= components else "$", text):
        raise BadRules(f"{_start(found[0])} may name only $0 to ${components}")
    match, old = (_expression(found[name]) for name in ("match", "old"))
    rule = Rule(components, text, match, old, found["new"] or "", bool(found["repeats"]), bool(found["lowers"]))
    if old is not None:
        _check_references(rule, old)
    return rule


def _check_references(rule: Rule, old: re.Pattern[str]) -> None:
    plain = _REFERENCE.sub("", rule.new)
    if "$" in plain or plain.endswith("\\"):
        raise BadRules(f"{rule.new} is not a replacement: write \\$ for the sign itself")
    if any(number and int(number[0]) > old.groups for _, number in _REFERENCE.findall(rule.new)):
        raise BadRules(f"{rule.new} names a group that {old.pattern} does not have")


def _expression(text: str | None) -> re.Pattern[str] | None:
    if text is None:
        return None
    try:
        with warnings.catch_warnings():
            # Of sets within sets, which mean something in Java only.
            warnings.simplefilter("error", FutureWarning)
            return re.compile(text)
    except (re.error, RecursionError, OverflowError, FutureWarning) as error:
        raise BadRules(f"{text} is not a regular expression: {error}") from None


def _start(text: str) -> str:
    return text.split(maxsplit=1)[0][:80]
