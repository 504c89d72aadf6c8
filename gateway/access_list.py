"""Who is meant by the lists of users and groups in the settings: NAME is a user, group:NAME a group.

Tests: `test_access_lists`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

GROUP = "group:"
EVERYBODY = "*"


@dataclass(frozen=True, slots=True)
class Principal:
    """A user, and the groups that the user is in. Names count exactly as written, including case."""

    name: str
    groups: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class AccessList:
    """Users and groups. `everybody`: whether it has a `*`, which means what the setting says it means."""

    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    everybody: bool = False

    @classmethod
    def of(cls, entries: Iterable[str]) -> Self:
        given = [each.strip() for each in entries]
        groups = (each.removeprefix(GROUP).strip() for each in given if each.startswith(GROUP))
        users = (each for each in given if not each.startswith(GROUP))
        return cls(frozenset(users), frozenset(groups), EVERYBODY in given)

    def names(self, who: Principal) -> bool:
        """Whether it lists the user, or one of the user's groups. A `*` lists nobody."""
        return (who.name in self.users and who.name != EVERYBODY) or not self.groups.isdisjoint(who.groups)


NO_ONE = AccessList()


def problem_of(entries: Iterable[str]) -> str | None:
    """What is wrong with a list, or None."""
    for each in entries:
        if not each.strip() or each.strip() == GROUP:
            return f"must have names of users, and {GROUP}NAME for groups"
    return None
