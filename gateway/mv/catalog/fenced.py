"""The one port through which one of several gateways changes views and storage: all statements of its own pass it.

What changes nothing passes unchanged. A change is sent only if this gateway is sure to lead at the last moment, and as
a script that fails in Spark once the epoch has been dropped (`sql.texts.epochs.fenced`): the gateway may be paused
between its check and the sending, the network may deliver the bytes late, and Spark may let them wait. What is left is
the moment between two statements of one script.

Spark 3.5 has no scripts, and a client may have switched them off in its session. Then only the first half holds.
"""

from __future__ import annotations

from gateway.errors import StatementFailed
from gateway.mv.catalog.fence import Fence
from gateway.mv.ports import R, Send
from sql.names import TableName
from sql.texts import epochs

ATTEMPTS = 2
"""The epoch is another one after the storage database was created again, and Hive's metastore may miss it for a while.
"""


class Fenced:
    """Implements `mv.ports.Outlet` for a gateway of several."""

    def __init__(self, fence: Fence) -> None:
        """The statements of `fence` itself do not pass here."""
        self._fence = fence

    async def run(self, sql: str, send: Send[R]) -> R:
        """Sends a statement. Raises what `send` raises, and Superseded if another gateway leads: then a change has had
        no effect."""
        if not epochs.changes(sql):
            return await send(sql, None)
        self._fence.changing += 1
        try:
            return await self._change(sql, send)
        finally:
            self._fence.changing -= 1

    async def _change(self, sql: str, send: Send[R]) -> R:
        if self._fence.runs_scripts and epochs.fits_script(sql):
            for _ in range(ATTEMPTS):
                if (epoch := self._fence.epoch_view) is None:
                    break
                try:
                    return await send(epochs.fenced(epoch, sql), self._fence.sure_to_change)
                except StatementFailed as error:
                    if not _is_of_script(epoch, error):
                        error.args = (epochs.unfenced(str(error)),)
                        raise
                    if not _is_about(epoch, error):
                        break
                # The epoch is gone, or cannot be read: who leads is for the fence to say.
                await self._fence.check()
        return await send(sql, self._fence.sure_to_change)


def _is_of_script(epoch: TableName, error: StatementFailed) -> bool:
    """Whether Spark has refused the script before it began the statement. One that is not valid in a script is sent
    alone, too: Spark says better then what is wrong with it."""
    syntax, scripting = epochs.NO_SCRIPTS
    return error.sqlstate == syntax or scripting in str(error) or _is_about(epoch, error)


def _is_about(epoch: TableName, error: StatementFailed) -> bool:
    return epoch.table in str(error)
