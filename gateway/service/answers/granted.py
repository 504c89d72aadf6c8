"""SHOW GRANTS ON a materialized view.

The owner and the administrators see who has rights to it. Others see the owner, and what is granted to themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gateway.access_list import NO_ONE, Principal
from gateway.mv.model.view import MaterializedView
from gateway.mv.statements.rights import Rights, concerns
from gateway.service.operations.operation import Result
from gateway.wire.rowset import ResultColumn, Type
from sql.statement import Grantee, GranteeKind, ShowGrants

COLUMNS = (
    ResultColumn("Principal", comment="Name of the user or group"),
    ResultColumn("ActionType", comment="OWN, REFRESH, or MANAGE of an administrator of the gateway"),
    ResultColumn("ObjectType", comment="TABLE, or GATEWAY for what administrators may do with every view"),
    ResultColumn("ObjectKey", comment="Name of the materialized view"),
    ResultColumn("PrincipalType", comment="USER, GROUP or PUBLIC"),
)
"""Databricks' columns, which dbt reads, and the type."""
HIVE_COLUMNS = (
    ResultColumn("database"),
    ResultColumn("table"),
    ResultColumn("partition"),
    ResultColumn("column"),
    ResultColumn("principal_name"),
    ResultColumn("principal_type"),
    ResultColumn("privilege"),
    ResultColumn("grant_option", Type.BOOLEAN),
    ResultColumn("grant_time", Type.BIGINT),
    ResultColumn("grantor"),
)


@dataclass(frozen=True, slots=True)
class _Grant:
    grantee: Grantee
    right: str
    everywhere: bool = False
    """To every view."""


def shown(command: ShowGrants, view: MaterializedView, who: Principal, rights: Rights) -> Result:
    """The rights to the view that the user may see. The columns are Hive's or Databricks'."""
    grants = [grant for grant in _grants(view, who, rights) if command.grantee in (None, grant.grantee)]
    if command.hive:
        return Result(HIVE_COLUMNS, [_hive_row(view, grant) for grant in grants])
    rows = [
        (
            grant.grantee.name or grant.grantee.kind.value,
            grant.right,
            "GATEWAY" if grant.everywhere else "TABLE",
            None if grant.everywhere else str(view.name),
            grant.grantee.kind.value,
        )
        for grant in grants
    ]
    return Result(COLUMNS, rows)


def _grants(view: MaterializedView, who: Principal, rights: Rights) -> Iterator[_Grant]:
    sees_all = rights.is_owner(who, view)
    yield _Grant(Grantee(GranteeKind.USER, view.owner), "OWN")
    for grantee in sorted(view.refreshers):
        if sees_all or concerns(grantee, who):
            yield _Grant(grantee, "REFRESH")
    administrators = rights.administrators if sees_all else NO_ONE
    for name in sorted(administrators.users):
        yield _Grant(Grantee(GranteeKind.USER, name), "MANAGE", everywhere=True)
    for name in sorted(administrators.groups):
        yield _Grant(Grantee(GranteeKind.GROUP, name), "MANAGE", everywhere=True)


def _hive_row(view: MaterializedView, grant: _Grant) -> tuple[str | bool | None, ...]:
    grantee = grant.grantee
    name = grantee.name or grantee.kind.value
    table = None if grant.everywhere else view.name.table
    can_grant = grant.right != "REFRESH"
    return view.name.database, table, None, None, name, grantee.kind.value, grant.right, can_grant, None, None
