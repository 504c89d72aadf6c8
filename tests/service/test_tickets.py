"""Tests what a door keeps of a client for the next leader, and what that makes of it."""

from __future__ import annotations

import pytest
from wire import calls

from gateway.service.clients.ticket import LooseTicket, SessionState, SessionTicket, Ticket
from gateway.wire.frame import WireError
from gateway.wire.message import Handle
from gateway.wire.sasl import Login

HERE, AT_SPARK, RUNNING = (Handle(bytes((n,)) * 16, bytes((n + 1,)) * 16) for n in (1, 3, 5))
LOGIN = Login("ádá", 'pass"word', "PLAIN", groups=frozenset({"analysts", "ö"}))
STATE = SessionState(AT_SPARK, False, False, True, True, True, (RUNNING, HERE), "spark-2:10000", "airflow/dag/run")


def ticket(state: SessionState = STATE) -> Ticket:
    session = SessionTicket(HERE, 9, "ádá", "127.0.0.1:1", LOGIN, calls.open_session(), state, frozenset({"x"}))
    return Ticket(LOGIN, ("eve", "ádá"), (session, session))


@pytest.mark.parametrize("each", [ticket(), ticket(SessionState(AT_SPARK)), Ticket(LOGIN, (), ())])
def test_a_ticket_comes_back_as_it_was(each: Ticket) -> None:
    assert Ticket.decoded(each.encoded()) == each


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b"[1,2,3]",
        b"\xff",
        b'[["a","b","c"],[],[[]]]',
        ticket().encoded().replace(b"01010101", b"zz"),
    ],
)
def test_anything_else_is_no_ticket(data: bytes) -> None:
    with pytest.raises(WireError):
        Ticket.decoded(data)


@pytest.mark.parametrize(("busy", "yielded"), [(False, True), (True, False)])
def test_the_ticket_of_a_session_over_http_comes_back_as_it_was(busy: bool, yielded: bool) -> None:
    each = LooseTicket(ticket().sessions[0], "0123", busy, yielded)
    assert LooseTicket.decoded(each.encoded()) == each


@pytest.mark.parametrize("data", [b"", b"[]", b"[1,2,3,4]", ticket().encoded(), b"[[],1,true,false]"])
def test_anything_else_is_no_ticket_of_a_session(data: bytes) -> None:
    with pytest.raises(WireError):
        LooseTicket.decoded(data)
