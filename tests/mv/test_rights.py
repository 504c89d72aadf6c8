"""Who may change a view, and drop what is left of a damaged one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import cast

import pytest

from gateway.access_list import AccessList, Principal
from gateway.errors import NotAllowed, StatementFailed
from gateway.mv.catalog import discovery
from gateway.mv.catalog.naming import definition_of
from gateway.mv.model import properties as stored
from gateway.mv.model.view import Leftover
from gateway.mv.ports import Metastore, Relation, RelationKind
from gateway.mv.statements.rights import Rights
from sql.names import TableName
from sql.texts.maintenance import shown_rows
from sql.texts.storage_layout import UNPARTITIONED, Shown

NAME = TableName("s", "mv")


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
