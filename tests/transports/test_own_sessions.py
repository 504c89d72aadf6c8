"""Tests the gateway's own sessions at a server that closes idle sessions, and at one that keeps them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from processes import ThriftServers

from gateway.errors import StatementFailed
from gateway.spark.client import Connection, EndpointSource, ServerSession, SessionPool
from gateway.wire.endpoint import Endpoint
from gateway.wire.http_connection import HTTP
from gateway.wire.message import Handle

DEADLINE_SECONDS = 60.0
REST_SECONDS = 4.5
"""The forgetful server closes sessions within 4 seconds after their last use."""
RESTS_MAX = 5


@dataclass
class At(EndpointSource):
    """A Spark with a fixed address."""

    place: Endpoint

    async def endpoint(self) -> Endpoint:
        return self.place


async def used(pool: SessionPool) -> ServerSession:
    async with pool.session() as session:
        assert (await session.run("SELECT 1")).rows == [(1,)]
        return session


async def exists(connection: Connection, handle: Handle) -> bool:
    """Whether the server has the session. The question counts as a use of the session."""
    try:
        await connection.session(handle).run("SELECT 1")
    except StatementFailed as failure:
        if "Invalid SessionHandle" not in str(failure):
            raise
        return False
    return True


async def forgotten(connection: Connection, handle: Handle) -> None:
    """Waits until the server has closed a session. Asking more often would keep it alive."""
    for _ in range(RESTS_MAX):
        await asyncio.sleep(REST_SECONDS)
        if not await exists(connection, handle):
            return
    raise AssertionError("the server keeps idle sessions")


def test_a_session_that_the_server_closed_is_reopened(thrift_servers: ThriftServers) -> None:
    async def story() -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            place = Endpoint("127.0.0.1", thrift_servers.ports["forgetful"])
            pool = SessionPool(At(place), "service", 1, {"spark.sql.shuffle.partitions": "5"})
            before = (await used(pool)).handle
            async with pool.session() as session:
                connection = session.connection
                await forgotten(connection, before)
                assert connection.alive
                assert (await session.run("SET spark.sql.shuffle.partitions")).rows[0][1] == "5"
                assert session.handle != before
                assert not connection.alive
                # The state that the borrower had created in the session is lost, so the borrower must get an error.
                begun = session.handle
                await forgotten(session.connection, begun)
                with pytest.raises(StatementFailed, match="Invalid SessionHandle"):
                    await session.run("SELECT 1")
            assert (await used(pool)).handle not in {before, begun}
            await pool.close()

    asyncio.run(story())


def test_a_session_outlives_its_connection_over_http_but_not_its_pool(thrift_servers: ThriftServers) -> None:
    async def story() -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            pool = SessionPool(At(Endpoint("127.0.0.1", thrift_servers.ports["http"], HTTP)), "service", 1)
            idle = await used(pool)
            elsewhere = await idle.connection.sibling()
            idle.connection.give_up()  # simulates Jetty, which closes idle connections
            assert await exists(elsewhere, idle.handle)
            async with pool.session() as spoiled:
                assert spoiled is not idle
                spoiled.spoil()
            await pool.close()
            for session in (idle, spoiled):
                assert not await exists(elsewhere, session.handle)
            await elsewhere.close()

    asyncio.run(story())
