"""The gateway's own statements, and the tables in which it tells of itself."""

from __future__ import annotations

from functools import partial

from gateway.access_list import AccessList
from gateway.assembly.at_spark import AtSpark
from gateway.assembly.records import Records
from gateway.assembly.refreshes import Refreshes, Scheduling
from gateway.assembly.rewriting import Rewriting
from gateway.assembly.views import KeptVersions, Views
from gateway.config import Settings
from gateway.mv.model.locations import Locations
from gateway.mv.refresh.refreshed_sets import RefreshedSets
from gateway.mv.statements.alteration import Alteration, ViewSettings
from gateway.mv.statements.building import Building
from gateway.mv.statements.creation import Creation
from gateway.mv.statements.drafting import Definitions, Drafting, NewViews
from gateway.mv.statements.dropping import Dropping
from gateway.mv.statements.free_names import Clearance, Names
from gateway.mv.statements.introduction import Introduction
from gateway.mv.statements.renaming import Renaming
from gateway.mv.statements.rights import Rights
from gateway.service.answers.activity_tables import ActivityTables
from gateway.service.answers.attention import Attention
from gateway.service.answers.catalog_tables import About, CatalogTables
from gateway.service.answers.commands import Commands
from gateway.service.answers.explaining import Explaining
from gateway.service.answers.refresh_costs import RefreshCosts
from gateway.service.answers.shows import Shows
from gateway.service.answers.upkeep import Upkeep
from gateway.service.answers.view_partitions import ViewPartitions
from gateway.service.routing.catalog_rows import CatalogRows
from sql.statement import Security


def rights_of(settings: Settings) -> Rights:
    return Rights(AccessList.of(settings.access.administrators))


def commands_of(
    settings: Settings,
    spark: AtSpark,
    views: Views,
    versions: KeptVersions,
    refreshes: Refreshes,
    scheduling: Scheduling,
) -> Commands:
    catalog, settlement, fence, metastore = views.catalog, views.settlement, views.fence, spark.metastore
    tasks, jobs, proposer, readers = refreshes.tasks, scheduling.jobs, refreshes.proposer, versions.readers
    names, rights, place = Names(catalog, metastore), rights_of(settings), settings.storage
    dropping = Dropping(catalog, settlement, metastore, fence, names, rights, tasks, versions.janitor)
    new_views = _new_views(settings)
    drafting = Drafting(catalog, views.relations, views.inspector, jobs, metastore, spark.refreshes, new_views)
    creation = Creation(
        catalog,
        Clearance(catalog, settlement, names, rights, Locations(place.locations)),
        Definitions(metastore, fence, spark.habits, place.definition_characters),
        drafting,
        Building(
            catalog,
            drafting,
            metastore,
            tasks,
            refreshes.executor,
            refreshes.log,
            views.storages,
            spark.habits,
            refreshes.inheritance,
        ),
        Introduction(catalog, settlement, metastore, fence, readers, tasks, jobs, dropping),
        dropping,
    )
    view_settings = ViewSettings(catalog, settlement, metastore, fence, jobs, runs_as_owner=new_views.runs_as_owner)
    renaming = Renaming(catalog, settlement, metastore, fence, readers, tasks, names, rights)
    alteration = Alteration(catalog, settlement, fence, names, rights, view_settings, renaming)
    partitions = ViewPartitions(catalog, metastore, proposer)
    sets = RefreshedSets(catalog, tasks)
    upkeep = Upkeep(catalog, metastore, tasks, jobs, refreshes.publication, partitions, rights, sets)
    shows = Shows(catalog, views.inspector, views.schemas, versions.versions, partitions, names, views.members, rights)
    explaining = Explaining(
        catalog, views.inspector, views.schemas, proposer, versions.numbers, creation, refreshes.inheritance
    )
    return Commands(catalog, names, creation, dropping, alteration, upkeep, shows, explaining)


def _new_views(settings: Settings) -> NewViews:
    run_as, place = settings.refresh.run_as, settings.storage
    return NewViews(
        settings.rewrite.new_views,
        Security.INVOKER if settings.access.security == "invoker" else None,
        run_as == "owner" or (run_as == "auto" and settings.authentication.hand_on == "proxy_user"),
        {"iceberg": place.iceberg_catalog, "delta": place.delta_catalog},
        place.iceberg_view_metadata,
    )


def catalog_rows(
    settings: Settings,
    spark: AtSpark,
    views: Views,
    refreshes: Refreshes,
    scheduling: Scheduling,
    rewriting: Rewriting,
    records: Records,
) -> CatalogRows:
    catalog, rights, audit = views.catalog, rights_of(settings), records.audit
    return CatalogRows(
        CatalogTables(
            catalog,
            views.schemas,
            rewriting.measures,
            scheduling.jobs,
            refreshes.tasks,
            rewriting.usages,
            rewriting.suggestions,
            rights,
        ),
        partial(_about, settings, spark, records),
        views.members,
        ActivityTables(catalog, audit.recent, rights),
        Attention(catalog, rights),
        RefreshCosts(catalog, refreshes.costs, rights),
    )


def _about(settings: Settings, spark: AtSpark, records: Records) -> About:
    """What can be said of this gateway now, without the limits that are reached."""
    return About(
        settings.storage.database,
        spark.guard.state.value,
        spark.guard.reason,
        spark.habits.version or None,
        spark.connector.servers.described,
        audit_lines_lost=records.audit.lost(),
    )
