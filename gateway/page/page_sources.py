"""Where the page reads, and how browsers reach it. Needs no extra."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from gateway.access_list import Principal
from gateway.mv.catalog.index import Catalog
from gateway.mv.jobs.jobs import RefreshJobs
from gateway.mv.refresh.expected_costs import ExpectedCosts
from gateway.mv.refresh.tasks import Tasks
from gateway.mv.rewriting.suggestions import Suggestions
from gateway.mv.rewriting.usage import Usages
from gateway.mv.statements.rights import Rights
from gateway.mv.versions.kept import VersionLookup
from gateway.mv.versions.measures import Measures
from gateway.service.answers.catalog_tables import About
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
    versions: VersionLookup
    measures: Measures
    rights: Rights
    recent: RecentStatements
    usages: Usages
    suggestions: Suggestions
    members: Members
    about: Callable[[], About]
    """What can be said of the gateway, without limits."""
    limits_reached: Callable[[Principal], str]
    """Who is at a limit, as far as the user may know."""
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
