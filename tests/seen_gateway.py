"""A gateway with its metrics and audit log."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from clients import rows
from processes import Gateway, Setting, free_port, wait_until
from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True)
class Seen:
    """A gateway, the port of its metrics, its audit log, and the port of its page."""

    gateway: Gateway
    port: int
    audit: Path
    page: int = 0

    def get(self, path: str, port: int | None = None) -> tuple[int, str]:
        """The status and body of an HTTP response, by default of the metrics' port."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port or self.port}{path}", timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def metric(self, name: str, **labels: str) -> float:
        """The sum of the samples with this name and these labels."""
        status, text = self.get("/metrics")
        assert status == 200
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == f"freshgate_{name}" and labels.items() <= sample.labels.items()
        )

    def lines(self) -> list[dict[str, Any]]:
        written, _, _ = self.audit.read_text(encoding="utf-8").rpartition("\n")  # The last line may not be complete.
        return [json.loads(line) for line in written.splitlines()]

    def line_of(self, part: str) -> dict[str, Any]:
        """The audit line of the only statement whose text contains this part."""
        return self._only(lambda line: part in line.get("text", ""), f"the audit line of {part}")

    def end_of(self, user: str) -> dict[str, Any]:
        """The audit line of the end of a user's only session."""
        return self._only(
            lambda line: line["event"] == "session_end" and line["user"] == user, f"the end of the session of {user}"
        )

    def _only(self, wanted: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        """Waits for a wanted line, which must be the only one."""
        found: list[dict[str, Any]] = []

        def there() -> bool:
            found[:] = filter(wanted, self.lines())
            return bool(found)

        wait_until(there, what=what)
        assert len(found) == 1, found
        return found[0]


def start(
    directory: Path,
    upstream: str,
    *,
    constants: Mapping[str, object] = MappingProxyType({}),
    script: str = "",
    settings: Mapping[str, Setting] = MappingProxyType({}),
) -> Seen:
    """Starts a gateway. `constants` and `script` are those of `Gateway`."""
    port, audit = free_port(), directory / "audit.jsonl"
    page = int(str(settings.get("page.port", 0)))
    gateway = Gateway(
        directory / "gateway.log",
        upstream=upstream,
        script=script,
        constants=constants,
        settings={"metrics.port": port, "log.audit": audit, **settings},
    )
    return Seen(gateway, port, audit, page)


def told(cursor: Any, view: str, query: str) -> str:
    """What EXPLAIN REWRITE says of a view, once the query has been considered."""
    said: list[str] = []

    def considered() -> bool:
        said[:] = [str(row) for row in rows(cursor, f"EXPLAIN REWRITE {query}") if view in str(row[0])]
        return bool(said) and "CONSIDERING" not in said[0]

    wait_until(considered, what="what becomes of the query")
    return "\n".join(said)
