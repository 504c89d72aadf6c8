"""What EXPLAIN EXTENDED prints: plans as trees of lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

_SECTION = re.compile(r"^== (\w+) Logical Plan ==$|^== Physical Plan ==$", re.MULTILINE)
_LINE = re.compile(r"(?P<above>(?:   |:  )*)(?P<own>[+:]- )?(?P<text>.*)", re.DOTALL)
_INDENT = 3


class NoPlan(ValueError):
    """The text has no such plan. The message is for users."""


@dataclass(slots=True)
class Line:
    """A node of a plan."""

    text: str
    children: list[Line] = field(default_factory=list)
    queries: list[Line] = field(default_factory=list)
    """The plans of subqueries in its expressions."""

    @property
    def kind(self) -> str:
        """The name of its class, as Spark prints it."""
        return self.text.split(" ", 1)[0].partition("[")[0]

    @property
    def rest(self) -> str:
        """What follows the kind."""
        return self.text[len(self.kind) :].strip()


def sections(explained: str) -> Mapping[str, list[str]]:
    """The lines of each logical plan: Parsed, Analyzed, Optimized. A headline within a literal is refused, because then
    there are more. Raises NoPlan."""
    found = list(_SECTION.finditer(explained))
    if [each[1] for each in found] != ["Parsed", "Analyzed", "Optimized", None]:
        raise NoPlan(f"Spark does not explain the statement: {explained[:300]}")
    texts = {
        str(one[1]): explained[one.end() : other.start()].strip("\n").split("\n") for one, other in pairwise(found)
    }
    # The analyzed plan follows a line with the names and types of the columns.
    return {**texts, "Analyzed": texts["Analyzed"][1:]}


def tree(lines: Sequence[str]) -> Line:
    """The plan that the lines show. A line that is not laid out as a node belongs to the text of the one before it.
    Raises NoPlan."""
    if not lines or not lines[0]:
        raise NoPlan("Spark's plan is empty")
    root = Line(lines[0])
    open_nodes = [(0, root)]
    """The nodes that may get children, with their depths."""
    for line in lines[1:]:
        found = _LINE.fullmatch(line)
        assert found is not None
        depth = len(found["above"]) // _INDENT + 1
        if not found["own"] or depth - open_nodes[-1][0] > 2:
            open_nodes[-1][1].text += "\n" + line
            continue
        while open_nodes[-1][0] >= depth:
            open_nodes.pop()
        above, made = open_nodes[-1], Line(found["text"])
        (above[1].queries if depth - above[0] == 2 else above[1].children).append(made)
        open_nodes.append((depth, made))
    return root


def nodes(plan: Line) -> Iterator[Line]:
    """All nodes of a plan, also those of subqueries, in no particular order."""
    waiting = [plan]
    while waiting:
        each = waiting.pop()
        yield each
        waiting += [*each.children, *each.queries]
