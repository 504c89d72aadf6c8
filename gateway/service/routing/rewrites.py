"""Queries on base tables that are answered from materialized views.

No statement waits for a proof, unless `rewrite.wait` says so: a query of an unknown shape is forwarded unchanged,
and is considered in the background, one at a time. Later queries of that shape use the view that was chosen.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection
from dataclasses import replace

from gateway.errors import FreshgateError, Overtaken
from gateway.loops import BackgroundTasks
from gateway.mv.catalog.index import Catalog
from gateway.mv.model.view import Freshness, MaterializedView
from gateway.mv.rewriting.candidates import Candidates, Participant
from gateway.mv.rewriting.consistency import STALE, Standing
from gateway.mv.rewriting.partly_stale import Mixture, PartlyStale
from gateway.mv.rewriting.usage import SHAPES_MAX, Usages, WhyMissed
from gateway.mv.rewriting.verdicts import (
    AnsweringView,
    Considered,
    Grounds,
    ProvedAnswer,
    Refusal,
    ShapeKey,
    Verdict,
    Verdicts,
)
from gateway.service.clients.session import Session
from gateway.service.routing.canary import Answered, Canary
from gateway.service.routing.examiner import Examiner
from gateway.service.routing.scope import ViewScope
from gateway.service.routing.ways import Hit, QueryMissed
from sql.mentioned import Mentioned
from sql.names import Namespace, TableName
from sql.rewriting.shape import Shape, shape_of
from sql.statement import Glance
from sql.words import Words

log = logging.getLogger(__name__)

FIRST_WORDS = frozenset({"select", "with", "from", "", "explain"})
"""First words of queries, and of EXPLAIN of a query; empty: a bracket."""
CHARACTERS_MAX = 10_000
"""Longer texts are not compared with views. The shape of one of this length takes half a millisecond."""
WAITING_MAX = 100
"""Shapes that wait to be considered; further ones are considered when they come again."""
CONSIDERED_SECONDS = 60.0
HELD_TIMES = 2
"""After so many times `access.rights_seconds` a proof is not used any more, even if it is not yet made anew: users may
have lost rights."""
_FRESHNESS = {
    Freshness.FRESH: "fresh",
    Freshness.FRESH_WITHIN_GRACE: "stale, within its grace period",
    Freshness.STALE: "stale, which its rewrite_consistency allows",
    Freshness.UNKNOWN: "perhaps stale, which its rewrite_consistency allows",
}
"""Of a view that answers."""
_ENDING_RIGHTS = frozenset({"grant", "revoke", "role", "roles"})


class Rewrites:
    """Finds the view that answers a query."""

    def __init__(
        self,
        catalog: Catalog,
        scope: ViewScope,
        standing: Standing,
        candidates: Candidates,
        partly_stale: PartlyStale,
        examiner: Examiner,
        usages: Usages,
        canary: Canary,
        wait_seconds: float,
        proof_seconds: float,
    ) -> None:
        self._catalog = catalog
        self._scope = scope
        self._standing = standing
        self._candidates = candidates
        self._partly_stale = partly_stale
        self._examiner = examiner
        self._usages = usages
        self._canary = canary
        self._wait_seconds = wait_seconds
        self._proof_seconds = proof_seconds
        self._verdicts = Verdicts(SHAPES_MAX)
        self._considering: dict[ShapeKey, asyncio.Task[Considered | str]] = {}
        self._describing: dict[ShapeKey, asyncio.Task[None]] = {}
        self._turn = asyncio.Lock()
        self._background = BackgroundTasks("considering how views answer a query")
        self.counts = usages.counts

    # --- the hot path ------------------------------------------------------------------------------

    @property
    def active(self) -> bool:
        """Whether any view takes part."""
        return bool(self._candidates.words)

    def concerns(self, session: Session, look: Glance) -> bool:
        """Whether a statement may be a query that a view answers; all that a foreign statement costs."""
        return (
            not look.words.isdisjoint(self._candidates.words)
            and look.keyword in FIRST_WORDS
            and session.settings.rewrites
            and not session.transaction.active
        )

    async def find(self, session: Session, namespace: Namespace, words: Words, text: str) -> Hit | QueryMissed:
        """The text to run in the place of a query, or why it is forwarded unchanged."""
        if (reason := self.hindrance(session, words, text)) is not None:
            return QueryMissed(reason, self._usages.nothing)
        shape = shape_of(text)
        key = ShapeKey(shape.key, namespace, session.user, session.settings.id)
        found = await self._known(key, session, shape, words)
        usage = self._usages.of(shape.key, namespace, session.user)
        if found is None or self._age(found) > HELD_TIMES * self._proof_seconds:
            return QueryMissed(WhyMissed.NEW, usage)
        reason, stale = found.missed, list[ProvedAnswer]()
        for answer in found.answers:
            if not self._is_proved(answer):
                reason = WhyMissed.NEW
            elif not answer.fits(shape.literals):
                reason = WhyMissed.LITERAL
            elif (objected := await self._objection(answer)) is not None:
                view, objection = objected
                reason = WhyMissed.QUARANTINED if self._standing.is_quarantined(view.id) else WhyMissed.NOT_FRESH
                stale += [answer] if objection == STALE else []
            elif not answer.adds_rest:
                return Hit(key, answer, answer.template.fill(shape.literals), usage)
            elif (mixture := await self._mixture(answer, session)) is not None:
                text = answer.template.fill(shape.literals)
                return Hit(key, answer, text, usage, mixture, text)
            else:
                reason = WhyMissed.NOT_FRESH
        for answer in (each for each in stale if not each.adds_rest and len(each.needed) == 1):
            if (mixture := await self._mixture(answer, session)) is not None:
                named, mixed = (each.fill(shape.literals) for each in (answer.template, mixture.over(answer.template)))
                return Hit(key, answer, named, usage, mixture, mixed)
        return QueryMissed(reason, usage)

    async def _objection(self, answer: ProvedAnswer) -> tuple[AnsweringView, str] | None:
        """The first of the answer's views that may not answer now, and why."""
        for view in answer.needed:
            if (objection := await self._standing.objection(view.id, view.name)) is not None:
                return view, objection
        return None

    async def _known(self, key: ShapeKey, session: Session, shape: Shape, words: Words) -> Considered | None:
        """What is known of a shape. If that is nothing, or old, the shape is considered: the query waits for it for at
        most `rewrite.wait` seconds, but not if a proof that still holds answers it."""
        found = self._verdicts.find(key)
        if found is not None and self._candidates.changed(found.grounds.schemas):
            self._verdicts.drop(key)
            found = None
        if found is not None and not await self._is_old(found):
            if self._candidates.outdated(found.grounds.schemas):
                self._describe_soon(key, found)
            return found
        task = self._consider_soon(key, session, shape, words)
        if found is not None and any(map(self._is_proved, found.answers)):
            return found
        if task is not None and self._wait_seconds:
            await asyncio.wait([task], timeout=self._wait_seconds)
        return self._verdicts.find(key)

    async def _mixture(self, answer: ProvedAnswer, session: Session) -> Mixture | None:
        """What takes the place of a view of which a few partitions are stale, or that has a part of the rows, if the
        session can read it."""
        mixture = await self._mixed(answer)
        if not isinstance(mixture, Mixture):
            return None
        try:
            await self._partly_stale.prepare(mixture, await session.sql())
        except FreshgateError as error:
            log.info("%s lacks rows that cannot be read from base tables: %s", answer.named, error)
            return None
        return mixture

    async def _mixed(self, answer: ProvedAnswer) -> Mixture | str:
        """As `_mixture`, of the only view of an answer, or why there is none."""
        (view_id,) = answer.ids
        if answer.adds_rest:
            return self._partly_stale.with_rest(view_id)
        return await self._partly_stale.of(view_id)

    def hindrance(self, session: Session, words: Words, text: str) -> WhyMissed | None:
        """Why the session, or the length of the text, rules out every view."""
        if len(text) > CHARACTERS_MAX:
            return WhyMissed.LENGTH
        if session.pending or self._scope.temporary(session).mentioned(words):
            return WhyMissed.SESSION
        return None

    async def standing(self, answer: ProvedAnswer, shape: Shape) -> tuple[Verdict, str]:
        """Whether the answer could be given now: CHOSEN if so, USABLE if so unless a fresh view could give it."""
        if not answer.fits(shape.literals):
            return Verdict.NOT_PROVED, "it was proved for other values of the literals only"
        states = [await self._view_standing(each, answer) for each in answer.needed]
        return next((each for each in states if each[0] is not Verdict.CHOSEN), states[0])

    async def _view_standing(self, its: AnsweringView, answer: ProvedAnswer) -> tuple[Verdict, str]:
        objection = await self._standing.objection(its.id, its.name)
        view = self._catalog.named(its.name)
        if view is None or view.id != its.id:
            return Verdict.REJECTED, "the view is gone"
        if self._standing.is_quarantined(view.id):
            return Verdict.REJECTED, str(objection)
        if not view.complete:
            return Verdict.STALE, "the view has not been built yet"
        if objection is None and answer.adds_rest:
            rest = self._partly_stale.with_rest(view.id)
            if isinstance(rest, str):
                return Verdict.STALE, rest
            return Verdict.CHOSEN, f"it is proved to give the same rows; {rest.reason}"
        if (
            objection == STALE
            and not answer.adds_rest
            and len(answer.needed) == 1
            and isinstance(mixture := await self._partly_stale.of(view.id), Mixture)
        ):
            return Verdict.USABLE, f"it is proved to give the same rows; {mixture.reason}"
        now = time.time()
        state = self._catalog.freshness(view.id)
        found = self._catalog.staleness(view.id)
        if objection is None:
            since = f"refreshed {now - view.current.published_at / 1000:.0f} s ago"
            return Verdict.CHOSEN, f"it is proved to give the same rows, and {_FRESHNESS[state]}; {since}"
        if objection != STALE:
            return Verdict.STALE, objection
        if found is None or state is Freshness.UNKNOWN:
            return Verdict.STALE, "it is not known whether the view misses a write"
        age = f", for {now - found.since / 1000:.0f} s" if found.since else ""
        return Verdict.STALE, f"it would give the same rows if it were fresh, but is stale{age}: {found.reason}"

    def off(self, session: Session) -> str | None:
        """Why nothing is rewritten in the session now."""
        if not session.settings.rewrites:
            return "freshgate.rewrite is off in this session"
        if session.transaction.active:
            return "reads of this transaction see the versions of its beginning"
        return None

    async def sharing(self, named: Collection[TableName]) -> list[tuple[MaterializedView, list[TableName]]]:
        """The views that take part and read one of these tables, each with what else its definition names."""
        return await self._candidates.sharing(named)

    async def _is_old(self, found: Considered) -> bool:
        """Whether the shape should be considered again: the proofs are old or hold no longer, or another view may take
        part by now."""
        if self._age(found) > self._proof_seconds:
            return True
        if not all(self._is_same(view_id, before) for view_id, before in found.grounds.participants.items()):
            return True
        if not all(map(self._is_proved, found.answers)):
            return True
        if (revision := self._catalog.revision) != found.revision:
            if await self._candidates.participants(found.grounds.sources) != found.grounds.participants:
                return True
            found.revision = revision
        return False

    def _age(self, found: Considered) -> float:
        """How many seconds ago it was determined."""
        return time.monotonic() - found.at

    def _is_same(self, view_id: str, before: Participant) -> bool:
        entry = self._catalog.find(view_id)
        return entry is not None and before.is_still(entry.view)

    def _is_proved(self, answer: ProvedAnswer) -> bool:
        """Whether the views are still those of the proof, and show the versions whose keys it needs."""
        return all(map(self._is_still, answer.needed))

    def _is_still(self, view: AnsweringView) -> bool:
        entry = self._catalog.find(view.id)
        if entry is None or not view.proved.is_still(entry.view):
            return False
        return view.keyed is None or entry.view.current.number == view.keyed

    def _describe_soon(self, key: ShapeKey, found: Considered) -> None:
        """Has the tables of the query described again: a statement that bypassed the gateway may have changed their
        columns."""
        if key not in self._describing:
            task = self._background.begin(self._describe(found.grounds))
            self._describing[key] = task
            task.add_done_callback(lambda _: self._describing.pop(key, None))

    async def _describe(self, grounds: Grounds) -> None:
        try:
            await self._candidates.schemas(grounds.schemas)
        except FreshgateError as error:
            log.info("the tables of a query cannot be described: %s", error)

    def holds(self, hit: Hit) -> bool:
        """Whether the view may still answer."""
        if not self._is_proved(hit.answer):
            return False
        if hit.mixture is not None:
            return self._partly_stale.holds(hit.mixture)
        return all(self._standing.holds(each.id) for each in hit.answer.needed)

    def still_holds(self, hit: Hit) -> bool:
        """Whether the answer is right of a text that has just ended: one that reads base tables, too, may show a write
        of which the view's rows show nothing."""
        return not hit.mixed or self.holds(hit)

    def succeeded(self, session: Session, words: Words, text: str, hit: Hit) -> None:
        """The text on the view has succeeded at Spark: its answer may be compared with the client's own."""
        changes = session.settings.changes

        def unchanged() -> bool:
            # A temporary view may have come and gone meanwhile.
            same = session.settings.changes == changes and session.settings.id == hit.key.settings
            same = same and session.namespace == hit.key.namespace
            return same and self.hindrance(session, words, text) is None

        answer = hit.answer
        namespace = hit.key.namespace
        self._canary.consider(Answered(session, namespace, answer.views, text, hit.text, unchanged))

    def failed(self, hit: Hit, error: FreshgateError) -> WhyMissed:
        """Spark has refused or failed the text: the view is not used for this shape until it is proved anew. Returns
        why the client's own text runs."""
        if isinstance(error, Overtaken):
            return WhyMissed.NOT_FRESH
        log.warning("%s did not answer a query in the place of its base tables: %s", hit.answer.named, error)
        if (found := self._verdicts.find(hit.key)) is not None:
            found.answers = tuple(each for each in found.answers if each != hit.answer)
            found.refusals += (Refusal(hit.answer.names, Verdict.REJECTED, f"it failed at Spark: {error}"),)
        return WhyMissed.FAILED

    def forget(self, named: Mentioned) -> None:
        """A statement may have changed what these names mean, or rights."""
        if not named.words.isdisjoint(_ENDING_RIGHTS):
            named = replace(named, anything=True)
        self._verdicts.forget(named)
        self._examiner.forget(named)

    # --- considering -------------------------------------------------------------------------------

    async def learn(
        self, session: Session, namespace: Namespace, shape: Shape, words: Words, seconds: float
    ) -> Considered | str | None:
        """What is known of a shape, which is considered if need be; a text says why nothing is known. None: it is still
        being considered after that time."""
        key = ShapeKey(shape.key, namespace, session.user, session.settings.id)
        found = self._verdicts.find(key)
        if found is not None and not self._candidates.changed(found.grounds.schemas) and not await self._is_old(found):
            return found
        task = self._consider_soon(key, session, shape, words)
        if task is None or not (await asyncio.wait([task], timeout=seconds))[0]:
            return None
        return task.result()

    def _consider_soon(
        self, key: ShapeKey, session: Session, shape: Shape, words: Words
    ) -> asyncio.Task[Considered | str] | None:
        """Considers the shape in the background; None if too many shapes wait for that."""
        task = self._considering.get(key)
        if task is None and len(self._considering) < WAITING_MAX:
            task = self._background.begin(self._consider(key, session, shape, words))
            self._considering[key] = task
            task.add_done_callback(lambda _: self._considering.pop(key, None))
        return task

    async def _consider(self, key: ShapeKey, session: Session, shape: Shape, words: Words) -> Considered | str:
        """The outcome, or why there is none."""
        await self._examiner.note(session)
        async with self._turn:
            begun = self._verdicts.begin()
            try:
                async with asyncio.timeout(CONSIDERED_SECONDS):
                    found = await self._examiner.examine(session, key.namespace, shape, words, begun)
            except (FreshgateError, TimeoutError) as error:
                problem = str(error) or "no answer in time"
                log.info("how views answer a query is not known: %s", problem)
                return problem
            finally:
                self._verdicts.end(begun)
            for refusal in found.refusals:
                log.debug("%s does not answer %s: %s", refusal.named, shape.key, refusal.reason)
            # Otherwise a statement has changed the settings meanwhile, or something that the proof depends on.
            if session.settings.id == key.settings and not session.pending and not begun.overtaken:
                self._verdicts.put(key, found)
            return found
