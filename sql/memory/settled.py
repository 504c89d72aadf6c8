"""Literals of a plan with their signs and types: Spark leaves these as expressions around them where it is asked not to
compute anything from literals.

Tests: `test_translation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sql.memory.engine_literals import negative, read
from sql.memory.zone_rules import ZoneRules
from sql.proof.plan import Node, Scalar, Value

_NUMBERS = ("tinyint", "smallint", "int", "bigint", "decimal")


@dataclass(frozen=True, slots=True)
class Settling:
    """Puts literals in the places of literals with a sign or a cast, as far as these have exactly one value."""

    literals: Sequence[str]
    """Of the client's text, by the numbers of holes."""
    zone: ZoneRules
    """That of the session."""

    def settled(self, value: Value) -> Value:
        if isinstance(value, tuple):
            return tuple(map(self.settled, value))
        if not isinstance(value, Node):
            return value
        found = self._cast(value) if value.kind == "Cast" else self._signed(value)
        if found is not None:
            return found
        fields = {name: self.settled(each) for name, each in value.fields.items()}
        return Node(value.kind, fields, value.type, value.id)

    def _signed(self, value: Value) -> Node | None:
        """The literal that a value is, with its sign; None if it is none."""
        if not isinstance(value, Node):
            return None
        if value.kind in {"Literal", "Hole"}:
            return value
        child = value.fields.get("child") if value.kind == "UnaryMinus" else None
        if not isinstance(child, Node) or not value.type.startswith(_NUMBERS):
            return None
        if child.kind == "Hole":
            sign = child.fields["negative"] != Scalar("Boolean", "true")
            return Node("Hole", {**child.fields, "negative": Scalar("Boolean", str(sign).lower())}, child.type)
        text = _text(child)
        return None if text is None else _literal(_minus(text), child.type)

    def _cast(self, node: Node) -> Node | None:
        """A literal of the type that another one is cast to."""
        child = self._signed(node.fields["child"])
        if child is None or child.fields.get("value", ()) is None:
            return None
        if child.kind == "Hole":
            number, sign = child.fields["number"], child.fields["negative"]
            assert isinstance(number, Scalar)
            value = self._read(self.literals[int(number.text)], node.type, negated=sign == Scalar("Boolean", "true"))
            return None if value is None else Node("Hole", child.fields, node.type)
        text = _text(child)
        if text is None or not child.type.startswith((*_NUMBERS, "string")):
            return None
        negated = text.startswith("-") and child.type != "string"
        shown = f"'{text}'" if child.type == "string" else text.removeprefix("-")
        value = self._read(shown, node.type, negated=negated)
        return None if value is None else _literal(value, node.type)

    def _read(self, text: str, type_text: str, *, negated: bool) -> str | None:
        value = read(text, type_text, self.zone)
        return negative(value, type_text) if negated and value is not None else value


def _text(node: Node) -> str | None:
    value = node.fields.get("value") if node.kind == "Literal" else None
    return value.text if isinstance(value, Scalar) and value.kind != "opaque" else None


def _minus(text: str) -> str:
    return text.removeprefix("-") if text.startswith("-") else f"-{text}"


def _literal(text: str, type_text: str) -> Node:
    return Node("Literal", {"value": Scalar("String", text)}, type_text)
