"""Parses the statements that the gateway executes itself.

The first words decide the statement. No statement that Spark accepts begins with these words (checked on Spark 3.5 and
4.1). So a text with these first words is the gateway's own, and any deviation is an error that says what was expected
and where. `parse_about` reads Spark's own statements that may name a materialized view.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sql import wildcards
from sql.grammar import alter, create, grants, misspelt, property_list, refresh, transactions
from sql.grammar.cursor import SYNTAX, Grammar, SyntaxProblem
from sql.lexed import Lexed
from sql.names import SESSION_CATALOG, Parts
from sql.scan import identifier
from sql.statement import (
    AlterMaterializedView,
    Analyze,
    CancelTask,
    Command,
    Describe,
    DropMaterializedView,
    Explain,
    ExplainRewrite,
    Method,
    NamedCommand,
    PauseJob,
    RefreshMaterializedView,
    RefreshMaterializedViews,
    RefreshPath,
    ShowCreate,
    ShowGateways,
    ShowMaterializedViews,
    ShowPartitions,
    ShowProperties,
    ShowVersions,
)

__all__ = ["SyntaxProblem", "parse", "parse_about"]

BIGINT_MAX = 2**63 - 1

# --- DROP, REFRESH, CALL -------------------------------------------------------------------------------


def _drop(grammar: Grammar) -> Command:
    """Parses what follows DROP MATERIALIZED VIEW. The base table after Doris' ON is ignored."""
    if_exists = grammar.accept("IF", "EXISTS")
    name = grammar.expect_name("the view's name")
    if grammar.accept("ON"):
        grammar.expect_name("a table's name after ON")
    restrict = grammar.accept("RESTRICT")
    if grammar.sees("CASCADE"):
        raise grammar.refusal("CASCADE is not supported: first drop the views that read this one", sqlstate=SYNTAX)
    grammar.expect_end()
    return DropMaterializedView(name, if_exists, restrict)


@dataclass(slots=True)
class _Options:
    """The options of REFRESH, which follow the name; None: not given."""

    method: Method | None = None
    forced: bool = False
    partitions: tuple[str, ...] | None = None
    data: bool | None = None
    wait: bool | None = None


def _refresh(grammar: Grammar) -> RefreshMaterializedView:
    concurrently = grammar.sees("CONCURRENTLY") and grammar.sees_identifier(1) and grammar.accept("CONCURRENTLY")
    name = grammar.expect_name("the view's name")
    options = _Options()
    if grammar.accept("AS") and not _sees_option(grammar):  # Some SQL formatters write AS before the options.
        raise grammar.problem("a method, PARTITIONS, SYNC or ASYNC after AS")
    while True:
        place = grammar.position
        found = _refresh_option(grammar)
        if found is None:
            break
        subject, value = found
        if getattr(options, subject) is not None:
            raise grammar.refusal("expected method, partitions, DATA and SYNC or ASYNC only once each", place, SYNTAX)
        setattr(options, subject, value)
        options.forced |= grammar.text[place : place + 5].upper() == "FORCE"
    if options.data is False and (concurrently or grammar.sees("CONCURRENTLY")):
        text = "CONCURRENTLY and WITH NO DATA options cannot be used together"  # PostgreSQL's message
        raise grammar.refusal(text, sqlstate=SYNTAX)
    if grammar.sees("CONCURRENTLY"):
        raise grammar.problem("CONCURRENTLY before the view's name")
    grammar.expect_end()
    if options.partitions and options.method and not options.forced:
        raise grammar.problem("either a method or partitions")
    if options.data is False and (options.method or options.partitions or options.wait is not None):
        raise grammar.problem("no other option with WITH NO DATA, which empties the view")
    return RefreshMaterializedView(
        name, options.method, options.partitions or (), options.data is not False, options.wait is not False
    )


def _refresh_set(grammar: Grammar) -> RefreshMaterializedViews:
    """Parses what follows REFRESH MATERIALIZED VIEWS: IN and a database, or names."""
    database, names = _database(grammar, ("AUTO",)), list[Parts]()
    if database is None:
        bracket = grammar.accept("(")
        names.append(grammar.expect_name("IN and a database, or the views' names"))
        while grammar.accept(","):
            names.append(grammar.expect_name("the next view's name"))
        if bracket:
            grammar.expect(")")
    forced = grammar.accept("FORCE")
    method = Method.COMPLETE if forced else refresh.method(grammar)
    grammar.expect_end()
    return RefreshMaterializedViews(database, tuple(dict.fromkeys(names)), method)


def _sees_option(grammar: Grammar) -> bool:
    """Whether an option comes next, except one that begins with WITH."""
    words = "SYNC", "ASYNC", "PARTITION", "PARTITIONS", "FORCE", *refresh.METHODS
    return any(grammar.sees(word) for word in words)


def _refresh_option(grammar: Grammar) -> tuple[str, object] | None:
    """The field of _Options that the next words set, and its value; None if no option comes next."""
    if grammar.accept("WITH", "DATA"):
        return "data", True
    if grammar.accept("WITH", "NO", "DATA"):
        return "data", False
    if grammar.sees("WITH", "DRY", "RUN"):  # Doris'
        raise grammar.refusal("WITH DRY RUN is not supported: use EXPLAIN REFRESH", sqlstate=SYNTAX)
    if grammar.accept("WITH"):
        mode = grammar.expect_any("SYNC", "ASYNC", "DATA", "NO", after="WITH")
        grammar.expect("MODE")
        return "wait", mode == "SYNC"
    if (word := grammar.accept_any("SYNC", "ASYNC")) is not None:
        return "wait", word == "SYNC"
    if grammar.accept("PARTITION") or (grammar.sees("PARTITIONS", "(") and grammar.accept("PARTITIONS")):
        return "partitions", _partitions(grammar)
    if grammar.accept("FORCE"):  # A complete refresh, as in Oracle and StarRocks. In CREATE, FORCE means AUTO.
        return "method", Method.COMPLETE
    found = refresh.method(grammar)
    return None if found is None else ("method", found)


def _partitions(grammar: Grammar) -> tuple[str, ...]:
    """One name, or several in parentheses."""
    if not grammar.accept("("):
        return (_partition(grammar),)
    names = [_partition(grammar)]
    while grammar.accept(","):
        names.append(_partition(grammar))
    if not grammar.accept(")"):
        raise grammar.problem("a comma or ) after the partition")
    return tuple(dict.fromkeys(names))


def _partition(grammar: Grammar) -> str:
    """A name as a word, in backquotes or as a string; or column = value, as Spark names partitions."""
    name = grammar.string() or grammar.expect_identifier("a partition's name, as shown by SHOW PARTITIONS")
    if not grammar.accept("="):
        return name
    value = grammar.string()
    return f"{name}={grammar.expect_identifier('the value of the partition') if value is None else value}"


def _call(grammar: Grammar) -> Command:
    """Parses the arguments of BigQuery's procedure. Only the last two parts of the name count: Spark has no
    projects."""
    grammar.expect("(")
    place = grammar.position
    argument = Grammar(Lexed(grammar.expect_string("the view's name as a string")))
    parts = argument.name()
    if parts is None or argument.peek() is not None:
        message = "expected 'project.dataset.view' or 'dataset.view' in the string"
        raise grammar.refusal(message, place, SYNTAX)
    grammar.expect(")")
    grammar.expect_end()
    # BigQuery allows the whole path in one pair of backquotes.
    path = tuple(step for part in parts for step in part.split("."))
    return RefreshMaterializedView(path[-2:])


# --- SHOW, DESCRIBE, EXPLAIN and the others ----------------------------------------------------------


def _show(grammar: Grammar) -> Command:
    return ShowMaterializedViews(_database(grammar, ("LIKE",)), _pattern(grammar))


def _database(grammar: Grammar, before: tuple[str, ...]) -> str | None:
    """What follows IN or FROM; None if neither comes next. `before`: words that may follow it."""
    if not grammar.accept_any("IN", "FROM"):
        return None
    name = grammar.expect_name("a database", before=before)
    if len(name) > 1 and (len(name) > 2 or name[0].lower() != SESSION_CATALOG):
        raise grammar.problem(f"a database of the catalog {SESSION_CATALOG}")
    return name[-1]


def _show_gateways(grammar: Grammar) -> Command:
    return ShowGateways(_pattern(grammar))


def _pattern(grammar: Grammar) -> str | None:
    """LIKE and a pattern at the end of SHOW, if there is one."""
    liked = grammar.accept("LIKE")
    pattern = grammar.string()
    if liked and pattern is None:
        raise grammar.problem("a pattern as a string after LIKE")
    if pattern is not None and (problem := wildcards.problem(pattern)) is not None:
        raise grammar.refusal(f"expected {problem}")
    grammar.expect_end()
    return pattern


def _show_versions(grammar: Grammar) -> Command:
    grammar.accept_any("FROM", "IN", "OF")
    name = grammar.expect_name("the view's name")
    grammar.expect_end()
    return ShowVersions(name)


def _show_no_versions(grammar: Grammar) -> Command:
    """Refuses SHOW MATERIALIZED VIEW followed by anything but VERSIONS, such as TASKS."""
    raise grammar.problem(
        f"VERSIONS and a view's name (SHOW MATERIALIZED VIEWS lists views, {_LISTED['JOBS']}, {_LISTED['TASKS']})"
    )


def _show_rows(grammar: Grammar, what: str) -> Command:
    """Refuses SHOW JOBS and SHOW TASKS, which other databases have."""
    raise grammar.refusal(f"SHOW {what} is not supported: {_LISTED[what]} of materialized views", sqlstate=SYNTAX)


_LISTED = {
    "JOBS": 'SELECT * FROM jobs("type"="mv") lists jobs',
    "TASKS": 'SELECT * FROM tasks("type"="mv") lists tasks',
}


def _show_create(grammar: Grammar) -> Command:
    name = grammar.expect_name("the view's name")
    grammar.expect_end()
    return ShowCreate(name)


def _describe(grammar: Grammar) -> Command | None:
    """Parses what follows DESCRIBE or DESC. `DESCRIBE materialized view` without a name is Spark's statement: it
    describes the column `view` of a table `materialized`."""
    extended = grammar.accept_any("EXTENDED", "FORMATTED") is not None
    if not grammar.accept("MATERIALIZED", "VIEW") or not grammar.sees_identifier():
        return None
    if grammar.sees("AS", "JSON"):  # Also Spark's statement: that column, as JSON.
        return None
    if (grammar.sees("EXTENDED") or grammar.sees("FORMATTED")) and grammar.sees_identifier(1):
        grammar.take()
        extended = True
    name = grammar.expect_name("the view's name")
    grammar.expect_end()
    return Describe(name, extended)


def _explain(grammar: Grammar) -> Command | None:
    if grammar.accept("REWRITE"):
        if not (query := _rest(grammar)):
            raise grammar.problem("a query after EXPLAIN REWRITE")
        return ExplainRewrite(query)
    grammar.accept_any("EXTENDED", "FORMATTED", "COST", "CODEGEN", "LOGICAL")
    if grammar.accept("CREATE", "MATERIALIZED", "VIEW"):
        return Explain(create.create(grammar, or_replace=False))
    if grammar.accept("CREATE", "OR", "REPLACE", "MATERIALIZED", "VIEW"):
        return Explain(create.create(grammar, or_replace=True))
    if grammar.accept("REFRESH", "MATERIALIZED", "VIEW"):
        return Explain(_refresh(grammar))
    if grammar.accept("ALTER", "MATERIALIZED", "VIEW"):
        changed = alter.alter(grammar)
        if isinstance(changed, RefreshMaterializedView):
            return Explain(changed)
        raise grammar.refusal("EXPLAIN ALTER MATERIALIZED VIEW is supported only with REBUILD", sqlstate=SYNTAX)
    return None


def _comment(grammar: Grammar) -> Command:
    return alter.comment_is(grammar, grammar.expect_name("the view's name"))


def _analyze(grammar: Grammar) -> Command:
    name = grammar.expect_name("the view's name")
    return Analyze(name, _rest(grammar))


def _rest(grammar: Grammar) -> str:
    """The rest of the text without final semicolons."""
    start = end = grammar.position
    while (piece := grammar.take()) is not None:
        if piece.text != ";":
            end = piece.end
    return grammar.text[start:end]


def _pause(grammar: Grammar, *, paused: bool) -> Command:
    if not grammar.accept("JOB"):
        raise grammar.problem("JOB ON")
    return PauseJob(_after_on(grammar), paused)


def _cancel(grammar: Grammar) -> Command:
    grammar.expect("TASK")
    task = grammar.expect_number("the task's id after TASK", BIGINT_MAX)
    return CancelTask(_after_on(grammar), task)


def _after_on(grammar: Grammar) -> Parts:
    """The view's name after ON, which Doris requires. It is optional here, and a view may be called ON."""
    if grammar.sees_identifier(1):
        grammar.accept("ON")
    name = grammar.expect_name("ON and the view's name")
    grammar.expect_end()
    return name


_STATEMENTS: tuple[tuple[tuple[str, ...], Callable[[Grammar], Command | None]], ...] = (
    (("CREATE", "MATERIALIZED", "VIEW"), lambda grammar: create.create(grammar, or_replace=False)),
    (
        ("CREATE", "OR", "REPLACE", "MATERIALIZED", "VIEW"),
        lambda grammar: create.create(grammar, or_replace=True),
    ),
    (("DROP", "MATERIALIZED", "VIEW"), _drop),
    (("REFRESH", "MATERIALIZED", "VIEW"), _refresh),
    (("REFRESH", "MATERIALIZED", "VIEWS"), _refresh_set),
    (("ALTER", "MATERIALIZED", "VIEW"), alter.alter),
    (("ALTER", "MATERIALIZED", "VIEWS"), alter.swap),
    (("COMMENT", "ON", "MATERIALIZED", "VIEW"), _comment),
    (("SHOW", "MATERIALIZED", "VIEWS"), _show),
    (("SHOW", "MATERIALIZED", "VIEW", "VERSIONS"), _show_versions),
    (("SHOW", "MATERIALIZED", "VIEW"), _show_no_versions),
    (("SHOW", "GATEWAYS"), _show_gateways),
    (("SHOW", "JOBS"), lambda grammar: _show_rows(grammar, "JOBS")),
    (("SHOW", "TASKS"), lambda grammar: _show_rows(grammar, "TASKS")),
    (("SHOW", "CREATE", "MATERIALIZED", "VIEW"), _show_create),
    (("DESCRIBE",), _describe),
    (("DESC",), _describe),
    (("EXPLAIN",), _explain),
    (("ANALYZE", "MATERIALIZED", "VIEW"), _analyze),
    (("PAUSE", "MATERIALIZED", "VIEW"), lambda grammar: _pause(grammar, paused=True)),
    (("RESUME", "MATERIALIZED", "VIEW"), lambda grammar: _pause(grammar, paused=False)),
    (("CANCEL", "MATERIALIZED", "VIEW"), _cancel),
    (("GRANT",), lambda grammar: grants.change(grammar, granted=True)),
    (("REVOKE",), lambda grammar: grants.change(grammar, granted=False)),
    (("SHOW", "GRANTS"), lambda grammar: grants.show(grammar, hive=False)),
    (("SHOW", "GRANT"), lambda grammar: grants.show(grammar, hive=True)),
    (("BEGIN",), transactions.begin),
    (("START", "TRANSACTION"), transactions.start),
    (("COMMIT",), lambda grammar: transactions.end(grammar, commit=True)),
    (("ROLLBACK",), lambda grammar: transactions.end(grammar, commit=False)),
)


def parse(lexed: Lexed) -> Command | None:
    """Parses `text` as one of the gateway's own statements; None if its first words are not those of one.

    Raises SyntaxProblem if the first words match and the rest is malformed.
    """
    grammar = Grammar(lexed)
    for words, statement in _STATEMENTS:
        if grammar.accept(*words):
            return statement(grammar)
    if grammar.accept("CALL"):
        procedure = grammar.name()
        if procedure is not None and tuple(part.lower() for part in procedure) == _PROCEDURE:
            return _call(grammar)
    misspelt.refuse(Grammar(lexed))
    return None


_PROCEDURE = ("bq", "refresh_materialized_view")


# --- Spark's own statements --------------------------------------------------------------------------------


def _about_drop(grammar: Grammar) -> NamedCommand:
    if_exists = grammar.accept("IF", "EXISTS")
    return DropMaterializedView(_only_name(grammar), if_exists)


def _about_create(grammar: Grammar, kind: str) -> NamedCommand:
    return ShowCreate(_only_name(grammar), kind)


def _about_description(grammar: Grammar) -> NamedCommand | None:
    grammar.accept("TABLE")
    if not grammar.accept_any("EXTENDED", "FORMATTED"):
        return None
    return Describe(_only_name(grammar), extended=True)


def _about_partitions(grammar: Grammar) -> NamedCommand:
    if grammar.sees_identifier(1):
        grammar.accept_any("FROM", "IN")
    return ShowPartitions(_only_name(grammar))


def _about_properties(grammar: Grammar) -> NamedCommand:
    name = _bare_name(grammar)
    key = None
    if grammar.accept("("):
        key = property_list.key(grammar)
        grammar.expect(")")
    grammar.expect_end()
    return ShowProperties(name, key)


def _about_statistics(grammar: Grammar) -> NamedCommand | None:
    name = _bare_name(grammar)
    return Analyze(name, _rest(grammar)) if grammar.sees_identifier() else None


def _about_comment(grammar: Grammar) -> NamedCommand:
    return alter.comment_is(grammar, _bare_name(grammar))


def _about_change(grammar: Grammar) -> NamedCommand | None:
    name = _bare_name(grammar)
    change = alter.change_of_table(grammar)
    grammar.expect_end()
    return None if change is None else AlterMaterializedView(name, change)


def _bare_name(grammar: Grammar) -> Parts:
    """A dotted name, but not IDENTIFIER(…), whose meaning is known only when the statement runs."""
    piece = grammar.peek()
    after = grammar.peek(1)
    if piece is not None and identifier(piece).upper() == "IDENTIFIER" and after is not None and after.text == "(":
        raise grammar.problem("a name")
    return grammar.expect_name("a name")


def _only_name(grammar: Grammar) -> Parts:
    name = _bare_name(grammar)
    grammar.expect_end()
    return name


def _about_path(grammar: Grammar) -> NamedCommand | None:
    """REFRESH and a path, which Spark reads to the end of the text: a name alone is one, too."""
    if any(grammar.sees(word) for word in ("TABLE", "FUNCTION")) and grammar.peek(1) is not None:
        return None
    return RefreshPath(_only_name(grammar))


_ABOUT: tuple[tuple[tuple[str, ...], Callable[[Grammar], NamedCommand | None]], ...] = (
    (("DROP", "VIEW"), _about_drop),
    (("SHOW", "CREATE", "TABLE"), lambda grammar: _about_create(grammar, "TABLE")),
    (("SHOW", "CREATE", "VIEW"), lambda grammar: _about_create(grammar, "VIEW")),
    (("SHOW", "PARTITIONS"), _about_partitions),
    (("SHOW", "TBLPROPERTIES"), _about_properties),
    (("SHOW", "GRANTS"), lambda grammar: grants.show_about(grammar, hive=False)),
    (("SHOW", "GRANT"), lambda grammar: grants.show_about(grammar, hive=True)),
    (("DESCRIBE",), _about_description),
    (("DESC",), _about_description),
    (("ANALYZE", "TABLE"), _about_statistics),
    (("COMMENT", "ON", "TABLE"), _about_comment),
    (("COMMENT", "ON", "VIEW"), _about_comment),
    (("ALTER", "TABLE"), _about_change),
    (("ALTER", "VIEW"), _about_change),
    (("REFRESH",), _about_path),
)


ABOUT_WORDS = frozenset(words[0].lower() for words, _ in _ABOUT)
"""First words of Spark's statements that are commands of ours if they name a materialized view."""


def parse_about(lexed: Lexed) -> NamedCommand | None:
    """What one of Spark's own statements means if the name in it is a materialized view; None for any other text.

    It never raises: a text that is malformed, or names its relation other than by a dotted name, is left to Spark. The
    properties of SET TBLPROPERTIES are not checked (see view_properties.check).
    """
    if "${" in lexed.text:
        return None
    grammar = Grammar(lexed)
    for words, statement in _ABOUT:
        if grammar.accept(*words):
            try:
                return statement(grammar)
            except SyntaxProblem:
                return None
    return None
