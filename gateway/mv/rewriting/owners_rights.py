"""Whether a refresh in the name of a view's owner may read what it would read, and must read all of it.

Tests: `test_owners`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gateway.errors import RefreshFailed
from gateway.mv.model.view import MaterializedView
from gateway.mv.ports import OwnerRefused, OwnerSessions
from gateway.mv.refresh.surroundings import owner_lost
from gateway.mv.rewriting.readers_rights import ReadersRights
from gateway.mv.rewriting.refreshers_plans import RefreshersPlans


class OwnersRights:
    """Asks Spark, by plans."""

    def __init__(
        self,
        refreshers: RefreshersPlans,
        rights: ReadersRights,
        owners: OwnerSessions,
        below: Callable[[MaterializedView], Iterable[MaterializedView]],
    ) -> None:
        """`below`: the views below a view whose rows are shown by the rights of each reader."""
        self._refreshers = refreshers
        self._rights = rights
        self._owners = owners
        self._below = below

    async def narrowed(self, view: MaterializedView) -> bool:
        """Whether the definition has, or may have, other rows for the owner than for the gateway's account. Raises
        RefreshFailed if it reads stored rows that are not shown to the owner, OwnerLost, and what Spark raises."""
        if not (owner := view.refreshed_as):
            return False
        for each in self._below(view):
            await self._check(view, each, owner)
        return await self._refreshers.narrowed(view)

    async def _check(self, view: MaterializedView, below: MaterializedView, owner: str) -> None:
        try:
            reason = await self._rights.difference(below, owner, lambda: self._owners.session(owner, fresh=True))
        except OwnerRefused as error:
            raise owner_lost(view, error) from error
        if reason:
            raise RefreshFailed(
                f"The materialized view {view.name} cannot be refreshed in the name of its owner {owner}: it reads "
                f"{below.name}, which has SECURITY INVOKER, and whose stored rows are not shown to {owner} ({reason}). "
                f"Replace it by a view that reads the base tables.",
                sqlstate="42501",
            )
