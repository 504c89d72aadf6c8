"""Tests for the gateway's side of the guard inside Spark; tests/end_to_end/test_guard_in_spark.py has it in a Spark."""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
from collections.abc import Callable

import pytest

from gateway.mv.ports import Rows
from gateway.spark.row_list import RowList
from gateway.spark.storage_guard import (
    DATABASE,
    HASH,
    SECRET,
    STATE,
    GuardRefuses,
    GuardState,
    StorageGuard,
    hash_of,
    random_secret,
)
from sql.names import TableName
from sql.texts import maintenance, public_view
from sql.texts.storage_layout import Shown

OURS = "s" * 40
OF_OURS = {DATABASE: "freshgate_storage"}
VIEW, STORAGE = TableName("nyc", "Daily"), TableName("freshgate_storage", "nyc__daily__bae6635f")
PERMIT = re.compile(r"\n/\* freshgate permits ((?:[a-p]{4} ){11})((?:[a-p]{4} ){16})\*/$")
"""The time and a random number, and the signature."""
DIGITS = str.maketrans("abcdefghijklmnop", "0123456789abcdef")


class Told:
    """A session of a Spark whose settings are these."""

    def __init__(self, **settings: str) -> None:
        self._settings = settings
        self.asked: list[str] = []

    async def run(self, sql: str, *, on_start: Callable[[str], None] | None = None) -> Rows:
        name = sql.removeprefix("SET ")
        self.asked.append(name)
        return RowList(("key", "value"), [(name, self._settings.get(name, "<undefined>"))])

    def spoil(self) -> None:
        raise AssertionError("a session that is only asked stays as it is")


def guard(secret: str = OURS) -> StorageGuard:
    return StorageGuard(secret, "freshgate_storage")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (maintenance.create_definition(STORAGE, "SELECT 1 -- one"), "freshgate_storage.nyc__daily__bae6635f"),
        (public_view.create_public_view(VIEW, STORAGE, ["a"], Shown.only(1)), "nyc.daily"),
        (public_view.publish(VIEW, STORAGE, ["a"], Shown.only(2)), "nyc.daily"),
        (maintenance.drop_view(VIEW), "nyc.daily"),
        (maintenance.rename_view(VIEW, TableName("nyc", "other")), "nyc.daily"),
        (maintenance.set_view_properties(VIEW, {}, None), "nyc.daily"),
        (maintenance.unset_view_properties(VIEW, ["x"]), "nyc.daily"),
        (maintenance.drop_view(TableName("a`b", "c.d")), "a`b.c.d"),
    ],
)
def test_each_statement_in_a_clients_session_is_signed_for_its_view_alone(text: str, name: str) -> None:
    signed = guard().signed(text)
    found = PERMIT.search(signed)
    assert found is not None
    assert signed.removesuffix(found[0]) == text
    told, signature = (bytes.fromhex(part.replace(" ", "").translate(DIGITS)).hex() for part in found.groups())
    assert signature == hmac.new(OURS.encode(), f"{told} {name}".encode(), hashlib.sha256).hexdigest()
    assert guard().signed(text) != signed  # The guard accepts each permit once.


@pytest.mark.parametrize("text", ["SET a=b", "SELECT 'DROP VIEW IF EXISTS `a`.`b`'", "DESCRIBE TABLE `a`.`b`"])
def test_other_statements_are_not_signed(text: str) -> None:
    assert guard().signed(text) == text


def test_nothing_is_signed_without_a_secret() -> None:
    assert guard("").signed(maintenance.drop_view(VIEW)) == maintenance.drop_view(VIEW)
    assert guard("").session == {}


def test_the_secret_is_in_sessions_and_its_hash_in_spark() -> None:
    assert guard().session == {SECRET: OURS}
    assert guard().spark == {HASH: hash_of(OURS), DATABASE: "freshgate_storage"}
    assert hash_of(OURS) == hashlib.sha256(OURS.encode()).hexdigest()
    assert len({random_secret() for _ in range(10)}) == 10
    assert len(random_secret()) == 64


async def test_an_active_guard_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    ours = guard()
    before = ours.state
    for _ in range(3):
        await ours.greet(Told(**{STATE: "active freshgate_storage"}))
    assert (before, ours.state) == (GuardState.UNKNOWN, GuardState.ACTIVE)
    assert [record.getMessage() for record in caplog.records] == [
        "Spark's guard protects the storage database freshgate_storage"
    ]


@pytest.mark.parametrize(
    ("secret", "settings", "state", "level", "said"),
    [
        ("", {}, GuardState.ABSENT, logging.INFO, "bypass the gateway's checks"),
        (OURS, {}, GuardState.ABSENT, logging.WARNING, "bypass the gateway's checks"),
        ("", {HASH: "x", DATABASE: "other"}, GuardState.ABSENT, logging.INFO, "bypass the gateway's checks"),
        (
            OURS,
            {HASH: "x", **OF_OURS},
            GuardState.ABSENT,
            logging.WARNING,
            "spark.sql.extensions does not name freshgate.StorageGuard",
        ),
        (OURS, {STATE: "no hash"}, GuardState.OFF, logging.WARNING, "spark.freshgate.guard.sha256 is not set"),
        (OURS, {STATE: "single session"}, GuardState.OFF, logging.WARNING, "singleSession is on"),
    ],
)
async def test_a_guard_that_protects_nothing_is_logged(
    secret: str, settings: dict[str, str], state: GuardState, level: int, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    ours = guard(secret)
    await ours.greet(Told(**settings))
    (record,) = caplog.records
    assert ours.state is state
    assert record.levelno == level
    assert said in record.getMessage()


@pytest.mark.parametrize(
    ("secret", "settings", "said"),
    [
        ("", {HASH: "x", **OF_OURS}, "Set upstream.guard_secret"),
        (OURS, {STATE: "unknown gateway"}, "is not the SHA-256 of upstream.guard_secret"),
        (OURS, {STATE: "active other"}, "protects the database other, but storage.database is freshgate_storage"),
    ],
)
async def test_a_guard_that_would_refuse_the_gateway_ends_the_start(
    secret: str, settings: dict[str, str], said: str
) -> None:
    with pytest.raises(GuardRefuses, match=said):
        await guard(secret).greet(Told(**settings))


def test_a_kyuubi_does_not_get_the_secret() -> None:
    ours = guard()
    with pytest.raises(GuardRefuses, match="guard of materialized views does not work behind it"):
        ours.meet({"kyuubi.session.engine.launch.handle.guid": "x", "hive.server2.thrift.resultset": "1"})
    assert not ours.has_met
    ours.meet({"hive.server2.thrift.resultset.default.fetch.size": "1000"})
    assert ours.has_met


async def test_a_restarted_spark_is_asked_anew(caplog: pytest.LogCaptureFixture) -> None:
    ours = guard()
    await ours.greet(Told(**{STATE: "active freshgate_storage"}))
    await ours.greet(Told())
    before = ours.state
    await ours.greet(Told(**{STATE: "active freshgate_storage"}))
    assert (before, ours.state) == (GuardState.ABSENT, GuardState.ACTIVE)
