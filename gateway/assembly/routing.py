"""The way of each statement: what it reads, and who answers it."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.assembly.answers import rights_of
from gateway.assembly.at_spark import AtSpark
from gateway.assembly.records import Records
from gateway.assembly.refreshes import Refreshes
from gateway.assembly.rewriting import Rewriting
from gateway.assembly.views import KeptVersions, Views
from gateway.config import Settings
from gateway.mv.catalog.directories import Directories
from gateway.mv.rewriting.consistency import Standing
from gateway.service.clients.visibility import StoredRows
from gateway.service.routing.canary import Canary
from gateway.service.routing.catalog_rows import CatalogRows
from gateway.service.routing.examiner import Examiner
from gateway.service.routing.gatekeeper import Gatekeeper
from gateway.service.routing.invokers import Invokers
from gateway.service.routing.known_answers import KnownAnswers
from gateway.service.routing.reads import Reads
from gateway.service.routing.rewrites import Rewrites
from gateway.service.routing.router import Router
from gateway.service.routing.scope import ViewScope
from gateway.service.routing.underway import Effects
from gateway.service.routing.version_reads import VersionReads
from gateway.spark.storage_guard import GuardState


@dataclass(frozen=True, slots=True)
class Routing:
    """The parts that route statements."""

    router: Router
    effects: Effects
    scope: ViewScope
    answers: KnownAnswers
    rewrites: Rewrites
    canary: Canary
    version_reads: VersionReads
    invokers: Invokers


def routed(
    settings: Settings,
    spark: AtSpark,
    views: Views,
    versions: KeptVersions,
    refreshes: Refreshes,
    rewriting: Rewriting,
    rows: CatalogRows,
    records: Records,
) -> Routing:
    catalog, inspector, readers, results = views.catalog, views.inspector, versions.readers, records.results
    planning, rights_seconds, unanswered = refreshes.planning, settings.access.rights_seconds, rewriting.unanswered
    scope = ViewScope(catalog, views.relations)
    directories = Directories(catalog, views.fence)
    invokers = Invokers(catalog, planning.rights, planning.surroundings, directories, inspector, rights_of(settings))
    gatekeeper = Gatekeeper(
        catalog, directories, views.confirmation, guarded=lambda: spark.guard.state is GuardState.ACTIVE
    )
    version_reads = VersionReads(catalog, versions.versions, readers, inspector, StoredRows(catalog, rights_seconds))
    probe = settings.staleness.probe_interval
    answers = KnownAnswers(catalog, scope, views.fence, probe, active=results.active)
    reads = Reads(
        catalog, scope, refreshes.tasks, readers, inspector, invokers, version_reads, gatekeeper, answers, spark.habits
    )
    canary = _canary(settings, views, rewriting, records)
    rewrites = _rewrites(settings, views, rewriting, scope, canary)
    effects = Effects(catalog, views.schemas, views.confirmation, scope, rewrites, readers, results, unanswered)
    router = Router(catalog, scope, reads, version_reads, gatekeeper, rewrites, rows, unanswered, effects, invokers)
    return Routing(router, effects, scope, answers, rewrites, canary, version_reads, invokers)


def _canary(settings: Settings, views: Views, rewriting: Rewriting, records: Records) -> Canary:
    return Canary(
        views.catalog,
        views.inspector,
        rewriting.quarantine,
        rewriting.usages.counts,
        settings.rewrite.canary,
        records.audit.rewrite_differed,
        rewriting.sessions,
    )


def _rewrites(settings: Settings, views: Views, rewriting: Rewriting, scope: ViewScope, canary: Canary) -> Rewrites:
    catalog, candidates, usages = views.catalog, rewriting.candidates, rewriting.usages
    return Rewrites(
        catalog,
        scope,
        Standing(catalog, views.inspector, views.schemas, rewriting.quarantine),
        candidates,
        rewriting.partly_stale,
        Examiner(catalog, scope, candidates, rewriting.measures, rewriting.prover, rewriting.sessions, usages.counts),
        usages,
        canary,
        settings.rewrite.wait,
        settings.access.rights_seconds,
    )
