"""Rules of `limits.rules`: how many sessions and statements users, groups and addresses may have at a time.

Tests: `test_limit_rules`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Self

from gateway.access_list import EVERYBODY, GROUP, Principal
from gateway.networks import Networks, address_of

ADDRESS = "address:"
SESSIONS, STATEMENTS, QUEUE = LIMITS = ("sessions", "statements", "queue")
UNLIMITED = sys.maxsize
FORM = "WHO: sessions N, statements N, queue N"
EXAMPLE = "group:analysts each: sessions 20, statements 4, queue 10"
_LIMIT = re.compile(rf"({'|'.join(LIMITS)})\s+([1-9][0-9]{{0,8}}|unlimited)", re.ASCII)
_NO_QUEUE = re.compile(r"queue\s+0", re.ASCII)


@dataclass(frozen=True, slots=True)
class LimitRule:
    """One rule. `limits`: the numbers that it names, by SESSIONS, STATEMENTS and QUEUE.

    `each`: whether each user, or each address, has these numbers, rather than all whom the rule names together.
    """

    text: str
    who: str
    each: bool
    limits: tuple[tuple[str, int], ...]
    networks: Networks | None = None
    """For a rule about addresses."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError with what is wrong."""
        whom, colon, rest = (part.strip() for part in text.rpartition(": "))
        who, each = (whom.removesuffix(" each").strip(), True) if whom.endswith(" each") else (whom, False)
        limits = dict(_limits(rest))
        if not colon or not who or who in (GROUP, ADDRESS):
            raise ValueError(f"'{text}' is not a rule. Write {FORM}, for example {EXAMPLE}.")
        if QUEUE in limits and STATEMENTS not in limits:
            raise ValueError(f"'{text}' limits the queue of statements, but not the statements. Add statements N.")
        networks = None
        if who.startswith(ADDRESS):
            place = who.removeprefix(ADDRESS).strip()
            try:
                networks, single = Networks([place]), ip_network(place, strict=False).num_addresses == 1
            except ValueError:
                raise ValueError(f"'{text}' names no address or network. Write {ADDRESS}10.0.0.0/8.") from None
        else:
            single = who != EVERYBODY and not who.startswith(GROUP)
        return cls(text.strip(), who, each or single, tuple(limits.items()), networks)

    def limit(self, what: str) -> int | None:
        """None if the rule does not say."""
        return dict(self.limits).get(what)

    def names(self, who: Principal, peer: str) -> bool:
        """`peer`: the client's address, with or without its port."""
        if self.networks is not None:
            return self.networks.have(peer)
        if self.who.startswith(GROUP):
            return self.who.removeprefix(GROUP).strip() in who.groups
        return self.who in (EVERYBODY, who.name)

    def counted_as(self, who: Principal, peer: str) -> str:
        """Whose number it is: a user's, an address', or that of all whom the rule names ("")."""
        if not self.each:
            return ""
        return who.name if self.networks is None else str(address_of(peer) or peer)


def _limits(text: str) -> Iterator[tuple[str, int]]:
    """Raises ValueError."""
    seen = set()
    for each in text.split(","):
        each = " ".join(each.split())
        found = _LIMIT.fullmatch(each)
        if found is not None:
            what, number = found[1], UNLIMITED if found[2] == "unlimited" else int(found[2])
        elif _NO_QUEUE.fullmatch(each):
            what, number = QUEUE, 0
        else:
            raise ValueError(f"'{each}' is not a limit. Write sessions N, statements N or queue N, or unlimited for N.")
        if what in seen:
            raise ValueError(f"{what} occurs twice in '{text}'.")
        seen.add(what)
        yield what, number


def problem_of(texts: Iterable[str]) -> str | None:
    """What is wrong with the rules of a setting, or None."""
    for each in texts:
        try:
            LimitRule.parse(each)
        except ValueError as error:
            return f"must consist of rules {FORM}: {error}"
    return None


@dataclass(frozen=True, slots=True)
class Bound:
    """What a rule allows a user, or others. Two with the same rule and the same `whose` are one number."""

    rule: LimitRule
    whose: str
    most: int

    @property
    def shown(self) -> str:
        """Whose number it is, for people."""
        return self.whose or self.rule.who


class LimitRules:
    """Finds the rules that count for a user.

    All rules that name several together count. Of those that name each user, and of those that name each address, the
    first one counts that says something about the number: so exceptions come first.
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        """Raises ValueError."""
        self._rules = tuple(LimitRule.parse(each) for each in texts)

    def limits(self, what: str) -> bool:
        """Whether any rule says something about this number."""
        return any(rule.limit(what) is not None for rule in self._rules)

    def says_of_each_user(self, what: str, who: Principal, peer: str) -> bool:
        """Whether a rule names each user, and this one, for this number, be it to say that it is unlimited."""
        return any(
            rule.each and rule.networks is None and rule.limit(what) is not None and rule.names(who, peer)
            for rule in self._rules
        )

    def bounds(self, what: str, who: Principal, peer: str) -> list[Bound]:
        """What the rules allow this user at this address, without numbers that are unlimited."""
        found, said = [], set[bool]()
        for rule in self._rules:
            most, by_address = rule.limit(what), rule.networks is not None
            if most is None or (rule.each and by_address in said) or not rule.names(who, peer):
                continue
            if rule.each:
                said.add(by_address)
            if most != UNLIMITED:
                found.append(Bound(rule, rule.counted_as(who, peer), most))
        return found
