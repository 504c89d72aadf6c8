"""How the base tables differ from what a view's current version contains, and what a refresh must therefore write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.mv.model.contents import NEVER_BUILT, Basis, Contents
from gateway.mv.model.snapshot import GONE, MISSING, MIXED, Observed, PartitionValues, Snapshot, Unobserved
from gateway.mv.model.view import Manifest, MaterializedView, base_key
from sql.texts.storage_layout import ALL, PartitionKey, Selection

NOT_SEEN = "it could not be observed when the view was refreshed"
NOWHERE = Unobserved("it does not exist")
PARTLY_BUILT = "only some of its partitions have been built"
NAMED_MAX = 5
"""How many tables a reason names at most."""


@dataclass(frozen=True, slots=True)
class Drift:
    """What differs. Tables are named by their `base_key`s, in `reason` by their names."""

    partitions: frozenset[PartitionValues] = frozenset()
    """Partitions of the followed table that were changed, added or removed."""
    wholly: frozenset[str] = frozenset()
    """The followed table, if any of its partitions may have changed."""
    behind: tuple[tuple[int, frozenset[str]], ...] = ()
    """For versions from this number on: the other tables that have changed since the version was written."""
    unobserved: Mapping[str, str] = field(default_factory=dict)
    """Tables that cannot be observed, and why."""
    followed: str = ""
    unknown: str = ""
    """Why nothing is known about any table."""

    @property
    def none(self) -> bool:
        return not (self.partitions or self.tables or self.unobserved or self.unknown)

    @property
    def tables(self) -> frozenset[str]:
        """Every table that changed."""
        followed = {self.followed} if self.partitions else set[str]()
        return frozenset(followed | self.wholly).union(*(tables for _, tables in self.behind))

    def behind_of(self, version: int) -> frozenset[str]:
        """The other tables that have changed since this version was written."""
        found: frozenset[str] = frozenset()
        for since, tables in self.behind:
            if since <= version:
                found = tables
        return found


NOT_LOOKED = Drift(unknown="its base tables have not been observed since the gateway was started")
CHANGED = Drift(unknown="its base tables have not been observed since its properties were changed")


def drift(view: MaterializedView, today: Mapping[str, Observed]) -> Drift:
    """`today`: every base table and materialized view that the definition reads, except for excluded ones."""
    contents, followed = view.current.contents, view.followed.base if view.followed else ""
    today = {base: NOWHERE if look == MISSING and not _was_there(view, base) else look for base, look in today.items()}
    unobserved = {base: look.reason for base, look in today.items() if isinstance(look, Unobserved)}
    partitions, wholly = frozenset[PartitionValues](), frozenset[str]()
    look = today.get(followed)
    if isinstance(look, Snapshot):
        changed = look.changed(contents.followed)
        partitions, wholly = (frozenset(), frozenset({followed})) if changed is None else (changed, wholly)
    others = {base: seen for base, seen in today.items() if base != followed and isinstance(seen, Snapshot)}
    return Drift(partitions, wholly, _behind(view, others), unobserved, followed)


def _was_there(view: MaterializedView, base: str) -> bool:
    """Whether the version was written from an observation of this base table. If the table was missing then and is
    missing now, it may still exist and change where only Spark sees it: it counts neither as changed nor as
    unchanged."""
    contents = view.current.contents
    if view.followed is not None and view.followed.base == base:
        return contents.followed is not None
    found = (states.get(base) for _, states in contents.others)
    return any(state is not None and state != GONE for state in found)


def unobserved(view: MaterializedView) -> Drift | None:
    """The tables that were not observed when the current version was written: without an observation, it cannot be
    called fresh. None if all were observed."""
    if not view.built:
        return None
    contents, followed = view.current.contents, view.followed.base if view.followed else ""
    writers = [writer for writer in view.current.manifest.versions if writer != NEVER_BUILT]
    missing = {
        base
        for base in map(base_key, view.triggers)
        if (contents.followed is None if base == followed else not all(base in contents.others_of(w) for w in writers))
    }
    return Drift(unobserved=dict.fromkeys(missing, NOT_SEEN)) if missing else None


def _behind(view: MaterializedView, others: Mapping[str, Snapshot]) -> tuple[tuple[int, frozenset[str]], ...]:
    """The other tables that have changed since versions were written, as `Drift.behind`. Considers only versions whose
    partitions are shown; empty if no table has changed."""
    contents, writers = view.current.contents, view.current.manifest.versions
    layers = contents.others or ((NEVER_BUILT, {}),)
    seen = {id(contents.others_of(writer)) for writer in writers if writer != NEVER_BUILT}
    behind = tuple(
        (since, frozenset(_changed(states, others)))
        for since, states in layers
        if id(states) in seen or not contents.others
    )
    return behind if any(tables for _, tables in behind) else ()


def _changed(before: Mapping[str, Snapshot], today: Mapping[str, Snapshot]) -> list[str]:
    return [base for base, look in today.items() if base not in before or not same(before[base], look)]


def same(before: Snapshot, today: Snapshot) -> bool:
    """Compares tables as a whole, where partitions do not matter."""
    return before.identity == today.identity and before.state == today.state


def reason(view: MaterializedView, found: Drift) -> str:
    """Describes what has changed."""
    names = {base_key(table): str(table) for table in view.tables}
    names |= {base: f"the materialized view {view.base_name(base)}" for base in view.views}
    changed = sorted(names.get(base, base) for base in found.tables)
    listed = ", ".join(changed[:NAMED_MAX]) + (f" and {len(changed) - NAMED_MAX} more" if changed[NAMED_MAX:] else "")
    found_changed = f"{listed} {_how(view, found)}" if changed else ""
    if found.partitions and found.tables == {found.followed}:
        count = len(found.partitions)
        found_changed += f" in {count} partition{'' if count == 1 else 's'}"
    blind = [f"{names.get(base, base)} cannot be observed: {why}" for base, why in sorted(found.unobserved.items())]
    return "; ".join(filter(None, [found_changed, *blind, found.unknown]))


def _how(view: MaterializedView, found: Drift) -> str:
    contents, followed = view.current.contents, view.followed.base if view.followed else ""
    states = contents.others[-1][1] if contents.others else {}
    seen = [contents.followed if base == followed else states.get(base) for base in found.tables]
    if all(each is not None and each.is_doubtful for each in seen):
        # A statement ran beside the refresh that may have removed rows which came meanwhile.
        return "may have changed while a refresh read the rows"
    return "has changed" if len(seen) == 1 else "have changed"


# --- what a refresh writes -----------------------------------------------------------------------------


def selection(view: MaterializedView, found: Drift, keys: Mapping[PartitionValues, PartitionKey]) -> Selection:
    """The view's partitions that must be rewritten. `keys` maps the changed partitions of the followed table to the
    view's; a partition that is not in it is outside a limit of the view."""
    if not view.layout.partitioned or view.followed is None or found.wholly or found.unobserved:
        return ALL
    manifest = view.current.manifest
    touched = frozenset(keys[values] for values in found.partitions if values in keys)
    written = {key: version for key, version in manifest.exceptions.items() if version != NEVER_BUILT}
    if found.behind_of(manifest.default):
        fresh = (key for key, version in written.items() if key not in touched and not found.behind_of(version))
        return Selection(frozenset(fresh))
    late = frozenset(key for key, version in written.items() if found.behind_of(version))
    return Selection(touched | late, all_but=False)


def next_manifest(
    manifest: Manifest, version: int, chosen: Selection, left: frozenset[PartitionKey] = frozenset()
) -> Manifest:
    """The manifest after `version` has written `chosen`; `left` are partitions that no longer belong to the view."""
    if chosen.all_but:
        kept = {key: manifest.writer(key) for key in chosen.keys}
        return Manifest(version, {**kept, **dict.fromkeys(left, NEVER_BUILT)})
    return manifest.rewritten(version, chosen.keys).rewritten(NEVER_BUILT, left)


def next_contents(
    view: MaterializedView,
    version: int,
    chosen: Selection,
    today: Mapping[str, Snapshot],
    keys: Mapping[PartitionValues, PartitionKey],
    basis: Basis | None = None,
) -> Contents:
    """The contents of a version that has written `chosen`.

    `keys` maps the partitions of the followed table to the view's: at least those that differ from the current version.
    """
    base = view.followed.base if view.followed else ""
    followed = today.get(base)
    others = {name: _brief(look) for name, look in today.items() if name != base}
    if chosen.all_but:
        return Contents(followed, ((NEVER_BUILT, others),), basis)
    before = view.current.contents
    layers = before.others
    if chosen.keys and _changed(before.others_of(version), others):
        layers = (*layers, (version, others))
    if before.followed is not None and followed is not None:
        followed = _merged(before.followed, followed, chosen, keys)
    return Contents(followed, layers, basis)


def _brief(look: Snapshot) -> Snapshot:
    """The snapshot without its partitions, for a table whose partitions do not matter."""
    return Snapshot(look.identity, look.state, position=look.position)


def _merged(
    before: Snapshot,
    today: Snapshot,
    chosen: Selection,
    keys: Mapping[PartitionValues, PartitionKey],
) -> Snapshot:
    """Today's snapshot, except for partitions that changed but were not chosen."""
    left = [
        values
        for values, key in keys.items()
        if key not in chosen.keys and before.of_partition(values) != today.of_partition(values)
    ]
    if not left:
        return today
    partitions = dict(today.partitions)
    for values in left:
        state = before.partitions.get(values)
        if state is None:
            partitions.pop(values, None)
        else:
            partitions[values] = state
    return Snapshot(today.identity, MIXED, today.default, partitions)
