"""Refreshes of views, and what begins them."""

from __future__ import annotations

from dataclasses import dataclass
from zoneinfo import ZoneInfo

from gateway.assembly.at_spark import REFRESH_POOL, AtSpark
from gateway.assembly.views import KeptVersions, Views
from gateway.config import Settings
from gateway.mv.jobs.failure_pauses import FailurePauses
from gateway.mv.jobs.jobs import RefreshJobs
from gateway.mv.jobs.paced import PacedRefreshes
from gateway.mv.jobs.scheduler import Scheduler
from gateway.mv.observation.changes import Changes
from gateway.mv.refresh.diagnosis import Diagnosis
from gateway.mv.refresh.executor import Executor
from gateway.mv.refresh.expected_costs import ExpectedCosts
from gateway.mv.refresh.increments import Increments
from gateway.mv.refresh.lost_storage import LostStorage
from gateway.mv.refresh.preparation import Preparation
from gateway.mv.refresh.proposer import Proposer
from gateway.mv.refresh.publication import Publication
from gateway.mv.refresh.routes import Routes
from gateway.mv.refresh.surroundings import RefreshSessions, Surroundings
from gateway.mv.refresh.task_log import TaskLog
from gateway.mv.refresh.tasks import RefreshLimits, Tasks
from gateway.mv.refresh.touched_keys import TouchedKeys
from gateway.mv.refresh.views_below import ViewsBelow
from gateway.mv.refresh.writing import Writer
from gateway.mv.rewriting.inheritance import Inheritance
from gateway.mv.rewriting.owners_rights import OwnersRights
from gateway.mv.rewriting.readers_rights import ReadersRights
from gateway.mv.rewriting.refreshers_plans import RefreshersPlans


@dataclass(frozen=True, slots=True)
class Planning:
    """Plans of what refreshes run, and whether readers may see other rows."""

    surroundings: Surroundings
    refreshers: RefreshersPlans
    rights: ReadersRights


def planning_of(settings: Settings, spark: AtSpark) -> Planning:
    surroundings = Surroundings(REFRESH_POOL, spark.habits, spark.metastore)
    refreshers = RefreshersPlans(spark.plans, spark.short, spark.owners.planning, surroundings)
    rights = ReadersRights(spark.plans, refreshers, surroundings, settings.access.rights_seconds)
    return Planning(surroundings, refreshers, rights)


@dataclass(frozen=True, slots=True)
class Refreshes:
    """The parts that refresh views."""

    planning: Planning
    proposer: Proposer
    log: TaskLog
    publication: Publication
    executor: Executor
    tasks: Tasks
    costs: ExpectedCosts
    inheritance: Inheritance


def refreshed_views(settings: Settings, spark: AtSpark, views: Views, versions: KeptVersions) -> Refreshes:
    catalog, settlement, fence, inspector = views.catalog, views.settlement, views.fence, views.inspector
    metastore, planning = spark.metastore, planning_of(settings, spark)
    surroundings = planning.surroundings
    changes = Changes(views.observer, dialect=spark.habits.speaking)
    below = ViewsBelow(catalog, versions.versions, versions.readers, views.storages, metastore)
    increments = Increments(catalog, metastore, spark.habits, changes, below)
    routes = Routes(increments, TouchedKeys(inspector, metastore))
    longest = settings.storage.definition_characters
    proposer = Proposer(metastore, spark.short, inspector, spark.habits, surroundings, routes, longest)
    log = TaskLog(catalog, fence, metastore, spark.looks)
    sessions = RefreshSessions(spark.refreshes, spark.owners.refreshing, surroundings)
    owners = OwnersRights(planning.refreshers, planning.rights, spark.owners.planning, catalog.invoking_below)
    preparation = Preparation(catalog, settlement, views.relations, views.confirmation, fence, sessions)
    lost = LostStorage(metastore, fence, spark.habits)
    writer = Writer(sessions, versions.versions, versions.numbers, log, lost)
    publication = Publication(catalog, settlement, fence, versions.janitor, log, spark.refreshes, views.storages)
    diagnosis = Diagnosis(catalog, settlement, views.schemas, metastore)
    executor = Executor(
        preparation, proposer, writer, publication, diagnosis, log, spark.engine, increments, owners.narrowed
    )
    limits = RefreshLimits(timeout=settings.refresh.timeout)
    tasks = Tasks(catalog, inspector, executor, versions.numbers, log, fence, limits)
    costs = ExpectedCosts(catalog, increments)
    inheritance = Inheritance(
        catalog,
        metastore,
        inspector,
        increments,
        costs,
        surroundings,
        spark.plans,
        planning.refreshers,
        views.storages,
        versions.readers,
    )
    return Refreshes(planning, proposer, log, publication, executor, tasks, costs, inheritance)


@dataclass(frozen=True, slots=True)
class Scheduling:
    """What begins refreshes that no client waits for, and what pauses them."""

    jobs: RefreshJobs
    scheduler: Scheduler
    paced: PacedRefreshes
    pauses: FailurePauses


def scheduling_of(settings: Settings, spark: AtSpark, views: Views, refreshes: Refreshes) -> Scheduling:
    catalog, tasks, inspector, fence, rules = (
        views.catalog,
        refreshes.tasks,
        views.inspector,
        views.fence,
        settings.jobs,
    )
    jobs = RefreshJobs(catalog, views.settlement, spark.metastore, fence, ZoneInfo(rules.time_zone))
    scheduler = Scheduler(catalog, jobs, tasks, inspector, fence, rules.watch_interval)
    paced = PacedRefreshes(catalog, jobs, tasks, inspector, fence, rules.watch_interval)
    pauses = FailurePauses(jobs, tasks, rules.pause_after_failures)
    tasks.ended.add(paced.ended, pauses.ended)
    return Scheduling(jobs, scheduler, paced, pauses)
