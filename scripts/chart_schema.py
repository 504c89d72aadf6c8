"""Writes the gateway's settings into the schema of the Helm chart's values, so that helm refuses unknown ones.

Run it after a change of `gateway/config.py`: `.venv/bin/python scripts/chart_schema.py`.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, get_type_hints

from gateway.config import METHODS, Settings
from gateway.settings_file import REMOVED

SCHEMA = Path(__file__).parent.parent / "conf" / "helm" / "freshgate" / "values.schema.json"
SPARK: dict[str, Any] = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean", "object"]}}
"""Spark's settings, with dots in their names or tables within tables."""
TYPES: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    tuple[str, ...]: {"type": "array", "items": {"type": "string"}},
}
PORT = {"$ref": "#/$defs/port"}


def settings_schema() -> dict[str, Any]:
    """The schema of the value `settings`. The manifests need the ports, so these may not be chosen by the system."""
    schema = _table(Settings())
    tables = schema["properties"]
    # The short form authentication: file.
    one = f"({'|'.join(METHODS)})"
    short = {"type": "string", "pattern": f"^ *{one}( *, *{one})* *$"}
    tables["authentication"] = {"anyOf": [short, tables["authentication"]]}
    schema["required"] = ["listen", "metrics"]
    listen, metrics = tables["listen"], tables["metrics"]
    listen["required"] = ["host", "port", "http_port"]
    listen["properties"] |= {"port": PORT, "http_port": PORT}
    listen["anyOf"] = [{"properties": {name: {"minimum": 1}}} for name in ("port", "http_port")]
    metrics["required"] = ["host", "port"]
    metrics["properties"]["port"] = {"type": "integer", "minimum": 1, "maximum": 65535}
    tables["limits"]["properties"]["drain_seconds"]["minimum"] = 0
    _add_removed(schema)
    return schema


def _add_removed(schema: dict[str, Any]) -> None:
    """The gateway names them, and starts: values of an earlier release must not stop an upgrade."""
    for name, setting in REMOVED.items():
        table, _, key = name.rpartition(".")
        empty: dict[str, Any] = {"type": "object", "additionalProperties": False, "properties": {}}
        owner = schema["properties"].setdefault(table, empty)
        if owner.get("type") == "array":
            owner = schema["properties"][table] = {"anyOf": [owner, empty]}
        owner = owner.get("anyOf", (None, owner))[1]
        described = {"deprecated": True, "description": f"No longer a setting: {setting.why}."}
        owner["properties"][key] = {**TYPES[setting.type], **described}


def _table(owner: Any) -> dict[str, Any]:
    hints, properties = get_type_hints(type(owner)), dict[str, Any]()
    for item in dataclasses.fields(owner):
        value = getattr(owner, item.name)
        if dataclasses.is_dataclass(value):
            properties[item.name] = _table(value)
        else:
            properties[item.name] = dict(TYPES.get(hints[item.name], SPARK))
    return {"type": "object", "additionalProperties": False, "properties": properties}


def updated(text: str) -> str:
    """The file's text with the current settings."""
    schema = json.loads(text)
    schema["properties"]["settings"] = settings_schema()
    return json.dumps(schema, indent=2) + "\n"


if __name__ == "__main__":
    SCHEMA.write_text(updated(SCHEMA.read_text(encoding="utf-8")), encoding="utf-8")
