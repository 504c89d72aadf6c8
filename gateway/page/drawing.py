"""Drawings of the page: bars of refreshes, and a picture of what a view reads and what reads it. SVG without scripts or
styles of its own.

Tests: `test_browser_page`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

BAR_WIDTH, BARS_HEIGHT = 6, 48
NODES_MAX = 150
BOX_WIDTH, BOX_HEIGHT, GAP_X, GAP_Y = 220, 30, 70, 10
SHOWN_MAX = 26
"""Characters of a name in a box; the whole one is its title."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One refresh. `share`: of the height, from 0 to 1."""

    x: int
    y: float
    height: float
    kind: str
    """A class of the style sheet, and a word of the title."""
    title: str


def bars(values: Sequence[tuple[float, str, str]]) -> list[Bar]:
    """Bars for (length, kind, title), in their order from left to right. The longest has the whole height."""
    longest = max((length for length, _, _ in values), default=0.0) or 1.0
    found = []
    for place, (length, kind, title) in enumerate(values):
        height = max(2.0, round(BARS_HEIGHT * length / longest, 1))
        found.append(Bar(place * BAR_WIDTH, BARS_HEIGHT - height, height, kind, title))
    return found


@dataclass(frozen=True, slots=True)
class LineageNode:
    """A table or view. `rank`: negative for what the middle reads, positive for what reads it."""

    key: str
    label: str
    kind: str
    """VIEW, TABLE, SPARK VIEW."""
    state: str
    link: str
    rank: int
    more: int = 0
    """Neighbours that are not shown."""


@dataclass(frozen=True, slots=True)
class Box:
    node: LineageNode
    x: int
    y: int

    @property
    def shown(self) -> str:
        label = self.node.label
        return label if len(label) <= SHOWN_MAX else f"{label[: SHOWN_MAX // 2 - 1]}…{label[-SHOWN_MAX // 2 :]}"


@dataclass(frozen=True, slots=True)
class Graph:
    """`boxes` in reading order: from left to right, and from top to bottom."""

    boxes: tuple[Box, ...]
    paths: tuple[str, ...]
    width: int
    height: int
    left_out: int
    """Nodes beyond NODES_MAX."""


def around(
    middle: LineageNode, below: Mapping[str, Sequence[LineageNode]], above: Mapping[str, Sequence[LineageNode]]
) -> tuple[list[LineageNode], list[tuple[str, str]], int]:
    """The nodes of a graph and its edges from what is read to its readers. `below` and `above` have the neighbours of
    each widened node. Returns also how many are left out."""
    nodes, edges, left_out = {middle.key: middle}, list[tuple[str, str]](), 0
    for neighbours, downward in ((below, True), (above, False)):
        pending = [middle.key]
        while pending:
            key = pending.pop(0)
            for node in neighbours.get(key, ()):
                if node.key not in nodes:
                    if len(nodes) >= NODES_MAX:
                        left_out += 1
                        continue
                    nodes[node.key] = node
                    pending.append(node.key)
                edges.append((node.key, key) if downward else (key, node.key))
    return list(nodes.values()), edges, left_out


def graph(nodes: Iterable[LineageNode], edges: Iterable[tuple[str, str]], left_out: int) -> Graph:
    """Places the nodes in columns by their rank."""
    columns: dict[int, list[LineageNode]] = {}
    for node in nodes:
        columns.setdefault(node.rank, []).append(node)
    places, boxes = dict[str, Box](), list[Box]()
    height = max(map(len, columns.values())) * (BOX_HEIGHT + GAP_Y) + GAP_Y
    for column, rank in enumerate(sorted(columns)):
        listed = sorted(columns[rank], key=lambda node: node.label)
        top = (height - len(listed) * (BOX_HEIGHT + GAP_Y)) // 2
        for row, node in enumerate(listed):
            box = Box(node, column * (BOX_WIDTH + GAP_X) + 1, top + row * (BOX_HEIGHT + GAP_Y) + GAP_Y // 2)
            places[node.key] = box
            boxes.append(box)
    paths = tuple(_path(places[source], places[target]) for source, target in dict.fromkeys(edges))
    return Graph(tuple(boxes), paths, len(columns) * (BOX_WIDTH + GAP_X) - GAP_X + 2, height, left_out)


def _path(source: Box, target: Box) -> str:
    """A curve from the right of a box to the left of another one."""
    x, y = source.x + BOX_WIDTH, source.y + BOX_HEIGHT // 2
    end_x, end_y = target.x, target.y + BOX_HEIGHT // 2
    half = (x + end_x) // 2
    return f"M{x} {y}C{half} {y} {half} {end_y} {end_x} {end_y}"


def pages(count: int, size: int) -> int:
    """How many pages of this size a list has: at least one."""
    return max(1, -(-count // size))


def window(page: int, last: int) -> Iterator[int]:
    """The numbers of pages near this one, from 1."""
    yield from range(max(1, page - 3), min(last, page + 3) + 1)
