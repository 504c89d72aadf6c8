"""What a refresh is asked for: by which method, and what else a running one does with it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from views import view_of

from gateway.errors import RefreshFailed
from gateway.mv.model import properties
from gateway.mv.model.view import Cause, MaterializedView, Task, TaskStatus, TriggerMode, Version
from gateway.service.answers.upkeep import check_method, manual
from sql.grammar.parser import parse
from sql.lexed import Lexed
from sql.statement import CreateClauses, Method, Refreshing, RefreshMaterializedView

READ = Cause(TriggerMode.READ, "bob")


def asked(words: str) -> Cause:
    statement = parse(Lexed(f"REFRESH MATERIALIZED VIEW v {words}"))
    assert isinstance(statement, RefreshMaterializedView)
    return manual(statement, "ann")


def with_method(method: Method | None) -> MaterializedView:
    return replace(view_of(Version.whole(1, 0, 0, {})), clauses=CreateClauses(refreshing=Refreshing(method)))


@pytest.mark.parametrize(
    ("words", "complete", "method"),
    [
        ("", True, None),
        ("COMPLETE", True, Method.COMPLETE),
        ("FORCE", True, Method.COMPLETE),
        ("AUTO", False, Method.AUTO),
        ("INCREMENTAL", False, Method.INCREMENTAL),
        ("FAST", False, Method.INCREMENTAL),
        ("INCREMENTAL FALLBACK", False, Method.INCREMENTAL_FALLBACK),
        ("PARTITION p", True, None),
    ],
)
def test_a_statement_asks_for_a_method(words: str, complete: bool, method: Method | None) -> None:
    cause = asked(words)
    assert (cause.complete, cause.method) == (complete, method)


@pytest.mark.parametrize(
    ("own", "cause", "expected"),
    [
        (None, READ, Method.AUTO),
        (Method.INCREMENTAL, READ, Method.INCREMENTAL),
        (Method.INCREMENTAL, asked("AUTO"), Method.AUTO),
        (Method.INCREMENTAL, asked(""), Method.COMPLETE),
        (Method.INCREMENTAL, asked("PARTITION p"), Method.COMPLETE),
        (Method.AUTO, asked("INCREMENTAL"), Method.INCREMENTAL),
        (Method.INCREMENTAL_FALLBACK, READ, Method.INCREMENTAL_FALLBACK),
        # A view that was created with COMPLETE is never refreshed by rows.
        (Method.COMPLETE, READ, Method.COMPLETE),
        (Method.COMPLETE, asked("AUTO"), Method.COMPLETE),
        (Method.COMPLETE, asked("INCREMENTAL FALLBACK"), Method.COMPLETE),
    ],
)
def test_the_method_is_the_statements_or_the_views(own: Method | None, cause: Cause, expected: Method) -> None:
    assert with_method(own).method_for(cause) is expected


def test_a_view_with_complete_refuses_a_strict_statement() -> None:
    statement = RefreshMaterializedView(("v",), Method.INCREMENTAL)
    check_method(statement, with_method(Method.AUTO))
    check_method(replace(statement, method=Method.INCREMENTAL_FALLBACK), with_method(Method.COMPLETE))
    with pytest.raises(RefreshFailed, match=r"d\.v has REFRESH COMPLETE"):
        check_method(statement, with_method(Method.COMPLETE))


@pytest.mark.parametrize(
    ("running", "other", "covered"),
    [
        (READ, READ, True),
        (asked(""), READ, True),
        (asked("AUTO"), READ, True),
        (READ, asked(""), False),
        (asked("PARTITION p"), READ, False),
        (asked(""), asked("PARTITION p"), True),
        # A strict one may fail where the reader's own refresh would not; a strict statement asks for no other method.
        (asked("INCREMENTAL"), READ, False),
        (asked("INCREMENTAL"), asked("INCREMENTAL"), True),
        (asked("INCREMENTAL"), asked("INCREMENTAL FALLBACK"), False),
        (asked(""), asked("INCREMENTAL"), False),
        (asked("AUTO"), asked("INCREMENTAL"), False),
        (asked("INCREMENTAL FALLBACK"), asked("INCREMENTAL"), False),
        # This one does not fail, but says what it prefers.
        (asked("INCREMENTAL FALLBACK"), READ, True),
        (asked("INCREMENTAL FALLBACK"), asked("AUTO"), True),
        (asked("AUTO"), asked("INCREMENTAL FALLBACK"), False),
    ],
)
def test_one_refresh_does_for_another(running: Cause, other: Cause, covered: bool) -> None:
    assert running.covers(other) is covered


def test_a_task_of_an_earlier_release_is_read() -> None:
    """It knew neither methods of statements nor routes, and reads what has none."""
    task = Task(1, asked("COMPLETE"), "why", 5, TaskStatus.SUCCESS)
    stored = properties.write_tasks([(1, replace(task, cause=replace(task.cause, method=None)))])
    text = bytes.fromhex(stored["freshgate.task.1"].removeprefix("x")).decode()
    assert "method" not in text
    assert "route" not in text
    assert [(read.cause.method, read.route) for _, read in properties.read_tasks(stored)] == [(None, "")]
    routed = replace(task, route="COMPLETE, because ROWS_REMOVED: 3 files of d.t are gone")
    assert properties.read_tasks(properties.write_tasks([(1, routed)])) == [(1, routed)]
