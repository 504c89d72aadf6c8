"""What a plan computes: one of these things may be at fault if an answer is wrong.

Tests: `test_translation`.
"""

from __future__ import annotations

from sql.proof.plan import Node, Plan, nodes_of

_COMBINING = frozenset({"Join", "Union", "Expand", "Window", "WindowGroupLimit"})
"""Nodes that put rows together in other ways than every query does."""
_NAMING = frozenset({"AttributeReference", "Alias", "Literal", "AggregateExpression", "SortOrder", "IsNotNull", "And"})
"""Expressions that nearly every query has, and that compute nothing, or next to nothing."""


def parts_of(plan: Plan) -> frozenset[str]:
    """The kinds of its expressions with the types of their operands, and how it puts rows together."""
    return frozenset(filter(None, map(_part, nodes_of(plan.root))))


def _part(node: Node) -> str | None:
    kind = node.kind.removesuffix("$")
    if not node.type:
        return kind if kind in _COMBINING else None
    if kind in _NAMING:
        return None
    values = [value if isinstance(value, tuple) else (value,) for value in node.fields.values()]
    operands = [each.type.partition("(")[0] for some in values for each in some if isinstance(each, Node) and each.type]
    return f"{kind}({', '.join(dict.fromkeys(operands))})"
