"""Finds which literals of a query a plan shows, so that one translation serves queries with other literals.

A query is planned twice, with literals of which each differs. Where the plans differ in nothing but a literal, and that
has the values that the query's literal has in both texts, it is a hole. All other literals are pinned: the
translation serves queries with these very values.

Tests: `test_translation`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from sql.memory.engine_literals import canonical, negative, read
from sql.memory.zone_rules import ZoneRules
from sql.proof.plan import Node, Plan, Scalar, Value, nodes_of


@dataclass(frozen=True, slots=True)
class Marked:
    """A plan with nodes of the kind Hole in the places of literals."""

    plan: Plan
    holes: frozenset[int]
    """The numbers of the literals that may be other ones."""


_UNSEEN = {"Alias": frozenset({"name"}), "WindowGroupLimit": frozenset({"limit"})}
"""Fields whose values do not matter: what Spark calls a computed column may contain its literals, and a limit of groups
leaves out rows that a condition above leaves out as well."""


_DEFAULTS = Scalar("String", "alwaysTrue")


def _is_default(node: Node) -> bool:
    """Whether Spark has computed what a subquery that depends on the row around it gives for no rows, perhaps from
    literals (`RewriteCorrelatedScalarSubquery`)."""
    return node.kind == "Alias" and node.fields["name"] == _DEFAULTS


class _Unlike(Exception):
    """The plans differ in more than literals."""


def marked(
    plan: Plan,
    other: Plan,
    literals: Sequence[str],
    others: Sequence[str],
    pinned: frozenset[int] = frozenset(),
    *,
    zone: ZoneRules,
) -> Marked:
    """The plan of a query with these literals, given that of the same query with others. `pinned` ones get none.
    `zone`: that of the session."""
    names = [[(each.name, each.type) for each in one.output] for one in (plan, other)]
    if names[0] != names[1] or plan.constants != other.constants or any(map(_is_default, nodes_of(plan.root))):
        return Marked(plan, frozenset())
    comparison = _Comparison(literals, others, pinned, zone)
    try:
        root = comparison.same(plan.root, other.root)
    except _Unlike:
        return Marked(plan, frozenset())
    assert isinstance(root, Node)
    return Marked(replace(plan, root=root), frozenset(comparison.holes))


@dataclass(slots=True)
class _Comparison:
    literals: Sequence[str]
    others: Sequence[str]
    pinned: frozenset[int]
    zone: ZoneRules
    holes: set[int] = field(default_factory=set)
    _ids: dict[str, str] = field(default_factory=dict)
    """The ids of the one plan, and those of the other one."""

    def same(self, one: Value, other: Value) -> Value:
        if isinstance(one, Node) and isinstance(other, Node):
            return self._node(one, other)
        if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
            return tuple(self.same(left, right) for left, right in zip(one, other, strict=True))
        if isinstance(one, Scalar) and isinstance(other, Scalar) and one.kind == other.kind == "ExprId":
            self._match(one.text, other.text)
        elif one != other:
            raise _Unlike
        return one

    def _node(self, one: Node, other: Node) -> Node:
        if (one.kind, one.type, one.fields.keys()) != (other.kind, other.type, other.fields.keys()):
            raise _Unlike
        if one.kind == "Literal" and one != other:
            return self._hole(one, other)
        self._match(one.id, other.id)
        unseen = _UNSEEN.get(one.kind, frozenset())
        fields = {
            name: value if name in unseen else self.same(value, other.fields[name])
            for name, value in one.fields.items()
        }
        return Node(one.kind, fields, one.type, one.id)

    def _match(self, one: str, other: str) -> None:
        if self._ids.setdefault(one, other) != other:
            raise _Unlike

    def _hole(self, one: Node, other: Node) -> Node:
        values = [each.fields["value"] for each in (one, other)]
        fitting = list(self._fitting(values[0], values[1], one.type))
        # Of several with the same value a further query may have different ones.
        if len(fitting) != 1:
            raise _Unlike
        ((number, sign),) = fitting
        if number in self.pinned:
            return one
        self.holes.add(number)
        fields = {"number": Scalar("Integer", str(number)), "negative": Scalar("Boolean", str(sign).lower())}
        return Node("Hole", fields, one.type)

    def _fitting(self, one: Value, other: Value, type_text: str) -> Iterator[tuple[int, bool]]:
        """The literals that have this value in the one text and that in the other, and whether with a sign."""
        if not isinstance(one, Scalar) or not isinstance(other, Scalar):
            return
        wanted = [canonical(each.text, type_text) for each in (one, other)]
        for number, texts in enumerate(zip(self.literals, self.others, strict=True)):
            values = [read(text, type_text, self.zone) for text in texts]
            if values == wanted:
                yield number, False
            elif [None if each is None else negative(each, type_text) for each in values] == wanted:
                yield number, True
