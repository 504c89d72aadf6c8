"""The formats of tables in which views may keep their rows, by the words after USING."""

from __future__ import annotations

from collections.abc import Mapping

from sql.texts.delta_rows import DeltaRows
from sql.texts.iceberg_rows import IcebergRows
from sql.texts.open_rows import OpenRows

OPEN_FORMATS: Mapping[str, type[OpenRows]] = {each.format: each for each in (IcebergRows, DeltaRows)}
