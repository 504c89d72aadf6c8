"""Rows of a view in a Delta table.

Delta keeps the files of earlier commits until a VACUUM, which knows only ages: it removes the files that left the table
long enough ago. So what may go is told as a time, and with a margin.
Tests: `test_open_rows`.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar

from sql.names import SESSION_CATALOG
from sql.texts.open_rows import STATIC, TAG, Before, Commit, Expiry, OpenRows, Past

METADATA = "spark.databricks.delta.commitInfo.userMetadata"
"""The setting with what each commit of the session says of itself."""
EMPTY = "spark.databricks.delta.skipRecordingEmptyCommits"
"""The setting by which Delta makes no commit without files. A version without rows needs one, too."""
COMMITS_SHOWN = 16
"""How many of the latest commits are listed first: Spark opens the file of each."""
HOUR_MS = 3_600_000
MARGIN_HOURS = 1
"""For so long, files stay that nobody needs any more. A VACUUM may wait at Spark, and tells ages when it begins: files
that leave the table meanwhile must be younger. At least 1, because Spark rounds to hours."""
BATCH_MS = HOUR_MS // 2
"""How much time must have passed in the table between two VACUUMs, each of which lists its directory."""
_CENTURY = "interval 36500 days"
_PROPERTIES: Mapping[str, str] = {
    # The VACUUM or checkpoint of another writer removes nothing that readers of an earlier commit need: the one that
    # they see need not be the last.
    "delta.deletedFileRetentionDuration": _CENTURY,
    "delta.logRetentionDuration": _CENTURY,
    "delta.enableExpiredLogCleanup": "false",
    # What sessions may set as the default of new tables, and not every engine reads.
    "delta.enableDeletionVectors": "false",
}
_UNUSUAL = frozenset(" ,;{}()\n\t=")
"""What a name of a column has only if names are mapped."""
_TOUCHES_NO_FILE = frozenset(
    {
        *("VACUUM START", "VACUUM END", "ADD COLUMNS", "CHANGE COLUMN", "CHANGE COLUMNS", "SET TBLPROPERTIES"),
        *("UNSET TBLPROPERTIES", "UPGRADE PROTOCOL", "DROP FEATURE", "ADD CONSTRAINT", "DROP CONSTRAINT"),
        *("CLUSTER BY", "COMPUTE STATS", "ROW TRACKING BACKFILL", "ROW TRACKING UNBACKFILL", "DOMAIN METADATA CLEANUP"),
    }
)
"""Operations after which the table has the files that it had."""
_RESTORE = "RESTORE"
_TARGET = re.compile(r'"version":\s*"?(\d+)')
"""The version that a RESTORE goes back to, in its parameters; there is none if it goes back to a time."""
_MOVES = frozenset({"OPTIMIZE", "REORG", "REORG TABLE"})
"""Operations after which other files have the same rows."""


@dataclass(frozen=True, slots=True)
class DeltaRows(OpenRows):
    """A snapshot is the number of a commit."""

    format: ClassVar[str] = "delta"
    upkeep: ClassVar[Mapping[str, str]] = {
        # The times of commits have no time zone.
        "spark.sql.session.timeZone": "UTC",
        # Otherwise Delta refuses a VACUUM of less than the table's retention, or takes that one.
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
        "spark.databricks.delta.vacuum.retentionWindowIgnore.enabled": "false",
        "spark.databricks.delta.vacuum.logging.enabled": "false",
    }
    overtaken: ClassVar[str] = "2D521"

    def _properties(self, columns: Sequence[str]) -> Mapping[str, str]:
        mapped = any(not _UNUSUAL.isdisjoint(column) for column in columns)
        return {**_PROPERTIES, **({"delta.columnMapping.mode": "name"} if mapped else {})}

    def drop(self) -> str:
        return f"DROP TABLE IF EXISTS {self.table.quoted}"

    @classmethod
    def asked(cls, catalog: str) -> str:
        return f"spark.sql.catalog.{catalog}"

    @classmethod
    def unfit(cls, catalog: str, value: str) -> str:
        if catalog != SESSION_CATALOG or "." in value:
            return ""
        return (
            "Spark has no Delta Lake. Give it the jars of Delta Lake, and set spark.sql.extensions = "
            f"io.delta.sql.DeltaSparkSessionExtension and {cls.asked(catalog)} = "
            "org.apache.spark.sql.delta.catalog.DeltaCatalog in its configuration."
        )

    # --- commits ---------------------------------------------------------------------------------------

    def settings(self, version: int, before: Before, state: str = "") -> dict[str, str]:
        """Delta counts only the files of a commit itself, so the commit says what was there before."""
        said = {TAG: version, **({"before": [before.files, before.bytes]} if before.files else {})}
        return {**STATIC, EMPTY: "false", METADATA: json.dumps(said, separators=(",", ":"))}

    def commits(self) -> str:
        return f"DESCRIBE HISTORY {self.table.quoted} LIMIT {COMMITS_SHOWN}"

    def further(self, found: Mapping[str, Commit], needed: Set[str]) -> str:
        numbers = [int(snapshot) for snapshot in found]
        wanted = min((int(each) for each in needed if each), default=0)
        if not numbers or not needed or min(numbers) <= wanted:
            return ""
        return f"DESCRIBE HISTORY {self.table.quoted} LIMIT {max(numbers) - wanted + 1}"

    def read(self, columns: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> dict[str, Commit]:
        names = ("version", "timestamp", "operation", "operationParameters", "operationMetrics", "userMetadata")
        places = [columns.index(name) for name in names]
        found = {}
        listed = [tuple(row[place] for place in places) for row in rows]
        last = max((int(number) for number, *_ in listed), default=-1)
        for number, at, operation, parameters, measures, said in listed:
            tag, before = _said(said)
            counts = _record(measures)
            restored = _TARGET.search(str(parameters)) if operation == _RESTORE else None
            keeps = operation in _TOUCHES_NO_FILE or restored is not None
            rewrites = keeps or operation in _MOVES
            found[str(number)] = Commit(
                str(number),
                restored[1] if restored is not None else str(int(number) - 1) if int(number) else "",
                rewrites,
                None if rewrites else tag,
                int(counts.get("numOutputRows", 0)),
                before.files + int(counts.get("numFiles", 0)),
                before.bytes + int(counts.get("numOutputBytes", 0)),
                int(number) == last,
                f"{number} of version {tag}",
                keeps,
                operation not in _TOUCHES_NO_FILE and int(number) > 0,
                _milliseconds(str(at)),
            )
        return found

    def expiry(self, found: Mapping[str, Commit], gone: Sequence[str], needed: Set[str], past: Past) -> Expiry:
        """A VACUUM would also remove what a statement has written that has not ended. So it waits for refreshes, and
        statements of others have as long as MARGIN_HOURS."""
        if not past.idle or any(each not in found for each in needed):
            return Expiry(again_seconds=BATCH_MS / 1000)
        # The files of the current commit are safe. Those of an earlier one have begun to leave with the next commit.
        went_at = [_next_removal(found, each) for each in needed - {self._unchanged_since(found)}]
        hours = MARGIN_HOURS + (math.ceil((past.now - min(went_at)) / HOUR_MS) if went_at else 0)
        until = past.now - hours * HOUR_MS
        left = max((each.at for each in found.values() if each.removes and each.at > until), default=0)
        again = max(left + MARGIN_HOURS * HOUR_MS - past.now, BATCH_MS) / 1000 if left and not went_at else 0.0
        unseen = not past.done and "0" not in found
        went = unseen or any(each.removes and past.done < each.at <= until for each in found.values())
        if not went or until - past.done < BATCH_MS:
            return Expiry(again_seconds=again)
        return Expiry(f"VACUUM {self.table.quoted} RETAIN {hours} HOURS", until, again)

    def _unchanged_since(self, found: Mapping[str, Commit]) -> str:
        """The earliest commit that has all files of the current one, and no others."""
        last = next((each for each in found.values() if each.current), None)
        while last is not None and last.keeps:
            last = found.get(last.parent)
        return last.snapshot if last is not None else ""

    def roll_back(self, snapshot: str) -> str:
        return f"RESTORE TABLE {self.table.quoted} TO VERSION AS OF {int(snapshot)}"

    # --- sizes -----------------------------------------------------------------------------------------

    def sizes(self, versions: Iterable[tuple[int, str]]) -> str:
        return " UNION ALL ".join(
            f"SELECT CAST({number} AS BIGINT) AS version, coalesce(sum(n), 0) AS n, coalesce(sum(bytes), 0) AS bytes "
            f"FROM ({self._files(snapshot)})"
            for number, snapshot in versions
        )

    def bytes(self, snapshots: Iterable[str]) -> str:
        files = " UNION ALL ".join(self._files(each) for each in ("", *snapshots))
        return f"SELECT sum(bytes) FROM (SELECT path, max(bytes) AS bytes FROM ({files}) GROUP BY path)"

    def _files(self, snapshot: str) -> str:
        return (
            f"SELECT _metadata.file_path AS path, max(_metadata.file_size) AS bytes, count(*) AS n "
            f"FROM {self.at(snapshot)} GROUP BY 1"
        )


def _next_removal(found: Mapping[str, Commit], snapshot: str) -> int:
    """When the first files can have left the table that this commit has."""
    later = (each.at for each in found.values() if int(each.snapshot) > int(snapshot) and each.removes)
    return min(later, default=found[snapshot].at)


def _record(text: Any) -> dict[str, Any]:
    """A map of texts, as Spark writes it; empty if it is none."""
    with contextlib.suppress(TypeError, ValueError):
        found = json.loads(text)
        return found if isinstance(found, dict) else {}
    return {}


def _said(text: Any) -> tuple[int | None, Before]:
    """The version that a commit says it is of, and what was there before."""
    record = _record(text)
    tag, before = record.get(TAG), record.get("before", [0, 0])
    return (tag if isinstance(tag, int) else None), Before(*before)


def _milliseconds(text: str) -> int:
    """A time as Spark writes it in UTC."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)
