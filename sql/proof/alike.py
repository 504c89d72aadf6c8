"""Whether two plans of one text are the same, of whatever classes they consist.

`checker.prove` finds more plans equal, but only those all of whose classes it understands. Two plans of one text that
were optimized under the same settings differ in nothing but the numbers of their columns, unless Spark has read the
text otherwise: for another user, for example.
"""

from __future__ import annotations

from sql.proof.plan import Node, Plan, Scalar, Value

_OPAQUE = "opaque"


def alike(one: Plan, other: Plan) -> bool:
    """Whether both plans are the same but for the numbers of columns, and show everything that they consist of."""
    if one.constants != other.constants or len(one.output) != len(other.output):
        return False
    pairs = _Pairs()
    if not pairs.are_alike(one.root, other.root):
        return False
    named = zip(one.output, other.output, strict=True)
    return all((a.name, a.type) == (b.name, b.type) and pairs.is_pair(a.id, b.id) for a, b in named)


class _Pairs:
    """The numbers of columns of one plan, and those of the other that take their places."""

    def __init__(self) -> None:
        self._forth: dict[str, str] = {}
        self._back: dict[str, str] = {}

    def is_pair(self, one: str, other: str) -> bool:
        return self._forth.setdefault(one, other) == other and self._back.setdefault(other, one) == one

    def are_alike(self, one: Value, other: Value) -> bool:
        waiting = [(one, other)]
        while waiting:
            left, right = waiting.pop()
            match left, right:
                case Node(), Node():
                    same = (left.kind, left.type) == (right.kind, right.type) and self.is_pair(left.id, right.id)
                    if not same or left.fields.keys() != right.fields.keys():
                        return False
                    waiting.extend((field, right.fields[name]) for name, field in left.fields.items())
                case Scalar(), Scalar():
                    if left != right or left.kind == _OPAQUE:
                        return False
                case tuple(), tuple():
                    if len(left) != len(right):
                        return False
                    waiting.extend(zip(left, right, strict=True))
                case None, None:
                    pass
                case _:
                    return False
        return True
