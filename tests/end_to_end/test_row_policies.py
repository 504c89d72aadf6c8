"""Spark shows users different rows of a table: nobody is shown a row that Spark would not show, whatever answers."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import pytest
from clients import pyhive, rows
from jvm import class_path
from processes import Gateway, Setting, free_port, wait_until
from pyhive.exc import OperationalError
from ranger import EXTENSION, JARS, RangerPolicies, archives_of_authz
from row_policies import SETTINGS, RowPolicies
from seen_gateway import Seen, start
from spark_releases import LOCKED, ImpersonatingServer, home_of

PROOF_SECONDS = 3
CHANGE_SECONDS = 60.0
"""Longer than proofs are used."""
BY_DAY = "SELECT day, sum(amount) AS s FROM rows.{} GROUP BY day ORDER BY day"
BY_ITEM = "SELECT item, sum(amount) AS s FROM rows.{} GROUP BY item ORDER BY item"
RESTRICTED, FREE = {"ada": BY_DAY, "cleo": BY_ITEM}, "dan"
"""Policies restrict the first ones, whose queries show it. Views are bob's; another user refreshes them."""
_numbers = itertools.count()


@dataclass(frozen=True)
class Place:
    """A gateway, the Spark behind it, and a table of which ada sees one region, and cleo no items."""

    table: str
    view: str
    seen: Seen
    spark: tuple[str, int]
    policies: RowPolicies | RangerPolicies
    ends: contextlib.ExitStack
    direct: dict[str, Any] = field(default_factory=dict)
    """Connections to Spark, by user."""

    @property
    def own(self) -> str:
        """The view that shows each user what its definition shows, which is that of `view`."""
        return f"rows.own_{self.table}"

    def connect(self, user: str) -> Any:
        return pyhive(self.seen.gateway.host, self.seen.gateway.port, user=user)

    def truth(self, user: str, text: str) -> list[tuple[Any, ...]]:
        """What Spark itself answers."""
        if user not in self.direct:
            self.direct[user] = self.ends.enter_context(pyhive(*self.spark, user=user))
        return rows(self.direct[user], text)

    def ask(self, user: str, text: str) -> tuple[list[tuple[Any, ...]], list[str]]:
        """The rows of a query, in a session of its own, and the materialized views that it read."""
        mark = f"/* query {next(_numbers)} */"
        with self.connect(user) as cursor:
            found = rows(cursor, f"{mark} {text}")
        return found, self.seen.line_of(mark).get("views", [])

    def verdict(self, user: str, text: str) -> str:
        """What the view is to a query, and why, in short."""
        with self.connect(user) as cursor:
            ((_, verdict, reason, _),) = rows(cursor, f"EXPLAIN REWRITE {text}")
        return f"{verdict}: {reason.partition(':')[0]}"

    def refuted(self, user: str, text: str) -> bool:
        """Whether no view answers the query, for the user's rights. (Spark's text of a plan shows no filter of AuthZ's
        whole.)"""
        verdict = self.verdict(user, text)
        return verdict in {f"NOT PROVED: {reason}" for reason in REASONS}

    def check(self, user: str) -> None:
        """The user's queries have the rows that Spark shows, none of them from a view."""
        query = RESTRICTED[user].format(self.table)
        shown = self.truth(user, query)
        assert shown != self.truth(FREE, query)
        assert self.refuted(user, query)
        assert self.ask(user, query) == (shown, [])

    def check_free(self) -> None:
        """A user without policies is answered from the view after a few queries, although each session is closed before
        the proof has been made."""
        for text in RESTRICTED.values():
            query = text.format(self.table)
            shown = self.truth(FREE, query)
            wait_until(partial(self._answered, query, shown), CHANGE_SECONDS, "the answer from the view")

    def _answered(self, query: str, shown: list[tuple[Any, ...]]) -> bool:
        """Whether the view answers, as Spark would."""
        found, views = self.ask(FREE, query)
        assert found == shown
        return views == [self.view]

    def restrict(self, *more: str) -> None:
        self.policies.set(
            *(f"ada filter {table} region 1" for table in TABLES),
            *(f"cleo mask {table} item 0" for table in TABLES),
            *more,
        )

    def refresh(self) -> None:
        with self.connect("bob") as bob:
            rows(bob, f"REFRESH MATERIALIZED VIEW {self.view}")


Policies: TypeAlias = RowPolicies | RangerPolicies
Gateways: TypeAlias = tuple[dict[str, Seen], tuple[str, int], Policies]
"""By their names, with the address of the Spark behind all of them."""
TABLES = ["orders_embedded", "orders_upstream", "orders_ranger"]
EMBEDDED = pytest.param("embedded", marks=pytest.mark.thorough)
"""Behind both gateways is the same Spark. They read its plans in different ways: BOTH try what depends on plans."""
RANGER = pytest.param("ranger", marks=pytest.mark.thorough)
"""In front of a Spark with Kyuubi's AuthZ plugin."""
BOTH = pytest.mark.parametrize("place", ["upstream", "embedded", RANGER], indirect=True)
UNCACHED = {
    "spark.sql.filesourceTableRelationCacheSize": "0",
    "spark.sql.hive.filesourcePartitionFileCacheSize": "0",
}
"""As docs/how-to/thrift-server.md says."""
REASONS = ("rights differ", *(f"it contains the plan node {name}Marker" for name in ("RowFilter", "DataMaskingStage0")))
USERS_OF_RANGER = "root,bob,dan,ada,cleo,eve,gus"


GATEWAY: dict[str, Any] = {
    "rewrite.canary": 0,
    "rewrite.partly_stale": "true",
    "access.rights_seconds": PROOF_SECONDS,
    "versions.retention": 3600,
    "refresh.run_as": "owner",
    "access.administrators": "root",
}


@pytest.fixture(scope="module")
def gateways(spark_server: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateways]:
    """A gateway with an embedded engine, and one in front of the same Spark."""
    directory = tmp_path_factory.mktemp("policies")
    policies, port = RowPolicies(directory), free_port()
    spark = {f"engine.{name}": value for name, value in SETTINGS.items()}
    spark |= {f"engine.{name}": value for name, value in class_path(policies.archive).items()}
    log, audit = directory / "gateway.log", directory / "audit.jsonl"
    page = free_port()
    seen: dict[str, Setting] = {"log.audit": audit, "metrics.port": port, "page.port": page}
    embedded = Gateway(log, data_dir=directory / "data", settings={**GATEWAY, **spark, **seen})
    found = re.search(r"Spark is up at ([\d.]+):(\d+)", log.read_text(encoding="utf-8"))
    assert found is not None
    address = found[1], int(found[2])
    second = tmp_path_factory.mktemp("upstream")
    upstream = start(second, f"{found[1]}:{found[2]}", settings={**GATEWAY, "page.port": free_port()})
    with pyhive(*address) as cursor:
        rows(cursor, "CREATE DATABASE rows")
    yield {"embedded": Seen(embedded, port, audit, page), "upstream": upstream}, address, policies
    upstream.gateway.stop()
    embedded.stop()


@pytest.fixture(scope="module")
def ranger(spark_server: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateways]:
    """A gateway in front of a Thrift server whose users Kyuubi's plugin restricts."""
    archives, home = archives_of_authz(), home_of(LOCKED)
    if not archives or home is None:
        pytest.skip(f"{JARS} names no directory of Apache Kyuubi's AuthZ plugin")
    directory = tmp_path_factory.mktemp("ranger")
    policies = RangerPolicies(directory, archives, "rows", USERS_OF_RANGER)
    settings = {"spark.sql.extensions": EXTENSION, **UNCACHED}
    spark = ImpersonatingServer(home, directory / "spark", policies.archives, spark=settings)
    try:
        with pyhive(spark.host, spark.port, user="root") as cursor:
            rows(cursor, "CREATE DATABASE rows")
        seen = start(
            directory,
            f"{spark.host}:{spark.port}",
            settings={**GATEWAY, "upstream.user": "root", "page.port": free_port()},
        )
        yield {"ranger": seen}, (spark.host, spark.port), policies
        seen.gateway.stop()
    finally:
        spark.stop()


def gateways_of(kind: str, request: pytest.FixtureRequest) -> Gateways:
    found: Gateways = request.getfixturevalue("ranger" if kind == "ranger" else "gateways")
    return found


@pytest.fixture(scope="module", params=["upstream", EMBEDDED, RANGER])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    seen, spark, policies = gateways_of(request.param, request)
    kind = request.param
    with contextlib.ExitStack() as ends:
        made = Place(f"orders_{kind}", f"rows.daily_{kind}", seen[kind], spark, policies, ends)
        bob = ends.enter_context(made.connect("bob"))
        rows(
            bob,
            f"CREATE TABLE rows.{made.table} (region INT, item INT, amount INT, day INT) USING parquet "
            "PARTITIONED BY (day)",
        )
        rows(
            bob,
            f"INSERT INTO rows.{made.table} SELECT CAST(1 + id % 2 AS INT), "
            "CAST(1 + id % 3 AS INT), CAST(id AS INT), CAST(id % 4 AS INT) FROM range(100)",
        )
        rows(
            bob,
            f"CREATE MATERIALIZED VIEW {made.view} PARTITION BY (day) ENABLE QUERY REWRITE AS SELECT item, "
            f"sum(amount) AS amount, day FROM rows.{made.table} GROUP BY item, day",
        )
        rows(
            bob,
            f"CREATE MATERIALIZED VIEW {made.own} SECURITY INVOKER WHEN STALE SERVE AS SELECT item, sum(amount) AS "
            f"amount, day FROM rows.{made.table} GROUP BY item, day",
        )
        yield made


@pytest.fixture(autouse=True)
def restricted(request: pytest.FixtureRequest) -> None:
    if "place" in request.fixturenames:
        place = request.getfixturevalue("place")
        place.restrict()
        place.refresh()


@BOTH
def test_the_policies_apply(place: Place) -> None:
    """Below a view of Spark's, too: otherwise the other tests would prove nothing."""
    name = f"rows.plain_{place.table}"
    with place.connect("bob") as bob:
        rows(bob, f"CREATE VIEW {name} AS SELECT * FROM rows.{place.table}")
    assert place.truth("ada", f"SELECT DISTINCT region FROM {name}") == [(1,)]
    assert place.truth("cleo", f"SELECT DISTINCT item FROM {name}") == [(0,)]
    assert place.truth("dan", f"SELECT count(DISTINCT region), count(DISTINCT item) FROM {name}") == [(2, 3)]


@BOTH
def test_queries_of_restricted_users_are_not_rewritten(place: Place) -> None:
    place.check_free()
    for user in RESTRICTED:
        place.check(user)
    place.check_free()


def test_a_view_with_stale_partitions_answers_no_restricted_user(place: Place) -> None:
    with place.connect("bob") as bob:
        rows(bob, f"INSERT INTO rows.{place.table} PARTITION (day = 1) VALUES (2, 1, 1000)")
    for user in RESTRICTED:
        place.check(user)
    place.check_free()


def test_what_is_remembered_for_others_is_not_shown(place: Place) -> None:
    """A named view with SECURITY DEFINER shows whoever may read it the same rows."""
    named = f"SELECT item, sum(amount) AS s FROM {place.view} GROUP BY item ORDER BY item"
    stored = place.truth("dan", BY_ITEM.format(place.table))
    for user in ("dan", "ada", "dan"):
        assert place.ask(user, named)[0] == stored
        if user in RESTRICTED:
            place.check(user)
        else:
            place.check_free()


@BOTH
def test_a_policy_that_is_new_ends_the_answers_in_time(place: Place) -> None:
    query = BY_DAY.format(place.table)
    place.check_free()
    place.restrict(f"{FREE} filter {place.table} region 2")
    shown = place.truth(FREE, query)
    wait_until(lambda: place.ask(FREE, query) == (shown, []), CHANGE_SECONDS, "the answer without the view")
    assert place.refuted(FREE, query)
    place.restrict()
    wait_until(lambda: place.ask(FREE, query)[1], CHANGE_SECONDS, "the answer from the view")


# --- SECURITY INVOKER ----------------------------------------------------------------------------------------

NAMED = "SELECT item, day, amount FROM {} ORDER BY item, day"
DEFINED = "SELECT item, day, sum(amount) FROM rows.{} GROUP BY item, day ORDER BY item, day"
USERS = ("ada", "cleo", FREE)


@pytest.fixture
def stored(place: Place) -> list[tuple[Any, ...]]:
    """The stored rows of the view of SECURITY INVOKER, of which no base table has the like any more."""
    with place.connect("bob") as bob:
        rows(bob, f"REFRESH MATERIALIZED VIEW {place.own}")
        before = place.truth(FREE, DEFINED.format(place.table))
        rows(bob, f"INSERT INTO rows.{place.table} PARTITION (day = 2) VALUES (1, 1, 7), (2, 2, 7)")
    assert before != place.truth(FREE, DEFINED.format(place.table))
    return before


def refusal(place: Place, user: str, *texts: str) -> str:
    """Spark's or the gateway's error for the last text."""
    with place.connect(user) as cursor:
        for text in texts[:-1]:
            rows(cursor, text)
        with pytest.raises(OperationalError) as caught:
            rows(cursor, texts[-1])
    return str(caught.value)


@BOTH
def test_each_user_is_shown_the_rows_of_the_definition(place: Place, stored: list[tuple[Any, ...]]) -> None:
    """Whether the answer is in memory or not, and in whatever order they ask."""
    named = NAMED.format(place.own)
    for user in (*USERS, *reversed(USERS)):
        shown = stored if user == FREE else place.truth(user, DEFINED.format(place.table))
        assert place.ask(user, named)[0] == shown, user
    with place.connect("ada") as ada:
        rows(ada, f"CREATE TABLE rows.copy_{place.table} USING parquet AS {named}")
        assert rows(ada, f"SELECT sum(amount) FROM rows.copy_{place.table}") == place.truth(
            "ada", f"SELECT sum(amount) FROM rows.{place.table}"
        )
        assert rows(ada, f"SHOW MATERIALIZED VIEWS IN rows LIKE 'own_{place.table}'")[0][8] == "INVOKER"


def is_denial(error: str, user: str) -> bool:
    """Whether it is what a policy `deny` says."""
    return any(text in error for text in (f"{user} has no right to", f"user [{user}] does not have"))


WAYS = (
    ("CREATE TEMPORARY VIEW t AS SELECT * FROM {own}", "SELECT * FROM t"),
    ("CREATE OR REPLACE VIEW rows.over_{table} AS SELECT * FROM {own}", "SELECT * FROM rows.over_{table}"),
    (
        "CREATE OR REPLACE FUNCTION rows.total_{table}() RETURNS BIGINT RETURN SELECT sum(amount) FROM {own}",
        "SELECT rows.total_{table}()",
    ),
    ("SELECT * FROM {own} VERSION AS OF 1",),
    ("BEGIN TRANSACTION", "SELECT * FROM {own}"),
    ("EXECUTE IMMEDIATE 'SELECT * FROM ' || '{own}'",),
    ("BEGIN SELECT * FROM {own}; END",),
)
"""Reads of a view in which its definition cannot take the place of its name."""


@pytest.mark.thorough
def test_stored_rows_are_shown_in_no_other_way(place: Place, stored: list[tuple[Any, ...]]) -> None:
    """The error says why; that nobody sees them in these ways, the matrix below tries."""
    for texts in WAYS:
        written = [text.format(own=place.own, table=place.table) for text in texts]
        with place.connect(FREE) as free:
            for text in written:
                found = rows(free, text)
        assert found, texts
        assert "has SECURITY INVOKER" in refusal(place, "ada", *written), texts


def test_stored_rows_are_not_shown_by_the_name_of_their_table(place: Place) -> None:
    with place.connect(FREE) as free:
        ((storage,),) = rows(
            free, f"SELECT storage_table FROM freshgate.materialized_views WHERE name = 'own_{place.table}'"
        )
        ((location,),) = [row[1:2] for row in rows(free, f"DESCRIBE EXTENDED {storage}") if row[0] == "Location"]
    database, table = storage.split(".")[-2:]
    for texts in (
        [f"SELECT * FROM {storage}"],
        [f"USE {database}", f"SELECT * FROM {table}"],
        [f"SELECT * FROM parquet.`{location}`"],
        [f"CREATE TEMPORARY VIEW past AS SELECT * FROM {storage}"],
    ):
        assert "SECURITY INVOKER" in refusal(place, "ada", *texts), texts


def test_a_new_policy_withholds_the_stored_rows_in_time(place: Place, stored: list[tuple[Any, ...]]) -> None:
    named = NAMED.format(place.own)
    assert place.ask(FREE, named)[0] == stored
    place.restrict(f"{FREE} filter {place.table} region 2")
    shown = place.truth(FREE, DEFINED.format(place.table))
    wait_until(lambda: place.ask(FREE, named)[0] == shown, CHANGE_SECONDS, "the rows of the definition")
    place.restrict()
    wait_until(lambda: place.ask(FREE, named)[0] == stored, CHANGE_SECONDS, "the stored rows")


def test_a_view_above_is_not_read_past_the_rights(place: Place, stored: list[tuple[Any, ...]]) -> None:
    above = f"rows.above_{place.table}"
    with place.connect("bob") as bob:
        rows(bob, f"CREATE MATERIALIZED VIEW {above} SECURITY INVOKER AS SELECT item, amount FROM {place.own}")
    assert len(place.ask(FREE, f"SELECT * FROM {above}")[0]) == len(stored)
    assert "has SECURITY INVOKER" in refusal(place, "ada", f"SELECT * FROM {above}")


# --- rights that Spark checks when a query runs, and of which no plan tells ------------------------------------


@pytest.mark.parametrize("place", [RANGER], indirect=True)
def test_what_spark_refuses_is_had_of_no_view_above(place: Place, stored: list[tuple[Any, ...]]) -> None:
    """Gus may read the views, but not their base table."""
    query, defined = BY_DAY.format(place.table), DEFINED.format(place.table)
    place.check_free()
    place.restrict(f"gus deny {place.table}")
    for text in (query, query, defined, NAMED.format(place.own), f"SELECT * FROM {place.own} VERSION AS OF 1"):
        assert "user [gus] does not have [select]" in refusal(place, "gus", text), text
    for texts in WAYS:
        written = [text.format(own=place.own, table=place.table) for text in texts]
        assert "SECURITY INVOKER" in refusal(place, "gus", *written), texts
    assert place.verdict("gus", query) == "NOT PROVED: rights differ"
    # A view with SECURITY DEFINER shows whoever may read it the same rows.
    named = f"SELECT day, sum(amount) AS s FROM {place.view} GROUP BY day ORDER BY day"
    assert place.ask("gus", named)[0] == place.ask(FREE, named)[0] == place.truth(FREE, query)


@pytest.mark.parametrize("place", [RANGER], indirect=True)
def test_a_view_that_spark_refuses_shows_no_version(place: Place) -> None:
    """Gus may read the base table, but not the view."""
    place.restrict(f"gus deny {place.view.removeprefix('rows.')}")
    for texts in (
        [f"SELECT * FROM {place.view}"],
        [f"SELECT * FROM {place.view} VERSION AS OF 1"],
        [f"SELECT * FROM {place.view} TIMESTAMP AS OF now()"],
        ["BEGIN TRANSACTION", f"SELECT * FROM {place.view}"],
    ):
        assert "gus" in refusal(place, "gus", *texts), texts
    assert place.ask(FREE, f"SELECT * FROM {place.view} VERSION AS OF 1")[0]


# --- current_user() below a view, and rights that Spark does not have --------------------------------------------


@pytest.mark.parametrize("place", ["upstream", EMBEDDED], indirect=True)
def test_a_view_of_sparks_that_asks_for_the_user_is_read_by_each_reader(place: Place) -> None:
    """CREATE refuses such a view. Once one is there, what it reads is replaced."""
    below, above = f"rows.below_{place.table}", f"rows.by_day_{place.table}"
    of_user = "CASE current_user() WHEN 'gus' THEN 2 ELSE region END"
    definition = f"SELECT day, sum(amount) AS amount FROM {below} GROUP BY day"
    with place.connect("bob") as bob:
        rows(bob, f"CREATE VIEW {below} AS SELECT * FROM rows.{place.table} WHERE region = {of_user}")
        for name in ("current_user()", "session_user()", "user"):
            text = f"CREATE MATERIALIZED VIEW {above} AS SELECT amount FROM rows.{place.table} WHERE {name} <> 'gus'"
            assert "current_user" in refusal(place, "bob", text) or name in refusal(place, "bob", text)
        assert "current_user" in refusal(place, "bob", f"CREATE MATERIALIZED VIEW {above} AS {definition}")
        rows(bob, f"CREATE OR REPLACE VIEW {below} AS SELECT * FROM rows.{place.table}")
        rows(bob, f"CREATE MATERIALIZED VIEW {above} SECURITY INVOKER ENABLE QUERY REWRITE AS {definition}")
        named, query = f"SELECT day, amount FROM {above} ORDER BY day", f"{definition} ORDER BY day"
        everything = place.truth(FREE, query)
        assert place.ask("gus", named)[0] == place.ask(FREE, named)[0] == everything
        wait_until(lambda: place.ask("gus", query) == (everything, [above]), CHANGE_SECONDS, "the answer from the view")
        rows(bob, f"CREATE OR REPLACE VIEW {below} AS SELECT * FROM rows.{place.table} WHERE region = {of_user}")
        shown = place.truth("gus", query)
        assert shown != everything == place.truth(FREE, query)
        # Whatever is fresh, proved or remembered by now.
        for user in ("gus", FREE, "gus"):
            for text in (named, query):
                assert place.ask(user, text)[0] == (shown if user == "gus" else everything), (user, text)
        rows(bob, f"REFRESH MATERIALIZED VIEW {above}")
        for user in (FREE, "gus", FREE, "gus"):
            for text in (named, query):
                assert place.ask(user, text)[0] == (shown if user == "gus" else everything), (user, text)
        rows(bob, f"DROP MATERIALIZED VIEW {above}")


@pytest.mark.parametrize("place", ["upstream"], indirect=True)
def test_spark_knows_no_rights_of_hives(place: Place) -> None:
    """Hive checks SQL-standard authorization where it compiles statements, which Spark does not have it do."""
    of_hive = "org.apache.hadoop.hive.ql.security.authorization.plugin.sqlstd"
    manager = f"{of_hive}.SQLStdHiveAuthorizerFactory"
    with place.connect("gus") as gus:
        for text in (
            "SET hive.security.authorization.enabled=true",
            f"SET hive.security.authorization.manager={manager}",
        ):
            rows(gus, text)
        assert len(rows(gus, f"SELECT * FROM rows.{place.table}")) > 0
    for text in (
        f"GRANT SELECT ON TABLE rows.{place.table} TO USER gus",
        f"REVOKE SELECT ON TABLE rows.{place.table} FROM USER gus",
        f"GRANT SELECT ON {place.view} TO USER gus",
        "CREATE ROLE readers",
        "GRANT readers TO USER gus",
        "SET ROLE readers",
    ):
        assert re.search("is not valid|Operation not allowed", refusal(place, "bob", text)), text


# --- SECURITY DEFINER ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("owner", ["ada", pytest.param("cleo", marks=pytest.mark.thorough)])
def test_a_view_shows_nobody_more_than_its_owner_may_read(place: Place, owner: str) -> None:
    """At the first build, after each refresh, and after it was given to another user."""
    name, day = f"rows.{owner}_{place.table}", "PARTITION BY (day) " if owner == "ada" else ""
    text, named = (
        f"SELECT region, item, amount, day FROM rows.{place.table}",
        f"SELECT * FROM {name} ORDER BY amount, day",
    )
    defined = f"{text} ORDER BY amount, day"
    with place.connect(owner) as cursor:
        rows(cursor, f"CREATE MATERIALIZED VIEW {name} {day}AS {text}")
        for user in (owner, FREE):
            assert place.ask(user, named)[0] == place.truth(owner, defined)
        for number in (1, 2):
            rows(cursor, f"INSERT INTO rows.{place.table} PARTITION (day = 3) VALUES ({number}, {number}, 500)")
            rows(cursor, f"REFRESH MATERIALIZED VIEW {name} AUTO")
            assert place.ask(FREE, named)[0] == place.truth(owner, defined)
        assert place.truth(owner, defined) != place.truth(FREE, defined)
        with pytest.raises(OperationalError, match="Ask an administrator"):
            rows(cursor, f"ALTER MATERIALIZED VIEW {name} OWNER TO {FREE}")
    place.restrict(f"{owner} deny {place.table}")
    with place.connect("root") as root:
        # Whoever asks, and however: an owner who may not read what the view reads gets nothing new into it.
        rows(root, f"INSERT INTO rows.{place.table} PARTITION (day = 3) VALUES (1, 1, 501)")
        for user, asked in (("root", f"REFRESH MATERIALIZED VIEW {name}"), (FREE, named)):
            error = refusal(place, user, asked)
            for part in (f"its owner {owner}", f"{name} OWNER TO"):
                assert part in error, error
            # What Spark said may quote a row, so only those hear it who may refresh.
            assert is_denial(error, owner) is (user == "root"), error
        assert is_denial(refusal(place, owner, f"SELECT * FROM {place.own}"), owner)
        rows(root, f"ALTER MATERIALIZED VIEW {name} OWNER TO {FREE}")
    assert place.ask(owner, named)[0] == place.truth(FREE, defined)
    with place.connect(FREE) as free:
        rows(free, f"DROP MATERIALIZED VIEW {name}")


# --- the matrix: users, views and ways to see something of them ----------------------------------------------


@dataclass(frozen=True)
class Sight:
    """A way to see something of a view. The braces name the `view`, its `table`, and the `user`."""

    texts: tuple[str, ...]
    shows: bool = True
    """Whether the view's owner sees one of the secrets: otherwise nothing would prove that the others might."""
    elsewhere: Callable[[Place, str, str], str] | None = None
    """Where to look after the statements, by the user and the view, in the place of their rows and errors."""


def audit_of(matrix: Place, user: str, view: str) -> str:
    """What the audit says of a user. Whoever reads the log need not be allowed to read the rows."""
    return str([line for line in matrix.seen.lines() if line.get("user") == user])


def page_of(matrix: Place, user: str, view: str) -> str:
    """All that the page shows to a visitor who has no view."""
    name, sent = view.replace(".", "/"), []
    for path in (*PAGES, f"/views/{name}", f"/lineage/{name}?down=2&up=2"):
        for form in ("", "format=json"):
            status, text = matrix.seen.get(
                path + (("&" if "?" in path else "?") + form if form else ""), matrix.seen.page
            )
            assert status == 200, (path, text)
            sent.append(text)
    linked = sorted(set(re.findall(r"/(?:tasks|statements)/\d+", "".join(sent))))
    return "".join(sent + [matrix.seen.get(path, matrix.seen.page)[1] for path in linked[-LINKED_MAX:]])


PAGES = ("/", "/views", "/activity", "/savings")
LINKED_MAX = 20
READ = (
    "SELECT * FROM {view}",
    "SELECT {view}_item()",
    "SELECT * FROM {view} VERSION AS OF 1",
    "DESCRIBE EXTENDED {view}",
)


SECRETS = {"ada": {"777001"}, "cleo": {"555001"}, "eve": {"777001", "555001", "777003", "sesame"}}
"""What Spark shows a user of no row of the table: ada sees one region, cleo no items, eve nothing. The last one stands
in the definition."""
BROKEN = "needle"
"""A value in the other region, which the definition cannot compute."""
SIGHTS = {
    "named": Sight(("SELECT * FROM {view}",)),
    "from memory": Sight(("SELECT * FROM {view} ORDER BY day", "SELECT * FROM {view} ORDER BY day")),
    "rewritten": Sight(("SELECT day, region, sum(amount) AS amount FROM {table} GROUP BY day, region",)),
    "explained": Sight(("EXPLAIN REWRITE SELECT item, day FROM {table} GROUP BY item, day",), shows=False),
    "function": Sight(("SELECT {view}_largest()", "SELECT {view}_item()")),
    "Spark view": Sight(("SELECT * FROM {view}_over",)),
    "temporary view": Sight(("CREATE OR REPLACE TEMPORARY VIEW over AS SELECT * FROM {view}", "SELECT * FROM over")),
    "script": Sight(("BEGIN SELECT * FROM {view}; END",)),
    "composed": Sight(("EXECUTE IMMEDIATE 'SELECT * FROM ' || '{view}'",)),
    "version": Sight(("SELECT * FROM {view} VERSION AS OF 1",)),
    "time": Sight(("SELECT * FROM {view} TIMESTAMP AS OF now()",)),
    "transaction": Sight(("BEGIN TRANSACTION", "SELECT * FROM {view}", "COMMIT")),
    "snapshot": Sight(
        ("SET freshgate.snapshot=session", "SELECT * FROM {view}", "SET freshgate.snapshot=none"),
    ),
    "SHOW CREATE": Sight(("SHOW CREATE MATERIALIZED VIEW {view}",)),
    "DESCRIBE": Sight(("DESCRIBE EXTENDED {view}",)),
    "partitions": Sight(("SHOW PARTITIONS {view}",)),
    "versions": Sight(("SHOW MATERIALIZED VIEW VERSIONS {view}",), shows=False),
    "properties": Sight(("SHOW TBLPROPERTIES {view}",), shows=False),
    "grants": Sight(("SHOW GRANTS ON {view}",), shows=False),
    "listed": Sight(
        ("SHOW MATERIALIZED VIEWS IN rows", "SELECT * FROM rows.INFORMATION_SCHEMA.MATERIALIZED_VIEWS"), shows=False
    ),
    "infos": Sight(('SELECT * FROM mv_infos("database"="rows")',)),
    "catalog": Sight(("SELECT * FROM freshgate.materialized_views",)),
    "tasks": Sight(('SELECT * FROM tasks("type"="mv")', 'SELECT * FROM jobs("type"="mv")'), shows=False),
    "suggested": Sight(("SELECT * FROM freshgate.suggested_views", "SELECT * FROM freshgate.rewrites"), shows=False),
    "EXPLAIN REFRESH": Sight(("EXPLAIN REFRESH MATERIALIZED VIEW {view}",), shows=False),
    "REFRESH": Sight(("REFRESH MATERIALIZED VIEW {view}",), shows=False),
    # The owner's own statements name them.
    "audit": Sight((*READ, "REFRESH MATERIALIZED VIEW {view}"), elsewhere=audit_of),
    "page": Sight((*READ, "REFRESH MATERIALIZED VIEW {view}"), shows=False, elsewhere=page_of),
    "CREATE": Sight(
        (
            "CREATE MATERIALIZED VIEW {view}_of_{user} AS SELECT * FROM {view}",
            "SELECT * FROM {view}_of_{user}",
            "DROP MATERIALIZED VIEW {view}_of_{user}",
        )
    ),
    "CREATE on the table": Sight(
        (
            "CREATE MATERIALIZED VIEW {view}_by_{user} AS SELECT * FROM {table}",
            "SELECT * FROM {view}_by_{user}",
            "DROP MATERIALIZED VIEW {view}_by_{user}",
        )
    ),
}
AFTER_A_FAILURE = (
    "named",
    "temporary view",
    "transaction",
    "DESCRIBE",
    "catalog",
    "infos",
    "tasks",
    "audit",
    "page",
    "REFRESH",
)


@pytest.fixture(scope="module", params=["upstream", EMBEDDED, RANGER])
def matrix(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A DEFINER and an INVOKER view of bob's on a table whose rows no user sees whole but bob and dan."""
    seen, spark, policies = gateways_of(request.param, request)
    table = f"rows.sold_{request.param}"
    with contextlib.ExitStack() as ends:
        made = Place(table, f"rows.shown_{request.param}", seen[request.param], spark, policies, ends)
        bob = ends.enter_context(made.connect("bob"))
        rows(bob, f"CREATE TABLE {table} (region INT, item INT, amount INT, note STRING, day INT) PARTITIONED BY (day)")
        rows(bob, f"INSERT INTO {table} VALUES (1, 555001, 10, '5', 1), (2, 3, 777001, '6', 2), (2, 3, 1, '7', 777003)")
        for view, clauses in ((made.view, "ENABLE QUERY REWRITE"), (f"{made.view}_own", "SECURITY INVOKER")):
            rows(
                bob,
                f"CREATE MATERIALIZED VIEW {view} PARTITION BY (day) {clauses} AS SELECT region, item, sum(amount) AS "
                f"amount, max(CAST(note AS INT)) AS note, 'sesame' AS mark, day FROM {table} "
                "GROUP BY region, item, day",
            )
            rows(bob, f"CREATE FUNCTION {view}_largest() RETURNS BIGINT RETURN SELECT max(amount) FROM {view}")
            rows(bob, f"CREATE FUNCTION {view}_item() RETURNS INT RETURN SELECT max(item) FROM {view}")
            rows(bob, f"CREATE VIEW {view}_over AS SELECT * FROM {view}")
        yield made


def views(matrix: Place) -> tuple[str, str]:
    return matrix.view, f"{matrix.view}_own"


def seen_by(matrix: Place, user: str, view: str, sight: Sight) -> str:
    """All that a user is sent: rows, errors, and the logs of operations. Errors quote the user's statement."""
    sent = []
    with matrix.connect(user) as cursor:
        for text in sight.texts:
            written = text.format(view=view, table=matrix.table, user=user)
            try:
                sent.append(str(rows(cursor, written)))
                sent += cursor.fetch_logs()
            except OperationalError as error:
                sent.append(str(error).replace(written, ""))
    if sight.elsewhere is not None:
        return sight.elsewhere(matrix, user, view)
    return "\n".join(sent)


def restrict(matrix: Place) -> None:
    table, (shown, own) = matrix.table.removeprefix("rows."), views(matrix)
    denied = [f"eve deny {name.removeprefix('rows.')}" for name in (table, shown, own, f"{shown}_over", f"{own}_over")]
    matrix.policies.set(f"ada filter {table} region 1", f"cleo mask {table} item 0", *denied)


@pytest.mark.parametrize("way", SIGHTS)
def test_nobody_sees_more_than_spark_or_the_owner_shows(matrix: Place, way: str) -> None:
    restrict(matrix)
    shown, own = views(matrix)
    sight = SIGHTS[way]
    for view in (shown, own):
        owners = seen_by(matrix, "bob", view, sight)
        assert any(secret in owners for secret in SECRETS["eve"]) is sight.shows, (view, owners)
    # What the owner could read, a DEFINER view shows to whom Spark lets read it.
    cases = [("ada", own), ("cleo", own), ("eve", own), ("eve", shown)]
    cases += [("ada", shown), ("cleo", shown)] if "{table}" in str(sight.texts) else []
    for user, view in cases:
        sent = seen_by(matrix, user, view, sight)
        assert [secret for secret in SECRETS[user] if secret in sent] == [], (user, view, sent)


def test_failed_refreshes_tell_no_values(matrix: Place) -> None:
    """Those who see all rows, or may refresh the view, are told the cause."""
    restrict(matrix)
    shown, _ = views(matrix)
    with matrix.connect("bob") as bob:
        rows(bob, f"INSERT INTO {matrix.table} PARTITION (day = 2) VALUES (2, 3, 1, '{BROKEN}')")
        try:
            for user in ("bob", FREE):
                assert BROKEN in seen_by(matrix, user, shown, SIGHTS["named"]), user
            for user, ways in (("ada", AFTER_A_FAILURE), ("cleo", ("named", "tasks")), ("eve", AFTER_A_FAILURE)):
                for way in ways:
                    before, found, _ = seen_by(matrix, user, shown, SIGHTS[way]).partition(BROKEN)
                    assert not found, (user, way, before[-500:])
            assert "The cause is shown to users who may refresh it" in seen_by(matrix, "ada", shown, SIGHTS["named"])
            assert BROKEN in seen_by(matrix, "bob", shown, SIGHTS["tasks"])
            rows(bob, f"GRANT REFRESH ON {shown} TO cleo")
            assert BROKEN in seen_by(matrix, "cleo", shown, SIGHTS["REFRESH"])
        finally:
            rows(bob, f"REVOKE REFRESH ON {shown} FROM cleo")
            rows(bob, f"INSERT OVERWRITE {matrix.table} PARTITION (day = 2) VALUES (2, 3, 777001, '6')")
            rows(bob, f"REFRESH MATERIALIZED VIEW {shown}")
