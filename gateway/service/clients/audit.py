"""The outcome of each statement, login and session: always counted, kept in memory for a while, and written to the
audit if there is one.

Tests: `test_audit_file`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from itertools import count
from typing import Protocol

from gateway.errors import FreshgateError
from gateway.mv.catalog.restoration import Restored
from gateway.mv.refresh.progress import Progress, Report
from gateway.mv.subscribers import Subscribers
from gateway.service.clients.context import ORIGIN, WorkOrigin
from gateway.service.clients.recent_statements import EndedStatement, RecentStatements
from gateway.service.clients.session import Session
from gateway.service.operations.operation import TIMED_OUT, End, Operation, OperationState
from gateway.tally import LONG_SECONDS, Histogram
from gateway.wire import message, reply
from gateway.wire.message import Handle, ReplyStatus
from sql.names import Namespace, TableName
from sql.understood import Understood

NAMES_MAX = 100
"""Most tables in a list of a line, because a statement may name thousands."""
ERROR_CHARACTERS_MAX = 1_000
TEXT_CHARACTERS_MAX = 2_000
"""How much of a statement's text is kept in memory after its end."""
UNREAD_CHARACTERS_MAX = 20_000
"""Longer texts are not parsed just for the audit."""
METHODS = (*reply.METHODS, "GetQueryId", *reply.STATUS_ONLY)
"""All methods of HiveServer2."""
OTHER = "other"

Line = dict[str, object]
"""A line of the audit, in JSON's types. Texts are as the client sent them: the writer redacts passwords."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A statement of which the gateway did not need to know the names. The writer of its line can find them, because it
    is not in a hurry."""

    known: Understood
    namespace: Namespace | None
    """The namespace in which it ran; None if unknown."""


class TakenFor(StrEnum):
    """How the gateway classified a statement."""

    FORWARDED = "forwarded"
    """It does not concern materialized views."""
    WRITE = "write"
    """It may change tables, which was recorded."""
    READ = "read"
    """It reads materialized views without a refresh."""
    WAITED = "waited"
    """It reads materialized views, and waited for their refresh."""
    CACHED = "cached"
    """A read that got the answer of an earlier one."""
    MEMORY = "memory"
    """A read that was answered from the rows of views in memory."""
    COMMAND = "command"
    """One of the gateway's own statements."""
    REFUSED = "refused"


class Outcome(StrEnum):
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REFUSED = "refused"
    """Refused by the gateway; Spark never received it."""
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"
    """Closed while it ran, or lost."""


@dataclass(slots=True, eq=False)
class StatementCounts:
    """Counts since the start."""

    requests: dict[str, int] = field(default_factory=lambda: dict.fromkeys((*METHODS, OTHER), 0))
    statements: dict[tuple[TakenFor, Outcome], int] = field(default_factory=dict)
    statement_seconds: Histogram = field(default_factory=lambda: Histogram(LONG_SECONDS))
    """From a statement's arrival until its outcome was known."""
    waited_seconds: float = 0.0
    """Of that, for refreshes of views, and for turns."""
    sessions: int = 0
    """Opened sessions."""
    sessions_refused: int = 0
    """Sessions that the gateway or Spark refused after a successful login."""
    logins_accepted: int = 0
    logins_refused: int = 0
    views_restored: int = 0
    """Public views that were restored after statements the gateway did not understand dropped or replaced them."""


@dataclass(frozen=True, slots=True)
class Mentions:
    """The tables and views that a parsed statement mentions."""

    views: frozenset[TableName] = frozenset()
    """Materialized views that it reads, directly or through other views."""
    reads: frozenset[TableName] = frozenset()
    """What else it reads; empty if the text was not understood."""
    writes: frozenset[TableName] = frozenset()


NOTHING = Mentions()


class Statement:
    """A statement until its outcome is known. Only the first reported end counts."""

    __slots__ = (
        "_answered_from",
        "_at",
        "_audit",
        "_began",
        "_cancelled",
        "_characters",
        "_error",
        "_from_memory",
        "_known",
        "_mentions",
        "_namespace",
        "_number",
        "_on_end",
        "_operation",
        "_peer",
        "_refreshed",
        "_rewritten",
        "_session",
        "_spark_operation",
        "_sqlstate",
        "_taken_for",
        "_text",
        "_waited",
        "_why_not",
        "ended",
    )

    def __init__(self, audit: Audit, number: int, session: Session, peer: str, known: Understood) -> None:
        self.ended = False
        self._audit = audit
        self._number = number
        self._session = session
        self._peer = peer
        self._characters = len(known.text)
        short = self._characters <= UNREAD_CHARACTERS_MAX
        self._text = known.text if short else known.text[: max(audit.characters, TEXT_CHARACTERS_MAX)]
        self._known = known if short and audit.keeps_lines else None
        self._namespace = session.namespace
        self._at = time.time()
        self._began = time.monotonic()
        self._taken_for: TakenFor | None = None
        self._mentions = NOTHING
        self._refreshed: dict[TableName, None] = {}
        self._rewritten = ""
        self._answered_from: tuple[str, ...] = ()
        self._why_not = ""
        self._from_memory = False
        self._waited = 0.0
        self._cancelled = False
        self._operation: Handle | None = None
        self._spark_operation: Handle | None = None
        self._sqlstate = self._error = ""
        self._on_end: Callable[[], object] = bool

    # --- execution ---------------------------------------------------------------------------------

    def holds(self, place: Callable[[], object]) -> None:
        """`place` is called when the outcome is known, or at once if it is."""
        if self.ended:
            place()
        self._on_end = place

    def enter(self) -> None:
        """Log lines of this task, and of the tasks that it starts, now contain the statement's origin."""
        ORIGIN.set(self._origin())

    def _origin(self) -> WorkOrigin:
        operation = self._operation.public_id if self._operation is not None else ""
        return replace(origin_of(self._session), statement=self._number, operation=operation)

    def understood(self, mentions: Mentions) -> None:
        self._mentions = mentions
        if mentions is not NOTHING:
            self._known = None  # Not needed any more, and the statement may run for hours.

    def rewritten(self, text: str, view_ids: tuple[str, ...]) -> None:
        """`text`, on the materialized views with these ids, is sent to Spark instead of the client's."""
        self._rewritten, self._answered_from, self._why_not = text[: self._audit.characters], view_ids, ""

    def not_rewritten(self, why: str) -> None:
        """The client's own text is sent; `why` no view answers it, if views on its base tables take part."""
        self._rewritten, self._answered_from, self._why_not = "", (), why

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """It waits for refreshes, or for its turn, in this block."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._waited += time.monotonic() - began

    def taken_for_command(self) -> None:
        self._taken_for = TakenFor.COMMAND

    def taken_from_memory(self, kind: TakenFor = TakenFor.CACHED) -> None:
        """It was answered without Spark: `kind` is CACHED or MEMORY."""
        self._taken_for, self._from_memory = kind, True

    def known_as(self, handle: Handle) -> None:
        """Sets the operation that its client uses."""
        self._operation = handle

    def started(self, handle: Handle) -> None:
        """Sets Spark's operation, which is also the client's unless `known_as` was called."""
        if self._operation is None:
            self._operation = handle
        else:
            self._spark_operation = handle

    def listening(self, report: Report) -> Report:
        """The report, which now also records the refreshed views."""
        return _Listening(self._refreshed, report)

    def cancel(self) -> None:
        """The client has cancelled it."""
        self._cancelled = True

    # --- end ---------------------------------------------------------------------------------------

    def seen(self, state: int | None, status: bytes) -> None:
        """Processes Spark's GetOperationStatus reply about its ended operation; `end` follows."""
        if state == OperationState.CANCELED:
            self._finish(Outcome.CANCELLED)
        elif state == OperationState.TIMEDOUT:
            self._fail(TIMED_OUT, "Spark ended the statement at its time limit.")
        elif state == OperationState.ERROR:
            self._sqlstate = message.operation_sqlstate(status) or ""
            self._error = message.operation_error(status) or ""

    def end(self, end: End) -> None:
        """Records its end at Spark, as far as known."""
        match end:
            case End.SUCCEEDED:
                self._finish(Outcome.SUCCEEDED)
            case End.UNKNOWN:
                self._finish(Outcome.CANCELLED if self._cancelled else Outcome.UNKNOWN)
            case _:
                self._finish(Outcome.FAILED)

    def rejected(self, status: ReplyStatus) -> None:
        """Spark has refused it with an error."""
        self._fail(status.sqlstate or "", status.message or "")

    def refuse(self, error: FreshgateError) -> None:
        """The gateway has refused it."""
        self._taken_for = TakenFor.REFUSED
        self._sqlstate, self._error = error.sqlstate, str(error)
        self._finish(Outcome.REFUSED)

    def broke(self, error: BaseException) -> None:
        """It never reached Spark: the refresh failed, the client left, or the gateway has a bug."""
        if isinstance(error, asyncio.CancelledError):
            self._finish(Outcome.CANCELLED)
        elif isinstance(error, FreshgateError):
            self._fail(error.sqlstate, str(error))
        else:
            self._fail("58005", f"The gateway failed: {error!r}.")

    def settled(self, operation: Operation) -> None:
        """The gateway's own operation for it has ended, or continues at Spark, which then reports the end."""
        if operation.continued is not None:
            return
        if operation.error is not None:
            self._fail(operation.error.sqlstate, str(operation.error))
        else:
            done = operation.state is OperationState.FINISHED
            self._finish(Outcome.SUCCEEDED if done else Outcome.CANCELLED)

    def _fail(self, sqlstate: str, error: str) -> None:
        self._sqlstate, self._error = sqlstate, error
        self._finish(Outcome.FAILED)

    def _finish(self, outcome: Outcome) -> None:
        if not self.ended:
            self.ended = True
            self._on_end()
            self._audit.finished(self, outcome, time.monotonic() - self._began)

    @property
    def taken_for(self) -> TakenFor:
        if self._taken_for is not None:
            return self._taken_for
        if self._refreshed:
            return TakenFor.WAITED
        if self._mentions.views:
            return TakenFor.READ
        return TakenFor.WRITE if self._mentions.writes else TakenFor.FORWARDED

    def line(self, outcome: Outcome, seconds: float, characters: int) -> Line:
        """The line of the audit, with at most `characters` characters of the text."""
        mentions, origin, spark = self._mentions, self._origin(), self._spark_operation
        line: Line = {
            "time": _time(self._at),
            "event": "statement",
            **_whose(origin, self._peer),
            "statement": origin.statement,
            "operation": origin.operation,
            "spark_operation": spark.public_id if spark is not None else "",
            "taken_for": self.taken_for,
            "views": _names(mentions.views),
            "reads": _names(mentions.reads - mentions.views),
            "writes": _names(mentions.writes),
            "refreshed": _names(self._refreshed),
            "outcome": outcome,
            "milliseconds": round(seconds * 1000),
            "sqlstate": self._sqlstate,
            "error": _first_line(self._error),
            "characters": self._characters,
            "text": self._text[:characters],
            "rewritten": self._rewritten,
        }
        return _filled(line)

    def kept(self, outcome: Outcome, seconds: float) -> EndedStatement:
        """What is kept of it in memory."""
        origin = origin_of(self._session)
        return EndedStatement(
            self._number,
            origin.user,
            origin.account,
            self._peer,
            origin.session,
            round(self._at * 1000),
            round(seconds * 1000),
            round(self._waited * 1000),
            self.taken_for,
            outcome,
            self._sqlstate,
            _first_line(self._error),
            self._mentions.views,
            tuple(self._refreshed),
            self._answered_from,
            self._why_not,
            self._from_memory,
            self._characters,
            self._text[:TEXT_CHARACTERS_MAX],
        )

    def unread(self) -> Unread | None:
        """What the writer must parse to complete the line; None if the line is complete."""
        if self._mentions is not NOTHING or self._known is None:
            return None
        return Unread(self._known, self._namespace)


class Write(Protocol):
    """Writes a line, with the names in a statement that is still unread. Must not block."""

    def __call__(self, line: Line, unread: Unread | None = None, /) -> None: ...


class Audit:
    """Records all statements, logins and sessions. `write` receives the lines, if they are kept."""

    def __init__(self, write: Write | None = None, characters: int = 0, lost: Callable[[], int] = lambda: 0) -> None:
        """`lost`: how many lines could not be kept."""
        self.lost = lost
        self.counts = StatementCounts()
        self._write = write
        self.characters = characters
        """The number of characters of a statement's text that are kept."""
        self.recent = RecentStatements()
        self.ended: Subscribers[[EndedStatement]] = Subscribers()
        """Statements that have ended."""
        self.differed: Subscribers[[Sequence[TableName], str]] = Subscribers()
        """Answers from views that differ from those of clients' texts, and how."""
        self.differed_in_memory: Subscribers[[Sequence[TableName], str]] = Subscribers()
        """Answers from the rows of views in memory that are not Spark's, and how they differ."""
        self._numbers = count(1)

    @property
    def keeps_lines(self) -> bool:
        return self._write is not None

    def begin(self, session: Session, peer: str, known: Understood) -> Statement:
        return Statement(self, next(self._numbers), session, peer, known)

    def finished(self, statement: Statement, outcome: Outcome, seconds: float) -> None:
        counts, kind = self.counts, (statement.taken_for, outcome)
        counts.statements[kind] = counts.statements.get(kind, 0) + 1
        counts.statement_seconds.add(seconds)
        kept = statement.kept(outcome, seconds)
        counts.waited_seconds += kept.waited_ms / 1000
        self.recent.add(kept)
        self.ended.tell(kept)
        if self._write is not None:
            self._write(statement.line(outcome, seconds, self.characters), statement.unread())

    def login(self, user: str, peer: str, error: FreshgateError | None) -> None:
        """Records a login, which was accepted or refused with an error."""
        if error is None:
            self.counts.logins_accepted += 1
        else:
            self.counts.logins_refused += 1
        if self._write is None:
            return
        line: Line = {"time": _time(time.time()), "event": "login", **_whose(WorkOrigin(user), peer)}
        if error is None:
            line |= {"outcome": "accepted"}
        else:
            line |= _refused(error)
        self._write(_filled(line))

    def restored(self, restored: Restored) -> None:
        """Records that a public view was restored after statements that may have dropped or replaced it."""
        self.counts.views_restored += 1
        if self._write is None:
            return
        at = _time(time.time())
        for effect in restored.by:
            line: Line = {
                "time": at,
                "event": "view_restored",
                **_whose(WorkOrigin(effect.user, effect.session), ""),
                "statement": effect.statement or "",
                "views": [str(restored.view)],
                "error": f"{restored.view} {restored.problem}",
                "text": effect.text[: self.characters],
            }
            self._write(_filled(line))

    def rewrite_differed(
        self, session: Session, views: Sequence[TableName], what: str, text: str, rewritten: str
    ) -> None:
        """Records that a text on views has given other rows than the client's text in whose place it ran."""
        self.differed.tell(views, what)
        if self._write is None:
            return
        line: Line = {
            "time": _time(time.time()),
            "event": "rewrite_difference",
            **_whose(origin_of(session), session.peer),
            "views": list(map(str, views)),
            "error": what,
            "text": text[: self.characters],
            "rewritten": rewritten[: self.characters],
        }
        self._write(_filled(line))

    def memory_differed(self, session: Session, views: Sequence[TableName], what: str, text: str) -> None:
        """Records that an answer from the rows of views in memory was not Spark's."""
        self.differed_in_memory.tell(views, what)
        if self._write is None:
            return
        line: Line = {
            "time": _time(time.time()),
            "event": "memory_difference",
            **_whose(origin_of(session), session.peer),
            "views": list(map(str, views)),
            "error": what,
            "text": text[: self.characters],
        }
        self._write(_filled(line))

    def acted(self, user: str, action: str, view: TableName, seconds: float, error: FreshgateError | None) -> None:
        """Records what a user did on the page."""
        if self._write is None:
            return
        line: Line = {"time": _time(time.time()), "event": "page", **_whose(WorkOrigin(user), "")}
        line |= {"action": action, "views": [str(view)], "milliseconds": round(seconds * 1000)}
        line |= {"outcome": "accepted"} if error is None else _refused(error)
        self._write(_filled(line))

    def opened(self) -> None:
        """Records that a session was opened."""
        self.counts.sessions += 1

    def session_refused(self, user: str, peer: str, error: FreshgateError) -> None:
        """Records that a logged-in user was refused a session."""
        self.counts.sessions_refused += 1
        if self._write is not None:
            line: Line = {"time": _time(time.time()), "event": "session", **_whose(WorkOrigin(user), peer)}
            self._write(_filled(line | _refused(error)))

    def closed(self, session: Session) -> None:
        """Records that a session is over."""
        if self._write is None:
            return
        outcome = "closed" if session.closed else "stopped" if session.stopped else "lost"
        seconds = time.monotonic() - session.began
        line: Line = {
            "time": _time(time.time()),
            "event": "session_end",
            **_whose(origin_of(session), session.peer),
            "outcome": outcome,
        }
        self._write(_filled(line | {"milliseconds": round(seconds * 1000)}))


@dataclass(frozen=True, slots=True, eq=False)
class _Listening:
    """A Report that records the views whose refreshes it receives."""

    refreshed: dict[TableName, None]
    report: Report

    def __call__(self, line: str, /) -> None:
        self.report(line)

    def watch(self, progress: Progress) -> None:
        self.refreshed[progress.view] = None
        self.report.watch(progress)


def _refused(error: FreshgateError) -> Line:
    return {"outcome": Outcome.REFUSED, "sqlstate": error.sqlstate, "error": _first_line(str(error))}


def _whose(origin: WorkOrigin, peer: str) -> Line:
    return {"user": origin.user, "account": origin.account, "client": peer, "session": origin.session}


def origin_of(session: Session) -> WorkOrigin:
    account = session.account if session.account != session.user else ""
    return WorkOrigin(session.user, session.handle.public_id, account=account)


def _names(tables: Iterable[TableName]) -> list[str]:
    return listed(map(str, tables))


def listed(tables: Iterable[str]) -> list[str]:
    """A list in a line: sorted, and shortened to NAMES_MAX."""
    names = sorted(tables)
    return names if len(names) <= NAMES_MAX else [*names[:NAMES_MAX], f"and {len(names) - NAMES_MAX} more"]


def _filled(line: Line) -> Line:
    return {key: value for key, value in line.items() if value not in ("", [])}


def _first_line(error: str) -> str:
    """The first line of an error, with the second if the first only introduces it, as in some of Spark's errors."""
    first, _, rest = error.strip().partition("\n")
    if first.rstrip().endswith(":"):
        first = f"{first.rstrip()} {rest.strip().partition(chr(10))[0]}"
    return first.strip()[:ERROR_CHARACTERS_MAX]


def _time(seconds: float) -> str:
    """The time in UTC with milliseconds, in the format of RFC 3339."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
