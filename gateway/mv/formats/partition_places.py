"""The locations of the partitions that the metastore lists: below the table's location by default, anywhere if a
partition has a location of its own.

Tests: `test_observation`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from gateway.loops import in_thread
from gateway.mv import many
from gateway.mv.formats.listings import UNKNOWN_DIRECTORIES, Listings
from gateway.mv.model.snapshot import PartitionValues
from gateway.mv.ports import Relation
from sql.names import TableName
from sql.texts import observation

DESCRIBED_NEWLY, DESCRIBED_AGAIN = 200, 64
"""For how many partitions of a Hive table one observation asks for the location, for the first time and again; see
`_asked`."""
DESCRIBING_SESSIONS = 4


@dataclass(slots=True)
class _Places:
    """The known locations of the partitions of one table. The one that was asked for longest ago comes first."""

    identity: str
    found: dict[PartitionValues, str] = field(default_factory=dict)
    partitions: int = 0
    """How many partitions the table had."""


class PartitionPlaces:
    """Remembers locations that took a statement each."""

    def __init__(self, listings: Listings) -> None:
        self._listings = listings
        self.known: dict[TableName, _Places] = {}

    def count(self, table: TableName) -> int:
        """How many partitions the last observation found; the next one will find about as many."""
        memory = self.known.get(table)
        return memory.partitions if memory is not None else UNKNOWN_DIRECTORIES

    async def of(self, relation: Relation, root: str, identity: str) -> dict[PartitionValues, str]:
        """The location of each listed partition: below the table's location by default, anywhere if the partition has a
        location of its own."""
        columns = relation.partition_columns
        async with self._listings.session() as session:
            names = (await session.run(observation.list_partitions(relation.name))).rows
            listed = await in_thread(len(names), _listed_places, names, columns, root)
            if not listed:
                return {}
            await self._listings.prepare(session, len(listed))
            plan = (await session.run(observation.explain_partitions(relation.name, columns))).rows
        paths = await in_thread(len(listed), _explained_paths, plan[0][0])
        memory = self.known.get(relation.name)
        if memory is None or memory.identity != identity:
            memory = self.known[relation.name] = _Places(identity)
        memory.partitions = len(listed)
        if paths is not None:
            return await self._explained(relation, memory, listed, paths, root)
        # If there are very many, some are assumed to be at their usual locations until a later observation asks.
        return {**listed, **await self._asked(relation, memory, listed, DESCRIBED_NEWLY)}

    async def _explained(
        self,
        relation: Relation,
        memory: _Places,
        listed: Mapping[PartitionValues, str],
        paths: frozenset[str],
        root: str,
    ) -> dict[PartitionValues, str]:
        """`paths` are the locations of all partitions, without saying which belongs to which. If a partition's usual
        location is among them and no other partition has it, it is that partition's; the others are asked for."""
        usual, others = await in_thread(len(paths), _usual, paths, listed, relation.partition_columns, root)
        memory.found = {values: place for values, place in memory.found.items() if place in paths}
        asked = await self._asked(relation, memory, others, len(listed))
        if taken := set(asked.values()):
            asked |= await self._describe(relation, [values for values, path in usual.items() if path in taken])
        places = await in_thread(len(paths), _all_places, usual, asked, paths)
        # None: a partition that seems to be at its usual location is elsewhere.
        return await self._describe(relation, list(listed)) if places is None else places

    async def _asked(
        self, relation: Relation, memory: _Places, wanted: Collection[PartitionValues], most: int
    ) -> dict[PartitionValues, str]:
        """The locations of partitions that no plan shows, at most `most` of them for the first time.

        Each partition needs a statement, and Spark asks the metastore for one after the other. So each is asked for
        once and remembered, and in every observation some are asked for again, because a location can be changed.
        """
        known, new = await in_thread(len(wanted), _divided, wanted, memory.found)
        asked = await self._describe(relation, new[:most] + known[:DESCRIBED_AGAIN])
        memory.found = {values: memory.found[values] for values in known if values not in asked} | asked
        return dict(memory.found)

    async def _describe(self, relation: Relation, wanted: Collection[PartitionValues]) -> dict[PartitionValues, str]:
        waiting = list(wanted)
        found: dict[PartitionValues, str] = {}

        async def work() -> None:
            async with self._listings.session() as session:
                while waiting:
                    values = waiting.pop()
                    describe = observation.describe_partition(relation.name, relation.partition_columns, values)
                    try:
                        answer = await session.run(describe)
                    except BaseException:  # Also on cancellation: stop the other workers.
                        waiting.clear()
                        raise
                    found[values] = observation.described_location(answer.rows[0][0])

        workers = min(DESCRIBING_SESSIONS, -(-len(waiting) // DESCRIBED_AGAIN))
        await asyncio.gather(*(work() for _ in range(workers)))
        return found


def _divided(
    wanted: Iterable[PartitionValues], found: Container[PartitionValues]
) -> tuple[list[PartitionValues], list[PartitionValues]]:
    """Divides partitions into those that were found and the others."""
    divided: tuple[list[PartitionValues], list[PartitionValues]] = ([], [])
    for values in wanted:
        divided[values not in found].append(values)
    return divided


def _values(name: str, columns: Sequence[str]) -> PartitionValues:
    values = observation.partition_values(name, columns)
    if values is None:
        raise ValueError(f"The partition {name} does not have the columns {', '.join(columns)}.")
    return values


def _listed_places(names: Iterable[Sequence[str]], columns: Sequence[str], root: str) -> dict[PartitionValues, str]:
    """The default locations of partitions with these names."""
    return {_values(name, columns): f"{root}/{name}" for (name,) in names}


def _explained_paths(plan: str) -> frozenset[str] | None:
    paths = observation.explained_paths(plan)
    return None if paths is None else frozenset(paths)


def _usual(
    paths: Iterable[str], listed: Mapping[PartitionValues, str], columns: Sequence[str], root: str
) -> tuple[dict[PartitionValues, str], Set[PartitionValues]]:
    """The paths that are the default locations of partitions, by partition; and the other partitions."""
    found = {}
    for path in paths:
        values = observation.partition_values(path[len(root) + 1 :], columns)
        if values is not None and values in listed and observation.is_within(path, root):
            found[values] = path
    return found, listed.keys() - found.keys()


def _all_places(
    usual: Mapping[PartitionValues, str], asked: Mapping[PartitionValues, str], paths: frozenset[str]
) -> dict[PartitionValues, str] | None:
    """The location of each partition; None if one of the paths belongs to no partition."""
    places = {**usual, **asked}
    return places if paths <= set(places.values()) else None


def roots_of(places: Collection[str], root: str) -> list[str]:
    """The directories that contain all these locations: the table's location, and those elsewhere."""
    roots = [root] if any(observation.is_within(place, root) for place in places) else []
    roots += many.in_order({place for place in places if not observation.is_within(place, root)}, str)
    # Files that are listed twice would cancel out in the sums.
    known = frozenset(roots)
    return [place for place in roots if known.isdisjoint(_above(place))]


def _above(place: str) -> Iterator[str]:
    """The directories that contain this location."""
    while place := place.rpartition("/")[0]:
        yield place
