"""What must be so: the invariants of the design, asked of every statement that Spark carries out and of every read."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from gateway.mv.catalog.fence import YIELDED
from sql.texts.epochs import is_epoch
from world.loop import RATES
from world.statements import combined, relations
from world.storage import Key, Place, Shown, rows_at, shown
from world.tables import NOTHING, Rows, Table

if TYPE_CHECKING:
    from world.spark import Statement
    from world.world import World

OUTSIDE = "outside"
WAITED_SECONDS = 1.8
"""So long at least a successor waits, by the fastest clock, before it looks at anything or changes it."""


@dataclass(eq=False, slots=True)
class Write:
    """A statement of a client's that may write."""

    gateway: str
    table: str
    state: int | None = None
    """The state of its table that it has made, once it has committed."""
    heard: bool = False
    """Its gateway knows that it has ended, or that it will never know."""
    running: asyncio.Future[Any] | None = None
    """How it ends at Spark, where its client does not ask."""
    told: bool = False
    """Its client knows that it has ended."""

    @property
    def counts(self) -> bool:
        """Whether reads that begin now must see what it does, and has done."""
        return self.heard or (self.running is not None and self.running.done())


@dataclass(frozen=True, slots=True)
class Read:
    """A read that a client has begun: the first state of each base table that it may show."""

    view: str
    oldest: Mapping[str, int]
    since: float
    """What was done to stored rows before this moment must have been noticed."""
    gateway: str


@dataclass(frozen=True, slots=True)
class Definition:
    """What a materialized view, identified by its storage, is defined by."""

    query: str
    partitioned: bool
    serves: bool
    """Reads never wait: it is refreshed when its base tables have changed."""


class Oracle:
    """What must be true of the answers in one history."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.writes: list[Write] = []
        self.spoilt: list[tuple[float, str]] = []
        """When stored rows were changed past the gateways, and of which storage."""
        self._definitions: dict[str, Definition] = {}
        self._dropped: dict[str, float] = {}
        """When each epoch was dropped."""
        self.may_go: set[str] = set()
        """Storages of views that a client has told to be dropped or replaced."""
        for name, thing in world.metastore.things.items():
            if f"{name}__definition" in world.metastore.things:
                self.created(name, thing.partitioned)

    def created(self, storage: str, partitioned: bool) -> None:
        """A storage table is there, and its definition view."""
        query = self._world.metastore.thing(f"{storage}__definition").text
        self._definitions[storage] = Definition(query, partitioned, storage in self._world.shape.served)

    def may_lose(self, text: str) -> None:
        """A client sends a statement that may drop or replace a view."""
        if text.startswith(("DROP", "CREATE OR REPLACE")) or "'swap' = 'false'" in text:
            self.may_go.update(self._definitions)

    # --- reads -------------------------------------------------------------------------------------

    def begin_read(self, view: str, gateway: str) -> Read:
        """A client sends a read of a view to a gateway now. If nothing has the name yet, the gateway forwards the read
        at once, and a view that is renamed before Spark resolves the name may show any of its states."""
        tables = self._world.metastore.tables.values()
        is_there = view in self._world.metastore.things
        since = self._world.loop.now - self._trusted
        return Read(
            view, {table.name: self._oldest(table, gateway) if is_there else 0 for table in tables}, since, gateway
        )

    @property
    def _trusted(self) -> float:
        """For how many seconds of the world's time a look may be trusted."""
        return self._world.tuning.probe_interval / (min(RATES) if self._world.several else 1.0)

    def _oldest(self, table: Table, gateway: str) -> int:
        """The last state that a read must see: of what its gateway has heard the end of, or what was long ago. Of
        several gateways of which one leads: of what any client was told the end of."""
        seen = self._world.loop.now - self._trusted
        writes = [write for write in self.writes if write.table == table.name]
        if self._world.several:
            heard = {write.state for write in writes if write.told}
        else:
            heard = {write.state for write in writes if write.gateway == gateway and write.counts}
        for number in range(len(table.states) - 1, 0, -1):
            if table.states[number].at < seen or number in heard:
                return number
        return 0

    def end_read(self, read: Read, storage: str, found: Mapping[Key, Rows], first: Read | None = None) -> None:
        """The read shows these rows, of the view that has this storage. `first`: the read whose answer it was given
        from memory."""
        definition = self._definitions[storage]
        if self._may_be_spoilt(read, storage):
            return
        if first is not None and self._may_be_spoilt(first, storage) and self._is_sound(storage):
            # Its rows were changed, read, and changed back: no later look can tell.
            return
        found = _normal(definition, found)
        oldest = read.oldest
        if definition.serves and not self._world.calm:
            oldest = dict.fromkeys(oldest, 0)
        oldest = {name: oldest[name] for name in self._bases(definition)}
        if self._is_possible(found, definition, oldest):
            return
        stale = self._is_possible(found, definition, dict.fromkeys(oldest, 0))
        wanted = next(self._possible(definition, oldest))
        self._world.violate(
            f"a read of {read.view} {'is stale' if stale else 'shows what never was'}: {told(found)}, and not "
            f"{told(wanted)} or later"
        )

    def _may_be_spoilt(self, read: Read, storage: str) -> bool:
        """Whether stored rows were changed so lately that nobody need know. A gateway that another one has taken over
        from cannot tell changed rows from those of the other one, and does not look."""
        lately = any(at >= read.since and each in self._storages(storage) for at, each in self.spoilt)
        return lately or (bool(self.spoilt) and read.gateway != self._world.gateways[-1].name)

    def _is_sound(self, storage: str) -> bool:
        """Whether a view shows rows of this storage that no other program has put there, and all that belong there."""
        definition, partitions = self._definitions[storage], self._world.metastore.thing(storage).partitions
        oldest = dict.fromkeys(self._bases(definition), 0)
        return any(
            self._is_possible(
                _normal(definition, rows_at(self._world.metastore.thing(storage), places)), definition, oldest
            )
            for public in self._showing(storage)
            if (places := list(filter(public.has, partitions)))
        )

    def _storages(self, storage: str) -> Iterator[str]:
        """The storage of a view, and of those below it."""
        yield storage
        for name in relations(self._definitions[storage].query):
            if name not in self._world.metastore.tables:
                public = shown(self._world.metastore.thing(name).text)
                assert public is not None, name
                yield from self._storages(public.storage)

    def spoil(self, view: str, how: str, token: int) -> None:
        """Another program changes rows that a view shows, past all gateways."""
        thing = self._world.metastore.things.get(view)
        public = shown(thing.text) if thing is not None else None
        storage = self._world.metastore.things.get(public.storage) if public is not None else None
        if public is None or storage is None:
            return
        places = sorted(filter(public.has, storage.partitions), key=repr)
        place = places[-1] if places else (public.number, "a" if storage.partitioned else None)
        if how == "grow" and storage.partitioned:
            place = (public.number, "z")
        self.spoilt.append((self._world.loop.now, public.storage))
        if how == "drop":
            storage.partitions.pop(place, None)
        elif how == "lose":
            storage.partitions[place] = NOTHING
        else:
            storage.partitions[place] = storage.partitions.get(place, NOTHING) | {("foreign", place[1], token)}

    def check_alarms(self, found: int) -> None:
        """A gateway has found a view damaged so often."""
        if found and not self.spoilt:
            self._world.violate("a view was found damaged, and nobody has changed its rows")

    def _is_possible(self, found: Mapping[Key, Rows], definition: Definition, oldest: Mapping[str, int]) -> bool:
        """Whether the rows are the definition's over states since the oldest ones. Partitions of a view may each be of
        a moment of their own, where a write is under way: a refresh writes those that a look has shown to be changed.
        """
        possible = list(self._possible(definition, oldest))
        if found in possible:
            return True
        keys = found.keys() | {key for rows in possible for key in rows}
        return definition.partitioned and all(any(found.get(key) == rows.get(key) for rows in possible) for key in keys)

    def _possible(self, definition: Definition, oldest: Mapping[str, int]) -> Iterator[Mapping[Key, Rows]]:
        """What the definition yields over the states since the oldest ones, of each table by itself."""
        names = list(oldest)
        tables = self._world.metastore.tables
        states = [dict.fromkeys(each.rows for each in tables[name].states[oldest[name] :]) for name in names]
        for chosen in product(*states):
            yield self._yields(definition, dict(zip(names, chosen, strict=True)))

    def _yields(self, definition: Definition, rows: Mapping[str, Rows]) -> Mapping[Key, Rows]:
        below = [
            _by_partition(rows[name]) if name in rows else self._yields(self._shown_as(name), rows)
            for name in relations(definition.query)
        ]
        return _normal(definition, combined(definition.query, below))

    def _shown_as(self, view: str) -> Definition:
        public = shown(self._world.metastore.thing(view).text)
        assert public is not None, view
        return self._definitions[public.storage]

    def _bases(self, definition: Definition) -> Iterator[str]:
        for name in relations(definition.query):
            if name in self._world.metastore.tables:
                yield name
            else:
                yield from self._bases(self._shown_as(name))

    # --- what gateways change ----------------------------------------------------------------------

    def before_change(self, running: Statement) -> None:
        """Spark begins a change of views or storage. One of several gateways makes none when another one may have
        begun to."""
        gone = self._dropped.get(self._world.epoch_of(running.gateway) or "")
        if self._world.several and gone is not None and self._world.loop.now - gone > WAITED_SECONDS:
            self._world.violate(f"{running.gateway} changes something, and another gateway leads: {running.text}")

    def drop_epoch(self, epoch: str) -> None:
        """The gateway that it belonged to leads no more. After one that has handed over, the next one does not wait."""
        there = self._world.metastore.things.get(epoch)
        yielded = there is not None and YIELDED in there.properties
        self._dropped.setdefault(epoch, self._world.loop.now - (WAITED_SECONDS if yielded else 0.0))

    def before_switch(self, gateway: str, view: str, text: str) -> None:
        """ALTER VIEW: of one storage the next version takes the place of the one from which its refresh began."""
        before, after = shown(self._world.metastore.thing(view).text), shown(text)
        if after is None:
            self._world.violate(f"{view} is made a view that shows no version: {text}")
            return
        storage = self._world.metastore.things.get(after.storage)
        if storage is None:
            self._world.violate(f"{view} is made to show {after.storage}, which is not there")
            return
        record = _version(storage.properties, after.number)
        if record is None:
            self._world.violate(f"version {after.number} of {view} is published, and nothing is stored of it")
            return
        for running in self._world.spark.running:
            if running.kind == "insert" and running.writes == (after.storage, after.number):
                self._world.violate(f"version {after.number} of {view} is published while it is written")
        if before is not None and before.storage == after.storage and before.number != after.number:
            previous = record["previous"]
            if previous != before.number:
                self._world.violate(
                    f"{gateway} publishes version {after.number} of {view} over version {before.number}, though it was "
                    f"to follow version {previous}"
                )

    def before_insert(self, running: Statement, name: str, version: int) -> None:
        """Rows of a version are written."""
        running.writes = name, version
        storage = self._world.metastore.thing(name)
        if version in storage.given_up:
            self._world.violate(f"{running.gateway} writes version {version} of {name}, of which another INSERT failed")
        if any(number == version and writer != running.gateway for number, writer in storage.written):
            self._world.violate(f"{running.gateway} writes version {version} of {name}, as another gateway has done")
        if any(public.number == version for public in self._showing(name)):
            self._world.violate(f"{running.gateway} writes version {version} of {name}, which is published")
        storage.written.add((version, running.gateway))

    def given_up(self, running: Statement) -> None:
        """Nobody waits for an INSERT any more, or it has failed."""
        if running.writes is not None and (storage := self._world.metastore.things.get(running.writes[0])) is not None:
            storage.given_up.add(running.writes[1])

    def before_partition_drop(self, name: str, place: Place) -> None:
        if any(public.has(place) for public in self._showing(name)):
            self._world.violate(f"partition {place} of {name} is dropped, which a view shows")

    def before_drop(self, name: str) -> None:
        if list(self._showing(name)):
            self._world.violate(f"{name} is dropped, which a view shows")

    # --- in the end --------------------------------------------------------------------------------

    def views(self) -> list[str]:
        """The names that show a materialized view. Each view that nobody wanted to go has one."""
        names: dict[str, list[str]] = {}
        for name, thing in self._world.metastore.things.items():
            if thing.text and (public := shown(thing.text)) is not None:
                names.setdefault(public.storage, []).append(name)
        for found in names.values():
            if len(found) > 1:
                self._world.violate(f"{' and '.join(found)} show one view")
        for storage in self._world.shape.metastore.things:
            if storage in self._definitions and storage not in names and storage not in self.may_go:
                self._world.violate(f"the view of {storage} is lost")
        return sorted(name for found in names.values() for name in found)

    def check_clean(self) -> None:
        """Nothing is left that no view shows."""
        things = self._world.metastore.things
        for name, thing in things.items():
            if (thing.text and shown(thing.text) is not None) or is_epoch(name.partition(".")[2]):
                continue
            storage = name.removesuffix("__definition")
            public = list(self._showing(storage))
            if storage not in things or not public:
                self._world.violate(f"{name} is left, which no view needs")
            for place in thing.partitions:
                if not any(each.has(place) for each in public):
                    self._world.violate(f"partition {place} of {name} is left, which no view shows")

    def _showing(self, storage: str) -> Iterator[Shown]:
        for thing in self._world.metastore.things.values():
            if thing.text and (public := shown(thing.text)) is not None and public.storage == storage:
                yield public


def _normal(definition: Definition, found: Mapping[Key, Rows]) -> Mapping[Key, Rows]:
    if not definition.partitioned:
        whole = NOTHING.union(*found.values())
        return {None: whole} if whole else {}
    return {key: rows for key, rows in found.items() if rows}


def _by_partition(rows: Rows) -> Mapping[Key, Rows]:
    found: dict[Key, Rows] = {}
    for row in rows:
        found[row[1]] = found.get(row[1], NOTHING) | {row}
    return found


def told(rows: Mapping[Key, Rows]) -> str:
    """Rows as a person reads them: `a: s.t 1 2; b: s.t 4`."""
    parts = []
    for key, part in sorted(rows.items(), key=repr):
        tokens: dict[str, list[int]] = {}
        for table, _, token in sorted(part, key=repr):
            tokens.setdefault(table, []).append(token)
        said = ", ".join(f"{table} {' '.join(map(str, sorted(found)))}" for table, found in tokens.items())
        parts.append(said if key is None else f"{key}: {said}")
    return "; ".join(parts) or "nothing"


def _version(properties: Mapping[str, str], number: int) -> Mapping[str, int] | None:
    """What is stored of a version, read here and not by the gateway's own code."""
    name = f"freshgate.version.{number}"
    if (value := properties.get(name)) is None:
        return None
    if value.startswith("+"):
        value = "".join(properties[f"{name}.{piece}"] for piece in range(int(value[1:])))
    content = bytes.fromhex(value[1:])
    found: Mapping[str, int] = json.loads(zlib.decompress(content) if value.startswith("z") else content)
    return found
