"""This gateway's nodes in ZooKeeper, and a look at the leader's.

ZooKeeper decides nothing: without it, clients go on, and a lost leader is noticed later. So nothing here raises.
Whatever ZooKeeper reports leads to a comparison of what is there with what should be.

Tests: `test_registration`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol

from gateway import loops
from gateway.discovery.server_nodes import ServerNode, leader_path
from gateway.errors import FreshgateError

log = logging.getLogger(__name__)

COMPARE_SECONDS = 10.0
"""Interval of comparisons when ZooKeeper reports nothing, for what a fault of it has left undone."""
LEAVE_SECONDS = 2.0
"""How long a stop waits for the end of the session. Without that end, the nodes go with the session: seconds later."""


class ZooKeeperUnavailable(FreshgateError):
    """ZooKeeper does not answer, or refuses."""


class Tree(Protocol):
    """ZooKeeper: `zookeeper.ZooKeeper`. Each call but `start` raises ZooKeeperUnavailable."""

    changed: Callable[[], None]
    """Called in the event loop when a session begins, ends or is interrupted, and once after a change of each path that
    `exists` has looked at."""

    @property
    def session(self) -> int | None:
        """The session; None while there is no connection. Nodes go with the session that has created them."""
        ...

    def start(self) -> None:
        """Connects, over and over until that succeeds."""
        ...

    async def create(self, path: str, data: str, *, numbered: bool) -> str:
        """Creates a node of this session, and its parents. Returns its path. `numbered`: `path` is the beginning of it;
        a node of this session that begins so is taken for it."""
        ...

    async def exists(self, path: str) -> bool: ...

    async def stop(self) -> None:
        """Ends the session, and with it its nodes."""
        ...


class Registration:
    """Registers the gateway, from `start` to `leave`."""

    def __init__(self, tree: Tree, namespace: str, deregistered: Callable[[], None]) -> None:
        """`deregistered` is called when another program has deleted a node by which clients find this gateway."""
        self._tree = tree
        self._namespace = namespace
        self._deregistered = deregistered
        self._servers: Sequence[ServerNode] = ()
        self._own: dict[str, str] = {}
        """The paths of nodes of this session, by what they are for."""
        self._session: int | None = None
        self._leads = ""
        self._watched = ""
        self._report: Callable[[bool], None] = lambda present: None
        self._present: bool | None = None
        """Whether the leader's node was there at the last look; None: it has never been."""
        self._changed = asyncio.Event()
        self._loop = loops.Loop("the registration in ZooKeeper", self._turn)
        self._problem = loops.BackOff("ZooKeeper", COMPARE_SECONDS, COMPARE_SECONDS)
        self._told = True
        """The log says that there is a connection."""
        self._deleted = False
        """Another program has deleted a node by which clients find this gateway."""
        tree.changed = self._changed.set

    @property
    def registered(self) -> bool:
        """Whether clients find this gateway, as far as it knows."""
        held = self._session is not None and self._session == self._tree.session
        return held and bool(self._servers) and all(each.path in self._own for each in self._servers)

    def start(self) -> None:
        self._tree.start()
        self._loop.start()

    def enter(self, servers: Sequence[ServerNode]) -> None:
        """From now on clients find this gateway."""
        self._servers = tuple(servers)
        self._changed.set()

    def lead(self, mark: str) -> None:
        """Registers this gateway as the one that leads, from now on or soon. It watches no other one."""
        self._leads, self._watched = mark, ""
        self._changed.set()

    def watch(self, mark: str, report: Callable[[bool], None]) -> None:
        """Reports when the node of the gateway that leads has gone, and when it is there again. One that has never been
        there is not reported: that gateway may not use ZooKeeper."""
        self._watched, self._report, self._present = mark, report, None
        self._changed.set()

    async def leave(self) -> None:
        """Clients do not find this gateway any more."""
        await self._loop.stop()
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                await self._tree.stop()
        except (FreshgateError, TimeoutError):
            log.info("ZooKeeper does not answer: clients find this gateway there until its session ends")

    # --- turns -------------------------------------------------------------------------------------------

    async def _turn(self) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(COMPARE_SECONDS):
                await self._changed.wait()
        self._changed.clear()
        await self._compare()
        return self._deleted

    async def _compare(self) -> None:
        session = self._tree.session
        self._tell(session is not None)
        if session is None:
            return
        if session != self._session:
            self._session = session
            self._own.clear()
        problem: FreshgateError | None = None
        # Each by itself: the gateway may have rights in one place and not in another.
        steps: list[Callable[[], Awaitable[None]]] = [self._keep_leader, self._watch_leader]
        steps += (partial(self._keep, each) for each in self._servers)
        for step in steps:
            try:
                await step()
            except FreshgateError as error:
                problem = problem or error
        if problem is None:
            self._problem.reset()
        elif self._tree.session is not None:
            self._problem.note(problem)

    def _tell(self, connected: bool) -> None:
        """Logs what has changed."""
        if connected is self._told:
            return
        self._told = connected
        if connected:
            log.info("connected to ZooKeeper again")
        else:
            log.warning("no connection to ZooKeeper: new clients may not find this gateway there")

    async def _keep_leader(self) -> None:
        """A node of an earlier term stays: nobody watches it."""
        if self._leads:
            path = leader_path(self._namespace, self._leads)
            if self._leads not in self._own or not await self._tree.exists(path):
                self._own[self._leads] = await self._tree.create(path, "", numbered=False)

    async def _watch_leader(self) -> None:
        if not (mark := self._watched):
            return
        present = await self._tree.exists(leader_path(self._namespace, mark))
        if mark != self._watched:
            return  # Another one leads meanwhile.
        if present is not self._present and (present or self._present is not None):
            self._present = present
            self._report(present)

    async def _keep(self, server: ServerNode) -> None:
        path = self._own.get(server.path)
        if path is None:
            path = self._own[server.path] = await self._tree.create(server.path, server.data, numbered=True)
            log.info("registered in ZooKeeper as %s", path)
        if self._deleted or await self._tree.exists(path) or self._tree.session != self._session:
            return
        log.info("%s was deleted in ZooKeeper: this gateway stops", path)
        self._deleted = True
        self._deregistered()
