"""Records Spark's plans of the pairs in tests/corpora and of what is proposed for them, so that their tests need no
Spark. Says what is proved, and why the others are not.

.venv/bin/python tests/record_pairs.py [--all] [corpus ...]

Plans that are recorded already stay, unless --all is given. Of recordings in conflict, take one and record again.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from pair_corpora import CORPORA, Columns, Outcome, corpus, create, described, outcomes, told
from planning import Planner, planner
from processes import Engine
from record_plans import shortened

from gateway.mv.ports import PlanUnavailable, SqlSession
from sql.proof import plan_json
from sql.proof.plan import Plan


def recording_of(name: str) -> Path:
    return Path(__file__).with_name("corpora") / f"{name}.json.gz"


class RecordedPlans:
    """Implements `mv.ports.Plans` with plans that were recorded, by their texts."""

    in_place = True
    checks_rights = True

    def __init__(self, plans: dict[str, dict[str, str]]) -> None:
        self._plans = plans

    @asynccontextmanager
    async def of(self, session: SqlSession) -> AsyncIterator[bytes]:
        yield b""

    async def optimized(self, session: bytes, text: str) -> Plan:
        found = self._plans.get(text)
        assert found is not None, f"not recorded; run tests/record_pairs.py: {text}"
        if "error" in found:
            raise PlanUnavailable(found["error"])
        return plan_json.read(found["plan"])

    def readable(self) -> dict[str, Plan]:
        """All plans by their texts."""
        return {text: plan_json.read(each["plan"]) for text, each in self._plans.items() if "plan" in each}

    async def analyzed(self, session: bytes, text: str) -> Plan:
        raise PlanUnavailable("only optimized plans are recorded")

    async def unfolded(self, session: bytes, text: str) -> Plan:
        raise PlanUnavailable("only optimized plans are recorded")


class RecordingPlans(RecordedPlans):
    """Asks Spark for plans, and notes them."""

    def __init__(self, known: dict[str, dict[str, str]], written: Callable[[str], Awaitable[str]]) -> None:
        self.noted: dict[str, dict[str, str]] = {}
        super().__init__(self.noted)
        self._written = written
        self._known = known

    async def optimized(self, session: bytes, text: str) -> Plan:
        if text in self._known:
            self.noted[text] = {kind: shortened(its) for kind, its in self._known[text].items()}
        elif text not in self.noted:
            try:
                self.noted[text] = {"plan": shortened(await self._written(text))}
            except PlanUnavailable as error:
                self.noted[text] = {"error": str(error).splitlines()[0]}
        return await super().optimized(session, text)


def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress(recording_of(name).read_bytes()))
    return found


def recorded(name: str) -> tuple[Columns, RecordedPlans]:
    found = _read(name)
    return found["columns"], RecordedPlans(found["plans"])


async def record(working: Planner, name: str, *, anew: bool) -> list[Outcome]:
    its = corpus(name)
    known = _read(name) if recording_of(name).exists() else {}
    if anew or known.get("definitions") != [its.tables, its.views]:
        known = {}
    there: list[str] = []

    async def created() -> None:
        """Creates the tables and views, once there is something to ask."""
        if not there:
            there.append(its.database)
            await create(its, working.session.run)

    async def written(text: str) -> str:
        await created()
        return await working.written(text)

    plans = RecordingPlans(known.get("plans", {}), written)
    try:
        if not known:
            await created()
        columns: Columns = known.get("columns") or await described(its, working.session.run)
        found = await outcomes(its, columns, plans)
    finally:
        if there:
            await working.session.run(f"DROP DATABASE {its.database} CASCADE")
    content = {"definitions": [its.tables, its.views], "columns": columns, "plans": plans.noted}
    text = json.dumps(content, indent=0, sort_keys=True).encode("ascii")
    recording_of(name).write_bytes(gzip.compress(text, mtime=0))
    return found


async def _main(names: list[str], *, anew: bool) -> None:
    engine = Engine(Path(tempfile.mkdtemp()))
    try:
        async with planner(engine) as working:
            for name in names:
                print(*told(corpus(name), await record(working, name, anew=anew)), sep="\n", flush=True)
    finally:
        engine.stop()


if __name__ == "__main__":
    chosen = [each for each in sys.argv[1:] if each != "--all"]
    asyncio.run(_main(chosen or list(CORPORA), anew="--all" in sys.argv))
