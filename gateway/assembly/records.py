"""What is kept of clients' statements."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.config import Settings
from gateway.errors import FreshgateError
from gateway.monitoring.audit_file import AuditFile
from gateway.service.clients.audit import Audit
from gateway.service.results.store import ENTRY_BYTES_MAX, ResultStore


@dataclass(frozen=True, slots=True)
class Records:
    """The audit of all statements, and the results of some."""

    audit: Audit
    audit_file: AuditFile | None
    results: ResultStore


def records_of(settings: Settings) -> Records:
    """Raises FreshgateError if the audit cannot be written: a gateway with a configured audit does not run without
    it."""
    kept, file = settings.result_cache, _audit_file(settings.log.audit)
    audit = Audit(file.write if file else None, settings.log.audit_characters, lambda: file.lost if file else 0)
    results = ResultStore(kept.bytes, ENTRY_BYTES_MAX, settings.access.rights_seconds, shared=kept.shared)
    return Records(audit, file, results)


def _audit_file(target: str) -> AuditFile | None:
    if not target:
        return None
    try:
        return AuditFile(target)
    except OSError as error:
        raise FreshgateError(
            f"Cannot write the audit to {target}: {error.strerror or error}. Set log.audit to another file, or to - "
            "for standard error."
        ) from error
