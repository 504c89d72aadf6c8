"""Who may change a view, and drop what is left of a damaged one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import pytest
from views import view_of

from gateway.access_list import AccessList, Principal
from gateway.errors import DefinitionRefused, NotAllowed, StatementFailed
from gateway.mv.catalog import discovery
from gateway.mv.catalog.naming import definition_of
from gateway.mv.model import properties as stored
from gateway.mv.model.view import Leftover, MaterializedView, Version
from gateway.mv.ports import Metastore, Relation, RelationKind
from gateway.mv.statements.alteration import REFRESHERS_MAX, changed
from gateway.mv.statements.rights import Rights
from gateway.service.answers.granted import shown
from sql.names import TableName
from sql.statement import Grantee, GranteeKind, SetRefreshers, ShowGrants
from sql.texts.public_view import shown_rows
from sql.texts.storage_layout import UNPARTITIONED, Shown

NAME = TableName("s", "mv")
RIGHTS = Rights(AccessList.of(["root", "group:admins"]))


@pytest.mark.parametrize(
    ("who", "owner", "allowed"),
    [
        ("ada", "ada", True),
        ("root", "ada", True),
        ("root", None, True),
        ("bob", "ada", False),
        ("Ada", "ada", False),
        ("bob", None, False),
        ("", None, False),
        (Principal("bob", frozenset({"admins"})), "ada", True),
        (Principal("bob", frozenset({"admins"})), None, True),
        (Principal("bob", frozenset({"Admins", "root", "ada", "group:admins"})), "ada", False),
    ],
)
def test_owners_and_administrators(who: Principal | str, owner: str | None, allowed: bool) -> None:
    rights = Rights(AccessList.of(["root", "group:admins"]))
    who = Principal(who) if isinstance(who, str) else who
    if allowed:
        rights.check_owner(who, owner, NAME, "drop it")
        return
    with pytest.raises(NotAllowed, match=r"s\.mv.* may not drop it") as refusal:
        rights.check_owner(who, owner, NAME, "drop it")
    assert refusal.value.sqlstate == "42501"


def test_a_view_whose_owner_nobody_can_tell_is_nobodys_without_administrators() -> None:
    with pytest.raises(NotAllowed, match=r"access\.administrators"):
        Rights().check_owner(Principal("ada"), None, NAME, "drop it")


@pytest.mark.parametrize(
    ("granted", "user", "allowed"),
    [
        ("", "ada", False),
        ("", "bob", True),
        ("", "root", True),
        ("USER ada", "ada", True),
        ("USER ada", "Ada", False),
        ("GROUP ada", "ada", False),
        ("GROUP night", "ada", True),
        ("USER night", "ada", False),
        ("PUBLIC", "eve", True),
    ],
)
def test_who_may_refresh(granted: str, user: str, allowed: bool) -> None:
    who, view = Principal(user, frozenset({"night"})), a_view(granted)
    assert RIGHTS.may_refresh(who, view) is allowed
    if not allowed:
        with pytest.raises(NotAllowed, match=rf"GRANT REFRESH ON MATERIALIZED VIEW s\.mv TO USER `{user}`") as refusal:
            RIGHTS.check_refresh(who, view)
        assert refusal.value.sqlstate == "42501"
    if user in ("ada", "eve"):
        with pytest.raises(NotAllowed):
            RIGHTS.check(who, view, "alter it")


def test_what_is_granted_is_bounded_and_can_be_revoked() -> None:
    many = frozenset(Grantee(GranteeKind.USER, f"user{number}") for number in range(REFRESHERS_MAX))
    view = changed(a_view(), SetRefreshers(tuple(many)))
    assert view.refreshers == many
    assert changed(view, SetRefreshers(tuple(many))) == view
    public = (Grantee(GranteeKind.PUBLIC),)
    with pytest.raises(DefinitionRefused, match="Grant it to a group") as refusal:
        changed(view, SetRefreshers(public))
    assert refusal.value.sqlstate == "54000"
    assert changed(view, SetRefreshers(public, granted=False)) == view
    assert changed(view, SetRefreshers(tuple(many), granted=False)).refreshers == frozenset()


@pytest.mark.parametrize("user", ["bob", "root"])
def test_owners_and_administrators_see_all_grants(user: str) -> None:
    found = shown(ShowGrants(("mv",)), a_view("USER ada", "GROUP night", "PUBLIC"), Principal(user), RIGHTS)
    assert list(found.rows) == [
        ("bob", "OWN", "TABLE", "s.mv", "USER"),
        ("night", "REFRESH", "TABLE", "s.mv", "GROUP"),
        ("PUBLIC", "REFRESH", "TABLE", "s.mv", "PUBLIC"),
        ("ada", "REFRESH", "TABLE", "s.mv", "USER"),
        ("root", "MANAGE", "GATEWAY", None, "USER"),
        ("admins", "MANAGE", "GATEWAY", None, "GROUP"),
    ]


def test_others_see_the_owner_and_what_they_have() -> None:
    view = a_view("USER ada", "USER eve", "GROUP night")
    for asked, seen in (("ada", ["bob", "ada"]), ("dan", ["bob", "night"])):
        who = Principal(asked, frozenset({"night"} if asked == "dan" else ()))
        assert [row[0] for row in shown(ShowGrants(("mv",)), view, who, RIGHTS).rows] == seen
    of_eve = ShowGrants(("mv",), Grantee(GranteeKind.USER, "eve"), hive=True)
    assert list(shown(of_eve, view, Principal("ada"), Rights()).rows) == []
    (row,) = shown(of_eve, view, Principal("bob"), Rights()).rows
    assert row == ("s", "mv", None, None, "eve", "USER", "REFRESH", False, None, None)


def a_view(*refreshers: str) -> MaterializedView:
    """The view s.mv of bob's."""
    found = (text.partition(" ") for text in refreshers if text)
    grantees = frozenset(Grantee(GranteeKind(kind), name) for kind, _, name in found)
    return replace(view_of(Version.whole(1, 0, 0, {})), name=NAME, owner="bob", refreshers=grantees)


class DroppedStorage:
    """A metastore in which the storage table of `s.mv` was dropped, and the rest was not."""

    def __init__(self, storage: TableName, properties: Mapping[str, str] | None) -> None:
        self._text = shown_rows(storage, ("a",), Shown.only(1), UNPARTITIONED)
        self._properties = properties

    async def relation(self, name: TableName) -> Relation | None:
        return Relation(name, RelationKind.VIEW, self._text) if name == NAME else None

    async def properties(self, table: TableName) -> Mapping[str, str]:
        if self._properties is None:
            raise StatementFailed(f"{table} cannot be read")
        return self._properties


@pytest.mark.parametrize(
    ("properties", "owner"),
    [(stored.write_owner("ada"), "ada"), ({}, None), ({"freshgate.owner": "zz"}, None), (None, None)],
)
def test_the_definition_tells_the_owner_where_the_storage_is_gone(
    properties: Mapping[str, str] | None, owner: str | None
) -> None:
    storage = TableName("freshgate_storage", "s__mv__0f1aba1b")
    found = asyncio.run(discovery.of_definition(cast(Metastore, DroppedStorage(storage, properties)), storage))
    assert found.damage is not None
    assert (found.damage.name, found.damage.owner) == (NAME, owner)


def test_a_definition_without_a_view_is_a_leftover() -> None:
    storage = TableName("freshgate_storage", "s__gone__0f1aba1b")
    found = asyncio.run(discovery.of_definition(cast(Metastore, DroppedStorage(storage, {})), storage))
    assert found.leftover == Leftover(storage, definition_of(storage))
