"""Keeps answers in memory, within limits: the ones used last, for a limited time."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gateway.config import ResultCache
from gateway.mv.catalog.news import News
from gateway.service.results.key import Key
from gateway.service.results.recording import Recording
from gateway.service.results.replay import Entry, Replay

_OFF = ResultCache(bytes=0)


@dataclass(slots=True)
class Counts:
    """Counts since the start."""

    hits: int = 0
    """Queries answered from memory."""
    misses: int = 0
    """Queries that could have been answered from memory, and went to Spark."""
    shared: int = 0
    """Those of the hits that waited for an equal query to end."""
    kept: int = 0
    """Recorded answers."""
    evicted: int = 0
    """Answers that made room for others."""
    ended: int = 0
    """Answers that ended with a version of a view, with a change of its settings, or with their time."""


class Results:
    """The answers by key. Implements what `Recording` needs."""

    def __init__(
        self,
        limits: ResultCache = _OFF,
        holds: Callable[[Key], bool] = lambda _: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`holds`: whether the views of a key are still as it says. Without arguments, no answers are kept."""
        self._limits = limits
        self._holds = holds
        self.clock = clock
        self._entries: OrderedDict[Key, Entry] = OrderedDict()
        self._recordings: dict[Key, Recording] = {}
        self.bytes = 0
        """All bytes that are held: by answers, by recordings, and by answers that have ended but are still replayed."""
        self.counts = Counts()

    def __len__(self) -> int:
        return len(self._entries)

    # --- answering ---------------------------------------------------------------------------------

    def replay(self, key: Key | None) -> Replay | None:
        """The answer, if it is known; it must be released."""
        if key is None or (entry := self._entries.get(key)) is None:
            return None
        if self.clock() - entry.born > self._limits.seconds or not self._holds(key):
            self._end(entry)
            return None
        self._entries.move_to_end(key)
        entry.replays += 1
        self.counts.hits += 1
        return Replay(entry, self._released)

    def _released(self, entry: Entry) -> None:
        entry.replays -= 1
        if not entry.replays and self._entries.get(entry.key) is not entry:
            self.bytes -= entry.size

    def age(self, replay: Replay) -> float:
        """The seconds since Spark had made the answer."""
        return self.clock() - replay.entry.born

    # --- recording ---------------------------------------------------------------------------------

    def recording(self, key: Key | None) -> Recording | None:
        """The recording of an equal query that is running, if there is one."""
        return None if key is None else self._recordings.get(key)

    def begin(self, key: Key) -> Recording | None:
        """A query is about to be sent to Spark. None if an equal one is being recorded."""
        self.counts.misses += 1
        if key in self._recordings:
            return None
        recording = Recording(key, self._limits.entry_bytes, self._grow, self._finish, self.clock)
        self._recordings[key] = recording
        return recording

    def _grow(self, recording: Recording, more: int) -> bool:
        """Makes room for so many more bytes of a recording."""
        while self.bytes + more > self._limits.bytes:
            oldest = next((entry for entry in self._entries.values() if not entry.replays), None)
            if oldest is None:
                return False
            self._drop(oldest)
            self.counts.evicted += 1
        self.bytes += more
        recording.held += more
        return True

    def _finish(self, recording: Recording, entry: Entry | None) -> None:
        if self._recordings.get(recording.key) is recording:
            del self._recordings[recording.key]
        else:
            entry = None  # Its views have changed.
        if entry is not None and self._holds(entry.key) and self._grow(recording, max(0, entry.size - recording.held)):
            recording.held -= entry.size
            if (before := self._entries.get(entry.key)) is not None:
                self._drop(before)
            self._entries[entry.key] = entry
            self.counts.kept += 1
        self.bytes -= recording.held
        recording.held = 0

    # --- ending ------------------------------------------------------------------------------------

    def listen(self, news: News) -> None:
        """Ends answers, from now on, with what they were read from."""
        news.published.add(lambda view_id: self.forget((view_id,)))
        news.doubted.add(self.forget)
        news.revised.add(self.revise)

    def forget(self, views: Iterable[str]) -> None:
        """These views have changed, or may have."""
        ids = frozenset(views)
        self._end_if(lambda key: any(seen.view_id in ids for seen in key.views))

    def revise(self) -> None:
        """Views were added, removed, moved or altered."""
        self._end_if(lambda key: not self._holds(key))

    def clear(self) -> None:
        """Settings or rights may have changed at Spark."""
        self._end_if(lambda _: True)

    def _end_if(self, changed: Callable[[Key], bool]) -> None:
        for entry in [each for key, each in self._entries.items() if changed(key)]:
            self._end(entry)
        for recording in [each for key, each in self._recordings.items() if changed(key)]:
            recording.spoil()

    def _end(self, entry: Entry) -> None:
        self._drop(entry)
        self.counts.ended += 1

    def _drop(self, entry: Entry) -> None:
        del self._entries[entry.key]
        if not entry.replays:
            self.bytes -= entry.size
