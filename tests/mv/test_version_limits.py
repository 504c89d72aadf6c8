"""Which versions count against a limit, where the janitor does nothing by itself."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from views import view_of

from gateway.errors import RefreshFailed
from gateway.mv.catalog.fence import Fence
from gateway.mv.model.view import Leftover, Version
from gateway.mv.ports import Metastore
from gateway.mv.versions.janitor import Janitor
from gateway.mv.versions.kept import KeptLimits, VersionLookup
from gateway.mv.versions.readers import Readers
from gateway.mv.versions.removal import Removal

FIRST, SECOND = Version.whole(1, 0, 1, {}), Version.whole(2, 1, 2, {})
VIEW = view_of(SECOND)


class Kept:
    """VIEW, whose first version was replaced. Its janitor never gets round to it."""

    def __init__(self, retention_seconds: float = 0.0) -> None:
        self.readers = Readers()
        nothing = cast(Metastore, None)
        janitor = Janitor(cast(Removal, None), self.readers, cast(Fence, None), retention_seconds)
        limits = KeptLimits(count=2, wait_seconds=0)
        self.versions = VersionLookup(janitor, self.readers, nothing, limits)
        self.read = self.readers.begin(versions=[("v", 1)])
        janitor.retire("v", Leftover(VIEW.storage, VIEW.definition, whole=False), FIRST)

    async def refusal(self) -> str:
        with pytest.raises(RefreshFailed) as refused:
            await self.versions.make_room(VIEW)
        return str(refused.value)


def test_a_version_that_is_read_counts() -> None:
    said = asyncio.run(Kept().refusal())
    assert "it already keeps 2 versions, and versions.max_count is 2. Older versions in use: 1 (1 readers)" in said


def test_a_version_within_its_retention_counts() -> None:
    async def refused() -> str:
        kept = Kept(retention_seconds=1_000)
        kept.readers.release(kept.read)
        return await kept.refusal()

    assert "1 older versions are within versions.retention" in asyncio.run(refused())


def test_a_version_that_nothing_keeps_does_not_count() -> None:
    """The janitor may be busy dropping something else for longer than a refresh waits."""

    async def room() -> None:
        kept = Kept()
        kept.readers.release(kept.read)
        await kept.versions.make_room(VIEW)
        assert [each.version.number for each in kept.versions.kept(VIEW)] == [1, 2]

    asyncio.run(room())
