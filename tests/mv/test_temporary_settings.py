"""Settings that a session has for a while."""

from __future__ import annotations

import asyncio

import pytest
from fake_spark import Answer

from gateway.errors import StatementFailed
from gateway.mv.temporary_settings import with_settings


class Refusing:
    """A session that refuses one setting. Implements `ports.SqlSession`."""

    def __init__(self, refused: str, refusal: BaseException | None = None) -> None:
        self.refused, self.heard, self.spoilt = refused, list[str](), False
        self.refusal = refusal or StatementFailed("it cannot be changed", "42K0F")

    async def run(self, sql: str, *, on_start: object = None) -> Answer:
        self.heard.append(sql)
        if sql.startswith(f"SET `{self.refused}`"):
            raise self.refusal
        return Answer([])

    def spoil(self) -> None:
        self.spoilt = True


async def test_settings_are_restored() -> None:
    session = Refusing("")
    async with with_settings(session, {"a": "1", "b": "2"}, {"a": "0"}, wished={"c": "3"}):
        assert session.heard == ["SET `a`=`1`", "SET `b`=`2`", "SET `c`=`3`"]
        session.heard.clear()
    assert session.heard == ["SET `a`=`0`", "RESET `b`", "RESET `c`"]


async def test_a_cancelled_change_is_restored_too() -> None:
    session = Refusing("c", asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        async with with_settings(session, {"a": "1"}, wished={"c": "3"}):
            pytest.fail("the work does not begin")
    assert session.heard[-2:] == ["RESET `a`", "RESET `c`"]


async def test_a_server_may_refuse_what_is_only_wished() -> None:
    session = Refusing("c")
    async with with_settings(session, {"a": "1"}, wished={"c": "3"}):
        session.heard.clear()
    assert session.heard == ["RESET `a`"]
    with pytest.raises(StatementFailed):
        async with with_settings(Refusing("a"), {"a": "1"}):
            pytest.fail("the work does not begin")
    assert not session.spoilt
