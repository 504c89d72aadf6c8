"""How the Spark that answers is set up, as far as the gateway has to know."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from gateway.errors import FreshgateError, UpstreamLost
from gateway.mv.ports import Sessions, SqlSession
from sql.names import SESSION_CATALOG

log = logging.getLogger(__name__)

LISTING_CACHES = ("spark.sql.filesourceTableRelationCacheSize", "spark.sql.hive.filesourcePartitionFileCacheSize")
INCREMENTAL_COLLECT = "spark.sql.thriftServer.incrementalCollect"
GLOBAL_TEMPORARY = "spark.sql.globalTempDatabase"
"""Where the temporary views of all sessions are; it can be set for a whole Spark only."""
SINGLE_SESSION = "spark.sql.hive.thriftServer.singleSession"
"""All sessions have the settings of each."""
COMMIT_PROTOCOL = "spark.sql.sources.commitProtocolClass"
SPARKS_OWN = "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"
TIME_ZONE = "spark.sql.session.timeZone"
DEFAULT_CATALOG = "spark.sql.defaultCatalog"
CATALOGS = "spark.sql.catalog."
"""Settings that register catalogs begin so."""
APPLICATION = "spark.app.id"
"""Another one means that Spark was started anew."""


class Habits:
    """Asked for when the gateway starts, and of each Spark that is started later; until then, and where Spark does not
    say, the safe answers."""

    def __init__(self) -> None:
        self.caches_listings = True
        """Spark's sessions keep file listings of their own, so that a refresh must renew them first."""
        self.stages_writes = True
        """A job can have a directory of its own for what it has not committed (`maintenance.insert_version`). Protocols
        made for object stores keep jobs apart by themselves, and refuse that."""
        self.collects_whole = False
        """A statement's rows are in memory when it has ended, so that Spark can be told to go back in them."""
        self.default_catalog = SESSION_CATALOG
        """In which sessions begin."""
        self.settings: Mapping[str, str] = {}
        """What a session of the gateway's own has, as far as something sets it, and the time zone."""
        self.global_temporary = "global_temp"
        """The database of the temporary views of all sessions; folded."""
        self._application: str | None = None
        self._catalogs: frozenset[str] = frozenset()

    def leads_elsewhere(self, name: str) -> bool:
        """Whether a session that begins with USE of this name, in small letters, may be in another catalog than Spark's
        own."""
        return self.default_catalog != SESSION_CATALOG or f"{CATALOGS}{name}" in self._catalogs

    async def ask(self, sessions: Sessions) -> None:
        """Raises UpstreamLost."""
        async with sessions.session() as session:
            await self._learn(session, None)

    async def greet(self, session: SqlSession) -> None:
        """Puts a session of the gateway's own, which was just opened, into Spark's own catalog. Where it is one of a
        Spark that was started anew, asks how that one is set up. Raises UpstreamLost."""
        try:
            found = await session.run(f"SET {APPLICATION}")
            await self._learn(session, str(found.rows[0][1]))
            if self.default_catalog != SESSION_CATALOG:
                await session.run(f"SET {DEFAULT_CATALOG}={SESSION_CATALOG}")
        except UpstreamLost:
            raise
        except FreshgateError as error:
            log.warning("cannot ask which Spark it is: %s", error)

    async def _learn(self, session: SqlSession, application: str | None) -> None:
        """`application`: where that is the one which was asked already, nothing is."""
        if application is not None and application == self._application:
            return
        try:
            said = {
                name: str((await session.run(f"SET {name}")).rows[0][1])
                for name in (
                    *LISTING_CACHES,
                    COMMIT_PROTOCOL,
                    INCREMENTAL_COLLECT,
                    SINGLE_SESSION,
                    TIME_ZONE,
                    GLOBAL_TEMPORARY,
                )
            }
            settings = {str(name): str(value) for name, value, *_ in (await session.run("SET")).rows}
        except UpstreamLost:
            raise
        except FreshgateError as error:
            log.warning("cannot ask how Spark is set up: %s", error)
            return
        self.caches_listings = any(said[name] != "0" for name in LISTING_CACHES)
        self.stages_writes = said[COMMIT_PROTOCOL] == SPARKS_OWN
        self.collects_whole = (said[INCREMENTAL_COLLECT], said[SINGLE_SESSION]) == ("false", "false")
        self.global_temporary = said[GLOBAL_TEMPORARY].lower()
        self._catalogs = frozenset(name.lower() for name in settings if name.startswith(CATALOGS))
        self.settings = {**settings, TIME_ZONE: said[TIME_ZONE]}
        if application is not None:
            self._application = application
            self.default_catalog = settings.get(DEFAULT_CATALOG, SESSION_CATALOG)
