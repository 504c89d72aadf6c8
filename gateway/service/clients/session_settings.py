"""What is known of a session's settings without asking Spark: whether two sessions have the same ones."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping


class SessionSettings:
    """The settings of one session."""

    def __init__(self, configuration: Mapping[str, str]) -> None:
        """`configuration`: what the session was opened with."""
        self._first = _chained("", *(text for pair in sorted(configuration.items()) for text in pair))
        self.id = self._first
        """Two sessions of a user with equal ids have the same settings: they were opened with the same ones, and have
        run the same statements that may change settings, in the same order."""
        self.rewrites = True
        """Whether queries may be answered from views that they do not name (freshgate.rewrite)."""
        self.keeps_results = True
        """Whether reads may get the answers of earlier ones, and their results be kept (freshgate.result_cache)."""
        self.lineage_parent = ""
        """The run that refreshes belong to which this session causes (freshgate.lineage.parent); empty: none."""
        self.from_memory = True
        """Whether reads may be answered from the rows of views in memory (freshgate.memory)."""
        self.opaque = False
        """Whether it has run statements after which settings or variables may differ although the texts were equal."""
        self.changes = 0
        """How many statements were sent that may change what names, or settings of the gateway, mean."""
        self._under_way: set[object] = set()
        """The statements that may change settings and whose end is not known."""

    def note(self, text: str, *, constant: bool = True, change: object = None) -> None:
        """A statement is sent that may change settings. `constant`: to values that are in its text. `change` stands
        for it until it has `ended`. Spark may run two at once in either order, so their texts do not tell the values.
        """
        self.id = _chained(self.id, text)
        if not constant or self._under_way:
            self.doubt()
        if change is not None:
            self._under_way.add(change)

    def ended(self, change: object, *, certainly: bool) -> None:
        """A statement that was noted has ended, or was never sent. Unless it has certainly succeeded, another session
        that has sent the same one may have other settings now."""
        self._under_way.discard(change)
        if not certainly:
            self.doubt()

    def doubt(self) -> None:
        """From now on no other session counts as having the same settings."""
        self.opaque = True
        self.id = _chained(self.id, secrets.token_hex())

    def has_only_run(self, text: str) -> bool:
        """Whether no other statement that may change settings has been sent."""
        return not self.opaque and self.id in (self._first, _chained(self._first, text))

    def reopened(self) -> None:
        """The session has the settings again that it was opened with."""
        self.id, self.opaque = self._first, False
        self._under_way.clear()


def _chained(before: str, *texts: str) -> str:
    digest = hashlib.sha256(before.encode())
    for text in texts:
        digest.update(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
    return digest.hexdigest()
