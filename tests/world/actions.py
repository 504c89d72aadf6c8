"""What happens in a history, apart from its choices: who does what, in each one's own order."""

from __future__ import annotations

from dataclasses import dataclass

from world.spark import Fault


@dataclass(frozen=True, slots=True)
class Action:
    """What a client does, a writer past the gateway (`outside`), or fate."""

    actor: str
    verb: str
    subject: str = ""
    partition: str = ""
    """Of a table; of a fault what becomes of the statement."""
    number: int = 0
    text: str = ""
    """The statement, if it neither reads nor writes."""

    @property
    def removes(self) -> bool:
        """Whether it empties a table, and its client never asks for its end."""
        return self.verb == "fire" and self.number > 0

    @property
    def told(self) -> str:
        match self.verb:
            case "fault":
                nth = "next" if not self.number else f"{self.number + 1}th next"
                return f"the {nth} statement of the kind `{self.subject}` {Fault[self.partition].value}"
            case "wait":
                return f"{self.number} seconds pass"
            case "pause gateway":
                return f"the gateway is paused for {self.number} seconds"
            case "depose gateway":
                return f"the gateway is paused for {self.number} seconds, and another one started"
        return f"{self.verb} {self.subject}".rstrip()
