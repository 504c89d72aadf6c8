"""Where the page reads, and how browsers reach it. Needs no extra."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from gateway.mv.catalog.index import Catalog
from gateway.mv.jobs.jobs import RefreshJobs
from gateway.mv.refresh.expected_costs import ExpectedCosts
from gateway.mv.refresh.tasks import Tasks
from gateway.mv.rewriting.suggestions import Suggestions
from gateway.mv.rewriting.usage import Usages
from gateway.mv.statements.rights import Rights
from gateway.service.answers.members import Members
from gateway.service.clients.recent_statements import RecentStatements

Admission = Callable[[str | None, str | None], tuple[HTTPStatus, str] | None]


class Unknown(Exception):
    """There is nothing at this address, or nothing that this user may see."""


@dataclass(frozen=True, slots=True)
class PageSources:
    """Where the page reads."""

    catalog: Catalog
    tasks: Tasks
    jobs: RefreshJobs
    costs: ExpectedCosts
    rights: Rights
    recent: RecentStatements
    usages: Usages
    suggestions: Suggestions
    members: Members
    storage_guard: Callable[[], tuple[str, str | None]]
    """The state of the guard inside Spark, and why."""
    spark_missing: Callable[[], list[str]]
    """What is missing before Spark can be used."""
    advises: bool
    """Whether queries are counted for suggestions."""


@dataclass(frozen=True, slots=True)
class Safety:
    """How browsers reach the page."""

    secure: bool
    """Always over TLS, here or at a trusted proxy."""
    admission: Admission
    """Decides about the header Host."""
