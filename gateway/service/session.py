"""Sessions: what the gateway knows of a client's session at Spark."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Container

from gateway.errors import UpstreamLost
from gateway.mv.ports import SqlSession
from gateway.service.operation import ForwardedOperation, Operation
from gateway.service.transaction import Transaction
from gateway.service.upstream import SideConnection, Upstream
from gateway.wire.message import Handle, OpenCall, opened
from gateway.wire.sasl import Login
from sql.names import SESSION_CATALOG, Namespace, TableName

DATABASE_KEY = "use:database"


class Session:
    """One session: its client's handle, Spark's handle, what names mean in it, and its open operations.

    The two handles are the same until Spark is lost and the session is opened anew.
    """

    def __init__(
        self,
        handle: Handle,
        protocol: int,
        user: str,
        login: Login,
        call: OpenCall,
        open_payload: bytes,
        upstream: Upstream,
    ) -> None:
        self.handle = handle
        self.upstream_handle = handle
        self.protocol = protocol
        self.user = user
        self.began = time.monotonic()
        self.temporary: dict[str, frozenset[TableName]] = {}
        """The session's temporary views: what each reads, by name, for what a name stands for may change."""
        self.transaction = Transaction.of(call.configuration)
        """The versions that its transaction sees."""
        self.operations: dict[bytes, Operation | ForwardedOperation] = {}
        self.lost = False
        """Spark went away; the next statement fails with the news, the one after it finds a new session."""
        self.told_lost = False
        self._login = login
        self._open_payload = open_payload
        self._upstream = upstream
        self._side: SideConnection | None = None
        self._side_lock = asyncio.Lock()
        self._first_namespace = _first_namespace(call)
        self.namespace: Namespace | None = self._first_namespace
        """None: unknown, Spark is asked when a name must be resolved."""

    async def sql(self) -> SqlSession:
        """To run the gateway's own statements in this session. Raises UpstreamLost."""
        return (await self.side()).session(self.upstream_handle)

    async def side(self) -> SideConnection:
        """The session's second connection to Spark, opened when first needed and again when it broke."""
        async with self._side_lock:
            if self._side is None or not self._side.alive:
                self._side = await self._upstream.connect(self._login)
            return self._side

    async def resolve_namespace(self) -> Namespace:
        """The current catalog and database."""
        if self.namespace is None:
            answer = await (await self.sql()).run("SELECT current_catalog(), current_database()")
            catalog, database = answer.rows[0]
            self.namespace = Namespace(database.lower(), catalog.lower())
        return self.namespace

    async def reopen(self) -> None:
        """Opens the session anew, after Spark went away, with the configuration that it began with."""
        await self.drop_side()
        side = await self.side()
        answer = opened(await side.forward(self._open_payload))
        if answer is None:
            raise UpstreamLost("Spark does not open the session again. Reconnect.")
        self.upstream_handle = answer[0]
        self.namespace = self._first_namespace
        self.lost = self.told_lost = False

    async def drop_side(self) -> None:
        side, self._side = self._side, None
        if side is not None:
            await side.close()

    async def cancel_own(self) -> None:
        """Stops the gateway's own operations of this session."""
        own = [operation for operation in self.operations.values() if isinstance(operation, Operation)]
        await asyncio.gather(*(operation.cancel() for operation in own))


def _first_namespace(call: OpenCall) -> Namespace | None:
    """The namespace that a session begins with; None where the configuration may name another catalog."""
    if any("catalog" in key.lower() for key in call.configuration):
        return None
    return Namespace(call.configuration.get(DATABASE_KEY, "default").lower(), SESSION_CATALOG)


def at_spark(operation: Operation | ForwardedOperation) -> ForwardedOperation | None:
    """The operation at Spark, where there is one."""
    return operation if isinstance(operation, ForwardedOperation) else operation.continued


class Sessions:
    """Every open session and operation, by handle: a handle works from any connection, but only for its user."""

    def __init__(self) -> None:
        self._sessions: dict[bytes, Session] = {}
        self._owners: dict[bytes, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def operations(self) -> int:
        """How many are open, in all sessions."""
        return len(self._owners)

    def add(self, session: Session) -> None:
        self._sessions[session.handle.guid] = session

    def remove(self, session: Session) -> None:
        """The session is over: nothing of it runs at Spark any more."""
        self._sessions.pop(session.handle.guid, None)
        session.transaction.drop()
        for guid, operation in session.operations.items():
            self._owners.pop(guid, None)
            if (forwarded := at_spark(operation)) is not None:
                forwarded.close()
        session.operations.clear()

    def lose(self, session: Session) -> None:
        """Spark went away, with everything in the session. The gateway's own operations go on."""
        session.lost = True
        session.temporary.clear()
        session.transaction.drop()
        for operation in session.operations.values():
            if (forwarded := at_spark(operation)) is not None:
                forwarded.lost = True
                forwarded.close()

    def find(self, handle: Handle, users: Container[str]) -> Session | None:
        session = self._sessions.get(handle.guid)
        if session is None or session.handle != handle or session.user not in users:
            return None
        return session

    def add_operation(self, session: Session, handle: Handle, operation: Operation | ForwardedOperation) -> None:
        session.operations[handle.guid] = operation
        self._owners[handle.guid] = session

    def remove_operation(self, session: Session, handle: Handle) -> None:
        session.operations.pop(handle.guid, None)
        self._owners.pop(handle.guid, None)

    def find_operation(
        self, handle: Handle, users: Container[str]
    ) -> tuple[Session, Operation | ForwardedOperation] | None:
        """The operation and its session, where the handle is known and belongs to the user."""
        session = self._owners.get(handle.guid)
        if session is None or session.user not in users:
            return None
        operation = session.operations.get(handle.guid)
        if operation is None or operation.handle != handle:
            return None
        return session, operation
