"""Tests sessions at several Spark servers: requests for another server than a connection's, and refused statements."""

from __future__ import annotations

import pytest
from fakes import Client, Site

from gateway.service.decision import Answer, Forward, decided
from gateway.service.routing import one_server
from sql.understood import Understood


@pytest.fixture
def site() -> Site:
    return Site()


async def at(site: Site, server: str) -> Client:
    """A client whose connection goes to this server, with a session there."""
    client = await site.client()
    client.dispatch.joined(server)
    await client.open({})
    assert client.session.at == server
    return client


async def test_a_session_is_used_over_its_own_servers_connection(site: Site) -> None:
    ours, other = await at(site, "a"), await at(site, "b")
    decision = await decided(ours.dispatch.request(ours._execution("SELECT 1", run_async=True)))
    assert isinstance(decision, Forward)
    assert ours.dispatch.at == "a"
    decision.on_reply and decision.on_reply(await site.spark.answer(decision.payload))
    # The other connection must stay at its server, where it has a session.
    other.session = ours.session
    decision = await decided(other.dispatch.request(other._execution("SELECT 1", run_async=True)))
    assert isinstance(decision, Answer)


async def test_a_statement_over_the_connection_of_another_server_has_its_usual_life(site: Site) -> None:
    ours, other = await at(site, "a"), await at(site, "b")
    other.session = ours.session
    for run_async in (True, False):
        executed = await other.execute("SELECT 1", run_async=run_async)
        assert executed.error is None
        assert (await executed.poll()).operationState == 2
        # The session's own connection knows it, too.
        executed.client = ours
        await executed.close()
    assert not ours.session.operations
    assert ours.session.outstanding == 0


async def test_a_connection_without_sessions_goes_where_it_is_needed(site: Site) -> None:
    ours = await at(site, "a")
    free = await site.second(ours)
    free.dispatch.joined("b")
    decision = await decided(free.dispatch.request(free._execution("SELECT 1", run_async=True)))
    assert isinstance(decision, Forward)
    assert free.dispatch.at == "a"


async def test_a_server_that_is_lost_takes_only_its_own_sessions(site: Site) -> None:
    ours, other = await at(site, "a"), await at(site, "b")
    site.sessions.lose_at("a")
    assert (ours.session.lost, other.session.lost) == (True, False)
    ours.dispatch.upstream_lost(None)
    first, second = await ours.execute("SELECT 1"), await ours.execute("SELECT 1")
    assert (first.sqlstate, second.error) == ("08S01", None)
    assert site.sessions.by_server()["b"] == 1


async def test_a_statement_that_does_not_reach_the_other_server_fails(site: Site) -> None:
    ours, other = await at(site, "a"), await at(site, "b")
    other.session = ours.session
    site.spark.down = True
    assert (await other.execute("SELECT 1")).sqlstate == "08S01"
    assert ours.session.outstanding == 0


@pytest.mark.parametrize(
    "text",
    [
        "CACHE TABLE s.t",
        "/* all */ cache lazy table x AS SELECT 1",
        "EXECUTE IMMEDIATE 'CACHE TABLE s.t'",
        "BEGIN CACHE TABLE s.t; END",
        "CREATE GLOBAL TEMPORARY VIEW v AS SELECT 1",
        "CREATE OR/**/REPLACE -- for all\nGLOBAL TEMP VIEW v AS SELECT 1",
        "EXECUTE IMMEDIATE 'CREATE GLOBAL TEMP VIEW v AS SELECT 1'",
        "BEGIN CREATE GLOBAL TEMP VIEW v AS SELECT 1; END",
    ],
)
def test_what_only_one_server_would_know_is_refused(text: str) -> None:
    refusal = one_server.refusal(Understood(text))
    assert refusal is not None
    assert refusal.sqlstate == "0A000"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT cache, table FROM s.t",
        "CREATE TEMPORARY VIEW v AS SELECT 1",
        "CREATE VIEW v AS SELECT global, temp FROM s.t",
        "UNCACHE TABLE s.t",
        "CLEAR CACHE",
        "BEGIN INSERT INTO s.t VALUES (1); END",
    ],
)
def test_what_every_server_knows_is_not_refused(text: str) -> None:
    assert one_server.refusal(Understood(text)) is None
