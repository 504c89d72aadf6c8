"""Types of columns, which Spark describes as JSON."""

from __future__ import annotations

import json


def sql_type(type_json: str) -> str:
    """The type of a column as SQL; texts of limited length count as strings."""
    kind = json.loads(type_json)
    match kind.get("name"):
        case "decimal":
            return f"decimal({kind.get('precision')},{kind.get('scale')})"
        case "timestamp_ltz":
            return "timestamp"
        case "varchar" | "char":
            return "string"
        case name:
            return str(name)
