"""A view in the gateway's memory: what the metastore stores of it, and what is known beyond that.

Only the methods of an entry change it. Changing what is stored needs the entry's lock: the metastore replaces all
properties of a table at once, so one of two concurrent changes would be lost. What is only in memory (observations, a
doubt, what a definition was found to read) can change at any time.

Tests: `test_freshness_states`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from gateway.mv.freshness.drift import CHANGED, NOT_LOOKED, Drift, unobserved
from gateway.mv.freshness.ledger import Ledger
from gateway.mv.model.contents import Contents
from gateway.mv.model.history import History
from gateway.mv.model.read_counts import ReadCounts
from gateway.mv.model.view import MaterializedView, Version
from sql.names import TableName
from sql.texts.storage_layout import Shown

CAUGHT_UP_MAX = 100
"""Of how many versions it is remembered since when they were not up to date: views above may have read old ones."""
Compared = Mapping[TableName, float]
"""When observations of the base tables began, by the observer's clock."""


class Entry:
    """One view."""

    __slots__ = (
        "__weakref__",
        "_caught_up",
        "_changed",
        "_compared",
        "_damage",
        "_doubtful",
        "_drafted",
        "_drift",
        "_examined",
        "_fresh_at",
        "_late_until",
        "_noticed_at",
        "_recorded",
        "_seen",
        "_unexamined",
        "_unknown_switch",
        "_view",
        "_visible",
        "_writing",
        "history",
        "ledger",
        "lock",
        "reads",
    )

    def __init__(
        self,
        view: MaterializedView,
        history: History | None = None,
        *,
        reads: ReadCounts | None = None,
        drift: Drift | None = None,
        reserved: bool = False,
        changed: Callable[[Entry, MaterializedView], None] | None = None,
    ) -> None:
        """`reserved`: CREATE is building the view and has stored nothing yet. `changed` is called with the previous
        view when the view reads other tables or views than before, or when its properties, which exclude some of them,
        have changed."""
        self._view = view
        self._changed = changed
        self.ledger: Final = Ledger()
        """The noted writes."""
        self.history: Final = History() if history is None else history
        """The refresh tasks."""
        self.reads: Final = ReadCounts() if reads is None else reads
        """Who reads it."""
        self.lock: Final = asyncio.Lock()
        """Held while the stored properties change."""
        self._visible = not reserved
        self._recorded = not reserved
        self._caught_up: dict[int, int] = {}
        self._writing: int | None = None
        self._unknown_switch: int | None = None
        self._drift = drift
        self._compared: Compared | None = None
        self._seen = 0
        self._fresh_at: int | None = None
        self._noticed_at: int | None = None
        self._doubtful = self._drafted = False
        self._late_until = 0.0
        self._damage, self._unexamined = "", False
        self._examined = -math.inf

    # --- what is known -----------------------------------------------------------------------------

    @property
    def view(self) -> MaterializedView:
        return self._view

    @property
    def visible(self) -> bool:
        """False while CREATE builds the view: writes are noted, but statements do not find the view by name."""
        return self._visible

    @property
    def recorded(self) -> bool:
        """Whether the properties are stored, so that more can be stored with them."""
        return self._recorded

    @property
    def writing(self) -> int | None:
        """The version that a refresh is writing; None if there is no refresh."""
        return self._writing

    @property
    def begun(self) -> frozenset[int]:
        """The version that is being written, and a version whose publication was sent before the connection broke:
        Spark may still carry that out."""
        return frozenset(each for each in (self._writing, self._unknown_switch) if each is not None)

    @property
    def drift(self) -> Drift | None:
        """How the base tables differed from the current version at the last observation, or why there was none. None if
        they did not differ."""
        return self._drift

    @property
    def compared(self) -> Compared | None:
        """The observations that the current version was last compared with; None if there are none."""
        return self._compared

    @property
    def observed_drift(self) -> Drift | None:
        """How the base tables differ from the current version, if the last observation shows every write that has
        ended; None if it does not, or if there is no difference."""
        return self._drift if self._compared is not None and self.ledger.ended <= self._seen else None

    @property
    def fresh_at(self) -> int | None:
        """When an observation last showed no difference, in milliseconds since the epoch."""
        return self._fresh_at

    @property
    def noticed_at(self) -> int | None:
        """When an observation first showed a difference after that, in milliseconds since the epoch."""
        return self._noticed_at

    @property
    def doubtful(self) -> bool:
        """Whether the outcome of a statement that changes the public view is unknown: only the metastore knows what the
        view shows."""
        return self._doubtful

    @property
    def drafted(self) -> bool:
        """Whether all that is known of the view dates from before this gateway led. It is doubtful then."""
        return self._drafted

    @property
    def damage(self) -> str:
        """Why nobody may read the stored rows of the current version, nor may a refresh use them; empty if they may."""
        return self._damage or self._view.misread

    @property
    def changed_rows(self) -> str:
        """What differs between the stored rows of the current version and those that were published; empty if nothing
        does."""
        return self._damage

    @property
    def unexamined(self) -> bool:
        """Whether `damage` only says that the last look at the stored rows failed: they may be as published."""
        return self._unexamined

    @property
    def examined(self) -> float:
        """When the last look at the stored rows of the current version began, by the clock of looks."""
        return self._examined

    @property
    def late_until(self) -> float:
        """Until this monotonic time, Spark may still carry out that statement."""
        return self._late_until

    # --- creation ----------------------------------------------------------------------------------

    def show(self) -> None:
        """Lets statements find the view by its name."""
        self._visible = True

    def record(self) -> None:
        """Notes that the properties are stored."""
        self._recorded = True

    # --- versions ----------------------------------------------------------------------------------

    def reserve(self, numbers: int) -> None:
        """Allows version numbers below `numbers`. Needs the lock."""
        self._check_lock()
        self._view = replace(self._view, versions_reserved=numbers)

    def begin_writing(self, number: int) -> None:
        """A refresh begins to write this version."""
        self._writing = number

    def end_writing(self) -> None:
        """The refresh has ended, successfully or not."""
        self._writing = None

    def publish(
        self,
        version: Version,
        reserved: int,
        *,
        contains: int | None,
        reads: MaterializedView | None = None,
        compared: Compared | None = None,
        altered: bool = False,
        examined: float = -math.inf,
        missed: int = 0,
    ) -> None:
        """Makes `version` the current version. Needs the lock.

        `contains`: the last event before the refresh began; None if the refresh wrote only some partitions, so that the
        others still miss those events. `reads`: a view with what the definition was found to read. `compared`: the
        observations of that. `altered`: an ALTER has changed the view's content since the refresh began. `examined`:
        when its files were listed. `missed`: when the first change was made that the current version misses so far, in
        milliseconds since the epoch; 0 if that is unknown.
        """
        self._check_lock()
        before = self._view
        self._catch_up(before.current.number, missed)
        view = before if reads is None else before.reading(reads)
        self._view = view.published(version, reserved)
        self._damage, self._unexamined, self._examined = "", False, examined
        self._tell(before)
        if contains is None:
            self._compared = None
        else:
            self.ledger.publish(contains)
            self._drift, self._compared, self._fresh_at = unobserved(self._view), compared, version.started_at
            self._noticed_at = None
        if altered:
            self._drift, self._compared = CHANGED, None

    def _catch_up(self, number: int, missed: int) -> None:
        self._caught_up.pop(number, None)
        if missed:
            self._caught_up[number] = missed
        for oldest in list(self._caught_up)[:-CAUGHT_UP_MAX]:
            del self._caught_up[oldest]

    def missed_since(self, number: int | None) -> int | None:
        """When the first change was made that a version of this view misses and the next one contains, in milliseconds
        since the epoch. None if that is unknown, as it is of versions from before the start."""
        return None if number is None else self._caught_up.get(number)

    def confirm(self, contents: Contents, contains: int | None, compared: Compared, at: int) -> None:
        """Records that a refresh that began `at` (milliseconds since the epoch) found nothing to write: the current
        version has these contents. `contains` is as in `publish`."""
        # Not stored: after a restart, an observation finds it again.
        self._view = replace(self._view, current=replace(self._view.current, contents=contents))
        if contains is None:
            self._compared = None
        else:
            self.ledger.publish(contains)
            self._drift, self._compared, self._fresh_at = None, compared, at
            self._noticed_at = None

    def compare(self, found: Drift, contains: int, compared: Compared, at: int) -> bool:
        """Records how the base tables differ from the current version. If they do not differ, the version contains all
        events up to `contains`. Returns whether that ended a staleness: the noted writes had changed nothing."""
        self._drift, self._compared, self._seen = None if found.none else found, compared, contains
        if not found.none:
            self._noticed_at = self._noticed_at or at
            return False
        self._noticed_at = None
        was_stale = self.ledger.stale
        self.ledger.publish(max(contains, self.ledger.contains))
        self._fresh_at = at
        return was_stale and not self.ledger.stale

    def examine(self, version: int, damage: str, began: float) -> bool:
        """Records a look at the stored rows of a version that began then: what has damaged them, if anything. Ignored
        if the version is not the current one. Returns whether the view was not known to be damaged before."""
        if self._doubtful or self._view.current.number != version:
            return False
        newly = bool(damage) and (self._unexamined or not self._damage)
        self._damage, self._unexamined, self._examined = damage, False, max(began, self._examined)
        return newly

    def fail_examination(self, version: int, why: str) -> None:
        """Records that the stored rows of a version could not be looked at: until they are, they count as damaged. The
        next read looks again. Ignored as in `examine`, and if it is known how they are damaged."""
        if not (self._doubtful or self._view.current.number != version) and (self._unexamined or not self._damage):
            self._damage, self._unexamined = f"its stored rows cannot be looked at: {why}", True

    def shorten(self, shown: Shown) -> None:
        """Records a shorter text of the public view, which shows the same rows. Needs the lock."""
        self._check_lock()
        self._view = replace(self._view, current=replace(self._view.current, shown=shown))

    # --- settings, and what the definition reads ---------------------------------------------------

    def alter(self, after: MaterializedView, *, rewritten: bool, watches_others: bool) -> None:
        """Takes over the settings and the job of `after`. Needs the lock. `rewritten`: the next refresh must write
        everything. `watches_others`: changes of other tables count now, so the last observation does not."""
        self._check_lock()
        before = self._view
        current = replace(before.current, contents=Contents()) if rewritten else before.current
        self._view = replace(
            before,
            properties=after.properties,
            comment=after.comment,
            owner=after.owner,
            refreshers=after.refreshers,
            clauses=after.clauses,
            refreshed_as=after.refreshed_as,
            job_since=after.job_since,
            current=current,
        )
        self._tell(before)
        if watches_others:
            self._drift, self._compared = self._drift or CHANGED, None

    def pause(self, paused: bool, since: int, because: str = "") -> None:
        """Pauses or resumes the job, which counts from `since`. `because`: why the gateway pauses it by itself. Needs
        the lock."""
        self._check_lock()
        self._view = replace(self._view, paused=paused, job_since=since, paused_because=because)

    def read_more(self, tables: frozenset[TableName], views: frozenset[str]) -> None:
        """Adds tables and views that the definition reads. Earlier ones also count until a version is published."""
        before = self._view
        self._view = replace(before, tables=before.tables | tables, views=before.views | views)
        self._tell(before)

    # --- the public view ---------------------------------------------------------------------------

    def rename(self, name: TableName) -> None:
        """Records another name of the public view."""
        self._view = replace(self._view, name=name)

    def doubt(self, late_until: float | None = None) -> None:
        """Marks what the public view shows as unknown until the metastore has been asked. `late_until`: Spark may still
        change it before this monotonic time."""
        self._doubtful = True
        self._late_until = self._late_until if late_until is None else late_until

    def distrust(self) -> None:
        """Marks all that is known of the view as possibly outdated, until `settle`."""
        self._doubtful = self._drafted = True

    def trust(self) -> None:
        """Removes the doubt: the metastore has shown that the public view has not changed."""
        self._doubtful = self._drafted

    def settle(self, found: MaterializedView, history: History | None = None, reads: ReadCounts | None = None) -> None:
        """Takes over what the metastore stores and shows; of a drafted view `history` and `reads`, too. Needs the
        lock."""
        self._check_lock()
        before = self._view
        tables, views = found.tables, found.views
        if not self._drafted:
            # A refresh under way may have found that the definition reads more.
            tables, views = tables | before.tables, views | before.views
        self._view = replace(found, name=before.name, tables=tables, views=views)
        self._tell(before)
        # Which noted writes the version contains is unknown until the base tables are observed.
        self._drift, self._compared = unobserved(self._view) or NOT_LOOKED, None
        self._doubtful = self._drafted = False
        if history is not None:
            self.history.recall(history)
        if reads is not None:
            self.reads.recall(reads)
        if self._view.current.number != before.current.number:
            self._damage, self._unexamined, self._examined = "", False, -math.inf
        self.forget_switch(found.current.number)

    def lose_switch(self) -> int | None:
        """Records that the publication of the version that is being written has an unknown outcome, and that Spark may
        still carry it out. Returns the version's number."""
        self._unknown_switch = self._writing
        return self._writing

    @property
    def may_switch(self) -> bool:
        """Whether Spark may still carry out a publication of unknown outcome."""
        return self._unknown_switch is not None

    def forget_switch(self, number: int | None) -> bool:
        """Records that Spark has carried out that publication, or no longer will. Returns whether that was open."""
        if number is None or self._unknown_switch != number:
            return False
        self._unknown_switch = None
        return True

    # --- within ------------------------------------------------------------------------------------

    def _check_lock(self) -> None:
        assert self.lock.locked(), f"{self._view.name} is changed without its lock"

    def _tell(self, before: MaterializedView) -> None:
        now = self._view
        # Properties exclude some of what the view reads.
        changed = (now.tables, now.views, now.properties) != (before.tables, before.views, before.properties)
        changed = changed or now.security is not before.security
        if changed and self._changed is not None:
            self._changed(self, before)
