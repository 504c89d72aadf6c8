"""Tests which metastores several gateways refuse: those that Spark's settings show to have a cache."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.mv.catalog.unsafe_metastore import CACHED_STORE, UnsafeMetastore, refuse

POSTGRES = {"javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver"}
REMOTE = {"hive.metastore.uris": "thrift://metastore:9083"}
CACHE = {"datanucleus.cache.level2": "true"}


class SettingsSession:
    """Answers SET as Spark does."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.settings = settings

    async def run(self, sql: str) -> Any:
        _, _, name = sql.partition("SET ")
        return SimpleNamespace(rows=[(name, self.settings.get(name, "<undefined>"))])


@pytest.mark.parametrize(
    "settings",
    [
        {"hive.metastore.rawstore.impl": CACHED_STORE},
        {"metastore.rawstore.impl": CACHED_STORE, **REMOTE},
        {**CACHE, **POSTGRES},
        {**CACHE, **REMOTE},
        {"datanucleus.cache.level2": "TRUE", "datanucleus.cache.level2.type": "soft", **POSTGRES},
    ],
)
async def test_caches_are_refused(settings: dict[str, str]) -> None:
    with pytest.raises(UnsafeMetastore, match="Set it to ") as refusal:
        await refuse(cast(Any, SettingsSession(settings)))
    assert any(name in str(refusal.value) for name in settings)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        POSTGRES,
        REMOTE,
        {"hive.metastore.rawstore.impl": "org.apache.hadoop.hive.metastore.ObjectStore"},
        {**CACHE, "datanucleus.cache.level2.type": "none", **POSTGRES},
        {"datanucleus.cache.level2": "false", **POSTGRES},
        # One process only uses it.
        CACHE,
        {**CACHE, "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver"},
    ],
)
async def test_others_are_not(settings: dict[str, str]) -> None:
    await refuse(cast(Any, SettingsSession(settings)))
