"""The page's buttons. Each does what a statement does, as the user who has logged in.

Tests: `test_browser_page`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from gateway.access_list import Principal
from gateway.errors import FreshgateError
from gateway.mv.catalog.index import Catalog
from gateway.mv.model.view import MaterializedView
from gateway.mv.refresh.progress import Lines
from gateway.page.page_sources import Unknown
from gateway.service.answers.upkeep import Upkeep
from gateway.service.clients.audit import Audit
from sql.names import TableName
from sql.statement import CancelTask, Method, PauseJob, RefreshMaterializedView

log = logging.getLogger(__name__)


class Actions:
    def __init__(self, catalog: Catalog, upkeep: Upkeep, audit: Audit) -> None:
        self._catalog = catalog
        self._upkeep = upkeep
        self._audit = audit

    async def run(self, action: str, form: Mapping[str, str], who: Principal) -> str:
        """Does what a button says; returns what to tell the user. Raises Unknown, or FreshgateError if the user may not
        do it, or it is impossible."""
        began = time.monotonic()
        view = self._catalog.named(TableName(form.get("database", ""), form.get("name", "")))
        if view is None:
            raise Unknown("There is no such materialized view any more.")
        try:
            done = await self._do(action, form, view, who)
        except FreshgateError as error:
            self._audit.acted(who.name, action, view.name, time.monotonic() - began, error)
            raise
        self._audit.acted(who.name, action, view.name, time.monotonic() - began, None)
        return done

    async def _do(self, action: str, form: Mapping[str, str], view: MaterializedView, who: Principal) -> str:
        parts = (view.name.database, view.name.table)
        lines: list[str] = []
        match action:
            case "refresh":
                method = Method.COMPLETE if form.get("method") == "complete" else Method.AUTO
                command = RefreshMaterializedView(parts, method, wait=False)
                await self._upkeep.refresh(command, view, who, Lines(lines.append))
                return f"A refresh of {view.name} has begun."
            case "pause" | "resume":
                await self._upkeep.pause(PauseJob(parts, paused=action == "pause"), view, who, Lines(lines.append))
                return " ".join([f"The job of {view.name} is {'paused' if action == 'pause' else 'resumed'}.", *lines])
            case "cancel":
                task = form.get("task", "")
                if not task.isascii() or not task.isdigit():
                    raise Unknown("There is no such task.")
                await self._upkeep.cancel(CancelTask(parts, int(task)), view, who)
                return f"Task {task} was told to stop."
            case _:
                raise Unknown("There is no such button.")
