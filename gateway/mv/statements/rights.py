"""Who may change a materialized view: its owner, and the administrators of the gateway. They grant others the right to
refresh it."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from gateway.access_list import NO_ONE, AccessList, Principal
from gateway.errors import NotAllowed
from gateway.mv.model.view import MaterializedView
from gateway.mv.ports import SqlSession
from sql.names import Namespace, TableName, quote
from sql.statement import Grantee, GranteeKind

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a statement: the session at Spark, the user, and the namespace of unqualified names."""

    session: SqlSession
    who: Principal
    namespace: Namespace
    parent: str = ""
    """As `Cause.parent`."""

    @property
    def user(self) -> str:
        return self.who.name


def log_change(done: str, name: TableName, caller: Caller, began: float) -> None:
    """Logs a change that a statement has made. `began` is a monotonic time."""
    log.info("%s the materialized view %s for %s in %.2f s", done, name, caller.user, time.monotonic() - began)


class Rights:
    """Reading requires no right here: Spark checks the reader's rights, and checked the definition at its creation."""

    def __init__(self, administrators: AccessList = NO_ONE) -> None:
        self._administrators = administrators

    @property
    def administrators(self) -> AccessList:
        """They may do everything with every view."""
        return self._administrators

    def is_administrator(self, who: Principal) -> bool:
        return self._administrators.names(who)

    def is_owner(self, who: Principal, view: MaterializedView) -> bool:
        """Whether the user may change the view, as its owner or as an administrator."""
        return who.name == view.owner or self.is_administrator(who)

    def check(self, who: Principal, view: MaterializedView, action: str) -> None:
        """Raises NotAllowed (42501) if the user may not do `action` ("drop it") to the view."""
        self.check_owner(who, view.owner, view.name, action)

    def check_gift(self, who: Principal, view: MaterializedView) -> None:
        """Raises NotAllowed (42501) if the user may not give the view to another one: refreshes in the name of the new
        owner would show the readers of the view, whoever they are, what the new owner may read."""
        if view.refreshed_as and not self.is_administrator(who):
            raise NotAllowed(
                f"The materialized view {view.name} is refreshed in the name of its owner, so {who} may not give it to "
                f"another user. Ask an administrator of the gateway (access.administrators).",
                sqlstate="42501",
            )

    def may_refresh(self, who: Principal, view: MaterializedView) -> bool:
        """Whether the user may refresh the view, as its owner, as an administrator, or by GRANT."""
        return self.is_owner(who, view) or any(concerns(each, who) for each in view.refreshers)

    def check_refresh(self, who: Principal, view: MaterializedView) -> None:
        """Raises NotAllowed (42501) if the user may not refresh the view."""
        if not self.may_refresh(who, view):
            raise NotAllowed(
                f"The materialized view {view.name} belongs to {view.owner}; {who} may not refresh it. Ask the owner, "
                f"or an administrator of the gateway, for GRANT REFRESH ON MATERIALIZED VIEW {view.name} TO USER "
                f"{quote(who.name)}.",
                sqlstate="42501",
            )

    def check_owner(self, who: Principal, owner: str | None, name: TableName, action: str) -> None:
        """The same by owner, for damaged views. If the owner cannot be read (None), only administrators may."""
        if who.name == owner or self.is_administrator(who):
            return
        if owner is None:
            raise NotAllowed(
                f"The owner of the materialized view {name} cannot be read, so {who} may not {action}. Ask an "
                f"administrator of the gateway (access.administrators).",
                sqlstate="42501",
            )
        raise NotAllowed(
            f"The materialized view {name} belongs to {owner}; {who} may not {action}. Ask the owner, or an "
            f"administrator of the gateway, or have the view given to you with ALTER MATERIALIZED VIEW {name} OWNER TO "
            f"{who}.",
            sqlstate="42501",
        )


def concerns(grantee: Grantee, who: Principal) -> bool:
    """Whether what is granted to the grantee is granted to the user."""
    match grantee.kind:
        case GranteeKind.USER:
            return grantee.name == who.name
        case GranteeKind.GROUP:
            return grantee.name in who.groups
    return True
