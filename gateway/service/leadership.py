"""What a gateway may route and tell beside which others wait to take over: only what the one that leads may.

No statement is routed unless this gateway led after the statement had arrived, because another one that leads could
have told its clients what this one does not know. And no client is told that a statement has ended whose effects others
see, unless this gateway still leads then: the next one may have looked at what the statement writes before it ended.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from gateway.errors import FreshgateError
from gateway.mv.catalog.epoch_counts import What
from gateway.mv.catalog.fence import Fence, Superseded
from gateway.service.decision import Answer, Decision, Forward, decided, failure
from gateway.service.operations.operation import ForwardedOperation
from gateway.wire import message
from gateway.wire.message import Head

ROUTED = frozenset({"ExecuteStatement", *message.METADATA_METHODS})
"""The calls of a session whose replies depend on what this gateway knows of views."""


class Leadership:
    """Whether this gateway leads, as far as clients must know."""

    def __init__(self, fence: Fence) -> None:
        self._fence = fence
        self.acknowledged: Callable[[], Awaitable[None]] | None = None
        """Set once this gateway has handed over: returns when the one that leads now treats what has been written so
        far as changed. Raises FreshgateError."""

    def needs_check(self, head: Head) -> bool:
        """Whether a call must wait until it is certain that this gateway leads."""
        return head.name in ROUTED and not self._fence.is_sure_now

    async def stands(self) -> bool:
        """Whether this gateway leads at this moment, or may lead because Spark does not answer."""
        try:
            await self._fence.check()
        except Superseded:
            return False
        except FreshgateError:
            return True
        return True

    async def then(self, head: Head, route: Callable[[], Decision]) -> Forward | Answer:
        """What is decided about a call once this gateway is sure to lead; an error if it does not."""
        try:
            await self._fence.sure()
        except FreshgateError as error:
            self._fence.counts.fenced[What.STATEMENT] += 1
            return Answer(failure(head, error))
        return await decided(route())

    async def confirmed(self, head: Head, answer: bytes) -> bytes:
        """Spark's answer that a statement has ended; an error with SQLSTATE 08007 if this gateway may not lead."""
        try:
            await self._confirm()
        except FreshgateError as error:
            self._fence.counts.fenced[What.END] += 1
            return failure(head, _unknown(error))
        return answer

    async def _confirm(self) -> None:
        try:
            await self._fence.sure()
        except FreshgateError:
            # It may have handed over during the check.
            if self.acknowledged is None:
                raise
            await self.acknowledged()

    async def status_told(self, operation: ForwardedOperation, head: Head, answer: bytes) -> bytes:
        """The same for a status. What a client is told once, it is told again."""
        if operation.final_status is None:
            return answer
        confirmed = await self.confirmed(head, answer)
        operation.final_status, operation.told = confirmed, True
        return confirmed


def _unknown(error: FreshgateError) -> FreshgateError:
    return FreshgateError(
        f"The statement has ended, but its outcome is unknown, because this gateway may not lead any more: {error} "
        f"Connect again, and look whether what it writes is there before you run it once more.",
        sqlstate="08007",
    )
