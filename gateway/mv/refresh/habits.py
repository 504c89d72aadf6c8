"""The configuration of the connected Spark, as far as the gateway must know it.

Tests: `test_surroundings`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from gateway.errors import FreshgateError, SparkLost, UpstreamLost
from gateway.mv.ports import ServiceSessions, SqlSession
from sql.names import SESSION_CATALOG
from sql.releases import NEWEST, OLDEST, Dialect, dialect_of, release_of

log = logging.getLogger(__name__)

LISTING_CACHES = ("spark.sql.filesourceTableRelationCacheSize", "spark.sql.hive.filesourcePartitionFileCacheSize")
INCREMENTAL_COLLECT = "spark.sql.thriftServer.incrementalCollect"
GLOBAL_TEMPORARY = "spark.sql.globalTempDatabase"
"""The database of global temporary views. It can only be set for a whole Spark."""
SINGLE_SESSION = "spark.sql.hive.thriftServer.singleSession"
"""All sessions share their settings."""
COMMIT_PROTOCOL = "spark.sql.sources.commitProtocolClass"
SPARKS_OWN = "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"
TIME_ZONE = "spark.sql.session.timeZone"
DEFAULT_CATALOG = "spark.sql.defaultCatalog"
CATALOGS = "spark.sql.catalog."
"""Prefix of the settings that register catalogs."""
KYUUBI_COLLECT = "spark.kyuubi.operation.incremental.collect"
"""As INCREMENTAL_COLLECT, of a Spark that Kyuubi started."""
ROWS_LIMIT = "kyuubi.operation.result.max.rows"
"""How many rows of a result Kyuubi returns; it drops the others silently. A Spark that it started also has the name
after `spark.`, for what sessions begin with."""
UNSET = "<undefined>"
"""What SET shows for a setting that has no value."""
APPLICATION = "spark.app.id"
"""Another value means that Spark was restarted."""


class TooOld(FreshgateError):
    """The gateway cannot work in front of this release of Spark."""

    sqlstate = "0A000"


class Habits:
    """Learned when the gateway starts and whenever Spark was restarted. Until then, and if Spark does not tell, the
    values are the safe ones."""

    def __init__(self) -> None:
        self.caches_listings = True
        """Spark's sessions cache file listings, so a refresh must renew them first."""
        self.stages_writes = True
        """A job can have a directory of its own for uncommitted files (`maintenance.insert_version`). Commit protocols
        for object stores separate jobs by themselves and refuse that."""
        self.collects_whole = False
        """All rows of a result are in memory when a statement has ended, so Spark can go back in them."""
        self.default_catalog = SESSION_CATALOG
        """The catalog in which sessions begin."""
        self.settings: Mapping[str, str] = {}
        """The explicit settings of a service session, and its time zone."""
        self.defaults: Mapping[str, str] = {}
        """What other settings are in a service session."""
        self.global_temporary = "global_temp"
        """The database of global temporary views, case-folded."""
        self.version = ""
        """Spark's version as it prints it; empty if that is not known."""
        self.dialect: Dialect = NEWEST
        self._application: str | None = None
        self._times_learned = 0
        self._limits_rows = False
        self._catalogs: frozenset[str] = frozenset()

    @property
    def application(self) -> str:
        """Identifies the running Spark, as far as it is known."""
        return self._application or ""

    def is_so(self, name: str, value: str) -> bool:
        """Whether a service session certainly has this value, so that it need not be set."""
        return self.settings.get(name, self.defaults.get(name)) == value

    def leads_elsewhere(self, name: str) -> bool:
        """Whether a session that begins with USE of this lower-case name may be in another catalog than Spark's own."""
        return self.default_catalog != SESSION_CATALOG or f"{CATALOGS}{name}" in self._catalogs

    def speaking(self) -> Dialect:
        """What this Spark understands."""
        return self.dialect

    async def ask(self, sessions: ServiceSessions) -> None:
        """Learns the configuration from a session. Raises UpstreamLost, SparkLost, and TooOld before Spark 3.5."""
        before = self._times_learned
        async with sessions.session() as session:
            # A session that was opened for this has been greeted just now.
            if self._times_learned == before:
                await self._learn(session, None)
        release = release_of(self.version)
        if release is not None and release < OLDEST:
            raise TooOld(
                f"The gateway needs Spark {OLDEST[0]}.{OLDEST[1]} or newer, but the server is Spark "
                f"{self.version.split()[0]}. Name the Thrift server of a newer Spark."
            )

    async def greet(self, session: SqlSession) -> None:
        """Switches a new service session to Spark's own catalog, and makes Kyuubi return all rows in it. If Spark was
        restarted, learns its configuration again. Raises UpstreamLost and SparkLost."""
        try:
            application = await _value(session, APPLICATION)
            if application != self._application:
                self._limits_rows = await _value(session, f"spark.{ROWS_LIMIT}") not in {UNSET, "0"}
            if self._limits_rows:
                await session.run(f"SET {ROWS_LIMIT}=0")
            await self._learn(session, application)
            if self.default_catalog != SESSION_CATALOG:
                await session.run(f"SET {DEFAULT_CATALOG}={SESSION_CATALOG}")
        except (UpstreamLost, SparkLost):
            raise
        except FreshgateError as error:
            log.warning("cannot determine whether Spark was restarted: %s", error)

    async def _learn_version(self, session: SqlSession) -> None:
        """A Spark that does not tell its version counts as the newest one. Raises UpstreamLost and SparkLost."""
        try:
            self.version = str((await session.run("SELECT version()")).rows[0][0])
        except (UpstreamLost, SparkLost):
            raise
        except (FreshgateError, LookupError) as error:
            log.warning("cannot read Spark's version, so it counts as the newest one: %s", error)
            self.version = ""
        self.dialect = dialect_of(release_of(self.version))

    async def _learn(self, session: SqlSession, application: str | None) -> None:
        """Does nothing if `application` is the one whose configuration is known."""
        if application is not None and application == self._application:
            return
        await self._learn_version(session)
        try:
            found = {
                name: await _value(session, name)
                for name in (
                    *LISTING_CACHES,
                    COMMIT_PROTOCOL,
                    INCREMENTAL_COLLECT,
                    KYUUBI_COLLECT,
                    SINGLE_SESSION,
                    TIME_ZONE,
                    GLOBAL_TEMPORARY,
                )
            }
            settings = {str(name): str(value) for name, value, *_ in (await session.run("SET")).rows}
            defaults = {str(name): str(value) for name, value, *_ in (await session.run("SET -v")).rows}
        except (UpstreamLost, SparkLost):
            raise
        except FreshgateError as error:
            log.warning("cannot read Spark's configuration: %s", error)
            return
        self.caches_listings = any(found[name] != "0" for name in LISTING_CACHES)
        self.stages_writes = found[COMMIT_PROTOCOL] == SPARKS_OWN
        self.collects_whole = (found[INCREMENTAL_COLLECT], found[SINGLE_SESSION]) == ("false", "false")
        self.collects_whole &= found[KYUUBI_COLLECT] in {UNSET, "false"}
        self.global_temporary = found[GLOBAL_TEMPORARY].lower()
        self._catalogs = frozenset(name.lower() for name in settings if name.startswith(CATALOGS))
        self.settings, self.defaults = {**settings, TIME_ZONE: found[TIME_ZONE]}, defaults
        self._times_learned += 1
        if application is not None:
            self._application = application
            self.default_catalog = settings.get(DEFAULT_CATALOG, SESSION_CATALOG)


async def _value(session: SqlSession, name: str) -> str:
    """A setting of the session, or UNSET. Raises what Spark raises."""
    return str((await session.run(f"SET {name}")).rows[0][1])
