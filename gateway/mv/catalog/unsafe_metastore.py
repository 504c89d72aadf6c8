"""Recognizes metastores that may say that an epoch stands after another gateway has dropped it.

Whoever leads is sure of it because the metastore has shown its epoch. A cache that another process does not know, in
Hive's metastore or in the JVM of a Spark, shows it for longer. Only what Spark says of its own settings can be seen:
not those of a metastore service that has other files, nor replicas of its database.
"""

from __future__ import annotations

from gateway.errors import FreshgateError
from gateway.mv.ports import Metastore

CACHED_STORE = "org.apache.hadoop.hive.metastore.cache.CachedStore"
STORES = ("hive.metastore.rawstore.impl", "metastore.rawstore.impl")
SECOND_LEVEL = "datanucleus.cache.level2"
SECOND_LEVEL_TYPE = "datanucleus.cache.level2.type"
PLACES = ("javax.jdo.option.ConnectionDriverName", "hive.metastore.uris", "metastore.thrift.uris")
"""Where the metastore is. None of them is set: embedded Derby, Hive's default."""
DERBY = "org.apache.derby."
UNDEFINED = "<undefined>"


class UnsafeMetastore(FreshgateError):
    """Several gateways cannot be run over this metastore."""

    sqlstate = "55000"


async def refuse(metastore: Metastore) -> None:
    """Raises UnsafeMetastore if Spark's settings show such a metastore, and what Spark raises if it cannot say."""
    for name in STORES:
        if await _value(metastore, name) == CACHED_STORE:
            raise UnsafeMetastore(
                f"Several gateways (gateways.enabled) cannot run over this metastore: {name} is CachedStore, which "
                f"shows a gateway's epoch for some time after another one has taken over. Set it to "
                f"org.apache.hadoop.hive.metastore.ObjectStore, its default."
            )
    if await _caches_objects(metastore) and await _may_be_shared(metastore):
        raise UnsafeMetastore(
            f"Several gateways (gateways.enabled) cannot run over this metastore: {SECOND_LEVEL} is true, so each "
            f"process that uses the metastore's database has a cache of its own, which may show a gateway's epoch "
            f"after another one has taken over. Set it to false, its default."
        )


async def _caches_objects(metastore: Metastore) -> bool:
    enabled = (await _value(metastore, SECOND_LEVEL)).lower() == "true"
    return enabled and (await _value(metastore, SECOND_LEVEL_TYPE)).lower() != "none"


async def _may_be_shared(metastore: Metastore) -> bool:
    """Whether other processes may use the database: embedded Derby lets in only one."""
    values = [await _value(metastore, name) for name in PLACES]
    return any(value and not value.startswith(DERBY) for value in values)


async def _value(metastore: Metastore, name: str) -> str:
    """Empty if it is not set."""
    found = next((str(row[1]) for row in (await metastore.run(f"SET {name}")).rows if row[0] == name), "")
    return "" if found == UNDEFINED else found.strip()
