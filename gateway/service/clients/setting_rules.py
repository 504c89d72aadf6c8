"""Which settings of their sessions clients may not set, or not see: the table `[session]`.

Tests: `test_setting_rules`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from gateway.config import SessionRules
from gateway.errors import NotAllowed
from gateway.service.clients import own_settings
from gateway.wire import message
from sql.names import quote
from sql.reading.settings import UNCLEAR, Does, SettingUse, plain_name, uses
from sql.understood import Understood

SUBSTITUTE = "spark.sql.variable.substitute"
HIVECONF = "set:hiveconf:"
"""The prefix by which Hive's drivers set a setting when they open a session."""
UNDEFINED = "<undefined>"
"""What SET shows for a setting without a value."""
OUR_OWN = ("use:", "hive.server2.proxy.user")
"""Keys of OpenSession that say which database and user, and set nothing."""


@dataclass(frozen=True, slots=True)
class Patterns:
    """Names, with * for any characters; case does not count."""

    texts: tuple[str, ...] = ()

    @classmethod
    def of(cls, texts: Iterable[str]) -> Self:
        return cls(tuple(each.strip().lower() for each in texts if each.strip()))

    def __bool__(self) -> bool:
        return bool(self.texts)

    def match(self, name: str) -> bool:
        lower = name.lower()
        return any(_matches(text, lower) for text in self.texts)


def _matches(pattern: str, name: str) -> bool:
    """Takes linear time, unlike a regular expression."""
    first, *rest = pattern.split("*")
    if not rest:
        return name == first
    if not name.startswith(first):
        return False
    at, last = len(first), rest.pop()
    for part in rest:
        at = name.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return name.endswith(last) and len(name) - len(last) >= at


@dataclass(frozen=True, slots=True)
class SettingRules:
    refused: Patterns = field(default_factory=Patterns)
    ignored: Patterns = field(default_factory=Patterns)
    forced: Mapping[str, str] = field(default_factory=dict)
    hidden: Patterns = field(default_factory=Patterns)

    @classmethod
    def of(cls, settings: SessionRules) -> Self:
        """Raises SyntaxRefused for a value that a setting of the gateway's own does not have."""
        pairs = (each.split("=", 1) for each in settings.forced)
        forced = {name.strip(): value.strip() for name, value in pairs}
        own_settings.check(own_settings.among(forced))
        hidden = Patterns.of(settings.hidden)
        if hidden:
            forced.setdefault(SUBSTITUTE, "false")
        return cls(Patterns.of(settings.refused), Patterns.of(settings.ignored), forced, hidden)

    @property
    def active(self) -> bool:
        return bool(self.refused or self.ignored or self.forced or self.hidden)

    # --- OpenSession -------------------------------------------------------------------------------

    def opened(self, payload: bytes) -> bytes:
        """The OpenSession request with the forced settings, and without ignored ones. Raises NotAllowed."""
        if not self.active:
            return payload
        without = set()
        for key in message.open_session(payload).configuration:
            if key.strip().lower().startswith(OUR_OWN):
                continue
            if self._is_ignored(plain_name(key)):
                without.add(key)
        forced = {HIVECONF + name: value for name, value in self.forced.items()}
        return message.with_configuration(payload, forced, without)

    @property
    def own(self) -> Mapping[str, str]:
        """The forced ones among the gateway's own settings."""
        return own_settings.among(self.forced)

    # --- statements --------------------------------------------------------------------------------

    def decide(self, known: Understood, *, overlaid: bool = False) -> str | None:
        """The text whose answer, without hidden settings, takes the place of the statement's; None: it runs as it is.

        `overlaid`: whether the request brings settings for this statement. Raises NotAllowed.
        """
        if overlaid and (self.refused or self.ignored or self.forced):
            raise _not_allowed("Settings for one statement (confOverlay)", "send the statement without them")
        found = uses(known.lexed)
        ignored = [use for use in found if use.does is not Does.SHOWS and self._ignores(use)]
        if ignored:
            if len(found) > 1 or known.look.keyword not in ("set", "reset"):
                raise _not_allowed(ignored[0].name, "leave the part out that changes it")
            return f"SET {quote(ignored[0].name)}"
        if self.hidden and any(use.does is Does.SHOWS and self._may_show(use) for use in found):
            if known.look.keyword != "set":
                raise _not_allowed("What SET shows", "run SET by itself")
            return known.text
        return None

    def shown(self, rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
        """The rows of SET without hidden settings. One that is asked for by its name has no value."""
        if len(rows) == 1 and self.hidden.match(str(rows[0][0])):
            return [(rows[0][0], UNDEFINED, *rows[0][2:])]
        return [tuple(row) for row in rows if not self.hidden.match(str(row[0]))]

    def _may_show(self, use: SettingUse) -> bool:
        return not use.name or self.hidden.match(use.name)

    def _ignores(self, use: SettingUse) -> bool:
        """Whether the statement's change is ignored. Raises NotAllowed."""
        if use.name == UNCLEAR:
            raise _not_allowed(
                "A setting whose name the statement puts together",
                "write SET with the name, or EXECUTE IMMEDIATE with a literal",
            )
        if not use.name:  # RESET
            if self.forced:
                raise _not_allowed("RESET of all settings", "RESET those by their names that you have set")
            return False
        return self._is_ignored(use.name)

    def _is_ignored(self, name: str) -> bool:
        """Whether clients' values of the setting are ignored. Raises NotAllowed if they are refused."""
        if self.ignored.match(name):
            return True
        if self.refused.match(name) or name.lower() in {each.lower() for each in self.forced}:
            raise _not_allowed(name, "leave it out")
        return False


def _not_allowed(what: str, instead: str) -> NotAllowed:
    return NotAllowed(
        f"{what} cannot be set or reset in this session: the settings of the gateway (session.*) do not allow it. "
        f"{instead[0].upper()}{instead[1:]}, or ask an administrator of the gateway.",
        sqlstate="42501",
    )


NO_RULES = SettingRules()
