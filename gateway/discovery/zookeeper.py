"""A session with ZooKeeper, over kazoo, which runs in threads of its own: everything is handed to the event loop.

Tests: `test_zookeeper`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Any

from gateway.discovery.registration import ZooKeeperUnavailable
from gateway.errors import FreshgateError

try:
    from kazoo.client import KazooClient, KazooState
    from kazoo.exceptions import KazooException, NodeExistsError
    from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE
except ImportError:
    KazooClient = None

SESSION_SECONDS = 5.0
"""ZooKeeper ends the session, and deletes its nodes, so long after its last sign, rounded up to the server's next tick
(2 seconds). That sign is at most a third of it older than a loss, so a gateway that was lost is missing after 3 to 7
seconds. Servers allow no less than two ticks."""
RECONNECT_SECONDS = 2.0
"""The longest pause between attempts to connect."""
ANSWER_SECONDS = 10.0


class ZooKeeper:
    """Implements `registration.Tree`."""

    def __init__(self, servers: str, login: str = "") -> None:
        """`servers`: HOST:PORT, separated by commas. `login`: USER:PASSWORD of the scheme `digest`; only that user may
        then change what is created. Raises FreshgateError without kazoo."""
        if KazooClient is None:
            raise FreshgateError(
                "discovery.zookeeper is set, but the package kazoo is not installed. Install freshgate[zookeeper], or "
                "remove the setting."
            )
        # What it says beside errors is said by the registration, in words about the gateway.
        quiet = logging.getLogger("kazoo")
        quiet.setLevel(logging.ERROR)
        self._acl = [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE] if login else OPEN_ACL_UNSAFE
        self._client = KazooClient(
            servers,
            timeout=SESSION_SECONDS,
            auth_data=[("digest", login)] if login else None,
            connection_retry={"max_tries": -1, "delay": 0.1, "max_delay": RECONNECT_SECONDS},
            logger=quiet,
        )
        self._client.add_listener(self._heard)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Future[None] | None = None
        self.session: int | None = None
        self.changed: Callable[[], None] = lambda: None

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._client.start_async()

    async def create(self, path: str, data: str, *, numbered: bool) -> str:
        parent, _, name = path.rpartition("/")
        await self._answer(self._client.ensure_path_async, parent, self._acl)
        if numbered and (found := await self._find_own(parent, name)) is not None:
            return found
        while True:
            try:
                created = await self._answer(
                    self._client.create_async, path, data.encode(), self._acl, ephemeral=True, sequence=numbered
                )
                return str(created)
            except NodeExistsError:
                # Of this session, whose reply was lost; or of an earlier one of this process, which ends soon.
                if (status := await self._answer(self._client.exists_async, path)) is None:
                    continue
                if status.ephemeralOwner == self.session:
                    return path
                raise ZooKeeperUnavailable(f"{path} is still there from an earlier session.") from None

    async def _find_own(self, parent: str, prefix: str) -> str | None:
        """A node of this session that was created although its reply was lost."""
        for child in await self._answer(self._client.get_children_async, parent):
            if child.startswith(prefix):
                status = await self._answer(self._client.exists_async, f"{parent}/{child}")
                if status is not None and status.ephemeralOwner == self.session:
                    return f"{parent}/{child}"
        return None

    async def exists(self, path: str) -> bool:
        return await self._answer(self._client.exists_async, path, self._seen) is not None

    async def stop(self) -> None:
        if self._loop is None or self._stopping is not None:
            return
        self._stopping = self._loop.create_future()
        # It waits for seconds if no server can be reached, and the process must not wait for it at its end.
        threading.Thread(target=self._end, args=(self._stopping,), name="end of ZooKeeper", daemon=True).start()
        await self._stopping

    def _end(self, ended: asyncio.Future[None]) -> None:
        try:
            self._client.stop()
            self._client.close()
        finally:
            self._hand_over(lambda: _settle(ended, None))

    # --- in kazoo's threads --------------------------------------------------------------------------------

    def _heard(self, state: str) -> None:
        connected = state == KazooState.CONNECTED
        session = int(self._client.client_id[0]) if connected else None
        self._hand_over(lambda: self._note(session))

    def _seen(self, event: Any) -> None:
        self._hand_over(self.changed)

    def _hand_over(self, call: Callable[[], object]) -> None:
        assert self._loop is not None
        # The loop is closed when the process ends.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call)

    # --- in the event loop ---------------------------------------------------------------------------------

    def _note(self, session: int | None) -> None:
        self.session = session
        self.changed()

    async def _answer(self, begin: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Raises NodeExistsError, and ZooKeeperUnavailable for every other error."""
        assert self._loop is not None
        answered = self._loop.create_future()
        begin(*arguments, **named).rawlink(lambda result: self._hand_over(lambda: _settle(answered, result)))
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return (await answered).get(block=False)
        except NodeExistsError:
            raise
        except KazooException as error:
            raise ZooKeeperUnavailable(
                f"ZooKeeper refuses or cannot be reached: {type(error).__name__} {error}"
            ) from error
        except TimeoutError:
            raise ZooKeeperUnavailable(f"ZooKeeper has not answered within {ANSWER_SECONDS:g} seconds.") from None


def _settle(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)
