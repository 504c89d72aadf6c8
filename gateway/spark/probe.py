"""Whether Spark answers: the smallest statement, with an end even where Spark hangs."""

from __future__ import annotations

import asyncio

from gateway.errors import StatementFailed
from gateway.spark.client import SessionPool


async def ask(pool: SessionPool, seconds: float) -> None:
    """Raises FreshgateError, or TimeoutError, where Spark does not answer within so many seconds."""
    async with asyncio.timeout(seconds), pool.session() as session:
        answer = asyncio.create_task(session.run("SELECT 1"))
        try:
            await asyncio.wait([answer])
        finally:
            if not answer.done():
                # Telling a server that hangs to cancel would take as long again.
                session.spoil()
                # The broken connection's error is nobody's: the time-out has said it, and asyncio need not.
                await asyncio.gather(answer, return_exceptions=True)
        try:
            await answer
        except StatementFailed:
            # A session may be beyond help while Spark is well: the next look gets a new one.
            session.spoil()
            raise
