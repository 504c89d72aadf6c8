"""What each screen of the page shows to a user.

Tests: `test_browser_page`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from starlette.requests import Request

from gateway.access_list import Principal
from gateway.loops import Turn
from gateway.mv.freshness.entry import Entry
from gateway.mv.freshness.troubles import KINDS, Trouble
from gateway.mv.model.damage import Damage
from gateway.mv.model.history import History
from gateway.mv.model.residence import Held, Residence
from gateway.mv.model.view import MaterializedView, Task, TaskStatus, base_key
from gateway.mv.refresh.expected_costs import ExpectedCost
from gateway.mv.rewriting.usage import CountedQueries, Usage
from gateway.page import drawing
from gateway.page.drawing import LineageNode
from gateway.page.page_sources import PageSources, Unknown
from gateway.page.survey import Survey, Surveyor, ViewSummary, chosen
from gateway.page.wording import link
from gateway.service.answers.activity_tables import at_spark
from gateway.service.answers.attention import told
from gateway.service.answers.catalog_tables import without_rows
from gateway.service.answers.refresh_costs import METHODS
from gateway.service.clients.recent_statements import EndedStatement
from gateway.status import shared_words as words
from sql.names import TableName
from sql.redaction import redact
from sql.rewriting.shape import readable
from sql.statement import Trigger
from sql.texts import create_text

PAGE_SIZE = 50
WIDEST = 5
"""Most steps that a picture of lineage reaches in one direction."""
NEXT_MAX = 20
PARTITIONS_MAX = 50
"""Most names of changed partitions."""
Shown = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TaskShown:
    """One refresh. `share`: how much is done, from 0 to 1; None if unknown."""

    view: TableName
    task: Task
    share: float | None
    spark: str
    may_cancel: bool


@dataclass(frozen=True, slots=True)
class StatementShown:
    """A statement, with the shares of its time in percent."""

    ended: EndedStatement
    text: str
    error: str
    answered_from: str
    waiting: float
    spark: float
    memory: float


@dataclass(frozen=True, slots=True)
class Saved:
    """What views did for the queries of one shape."""

    shape: str
    user: str
    views: list[str]
    hits: int
    misses: dict[str, int]
    saved_ms: int | None


class Screens:
    def __init__(self, sources: PageSources, surveyor: Surveyor) -> None:
        self._sources = sources
        self._surveyor = surveyor

    # --- lists --------------------------------------------------------------------------------------------

    async def attention(self, _: Request, who: Principal) -> Shown:
        survey, sources = await self._surveyor.survey(), self._sources
        about = sources.about()
        return {
            "title": "Attention",
            "views": len(survey.views),
            "counts": words.by_freshness(survey.counts),
            "troubles": [(self._told(view, who), trouble) for view, trouble in self._troubles(survey, who)],
            "more": max(0, len(survey.troubles) - PAGE_SIZE),
            "running": self._running(survey, who),
            "missing": sources.spark_missing(),
            "guard": about.storage_guard,
            "guard_reason": about.storage_guard_reason,
            "servers": about.spark_servers,
            "limits": sources.limits_reached(who),
            "lost": about.audit_lines_lost,
            "memory": _in_memory(survey),
            "gateways": sources.members.all(),
        }

    async def views(self, request: Request, who: Principal) -> Shown:
        asked = request.query_params
        text, state, order = asked.get("q", ""), asked.get("state", ""), asked.get("sort", "name")
        survey = await self._surveyor.survey()
        found = chosen(survey.views, text, state, order)
        last = drawing.pages(len(found), PAGE_SIZE)
        page = min(last, _whole(asked.get("page"), 1))
        counts = words.by_freshness(survey.counts)
        states = [*counts, *(kind for kind in KINDS if kind not in counts)]
        return {
            "title": "Views",
            "views": [self._told(view, who) for view in found[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]],
            "found": len(found),
            "page": page,
            "last": last,
            "window": list(drawing.window(page, last)),
            "q": text,
            "state": state,
            "sort": order,
            "states": states,
        }

    async def activity(self, request: Request, who: Principal) -> Shown:
        survey, everything = await self._surveyor.survey(), self._sources.rights.is_administrator(who)
        mine = [each for each in self._sources.recent if everything or each.user == who.name]
        last = drawing.pages(len(mine), PAGE_SIZE)
        page = min(last, _whole(request.query_params.get("page"), 1))
        shown = mine[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
        planned = (view for view in survey.views if view.next_run and not view.paused)
        due = sorted(planned, key=lambda view: view.next_run)
        return {
            "title": "Activity",
            "running": self._running(survey, who),
            "due": [self._told(view, who) for view in due[:NEXT_MAX]],
            "statements": [self._statement(each) for each in shown],
            "everything": everything,
            "page": page,
            "last": last,
            "window": list(drawing.window(page, last)),
        }

    async def savings(self, _: Request, who: Principal) -> Shown:
        survey, sources = await self._surveyor.survey(), self._sources
        everything = sources.rights.is_administrator(who)
        usages = [each for each in reversed(sources.usages.items()) if everything or each[0].user == who.name]
        answered = [_saved(asked, usage) for asked, usage in usages[: 4 * PAGE_SIZE]]
        advice = await sources.suggestions.of(None if everything else who.name) if sources.advises else []
        unread = [view for view in chosen(survey.views, "", "", "unread") if not view.reads and view.version]
        turn, paying = Turn(), list[dict[str, Any]]()
        by_view = _by_view(usage for _, usage in usages)
        for name, (hits, saved) in by_view.items():
            if (entry := sources.catalog.entry_named(name)) is not None:
                paying.append({"name": name, "hits": hits, "saved_ms": saved, **_spent(entry.history)})
            await turn.pause()
        return {
            "title": "Savings",
            "paying": sorted(paying, key=lambda each: -(each["saved_ms"] or 0))[:PAGE_SIZE],
            "counts": sources.usages.counts,
            "misses": dict(sources.usages.counts.refused.most_common()),
            "answered": sorted(answered, key=lambda each: -(each.saved_ms or 0))[:PAGE_SIZE],
            "advises": sources.advises,
            "advice": advice[:PAGE_SIZE],
            "unread": [self._told(view, who) for view in unread[:PAGE_SIZE]],
        }

    # --- one object ---------------------------------------------------------------------------------------

    async def view(self, request: Request, who: Principal) -> Shown:
        name = _name_of(request)
        entry, damage = self._found(name)
        if entry is None:
            return {"title": str(name), "damage": damage, "view": None}
        view, rights = entry.view, self._sources.rights
        owns, administers = rights.is_owner(who, view), rights.is_administrator(who)
        staleness = self._sources.catalog.staleness(view.id)
        writer = staleness.writer if staleness is not None and administers else None
        tasks = [task for _, task in entry.history.tasks]
        summary = self._told(self._surveyor.summary(entry, self._sources.catalog.inquiry()), who)
        cost = self._sources.costs.of(entry)
        return {
            "title": str(name),
            "damage": None,
            "view": summary,
            "comment": view.comment,
            "security": view.security.value,
            "pace": _pace(view),
            "staleness": None if staleness is None else replace(staleness, writer=None),
            "writer": None if writer is None else {"user": writer.user, "text": redact(writer.text, cut=True)},
            "below": self._below(entry),
            "above": self._above(entry),
            "tasks": [self._task(view, task, who) for task in reversed(tasks[-20:])],
            "bars": drawing.bars([_bar(task) for task in tasks if task.status.ended]),
            "costs": _costs(entry.history, cost),
            "next": {
                "method": cost.method,
                "expected_ms": cost.expected_ms,
                "share": cost.share,
                "because": redact(cost.because) if rights.may_refresh(who, view) else "",
            },
            "versions": self._versions(view),
            "partitions": self._partitions(entry, told=rights.may_refresh(who, view)),
            "statements": _statements(view),
            "memory": None if summary.memory is None else _residence(summary.memory),
            "answers": self._sources.catalog.residences.answers[view.id],
            "reads": entry.reads,
            "readers": dict(reversed(entry.reads.users.items())) if administers else None,
            "definition": view.query if owns else None,
            "may_refresh": rights.may_refresh(who, view),
            "owns": owns,
            "incremental": tasks[-1].route if tasks else "",
        }

    async def lineage(self, request: Request, who: Principal) -> Shown:
        name = _name_of(request)
        entry, _damage = self._found(name)
        if entry is None:
            raise Unknown(f"The materialized view {name} is damaged, so it is unknown what it reads.")
        asked = request.query_params
        down, up = (min(WIDEST, _whole(asked.get(key), 1)) for key in ("down", "up"))
        middle = self._node(entry, 0)
        below = self._neighbours(entry, down, -1)
        above = self._neighbours(entry, up, 1)
        nodes, edges, left_out = drawing.around(middle, below, above)
        return {
            "title": f"Lineage of {name}",
            "view": self._told(self._surveyor.summary(entry, self._sources.catalog.inquiry()), who),
            "graph": drawing.graph(nodes, edges, left_out),
            "below": [node for node in nodes if node.rank < 0],
            "above": [node for node in nodes if node.rank > 0],
            "down": down,
            "up": up,
        }

    async def statement(self, request: Request, who: Principal) -> Shown:
        number, everything = request.path_params["number"], self._sources.rights.is_administrator(who)
        for each in self._sources.recent:
            if each.number == number and (everything or each.user == who.name):
                return {"title": f"Statement {number}", "statement": self._statement(each)}
        raise Unknown(f"There is no statement {number} among the last ones that you may see.")

    async def task(self, request: Request, who: Principal) -> Shown:
        number, turn = request.path_params["number"], Turn()
        for entry in list(self._sources.catalog.entries()):
            for _, task in entry.history.tasks if entry.visible else ():
                if task.id == number:
                    return {"title": f"Task {number}", "task": self._task(entry.view, task, who)}
            await turn.pause()
        raise Unknown(f"There is no task {number} among the last hundred of each view.")

    # --- parts --------------------------------------------------------------------------------------------

    def _found(self, name: TableName) -> tuple[Entry | None, Damage | None]:
        """Raises Unknown."""
        catalog = self._sources.catalog
        entry, damage = catalog.entry_named(name), catalog.damaged.get(name)
        if entry is None and damage is None:
            raise Unknown(f"There is no materialized view {name}.")
        return entry, damage

    def _running(self, survey: Survey, who: Principal) -> list[TaskShown]:
        """Running tasks first, then waiting ones."""
        entries = (self._sources.catalog.entry_named(view.name) for view in survey.views if view.busy)
        found = [
            self._task(entry.view, task, who)
            for entry in entries
            if entry is not None
            for task in entry.history.unended
        ]
        return sorted(found, key=lambda each: (each.task.status is not TaskStatus.RUNNING, each.task.created_at))

    def _troubles(self, survey: Survey, who: Principal) -> list[tuple[ViewSummary, Trouble]]:
        found = survey.troubles[:PAGE_SIZE]
        return [(view, self._told(replace(view, troubles=(trouble,)), who).troubles[0]) for view, trouble in found]

    def _told(self, view: ViewSummary, who: Principal) -> ViewSummary:
        """Without what only those may see who may refresh the view."""
        entry = self._sources.catalog.entry_named(view.name) if view.troubles else None
        everything = entry is not None and self._sources.rights.may_refresh(who, entry.view)
        found = tuple(told(each, everything=everything) for each in view.troubles)
        return replace(view, troubles=found) if found else view

    def _task(self, view: MaterializedView, task: Task, who: Principal) -> TaskShown:
        progress = self._sources.tasks.progress(view.id) if task.status is TaskStatus.RUNNING else None
        rights = self._sources.rights
        mine, owns = task.cause.user == who.name, rights.is_owner(who, view)
        # An error may quote the definition, or a value, and so may the names of partitions.
        everything = rights.may_refresh(who, view)
        shown = replace(task, error=redact(task.error)) if everything else replace(without_rows(task), error="")
        return TaskShown(
            view.name,
            shown,
            task.completed / task.needed if task.needed else None,
            progress.spark_words() if progress is not None else "",
            not task.status.ended and (mine or owns),
        )

    def _statement(self, each: EndedStatement) -> StatementShown:
        whole = max(1, each.took_ms)
        waiting = min(100.0, 100 * each.waited_ms / whole)
        entries = map(self._sources.catalog.find, each.answered_from)
        ran = at_spark(each)
        return StatementShown(
            each,
            redact(each.text, cut=each.is_cut),
            redact(each.error),
            ", ".join(str(entry.view.name) for entry in entries if entry is not None),
            round(waiting, 1),
            round(100 - waiting, 1) if ran else 0.0,
            100.0 if each.from_memory else 0.0,
        )

    def _below(self, entry: Entry) -> list[LineageNode]:
        """What the view reads."""
        catalog = self._sources.catalog
        found = (catalog.find(base) for base in sorted(entry.view.views))
        views = [self._node(each, -1) for each in found if each is not None]
        tables = [LineageNode(str(table), str(table), "TABLE", "", "", -1) for table in sorted(entry.view.tables)]
        return [*views, *tables]

    def _above(self, entry: Entry) -> list[LineageNode]:
        """The views that read the view."""
        catalog = self._sources.catalog
        found = (catalog.find(above) for above in sorted(catalog.above(entry.view.id)))
        return [self._node(each, 1) for each in found if each is not None and each.visible]

    def _node(self, entry: Entry, rank: int, more: int = 0) -> LineageNode:
        view = entry.view
        state = self._sources.catalog.freshness(view.id).value
        return LineageNode(view.id, str(view.name), "VIEW", state, link("lineage", view.name), rank, more)

    def _versions(self, view: MaterializedView) -> list[dict[str, Any]]:
        """The versions that can still be read, the newest first, with what is known of their rows without asking."""
        known = self._sources.measures.known(view)
        return [
            {
                "number": each.version.number,
                "method": each.version.method,
                "published_at": each.version.published_at,
                "retired_at": each.retired_at,
                "readers": each.readers,
                "rows": known[each.version.number].rows if each.version.number in known else None,
                "bytes": known[each.version.number].bytes if each.version.number in known else None,
            }
            for each in reversed(self._sources.versions.kept(view))
        ]

    def _partitions(self, entry: Entry, *, told: bool) -> dict[str, Any] | None:
        """How the view is divided, and what has changed, as the last look found it. None: it has no partitions. `told`:
        whether the user may know values of rows."""
        view, found = entry.view, entry.drift
        if not view.layout.partitioned:
            return None
        followed, seen = view.followed, view.current.contents.followed
        names = {base_key(table): str(table) for table in view.tables}
        changed = sorted("/".join(value or "NULL" for value in each) for each in found.partitions) if found else []
        return {
            "column": ", ".join(view.partitioning.columns),
            "follows": f"{names.get(followed.base, followed.base)}.{followed.columns}" if followed else "",
            "number": len(seen.partitions) if seen is not None else None,
            "changed": len(changed),
            "names": changed[:PARTITIONS_MAX] if told else [],
        }

    def _neighbours(self, entry: Entry, steps: int, direction: int) -> dict[str, Sequence[LineageNode]]:
        """The neighbours of each node up to so many steps away, for one direction: -1 is what it reads."""
        catalog, found, edge = self._sources.catalog, dict[str, Sequence[LineageNode]](), [entry]
        for step in range(1, steps + 1):
            following: list[Entry] = []
            for each in edge:
                if each.view.id in found or len(found) > drawing.NODES_MAX:
                    continue
                near = self._below(each) if direction < 0 else self._above(each)
                found[each.view.id] = [_at(node, direction * step) for node in near]
                following += [below for node in near if (below := catalog.find(node.key)) is not None]
            edge = following
        return found


def _at(node: LineageNode, rank: int) -> LineageNode:
    return LineageNode(node.key, node.label, node.kind, node.state, node.link, rank, node.more)


def _bar(task: Task) -> tuple[float, str, str]:
    length = max(0, task.finished_at - (task.started_at or task.created_at))
    rows = "" if task.rows is None else f", {task.rows:,} rows"
    title = f"{task.mode.value} {task.status.value}: {length / 1000:.1f} s{rows}"
    return float(length), task.status.value.lower(), title


def _statements(view: MaterializedView) -> list[str]:
    """What the page does not do itself."""
    name = view.name.short
    return [
        f"EXPLAIN REFRESH MATERIALIZED VIEW {name} AUTO",
        f"SHOW CREATE MATERIALIZED VIEW {name}",
        f"SHOW PARTITIONS FROM {name}",
        f"DROP MATERIALIZED VIEW {name}",
    ]


def _by_view(usages: Iterable[Usage]) -> dict[TableName, tuple[int, int | None]]:
    """How many queries each view answered without being named, and the milliseconds that this saved; None: unknown.
    What a shape saved is divided by how often each view answered it, and among those that answered together."""
    found = dict[TableName, tuple[int, int | None]]()
    for usage in usages:
        seconds, hits = usage.saved_seconds, usage.hits.total()
        for views, number in usage.hits.items():
            more = None if seconds is None else round(1000 * seconds * number / hits / len(views))
            for view in views:
                before, saved = found.get(view, (0, None))
                found[view] = before + number, saved if more is None else (saved or 0) + more
    return found


def _spent(history: History) -> dict[str, Any]:
    """What the last refreshes that published a version took together, and since when."""
    done = [task for _, task in history.tasks if task.version and task.started_at and task.finished_at]
    spent = sum(task.finished_at - task.started_at for task in done)
    return {"spent_ms": spent, "refreshes": len(done), "since": done[0].started_at if done else 0}


def _in_memory(survey: Survey) -> str:
    """How many of the views that are to be in memory are there, and base tables; empty if there are none."""
    if not (wanted := survey.memory):
        return ""
    loaded = [each.bytes or 0 for each in wanted if each.held is Held.LOADED]
    tables = [each.residence.bytes or 0 for each in survey.tables if each.residence.held is Held.LOADED]
    return words.views_in_memory(len(loaded), len(wanted), sum(loaded), tables)


def _residence(memory: Residence) -> str:
    if memory.held is Held.LOADED:
        return words.in_memory(memory.rows, memory.bytes)
    return words.not_in_memory(memory.held, memory.why)


def _saved(asked: CountedQueries, usage: Usage) -> Saved:
    seconds = usage.saved_seconds
    return Saved(
        readable(asked.shape),
        asked.user,
        [str(view) for view, _ in usage.hits.most_common()],
        usage.hits.total(),
        {str(reason): count for reason, count in usage.misses.most_common()},
        None if seconds is None else round(seconds * 1000),
    )


def _pace(view: MaterializedView) -> str:
    """The view's schedule, its lag, or how often it is refreshed at most; empty if it has none of them."""
    refreshing = view.clauses.refreshing
    paced = view.is_paced or refreshing.trigger in (Trigger.SCHEDULE, Trigger.LAG)
    return create_text.recurring_strategy(view.clauses) if paced else ""


def _costs(history: History, cost: ExpectedCost) -> list[dict[str, Any]]:
    """Lists what a refresh would take now by each method, and what those took that succeeded."""
    shown = []
    for mode in METHODS:
        done, expected = history.of_method(mode), cost.of(mode)
        if done or expected is not None:
            shown.append(
                {
                    "method": mode.value,
                    "expected_ms": expected,
                    "tasks": len(done),
                    "median_ms": history.usual_ms(mode),
                    "rows": done[-1].rows if done else None,
                    "last": done[-1].finished_at if done else 0,
                }
            )
    return shown


def _name_of(request: Request) -> TableName:
    return TableName(request.path_params["database"], request.path_params["name"])


def _whole(text: str | None, otherwise: int) -> int:
    """A number of a query string, at least 1."""
    return max(1, int(text)) if text is not None and text.isascii() and text.isdigit() and len(text) < 8 else otherwise
