"""What happens at the gateway, as tables for queries: freshgate.statements, freshgate.reads and freshgate.limits.

Tests: `test_recent_statements`, `test_limited_statements`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gateway.access_list import Principal
from gateway.limit_rules import QUEUE, SESSIONS, STATEMENTS, UNLIMITED
from gateway.loops import Turn
from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.entry import Entry
from gateway.mv.model.read_counts import DAY_MS, DAYS_MAX, How
from gateway.mv.statements.rights import Rights
from gateway.service.answers.catalog_tables import Table, moment_text, strings
from gateway.service.clients.quotas import Quotas, Use
from gateway.service.clients.recent_statements import EndedStatement, RecentStatements
from gateway.service.clients.session import Session
from sql.names import TableName
from sql.redaction import redact
from sql.texts.literals import Value

WEEK = 7
READS_ROWS_MAX = 10_000
"""Most rows of freshgate.reads in a query: they become part of its text."""
REACHED_MAX = 20
"""Most numbers in freshgate.gateway."""
STATEMENT_CHARACTERS_MAX = 1_000_000
"""Most characters of freshgate.statements in a query, for the same reason. Those that ended last come first."""


@dataclass(frozen=True, slots=True)
class ActivityTables:
    catalog: Catalog
    recent: RecentStatements
    rights: Rights
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000

    async def statements(self, who: Principal) -> Table:
        """freshgate.statements: the user's own statements that ended last; of all users for an administrator."""
        turn, everything = Turn(), self.rights.is_administrator(who)
        rows, characters = list[tuple[Value, ...]](), 0
        for each in list(self.recent):
            if everything or each.user == who.name:
                characters += len(each.text) + len(each.error)
                if characters > STATEMENT_CHARACTERS_MAX:
                    break
                rows.append(self._statement(each))
            await turn.pause()
        return Table(STATEMENT_COLUMNS, rows)

    def _statement(self, each: EndedStatement) -> tuple[Value, ...]:
        from_views = [entry.view.name for each_id in each.answered_from if (entry := self.catalog.find(each_id))]
        return (
            each.number,
            moment_text(each.began),
            each.user,
            each.account or None,
            each.peer or None,
            each.session,
            each.taken_for,
            each.outcome,
            each.took_ms,
            each.waited_ms,
            each.took_ms - each.waited_ms if at_spark(each) else 0,
            each.from_memory,
            _names(from_views),
            each.why_not or None,
            _names(each.views),
            _names(each.refreshed),
            each.sqlstate or None,
            redact(each.error) or None,
            redact(each.text, cut=each.is_cut),
        )

    async def reads(self, who: Principal) -> Table:
        """freshgate.reads: a row for each view. Who reads a view is told to administrators."""
        turn, everything = Turn(), self.rights.is_administrator(who)
        rows = list[tuple[Value, ...]]()
        for view in self.catalog.views()[:READS_ROWS_MAX]:
            if (entry := self.catalog.find(view.id)) is not None:
                rows.append(self._reads(entry, everything=everything))
            await turn.pause()
        return Table(READS, rows)

    def limits(self, session: Session) -> Table:
        """freshgate.limits: how much is used of the numbers of limits.rules."""
        return Table(LIMITS, [_limit(each) for each in self._uses(session.quotas, session.who, session.peer)])

    def limits_reached(self, session: Session) -> str:
        """Who is at a limit, for freshgate.gateway."""
        return self.reached(session.quotas, session.who, session.peer)

    def reached(self, quotas: Quotas | None, who: Principal, peer: str) -> str:
        """Who is at a limit, as far as this user at this address may know."""
        full = [each for each in self._uses(quotas, who, peer) if each.is_full]
        shown = [f"{each.bound.shown}: {each.used} {each.what} ({each.bound.rule.text})" for each in full[:REACHED_MAX]]
        return "; ".join([*shown, *([f"and {len(full) - REACHED_MAX} more"] if len(full) > REACHED_MAX else [])])

    def _uses(self, quotas: Quotas | None, who: Principal, peer: str) -> list[Use]:
        """The numbers of all users for an administrator, otherwise the user's own ones."""
        if quotas is None:
            return []
        own = {bound for what in (SESSIONS, STATEMENTS) for bound in quotas.rules.bounds(what, who, peer)}
        everything = self.rights.is_administrator(who)
        return [each for each in quotas.uses() if everything or each.bound in own]

    def _reads(self, entry: Entry, *, everything: bool) -> tuple[Value, ...]:
        name, reads, today = entry.view.name, entry.reads, self.now_ms() // DAY_MS
        return (
            name.database,
            name.table,
            entry.view.owner,
            reads.counts[How.NAMED],
            reads.counts[How.REWRITTEN],
            reads.counts[How.MEMORY],
            reads.waited_ms,
            reads.since(today - WEEK + 1),
            reads.since(today - DAYS_MAX + 1),
            moment_text(reads.last_at) if reads.last_at else None,
            len(reads.users),
            ", ".join(reversed(reads.users)) or None if everything else None,
        )


def _limit(use: Use) -> tuple[Value, ...]:
    queue = use.bound.rule.limit(QUEUE) if use.what == STATEMENTS else None
    return (
        use.bound.rule.text,
        use.bound.shown,
        use.what,
        use.used,
        use.bound.most,
        use.waiting,
        None if queue in (None, UNLIMITED) else queue,
        use.refused,
        use.is_full,
    )


def at_spark(each: EndedStatement) -> bool:
    """Whether Spark has run it."""
    return not each.from_memory and each.taken_for not in ("command", "refused")


def _names(names: Iterable[TableName]) -> str | None:
    return ", ".join(sorted(map(str, names))) or None


STATEMENT_COLUMNS = (
    ("statement", "BIGINT"),
    ("start_time", "TIMESTAMP"),
    *strings("user_name", "account", "client", "session", "taken_for", "outcome"),
    ("total_ms", "BIGINT"),
    ("waited_ms", "BIGINT"),
    ("spark_ms", "BIGINT"),
    ("from_memory", "BOOLEAN"),
    *strings("answered_from", "not_answered_because", "views", "refreshed", "sqlstate", "error", "text"),
)
READS = (
    *strings("database_name", "name", "owner"),
    ("named_reads", "BIGINT"),
    ("rewritten_reads", "BIGINT"),
    ("memory_reads", "BIGINT"),
    ("waited_ms", "BIGINT"),
    ("reads_7_days", "BIGINT"),
    ("reads_35_days", "BIGINT"),
    ("last_read_time", "TIMESTAMP"),
    ("users", "BIGINT"),
    ("user_names", "STRING"),
)
LIMITS = (
    *strings("rule", "who", "what"),
    ("used", "BIGINT"),
    ("most", "BIGINT"),
    ("waiting", "BIGINT"),
    ("queue", "BIGINT"),
    ("refused", "BIGINT"),
    ("is_full", "BOOLEAN"),
)
