"""Reads the plans that the embedded engine writes (`gateway/spark/PlanWriter.java`). `plan_text` reads those of other
servers, which show less."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sql.proof.plan import Node, Output, Plan, Scalar, Value

_CATALYST = "org.apache.spark.sql.catalyst."
_PACKAGES = (
    _CATALYST + "expressions.aggregate.",
    _CATALYST + "expressions.",
    _CATALYST + "plans.logical.",
    _CATALYST + "plans.",
    _CATALYST + "catalog.",
    "org.apache.spark.sql.execution.datasources.",
)
"""Classes of these packages are known by their last name. Others keep their package, and so are not understood."""


def read(text: str) -> Plan:
    """Raises ValueError if the text is not such a plan."""
    try:
        written = json.loads(text)
        root = _value(written["root"])
        output = tuple(Output(*column) for column in written["output"])
        constants = frozenset(_kind(name) for name in written["constants"])
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a plan: {error!r}") from error
    if not isinstance(root, Node):
        raise ValueError("not a plan: it has no root")
    return Plan(output, constants, root)


def _value(written: Any) -> Value:
    if written is None:
        return None
    if isinstance(written, list):
        return tuple(_value(each) for each in written)
    if "kind" in written:
        text = written["text"]
        return Scalar(written["kind"], _kind(text) if written["kind"] == "object" else text)
    fields: Mapping[str, Any] = written["fields"]
    return Node(
        kind=_kind(written["class"]),
        fields={name: _value(field) for name, field in fields.items()},
        type=written.get("type", ""),
        id=written.get("id", ""),
    )


def _kind(name: str) -> str:
    for package in _PACKAGES:
        last = name.removeprefix(package)
        if last != name and "." not in last:
            return last
    return name
