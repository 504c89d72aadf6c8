"""How the Spark that answers is set up, as far as the gateway has to know."""

from __future__ import annotations

import logging

from gateway.errors import FreshgateError, UpstreamLost
from gateway.mv.ports import Sessions

log = logging.getLogger(__name__)

LISTING_CACHES = ("spark.sql.filesourceTableRelationCacheSize", "spark.sql.hive.filesourcePartitionFileCacheSize")
INCREMENTAL_COLLECT = "spark.sql.thriftServer.incrementalCollect"
GLOBAL_TEMPORARY = "spark.sql.globalTempDatabase"
"""Where the temporary views of all sessions are; it can be set for a whole Spark only."""
SINGLE_SESSION = "spark.sql.hive.thriftServer.singleSession"
"""All sessions have the settings of each."""
COMMIT_PROTOCOL = "spark.sql.sources.commitProtocolClass"
SPARKS_OWN = "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"


class Habits:
    """Asked for when the gateway starts; until then, and where Spark does not say, the safe answers."""

    def __init__(self) -> None:
        self.caches_listings = True
        """Spark's sessions keep file listings of their own, so that a refresh must renew them first."""
        self.stages_writes = True
        """A job can have a directory of its own for what it has not committed (`maintenance.insert_version`). Protocols
        made for object stores keep jobs apart by themselves, and refuse that."""
        self.collects_whole = False
        """A statement's rows are in memory when it has ended, so that Spark can be told to go back in them."""

        self.global_temporary = "global_temp"
        """The database of the temporary views of all sessions; folded."""

    async def ask(self, sessions: Sessions) -> None:
        """Raises UpstreamLost."""
        try:
            async with sessions.session() as session:
                sizes = [(await session.run(f"SET {name}")).rows[0][1] for name in LISTING_CACHES]
                protocol = (await session.run(f"SET {COMMIT_PROTOCOL}")).rows[0][1]
                shared = (await session.run(f"SET {GLOBAL_TEMPORARY}")).rows[0][1]
                whole = [
                    (await session.run(f"SET {name}")).rows[0][1] for name in (INCREMENTAL_COLLECT, SINGLE_SESSION)
                ]
        except UpstreamLost:
            raise
        except FreshgateError as error:
            log.warning("cannot ask how Spark is set up: %s", error)
            return
        self.caches_listings = any(str(size) != "0" for size in sizes)
        self.global_temporary = str(shared).lower()
        self.stages_writes = protocol == SPARKS_OWN
        self.collects_whole = whole == ["false", "false"]
