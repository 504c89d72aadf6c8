"""Tests what SHOW GATEWAYS and freshgate.gateways say, and for whom."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.config import Gateways, Listen, Settings
from gateway.service.answers import catalog_tables
from gateway.service.answers.members import SHOW_COLUMNS, Members
from gateway.wire.member import GatewayRole, Member
from sql.classify import glance
from sql.grammar import parser
from sql.grammar.cursor import SyntaxProblem
from sql.grammar.parser import parse
from sql.lexed import Lexed
from sql.statement import ShowGateways

DOOR = Member("gateway-2:10009", GatewayRole.DOOR, 3, 1_700_000_000_123, 4, "0.1.0")


@dataclass
class Served:
    ports: tuple[int, ...] = (12345,)
    clients: int = 5
    relayed: int = 4


def members(*doors: Member, settings: Settings | None = None, lost: str | None = None, epoch: int = 3) -> Members:
    fence = SimpleNamespace(epoch_number=epoch, since=1_600_000_000.5, lost=lost)
    several = Gateways(enabled=True, address="gateway-1:10009", secret="s" * 32)
    made = Members(settings if settings is not None else replace(Settings(), gateways=several), cast(Any, fence))
    made.serve(Served(), lambda: doors)
    return made


def test_the_leader_comes_first_and_counts_its_own_clients() -> None:
    shown = members(DOOR).show(None)
    first, second = (dict(zip((each.name for each in SHOW_COLUMNS), row, strict=True)) for row in shown.rows)
    assert (first["address"], first["role"], first["epoch"], first["clients"]) == ("gateway-1:10009", "LEADER", 3, 1)
    assert str(first["since"]) == "2020-09-13 12:26:40.500000"
    assert (second["address"], second["role"], second["clients"], second["version"]) == (
        *("gateway-2:10009", "DOOR", 4, "0.1.0"),
    )


def test_the_table_has_the_rows_of_show() -> None:
    table, shown = members(DOOR).table(), members(DOOR).show(None)
    assert [name for name, _ in table.columns] == [each.name for each in shown.columns]
    assert table.columns == catalog_tables.GATEWAYS
    assert [(*row[:3], *row[4:]) for row in table.rows] == [(*row[:3], *row[4:]) for row in shown.rows]
    assert table.rows[1][3] == "2023-11-14 22:13:20.123000+00:00"


def test_a_single_gateway_is_one_row_where_clients_connect() -> None:
    everywhere = replace(Settings(), listen=Listen(host="0.0.0.0", port=0))
    (row,) = members(settings=Settings(), epoch=0).show(None).rows
    assert (row[0], row[1], row[2]) == ("127.0.0.1:12345", "LEADER", None)
    assert not str(members(settings=everywhere).show(None).rows[0][0]).startswith("0.0.0.0")
    (row,) = members(settings=Settings(), lost="another one").show(None).rows
    assert row[1] == "SUPERSEDED"


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("SHOW GATEWAYS", ["gateway-1:10009", "gateway-2:10009"]),
        ("show gateways like '*-2*'", ["gateway-2:10009"]),
        ("SHOW GATEWAYS 'gateway-1%|x';", ["gateway-1:10009"]),
        ("SHOW GATEWAYS LIKE 'x'", []),
    ],
)
def test_a_pattern_chooses_addresses(text: str, addresses: list[str]) -> None:
    command = parse(Lexed(text))
    assert isinstance(command, ShowGateways)
    assert [row[0] for row in members(DOOR).show(command.pattern).rows] == addresses


@pytest.mark.parametrize("text", ["SHOW GATEWAYS LIKE", "SHOW GATEWAYS IN d", "SHOW GATEWAYS LIKE x"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(SyntaxProblem):
        parse(Lexed(text))


def test_the_cheap_look_at_a_text_misses_none_of_our_statements() -> None:
    heads = [words for words, _ in parser._STATEMENTS if len(words) > 1]
    assert ("SHOW", "GATEWAYS") in heads
    rests = {"GRANTS": " ON MATERIALIZED VIEW x", "GRANT": " ON MATERIALIZED VIEW x"}
    texts = {words: " ".join(words) + rests.get(words[1], " x") for words in heads}
    missed = [words for words, text in texts.items() if not glance(Lexed(text)).maybe_command]
    assert missed == []
