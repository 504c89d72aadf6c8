"""What Spark's settings do to rows, determined by trying them: in one Spark, in this process.

`python settings_net.py DIRECTORY each NAME ...` gives each setting two other values than its own, and prints a line of
JSON for each: what it changes in each of CHECKS. Names that are not settings of Spark are `NAME=VALUE`.

`python settings_net.py DIRECTORY CHECK ...` gives the settings of a check other values, many at once, and divides those
because of which something is found until each is known. It prints these, how many values were tried, and with which
Spark fails at everything (`unusable`), as JSON.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from oracle.settings_corpus import FAILS, QUERIES, Check, Found, candidates, divided, make, rounds, usable, wrong
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from setting_lists import listed
from spark_releases import LOCKED

from sql import spark_settings
from sql.names import TableName
from sql.spark_settings import HOW_FAST, HOW_IT_IS_WRITTEN, MEANING, OFFERED, WHAT_IS_SHOWN, names
from sql.texts import maintenance, public_view
from sql.texts.storage_layout import UNPARTITIONED, Shown


def spark_in(directory: Path) -> SparkSession:
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.warehouse.dir", f"file:{directory}/warehouse")
        .config(
            "spark.hadoop.javax.jdo.option.ConnectionURL", f"jdbc:derby:;databaseName={directory}/metastore;create=true"
        )
        .config("spark.hadoop.hive.exec.scratchdir", f"file:{directory}/scratch")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.filesourceTableRelationCacheSize", "0")
        .config("spark.sql.hive.filesourcePartitionFileCacheSize", "0")
        .enableHiveSupport()
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    return session


@dataclass(frozen=True)
class Failed:
    """A query has no rows, because of an error of this class."""

    reason: str


Rows = list[str] | Failed


def answer(session: SparkSession, query: str) -> Rows:
    """The rows of a query in any order."""
    try:
        return sorted(str(tuple(map(repr, row))) for row in session.sql(query).collect())
    except PySparkException as error:
        return Failed(error.getCondition() or type(error).__name__)
    except Py4JJavaError as error:
        return Failed(str(error.java_exception.getClass().getName()))
    except ValueError as error:
        return Failed(str(error))


@dataclass
class View:
    """A materialized view as the gateway makes it, without a public view."""

    definition: TableName
    storage: TableName
    columns: tuple[str, ...]
    version: int = 0

    @property
    def meant(self) -> str:
        return f"SELECT * FROM {self.definition.quoted}"

    @property
    def shown(self) -> str:
        shown = Shown.only(self.version)
        return public_view.shown_rows(self.storage, self.columns, shown, UNPARTITIONED)


class Net:
    """One Spark with the tables."""

    def __init__(self, directory: Path) -> None:
        self.spark = spark_in(directory)
        make(self.spark.sql, directory / "files")
        self.spark.sql("CREATE DATABASE storage")
        self.known = listed()[LOCKED]
        self.plain = {key: answer(self.spark, query) for key, query in QUERIES.items()}
        self._numbers = itertools.count(1)
        self._views = dict[str, View | Failed]()
        """Views that a session without settings has created."""
        self.untried = set[str]()
        """Settings of which no other value is known."""
        self.unusable = defaultdict[str, list[str]](list)
        """By check, values with which a session can do nothing."""

    # --- values ----------------------------------------------------------------------------------------

    def others(self, name: str) -> list[str]:
        """At most two other values that the setting may have, as NAME=VALUE."""
        session, found = self.spark.newSession(), []
        for value in candidates(name, self.known[name].default):
            with contextlib.suppress(PySparkException, Py4JJavaError):
                session.conf.set(name, value)
                found.append(f"{name}={value}")
        return found[:2]

    def settings(self, given: Iterable[str]) -> list[list[str]]:
        """Other values of these settings, in sets that are tried together."""
        here = sorted(name for name in given if name in self.known and not self.known[name].static)
        tried = {name: self.others(name) for name in here}
        self.untried |= {name for name, each in tried.items() if not each}
        return rounds([*tried.values()])

    def session(self, settings: Iterable[str]) -> SparkSession:
        session = self.spark.newSession()
        for each in settings:
            name, _, value = each.partition("=")
            with contextlib.suppress(PySparkException, Py4JJavaError):  # It may not go with another one.
                session.conf.set(name, value)
        return session

    def cannot_create(self, settings: Iterable[str]) -> bool:
        """Whether the simplest view fails in a session with the settings."""
        return self._fails(settings, "CREATE OR REPLACE VIEW simplest AS SELECT id FROM words")

    def cannot_read(self, settings: Iterable[str]) -> bool:
        return self._fails(settings, "SELECT id FROM words")

    def _fails(self, settings: Iterable[str], text: str) -> bool:
        try:
            self.session(settings).sql(text).collect()
        except (PySparkException, Py4JJavaError):
            return True
        return False

    # --- what settings do ------------------------------------------------------------------------------

    def read(self, settings: Sequence[str], keys: Collection[str]) -> Found:
        """Other rows, or none, in a session with the settings."""
        session = self.session(settings)
        found = {key: answer(session, QUERIES[key]) for key in keys}
        return {key: str(rows) for key, rows in found.items() if rows != self.plain[key]}

    def refreshed(self, settings: Sequence[str], keys: Collection[str]) -> Found:
        """Other stored rows than those that the definition has in the session that stores them."""
        return self._stored(self.session(settings), {key: self._plain_view(key) for key in keys})

    def created(self, settings: Sequence[str], keys: Collection[str]) -> Found:
        """Other stored rows than those of the definition, if a session with the settings creates the view: read with
        what a refresh has of them."""
        creator = self.session(settings)
        refresher = self.session(each for each in settings if spark_settings.has_meaning(each.partition("=")[0]))
        return self._stored(refresher, {key: self._view(creator, key) for key in keys})

    def shown(self, settings: Sequence[str], keys: Collection[str]) -> Found:
        """Other rows of a view that is read in a session with the settings."""
        found, session = {}, self.session(settings)
        for key in keys:
            view = self._plain_view(key)
            if isinstance(view, Failed):
                continue
            if not view.version:
                self._refresh(self.spark.newSession(), view)
            rows, wanted = answer(session, view.shown), answer(self.spark, view.shown)
            if isinstance(rows, Failed) and isinstance(answer(session, view.meant), Failed):
                found[key] = f"{FAILS}{rows.reason}"
            elif rows != wanted:
                found[key] = f"{rows} instead of {wanted}"
        return found

    def _stored(self, refresher: SparkSession, views: Mapping[str, View | Failed]) -> Found:
        found: Found = {}
        for key, view in views.items():
            rows: Rows = view if isinstance(view, Failed) else self._refresh(refresher, view)
            wanted = rows if isinstance(view, Failed) else answer(refresher, view.meant)
            if isinstance(wanted, Failed):
                found[key] = f"{FAILS}{wanted.reason}"
            elif rows != wanted:
                found[key] = f"{rows} instead of {wanted}"
        return found

    # --- what the gateway does -------------------------------------------------------------------------

    def _plain_view(self, key: str) -> View | Failed:
        if key not in self._views:
            self._views[key] = self._view(self.spark, key)
            assert isinstance(self._views[key], View) or isinstance(self.plain[key], Failed), self._views[key]
        return self._views[key]

    def _view(self, creator: SparkSession, key: str) -> View | Failed:
        number = next(self._numbers)
        definition, storage = TableName("storage", f"d{number}"), TableName("storage", f"t{number}")
        try:
            creator.sql(maintenance.create_definition(definition, QUERIES[key]))
            self.spark.sql(maintenance.create_storage(storage, definition, {"made": "so"}))
            return View(definition, storage, tuple(self.spark.table(definition.quoted).columns))
        except (PySparkException, Py4JJavaError) as error:
            return Failed(str(error)[:100])

    def _refresh(self, refresher: SparkSession, view: View) -> Rows:
        """Stores the rows of a next version, and reads them as another user."""
        view.version += 1
        text = maintenance.insert_version(view.storage, view.definition, view.version, columns=view.columns)
        for name, value in maintenance.STAGED.items():
            refresher.conf.set(name, value)
        try:
            refresher.sql(text)
        except (PySparkException, Py4JJavaError) as error:
            return Failed(str(error)[:100])
        return answer(self.spark, view.shown)


FEW = ("wide", "of_times", "parts", "csv", "words")
"""Queries with rows of every type."""
GROUP = 60
"""How many settings are tried together, unless they are a group of their own."""
ELSEWHERE = frozenset({"spark.sql.defaultCatalog"})
"""In another default catalog the queries have no tables."""


def _groups(net: Net, name: str) -> Iterator[tuple[list[str], Check, Collection[str]]]:
    """The settings that a check tries together."""
    if name == "sharp":
        for given, check in ((GUILTY_OF_READING, net.read), (GUILTY_OF_WRITING, net.refreshed)):
            for settings in net.settings(given):
                yield settings, check, FEW
    elif name == "harmless":
        for table in (HOW_FAST, WHAT_IS_SHOWN, HOW_IT_IS_WRITTEN):
            for settings in net.settings(names(table) - ELSEWHERE):
                yield settings, net.read, QUERIES
    elif name == "refreshed":
        # Queries that always fail would make every setting one with which they fail.
        answered = [key for key, rows in net.plain.items() if not isinstance(rows, Failed)]
        for table in (HOW_FAST, MEANING, OFFERED):
            for settings in net.settings(names(table)):
                yield settings, net.refreshed, answered
    else:
        check, fails = {"created": (net.created, net.cannot_create), "shown": (net.shown, net.cannot_read)}[name]
        for settings in net.settings(net.known.keys() - ELSEWHERE):
            for first in range(0, len(settings), GROUP):
                good, without = usable(settings[first : first + GROUP], fails)
                net.unusable[name] += without
                yield from ((each, check, FEW) for each in good)


GUILTY_OF_READING = frozenset({"spark.sql.icu.caseMappings.enabled", "spark.sql.hive.manageFilesourcePartitions"})
GUILTY_OF_WRITING = frozenset({"spark.sql.parquet.outputTimestampType"})
CHECKS = ("sharp", "harmless", "refreshed", "created", "shown")
"""Harmless settings change no query. None that a refresh may have changes what it stores. None that a creator has
changes what a refresh stores, apart from the meaning. None that a reader has changes what a view shows. `sharp` tries
settings that are guilty."""


def _check(net: Net, name: str) -> None:
    tried, guilty, began = 0, dict[str, Found](), time.monotonic()
    for settings, check, keys in _groups(net, name):
        tried += len(settings)
        found = wrong(divided(settings, check, keys))
        guilty |= found
        took = f"{time.monotonic() - began:.0f} s"
        print(f"{name}: {tried} values after {took}, guilty: {', '.join(found) or 'none'}", file=sys.stderr, flush=True)
    result = {"check": name, "tried": tried, "unusable": net.unusable[name], "untried": sorted(net.untried)}
    print(json.dumps({**result, "guilty": guilty}, ensure_ascii=False), flush=True)


def _each(net: Net, given: Sequence[str]) -> None:
    for name in given:
        for setting in [name] if "=" in name else net.others(name):
            found = {
                check.__name__: check([setting], QUERIES) for check in (net.read, net.refreshed, net.created, net.shown)
            }
            print(json.dumps({"setting": setting, **found}, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    made = Net(Path(sys.argv[1]))
    if sys.argv[2] == "each":
        _each(made, sys.argv[3:])
    else:
        for chosen in sys.argv[2:]:
            _check(made, chosen)
