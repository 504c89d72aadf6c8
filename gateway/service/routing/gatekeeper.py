"""Decides whether a statement that may change materialized views may go to Spark, and which views to watch then.

Changes of views that are recognized are refused (`protection`). An unqualified name may be that of a temporary view,
which belongs to its session; the gateway assumes this only if Spark confirms it. Statements that may be misunderstood
are watched by `mv.catalog.guard`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from gateway.errors import LimitReached, NotAllowed, StatementFailed
from gateway.loops import aside
from gateway.mv.catalog.directories import Directories
from gateway.mv.catalog.guard import Guard
from gateway.mv.catalog.index import Catalog
from gateway.mv.catalog.watches import Suspect, Watch
from gateway.mv.ports import SqlSession
from gateway.service.clients.context import ORIGIN
from gateway.service.clients.session import Session
from gateway.service.operations.operation import End
from gateway.service.routing.explanation import text_named, with_names
from gateway.service.routing.long_texts import APART_CHARACTERS, VERY_LONG_CHARACTERS, LongTexts
from gateway.service.routing.outcomes import Route
from gateway.service.routing.protection import Protection
from gateway.service.routing.scope import watch
from sql.names import Namespace, TableName, quote
from sql.reading import paths
from sql.statement import Parts
from sql.texts import maintenance
from sql.understood import Understood

CHANGING = frozenset({"drop", "alter"})
REPLACING = CHANGING | {"replace"}
RUNNING = frozenset({"immediate", "begin"})
"""Words of statements that run other statements."""
LOOKED_FOR_MAX = 20_000_000
"""The maximum of characters times views; searching for each name then takes a few milliseconds."""
VARIABLES_MAX = 20
"""The maximum number of variables that are looked up for a statement. Spark stops at 40 nested values."""
_BEFORE_NAME = r"(?:(?:hivevar|hiveconf|spark|sparkconf):|(?!\w+:[^\s}]))"
_VARIABLE = re.compile(rf"\$\{{(?:{_BEFORE_NAME}(\S[^\s}}]*+)\}}|{_BEFORE_NAME}[^\s}}]*+(?=\s|\Z)|)", re.ASCII)
"""A variable as in Spark; `${env:HOME}` and `${system:...}` are not its settings. One without a name matches, too, but
has no value: searching for the end again from each beginning would take quadratic time."""
_BETWEEN = re.compile(r"""[\s\\'"`|]+""")
"""What may separate the letters of a word in a text that is built from strings."""


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """A statement that drops or alters a temporary view. The name is empty if it is unknown."""

    name: Parts


@dataclass(frozen=True, slots=True)
class Subject:
    """A statement that is about to be sent. `writes`: it may write."""

    session: Session
    namespace: Namespace
    known: Understood
    writes: bool
    temporary: Parts | None = None
    """The name of a temporary view that it changes, if this is certain."""


class Gatekeeper:
    """Checks statements; raises NotAllowed."""

    def __init__(self, catalog: Catalog, directories: Directories, guard: Guard) -> None:
        self._catalog = catalog
        self._guard = guard
        self.texts = LongTexts()
        self._protection = Protection(catalog, directories)

    def may_hide(self, known: Understood) -> bool:
        """Whether a statement that writes may do more than its words show: through a path, or through names that a text
        within the text spells with escapes. A cheap check."""
        if "\\" in known.text and not known.look.words.isdisjoint(RUNNING):
            return True
        return known.may_write_to_path

    # --- temporary views ---------------------------------------------------------------------------

    async def claim(self, session: Session, name: Parts, namespace: Namespace) -> Claim | None:
        """Claims that a statement that changes `name` changes a temporary view, although the name could mean a
        materialized view. The caller must `note` or discard the claim.

        Spark prefers a temporary view. It is asked whether it has one with this name just before the statement is sent,
        and no other statement of the session may drop it in between.
        """
        if len(name) != 1 or self._catalog.named(TableName.resolve(name, namespace)) is None:
            return None
        if session.temporary.leaving:
            await session.settle()
        if not await takes_temporary(await session.sql(), name[0]):
            return None
        if session.temporary.leaving:
            raise NotAllowed(
                f"{name[0]} is a temporary view and a materialized view. Another statement of this session may drop "
                f"the temporary view and has not ended; this statement could then change the materialized view. Run it "
                f"again when the other statement has ended.",
                sqlstate="55006",
            )
        claim = Claim(name)
        session.temporary.leaving.add(claim)
        return claim

    def note(self, subject: Subject, claim: Claim | None, route: Route) -> None:
        """Until it has ended, the statement may drop or rename temporary views."""
        session = subject.session
        if claim is None:
            if self._catalog.idle or not self._may_drop(subject):
                return
            claim = Claim(())
            session.temporary.leaving.add(claim)
        watch(route, session)
        route.ends.append(partial(_dropped, route, session, claim))

    def _may_drop(self, subject: Subject) -> bool:
        statement, look = subject.known.sparks, subject.known.look
        if statement.exact:
            return look.keyword in CHANGING and statement.drops_database is False
        return subject.writes and not look.words.isdisjoint(RUNNING | CHANGING)

    # --- checks ------------------------------------------------------------------------------------

    async def check(self, subject: Subject) -> Subject:
        """Checks that the statement, as far as it is understood, changes no materialized view and no storage. Returns
        it as Spark reads it, with the values of variables."""
        known, session = subject.known, subject.session
        statement = known.sparks
        adrift = session.namespace_uncertain
        names = [parts for parts in statement.writes if parts != subject.temporary]
        self._protection.check(known, names, subject.namespace, adrift=adrift, writes=subject.writes)
        if self._catalog.idle or not subject.writes:
            return subject
        if "${" in known.text:
            known = known.respelled(await _with_values(session, known.text))
            await self.texts.read(known)
            subject = replace(subject, known=known)
        look = known.look
        if look.keyword == "execute" and known.composes:
            await self._check_named(subject)
        if look.keyword in CHANGING and not statement.exact and "identifier" in look.words:
            named = await self._with_names(subject)
            if named is not None:
                await self.check(named)
                return subject
        if not statement.exact:
            if inner := known.with_variables:
                known = known.respelled(behind(known.text, await _with_values(session, behind(*inner))), words=True)
                await self.texts.read(known)
                subject = replace(subject, known=known)
            await self._protection.check_within(known, subject.namespace, adrift=adrift)
        await self._protection.check_paths(known.paths, names)
        return subject

    async def _check_named(self, subject: Subject) -> None:
        """Checks the text that EXECUTE IMMEDIATE runs, as evaluated by Spark. Spark does not nest EXECUTE IMMEDIATE."""
        inner = await text_named(subject.session, subject.known)
        if inner is None:
            return
        known = Understood(inner, ours=False)
        await self.texts.read(known)
        if known.look.keyword != "execute":
            await self.check(replace(subject, known=known, temporary=None))

    async def _with_names(self, subject: Subject) -> Subject | None:
        """DROP or ALTER with IDENTIFIER clauses: the statement with the names that Spark makes of them. None if that
        fails, or if the result is not understood."""
        text = await with_names(subject.session, subject.known)
        if text is None:
            return None
        known = Understood(text, ours=False)
        await self.texts.read(known)
        return replace(subject, known=known) if known.sparks.exact else None

    async def check_location(self, location: str) -> None:
        """Checks the location of a materialized view that is to be created. Several views may have one location: each
        stores its files in a directory of its own below it."""
        await self._protection.check_paths(paths.Paths(loose={location}), ())

    # --- what is watched ---------------------------------------------------------------------------

    def watch(self, subject: Subject, route: Route) -> None:
        """Starts to watch, when the statement is sent, the views that it may change although it was allowed."""
        if self._catalog.idle or not subject.writes or not (views := self._endangered(subject)):
            return
        known, session = subject.known, subject.session
        words, number = known.look.words, ORIGIN.get().statement
        dresses = not known.sparks.exact or "tblproperties" in words
        suspect = Suspect(session.user, session.handle.public_id, number, known.shown, words, dresses)
        route.sends.append(lambda: self._begin(suspect, views, route))

    def _begin(self, suspect: Suspect, views: Iterable[str], route: Route) -> None:
        route.ends.append(partial(self._ended, route, self._guard.begin(suspect, views)))

    def _ended(self, route: Route, watch: Watch, end: End) -> None:
        self._guard.end(watch, surely=end is not End.UNKNOWN)
        if end is End.UNKNOWN:
            route.late(partial(self._guard.end, watch))

    def watches(self, views: Iterable[str]) -> bool:
        """Whether a read of these views, or of those below them, must wait for `confirm`."""
        return self._guard.watches(self._below(views)) if self._guard.active else False

    async def confirm(self, views: Iterable[str]) -> None:
        """Returns when these views are as they were published. Raises the error that prevents this from being known."""
        if self._guard.active:
            await self._guard.confirm(self._below(views))

    def _below(self, views: Iterable[str]) -> frozenset[str]:
        return frozenset[str]().union(*map(self._catalog.reads, views))

    def _endangered(self, subject: Subject) -> list[str]:
        """The ids of the views that the statement may change if it was misunderstood."""
        words, text = subject.known.look.words, subject.known.text
        views = self._catalog.views()
        runs = not subject.known.sparks.exact and not words.isdisjoint(RUNNING)
        if not runs:
            return [] if words.isdisjoint(REPLACING) else [view.id for view in views if view.name.table in words]
        long = len(text) > APART_CHARACTERS or len(text) * len(views) > LOOKED_FOR_MAX
        if long or subject.known.composes:
            return [view.id for view in views]
        joined = _BETWEEN.sub("", text.upper().lower())
        if not any(word in joined for word in REPLACING):
            return []
        return [view.id for view in views if view.name.table in joined]


async def takes_temporary(session: SqlSession, name: str) -> bool:
    """Whether an unqualified name means a temporary view to Spark, asked in the session itself."""
    try:
        answer = await session.run(maintenance.describe_bare(name))
        return maintenance.is_of_session(json.loads(answer.rows[0][0]))
    except (StatementFailed, ValueError, LookupError):
        return False


async def _with_values(session: Session, text: str) -> str:
    """Like `substituted`; also raises LimitReached for a text that takes too long to parse."""
    if len(text) > VERY_LONG_CHARACTERS:
        raise LimitReached(
            f"A statement with variables may have at most {VERY_LONG_CHARACTERS} characters. Write their values out."
        )
    return await substituted(session, text)


def behind(*texts: str) -> str:
    """A text that may do everything that these texts may do."""
    return ";\n".join(texts)


async def substituted(session: Session, text: str) -> str:
    """The text after Spark's substitution of variables; those whose values are unknown remain. Raises LimitReached."""
    values: dict[str, str] = {}
    sql = await session.sql()
    for _ in range(VARIABLES_MAX):
        names = [name for name in await aside(len(text), _variables, text) if name not in values]
        for name in names[: VARIABLES_MAX - len(values)]:
            try:
                rows = (await sql.run(f"SET {quote(name)}")).rows
            except StatementFailed:
                rows = []
            value = str(rows[0][1]) if rows and len(rows[0]) > 1 else UNDEFINED
            values[name] = value if value != UNDEFINED else ""
        before, text = text, await aside(len(text), _filled, text, values)
        if text == before:
            break
    return text


def _variables(text: str) -> list[str]:
    return list(dict.fromkeys(found[1] for found in _VARIABLE.finditer(text) if found[1]))


def _filled(text: str, values: Mapping[str, str]) -> str:
    """Replaces variables by their values. Raises LimitReached, because each of many values may have megabytes."""
    pieces, done, size = list[str](), 0, len(text)
    for found in _VARIABLE.finditer(text):
        if (value := values.get(found[1])) is not None:
            size += len(value)
            if size > TEXT_MAX:
                raise LimitReached(
                    f"With the values of its variables the statement has more than {TEXT_MAX} characters. Shorten them."
                )
            pieces += text[done : found.start()], value
            done = found.end()
    return "".join([*pieces, text[done:]])


UNDEFINED = "<undefined>"
TEXT_MAX = 1 << 20
"""Nested values could grow without end."""


def _dropped(route: Route, session: Session, claim: Claim, end: End) -> None:
    if end is End.UNKNOWN:
        route.late(partial(session.temporary.leaving.discard, claim))
    else:
        session.temporary.leaving.discard(claim)
