"""Decides which way a statement goes.

A statement without any name of interest is forwarded after a cheap scan of its words (`plain`). Other statements are
parsed. What a statement reads and writes decides whether views are refreshed first, a write is noted, or the statement
is refused. Deciding holds nothing but claims and versions: what a statement does takes place once it is under way.

The thorough way (`consider`) has a method for each question, in this order: is it the gateway's own (`_consider`,
`_for_spark`), does a view answer it that it does not name (`_query`), does it count for suggestions (`_counted`), does
it name versions or the catalog's functions (`_resolved`), and which views does it read, and what else does it do
(`_decided`).
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gateway.errors import FreshgateError, SyntaxRefused
from gateway.loops import AT_ONCE
from gateway.mv.catalog.index import Catalog
from gateway.mv.refresh.progress import Report
from gateway.mv.rewriting.unanswered import Unanswered
from gateway.mv.rewriting.usage import WhyMissed
from gateway.service.clients import own_settings
from gateway.service.clients.audit import Mentions
from gateway.service.clients.bounds import spliced
from gateway.service.clients.session import Session, may_collect_in_parts
from gateway.service.results.revocation import may_change_rights
from gateway.service.routing.catalog_rows import CatalogRows
from gateway.service.routing.facts import Facts, ViewsRead
from gateway.service.routing.first_words import READING, ROW_CHANGES, may_write
from gateway.service.routing.gatekeeper import CHANGING, Gatekeeper, takes_temporary
from gateway.service.routing.invokers import Invokers
from gateway.service.routing.long_texts import LONG_CHARACTERS, parts_bounded
from gateway.service.routing.reads import Reads
from gateway.service.routing.rewrites import FIRST_WORDS, Rewrites
from gateway.service.routing.scope import RELATION_WORDS, ViewScope, may_move
from gateway.service.routing.underway import Effects
from gateway.service.routing.version_reads import VersionReads
from gateway.service.routing.ways import (
    UNCHANGED,
    Effect,
    FromView,
    Hit,
    ListDatabases,
    MeaningsChanged,
    MeaningsMove,
    Own,
    OwnSettingsChanged,
    QueryAnswered,
    QueryMissed,
    QueryUnanswered,
    RefreshFirst,
    RightsChanged,
    RowsCollectedInParts,
    Send,
    Sent,
    SettingsChanged,
    TablesRedefined,
    Way,
    changed,
    doing,
    sent,
)
from gateway.service.routing.writes import Writes, moves_files
from sql.grammar import view_properties
from sql.grammar.cursor import SyntaxProblem
from sql.mentioned import Mentioned
from sql.names import Namespace, Parts, TableName
from sql.reading import catalog_functions, explained
from sql.statement import (
    AlterMaterializedView,
    CreateMaterializedView,
    DropMaterializedView,
    Forwarded,
    Glance,
    NamedCommand,
    SetProperties,
)
from sql.texts import rewrite
from sql.understood import Understood
from sql.words import may_hold_path

log = logging.getLogger(__name__)

QUERIES = FIRST_WORDS - {"explain"}
CATALOG_WORDS = catalog_functions.WORDS | rewrite.OWN
"""A text without any of these words does not query the catalog."""
DATABASE_WORDS = frozenset({"databases", "schemas", "namespaces"})
SETTINGS = frozenset({"set", "reset"})
KEEPING_SETTINGS = (
    READING - SETTINGS | ROW_CHANGES | frozenset({"create", "drop", "alter", "comment", "grant", "revoke"})
)
"""First words of statements that change no setting of their session, and run no other statement."""
RUNNING = frozenset({"begin", "execute", "explain"})
"""First words of texts that run other statements."""
_SHOW_DATABASES = re.compile(r"\s*show\s+(?:databases|schemas|namespaces)\b", re.IGNORECASE)


class Router:
    """Finds the way of each statement."""

    def __init__(
        self,
        catalog: Catalog,
        scope: ViewScope,
        reads: Reads,
        version_reads: VersionReads,
        gatekeeper: Gatekeeper,
        rewrites: Rewrites,
        rows: CatalogRows,
        unanswered: Unanswered,
        effects: Effects,
        invokers: Invokers,
    ) -> None:
        """`unanswered` counts the queries for which views are suggested."""
        self._catalog = catalog
        self._scope = scope
        self._reads = reads
        self._version_reads = version_reads
        self._gatekeeper = gatekeeper
        self._rewrites = rewrites
        self._rows = rows
        self._unanswered = unanswered
        self._effects = effects
        self._invokers = invokers
        self._writes = Writes(catalog, scope)
        self._texts = gatekeeper.texts

    async def close(self) -> None:
        """Ends the processes that parse long texts."""
        await self._texts.close()

    # --- the cheap way -----------------------------------------------------------------------------

    def plain(self, session: Session, known: Understood) -> Send | None:
        """The way of a statement without any name of interest; None if `consider` must decide."""
        return None if session.pending or len(known.text) > LONG_CHARACTERS else self._plain(session, known)

    def _plain(self, session: Session, known: Understood) -> Send | None:
        look = known.look
        if look.maybe_command or not look.words.isdisjoint(CATALOG_WORDS) or _lists_databases(look):
            return None
        if look.keyword in SETTINGS and _own_setting(known) is not None:
            return None
        writes = may_write(look)
        if writes and not look.words.isdisjoint(RELATION_WORDS):
            return None
        if not self._catalog.idle and (
            self._scope.of_interest(session, look.words, writes=writes)
            or self._rewrites.concerns(session, look)
            or self._invokers.may_bypass(look.words)
            or known.composes
            or (writes and self._gatekeeper.may_hide(known))
            or (writes and (moves_files(look) or may_hold_path(look.words)))
        ):
            return None
        effects = list[Effect]()
        if look.keyword in QUERIES and self._suggests(session, known):
            if session.namespace is None:
                return None
            effects.append(QueryUnanswered(known.text, session.namespace, session.user))
        if writes:
            effects.append(self._writes.unread(session, known))
        if _may_change_namespace(look):
            effects.append(may_move(known))
        effects += self._meanings(known)
        return Send(effects=tuple(effects), runs_others=_runs_others(look)) if effects else UNCHANGED

    # --- the thorough way --------------------------------------------------------------------------

    async def consider(self, session: Session, known: Understood) -> Way:
        """Raises FreshgateError if the statement is refused."""
        await session.settle()
        await self._scope.name_temporary(session)
        with parts_bounded():
            await self._settle(known)
            while True:
                moved, names = session.moved, self._names()
                way = await self._consider(session, known)
                if moved == session.moved and not self._renamed(names, known):
                    return way
                # Another statement has ended meanwhile, so the names may mean something else.
                if not isinstance(way, Own):
                    self._drop(session, way)

    def _drop(self, session: Session, way: Sent) -> None:
        """The way is not taken."""
        self._effects.drop(session, sent(way).effects)

    def _names(self) -> tuple[int, frozenset[str]]:
        """The catalog's revision, and the names of its views."""
        return self._catalog.revision, self._catalog.view_words

    def _renamed(self, before: tuple[int, frozenset[str]], known: Understood) -> bool:
        """Whether names in a statement may belong to other views than before, for example after a RENAME."""
        revision, words = before
        if revision == self._catalog.revision:
            return False
        return known.composes or not known.look.words.isdisjoint(words | self._catalog.view_words)

    async def _consider(self, session: Session, known: Understood) -> Way:
        statement, look = known.statement, known.look
        if len(known.text) > LONG_CHARACTERS and (plain := self._plain(session, known)) is not None:
            return plain
        if not isinstance(statement, Forwarded):
            if isinstance(statement, CreateMaterializedView) and statement.clauses.location is not None:
                await self._gatekeeper.protection.check_location(statement.clauses.location)
            return Own(statement)
        if _lists_databases(look) and _SHOW_DATABASES.match(known.text, known.start):
            return Own(ListDatabases(known.text))
        written = await self._gatekeeper.written_out(session, known)
        way = await self._for_spark(session, written)
        if written is known or isinstance(way, Own):
            return way
        return changed(way, text=written.text) if sent(way).text is None else way

    async def _for_spark(self, session: Session, known: Understood) -> Way:
        """The way of a statement for Spark, without anything that it puts together at run time if it may write."""
        statement, look = known.sparks, known.look
        namespace = await session.resolve_namespace()
        command = self._about_view(namespace, known)
        name = _changed_name(command, statement, look)
        claim = None if name is None else await self._gatekeeper.claim(session, name, namespace)
        if command is not None and claim is None and not await self._is_shadowed(session, command):
            return Own(command)
        try:
            facts = Facts.of(session, namespace, known, claim)
            return await (self._query(facts) if self._rewrites.concerns(session, look) else self._counted(facts))
        except BaseException:  # Including cancellation: the statement is never sent to Spark.
            if claim is not None:
                self._effects.drop(session, (claim,))
            raise

    async def prepare(self, first: RefreshFirst, report: Report) -> Send:
        """Makes the views fresh that the statement reads. Raises FreshgateError."""
        return await self._reads.prepare(first, report)

    async def foreseen(self, session: Session, known: Understood) -> Sent | None:
        """The way that a query would go now, once what it reads was looked at. Nothing is refreshed, and nothing is
        held. None if it does not go to Spark. Raises FreshgateError if it would be refused."""
        way = await self._untaken(session, known)
        if isinstance(way, RefreshFirst):
            await self._reads.look(way)
            way = await self._untaken(session, known)
        return None if isinstance(way, Own) else way

    async def _untaken(self, session: Session, known: Understood) -> Way:
        """A way that is not taken."""
        way = await self.consider(session, known)
        if not isinstance(way, Own):
            self._drop(session, way)
        return way

    def check_again(self, first: RefreshFirst) -> None:
        """Called just before a statement is sent that has waited. Raises NotAllowed if its names may have moved."""
        self._gatekeeper.check_again(first)

    # --- queries -----------------------------------------------------------------------------------

    async def _query(self, facts: Facts) -> Sent:
        """The way of a query that a view may answer, or of EXPLAIN of one."""
        known = facts.known
        start = explained.query_start(known.lexed) if known.look.keyword == "explain" else 0
        if start is None:
            return await self._counted(facts)
        found = await self._rewrites.find(facts.session, facts.namespace, known.look.words, known.text[start:])
        if isinstance(found, Hit):
            if (on_view := await self._from_view(facts, found, known.text[:start])) is not None:
                return on_view
            found = QueryMissed(WhyMissed.NOT_FRESH, found.usage)
        way = await self._counted(facts)
        return way if start else doing(way, replace(found, timed=isinstance(way, Send)))

    async def _from_view(self, query: Facts, hit: Hit, head: str) -> FromView | None:
        """The way of a text on the view; None if that would have to wait for a refresh. `head`: what precedes the query
        in EXPLAIN, which shows the plan that would run, and is not counted."""
        try:
            way = await self._decided(query.respelled(Understood(head + hit.text)), hit=hit)
        except FreshgateError as error:
            # The client has not named the view, so nothing about the view is an error of the client's statement.
            log.info("%s does not answer a query in the place of its base tables: %s", hit.answer.named, error)
            return None
        if isinstance(way, RefreshFirst):
            self._drop(query.session, way)
            return None
        send = replace(way, text=way.text or head + (hit.mixed or hit.text))
        if hit.mixture is not None:
            send = replace(send, source=hit.mixture.source)
        if not head:
            send = doing(send, QueryAnswered(hit, query.known.text, query.look.words))
        return FromView(send, hit, query.known)

    async def own_text(self, session: Session, failed: FromView, error: FreshgateError) -> Send | RefreshFirst:
        """The way of the client's own text after another one has failed. Raises FreshgateError."""
        reason = self._rewrites.failed(failed.hit, error)
        way = await self._resolved(Facts.of(session, await session.resolve_namespace(), failed.query))
        if failed.query.look.keyword == "explain":
            return way
        failed.hit.usage.failed(failed.hit.answer.names, reason)
        return doing(way, QueryMissed(reason, failed.hit.usage, timed=isinstance(way, Send)))

    async def _counted(self, facts: Facts) -> Send | RefreshFirst:
        """The way of the client's own text."""
        way = await self._resolved(facts)
        if not isinstance(way, Send) or way.mentions.views or facts.look.keyword not in QUERIES:
            return way
        session, known = facts.session, facts.known
        unanswered = QueryUnanswered(known.text, facts.namespace, session.user)
        return doing(way, unanswered) if self._suggests(session, known) else way

    def _suggests(self, session: Session, known: Understood) -> bool:
        """Whether views may be suggested for a query that no view answers."""
        words = known.look.words
        if not self._unanswered.is_counted(known.text):
            return False
        return words.isdisjoint(CATALOG_WORDS) and not self._scope.temporary(session).mentioned(words)

    # --- statements for Spark ----------------------------------------------------------------------

    async def _resolved(self, facts: Facts) -> Send | RefreshFirst:
        """The way of a statement, with its calls of the catalog's functions and its versions of views resolved."""
        session = facts.session
        if called := bool(facts.known.catalog_calls):
            known = Understood(await self._rows.with_functions(session, facts.known), look=facts.look)
            await self._settle(known)
            facts = facts.respelled(known)
        travel = await self._version_reads.time_travel(facts.known, facts.namespace, session, self._texts)
        if travel is None:
            return await self._decided(facts, respelled=called)
        try:
            await self._settle(travel.known)
            splices = travel.splices()
            await self._invokers.check(session, travel.ids, "A version of it is read as it is stored")
            way = await self._decided(facts.respelled(travel.rest()), splices, respelled=called)
        except BaseException:  # Including cancellation: the versions are not read.
            self._effects.drop(session, (travel.held,))
            raise
        mentions = sent(way).mentions
        return doing(changed(way, mentions=replace(mentions, views=mentions.views | travel.views)), travel.held)

    async def answers_hold(self) -> bool:
        """Whether what reads depend on is still known: no other gateway has published a version."""
        return await self._reads.answers_hold()

    async def _decided(
        self,
        facts: Facts,
        versions: Sequence[rewrite.Splice] = (),
        *,
        respelled: bool = False,
        hit: Hit | None = None,
    ) -> Send | RefreshFirst:
        """`versions`: the splices that replace views by versions. `respelled`: the text is no longer the
        client's. `hit`: it stands in for the client's; such a text is never prepared."""
        session, known, statement, look = facts.session, facts.known, facts.statement, facts.look
        if not self._catalog.idle:
            await self._scope.learn(session, facts.namespace, look.words)
        if not statement.exact:
            log.info(
                "statement not understood (%s), so every name in it counts: %s", statement.reason, known.shown[:200]
            )
        await self._gatekeeper.protection.check(facts)
        await self._invokers.check_names(facts)
        if look.keyword in SETTINGS and (said := _own_setting(known)) is not None:
            own_settings.check(said)
        splices = [*versions, *await self._rows.splices(session, known, changed=respelled)]
        if len(statement.reads) + len(statement.calls) > AT_ONCE:
            await asyncio.sleep(0)  # Each half of the work with thousands of names takes 10 ms.
        first = await self._read(facts, splices, spliced(known.text, splices) if respelled or splices else None)
        send = replace(first.send, effects=tuple(self._effects_of(facts)))
        first = replace(first, send=send)
        if hit is None:
            waits = self._reads.must_wait(first)
        else:
            await self._reads.look_at_tables(facts, first.read)
            waits = self._reads.is_watched(first.read) or not self._rewrites.holds(hit)
        if waits:
            return first
        departed = self._reads.depart(first)
        warning = self._writes.warning(look, facts.targets)
        return replace(departed, notes=(*departed.notes, warning)) if warning else departed

    async def _read(self, facts: Facts, splices: Sequence[rewrite.Splice], text: str | None) -> RefreshFirst:
        """The statement with the views that it reads. `text`: what replaces its own so far."""
        session, statement, transaction = facts.session, facts.statement, facts.session.transaction
        read, moved = ViewsRead(), session.moved
        if statement.touches_rows and statement.creates_view is None:
            read = await self._scope.views_read(facts)
            if facts.known.steps and self._writes.of(facts) is not None:
                await self._writes.check_script(facts)
        send = Send(text, mentions=self._mentions(facts, read), runs_others=_runs_others(facts.look))
        epoch = transaction.epoch if transaction.active and read.all else None
        first = RefreshFirst(facts, read, send, splices, epoch, moved, guessed=facts.composed)
        if epoch is not None:
            first = await self._reads.exactly(first)
            self._version_reads.check(transaction, facts, first.read)
        return first

    def _effects_of(self, facts: Facts) -> Iterator[Effect]:
        """Everything that the statement may do, except for what it reads."""
        known, statement, look = facts.known, facts.statement, facts.look
        yield from self._gatekeeper.effects(facts)
        write = self._writes.of(facts)
        tables = frozenset(facts.targets) if write is None else write.tables
        if tables and look.keyword not in ROW_CHANGES:
            yield TablesRedefined(tables)
        if write is not None:
            yield write
        inexact = not statement.exact and not self._catalog.idle
        yield from self._scope.effects(facts, known.temporaries if inexact else frozenset())
        yield from self._meanings(known)

    def _meanings(self, known: Understood) -> Iterator[Effect]:
        """The settings of the session that the statement may change, and what names and rights may mean after it:
        proofs of how views answer queries depend on them."""
        look = known.look
        if may_collect_in_parts(look.words):
            yield RowsCollectedInParts()  # Perhaps not, but this is the safe assumption.
        if look.keyword in SETTINGS and (values := _own_setting(known)) is not None:
            yield OwnSettingsChanged(values)
            yield MeaningsMove()
        if look.keyword not in KEEPING_SETTINGS or not look.words.isdisjoint({"variable", "immediate"}):
            constant = look.keyword in SETTINGS and look.words.isdisjoint({"variable", "var"})
            yield SettingsChanged(known.text, constant)
            if self._rewrites.active or self._effects.remembers:
                yield MeaningsMove()
        proves = self._rewrites.active or bool(self._catalog.invokers)
        if proves and look.keyword not in ROW_CHANGES and may_write(look):
            yield MeaningsChanged(Mentioned(look.words, anything=known.composes))
        if (proves or self._effects.remembers) and may_change_rights(known):
            yield RightsChanged()

    async def _settle(self, known: Understood) -> None:
        """Reads the text. Raises SyntaxRefused, and LimitReached if it takes too long to parse."""
        try:
            await self._texts.read(known)
            known.statement  # noqa: B018
        except SyntaxProblem as problem:
            raise SyntaxRefused(str(problem), sqlstate=problem.sqlstate) from problem

    # --- what the statement mentions ---------------------------------------------------------------

    def _mentions(self, facts: Facts, read: ViewsRead) -> Mentions:
        """The names for the audit; only views if the text is not understood, because it may have very many names."""
        views, statement = frozenset(self._catalog.names_of(read.all).values()), facts.statement
        if not statement.exact:
            return Mentions(views)
        spelt = {reference.parts for reference in statement.reads}
        reads = frozenset(TableName.resolve(parts, facts.namespace) for parts in spelt)
        return Mentions(views, reads, frozenset(() if statement.drops_database else facts.targets))

    def _about_view(self, namespace: Namespace, known: Understood) -> NamedCommand | None:
        """The gateway's command that a statement of Spark stands for because it names a materialized view."""
        if known.look.words.isdisjoint(self._catalog.view_words):
            return None
        command = known.about
        if command is None or self._catalog.named(TableName.resolve(command.name, namespace)) is None:
            return None
        return _checked(command)

    async def _is_shadowed(self, session: Session, command: NamedCommand) -> bool:
        """Whether a command that changes nothing refers to a temporary view of the session."""
        name = command.name
        if len(name) > 1 or isinstance(command, DropMaterializedView | AlterMaterializedView):
            return False
        return self._scope.temporary(session).may_be(name) and await takes_temporary(await session.sql(), name[0])


def _checked(command: NamedCommand) -> NamedCommand:
    """The command, with its known properties checked; Spark accepts any."""
    if isinstance(command, AlterMaterializedView) and isinstance(command.change, SetProperties):
        try:
            pairs = view_properties.check(command.change.properties, free=True)
        except SyntaxProblem as problem:
            raise SyntaxRefused(str(problem), sqlstate=problem.sqlstate) from problem
        return replace(command, change=SetProperties(pairs))
    return command


def _lists_databases(look: Glance) -> bool:
    return look.keyword == "show" and not look.words.isdisjoint(DATABASE_WORDS)


def _runs_others(look: Glance) -> bool:
    """Whether it is a script or EXECUTE IMMEDIATE, of which a part may be executed before a parse error."""
    return not look.words.isdisjoint({"begin", "execute"})


def _changed_name(command: NamedCommand | None, statement: Forwarded, look: Glance) -> Parts | None:
    """The name that a DROP or ALTER changes, if it may be that of a view."""
    if isinstance(command, DropMaterializedView | AlterMaterializedView):
        return command.name
    if command is not None or look.keyword not in CHANGING or statement.drops_database or not statement.exact:
        return None
    return next(iter(statement.writes), None)


def _may_change_namespace(look: Glance) -> bool:
    if look.keyword in {*SETTINGS, *RUNNING} and not look.words.isdisjoint({"catalog", "defaultcatalog"}):
        return True
    if look.keyword == "reset" and isinstance(look.words, frozenset) and len(look.words) == 1:
        return True
    return "use" in look.words


def _own_setting(known: Understood) -> Mapping[str, str] | None:
    """The values that SET or RESET gives settings of the gateway's; None if the text is another statement."""
    text, start = known.text, known.start
    return None if len(text) - start > LONG_CHARACTERS else own_settings.assigned(text[start:])
