"""What a door keeps of a client, so that the next leader can go on with its sessions: they outlive a gateway at Spark.

The door does not read it, and it comes back over an authenticated connection only.

A session over HTTP belongs to no connection, and its client's next request may come through any gateway. So every door
has its ticket, from the leader, and the one that leads next has it already. Such a ticket may be old: the last news may
not have come. Therefore it says only who the session belongs to, and where it is; what may have changed is asked of
Spark, which also knows whether the session was closed.

Tests: `test_tickets`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from gateway.wire.frame import WireError
from gateway.wire.message import Handle
from gateway.wire.sasl import Login


@dataclass(frozen=True, slots=True)
class SessionState:
    """What the gateway keeps of a session besides Spark, as far as the next one must know it."""

    upstream_handle: Handle
    rewrites: bool = True
    keeps_results: bool = True
    whole_snapshot: bool = False
    """`Transaction.session`."""
    in_transaction: bool = False
    """Whether versions are held for it, which the next gateway cannot hold."""
    collects_in_parts: bool = False
    running: tuple[Handle, ...] = ()
    """Statements at Spark that have not ended as far as known."""
    at: str = ""
    """The name of the server at which it is, if there are several."""
    lineage_parent: str = ""
    """`SessionSettings.lineage_parent`."""
    from_memory: bool = True


@dataclass(frozen=True, slots=True)
class SessionTicket:
    """A session. `login`: what the client has logged in with. `open_payload`: the request that opens it at Spark."""

    handle: Handle
    protocol: int
    user: str
    peer: str
    login: Login
    open_payload: bytes
    state: SessionState
    groups: frozenset[str] = frozenset()
    """Those of `user`."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """A client's connection: its last login, the users whose handles work on it, and the sessions that it opened."""

    login: Login
    users: tuple[str, ...]
    sessions: tuple[SessionTicket, ...]

    def encoded(self) -> bytes:
        fields = [_login(self.login), list(self.users), [_session(each) for each in self.sessions]]
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def decoded(cls, data: bytes) -> Ticket:
        """Raises WireError for anything that `encoded` does not return."""
        try:
            login, users, sessions = json.loads(data)
            return cls(_read_login(login), tuple(users), tuple(_read_session(each) for each in sessions))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise WireError("the ticket of a client cannot be read") from error


@dataclass(frozen=True, slots=True)
class LooseTicket:
    """A session that belongs to no connection.

    `last`: the digest of the last statement that its client has sent; "" if none, or if it cannot be recognized.
    `busy`: a statement had no reply, or was the gateway's own. `yielded`: what runs goes on at the gateway that made
    the ticket, which has handed over.
    """

    session: SessionTicket
    last: str = ""
    busy: bool = False
    yielded: bool = False

    def encoded(self) -> bytes:
        fields = [_session(self.session), self.last, self.busy, self.yielded]
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def decoded(cls, data: bytes) -> LooseTicket:
        """Raises WireError for anything that `encoded` does not return."""
        try:
            session, last, busy, yielded = json.loads(data)
            return cls(_read_session(session), str(last), bool(busy), bool(yielded))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise WireError("the ticket of a session cannot be read") from error


class TicketKeeper(Protocol):
    """Keeps tickets of sessions that belong to no connection, and tells doors of them at once:
    `proxy.ticket_book`."""

    on_copy: Callable[[], None]
    """Called when another door is told of them."""

    @property
    def is_copied(self) -> bool:
        """Whether there is a door that is told."""
        ...

    def keep(self, key: bytes, ticket: bytes) -> None:
        """`key`: the guid of the session's handle. Replaces its ticket."""
        ...

    def drop(self, key: bytes) -> None:
        """The session has ended, or cannot go on elsewhere."""
        ...


def _login(login: Login) -> list[object]:
    return [login.user, login.password, login.mechanism, sorted(login.groups)]


def _read_login(fields: list[object]) -> Login:
    user, password, mechanism, groups = fields
    return Login(str(user), str(password), str(mechanism), groups=_read_groups(groups))


def _read_groups(value: object) -> frozenset[str]:
    if not isinstance(value, list):
        raise TypeError("a list")
    return frozenset(str(each) for each in value)


def _handle(handle: Handle) -> str:
    return f"{handle.guid.hex()}.{handle.secret.hex()}"


def _read_handle(text: str) -> Handle:
    guid, secret = text.split(".")
    return Handle(bytes.fromhex(guid), bytes.fromhex(secret))


def _session(each: SessionTicket) -> list[object]:
    state = each.state
    return [
        _handle(each.handle),
        each.protocol,
        each.user,
        each.peer,
        _login(each.login),
        base64.b64encode(each.open_payload).decode(),
        _handle(state.upstream_handle),
        [
            state.rewrites,
            state.keeps_results,
            state.whole_snapshot,
            state.in_transaction,
            state.collects_in_parts,
            state.from_memory,
        ],
        [_handle(running) for running in state.running],
        state.at,
        sorted(each.groups),
        state.lineage_parent,
    ]


def _read_session(fields: list[object]) -> SessionTicket:
    handle, protocol, user, peer, login, payload, upstream, flags, running, at, groups, parent = fields
    if not (isinstance(login, list) and isinstance(flags, list) and isinstance(running, list)):
        raise TypeError("a list")
    if not isinstance(protocol, int):
        raise TypeError("a number")
    rewrites, keeps_results, whole_snapshot, in_transaction, collects_in_parts, from_memory = map(bool, flags)
    state = SessionState(
        _read_handle(str(upstream)),
        rewrites,
        keeps_results,
        whole_snapshot,
        in_transaction,
        collects_in_parts,
        tuple(_read_handle(str(each)) for each in running),
        str(at),
        str(parent),
        from_memory,
    )
    data = base64.b64decode(str(payload))
    return SessionTicket(
        _read_handle(str(handle)),
        protocol,
        str(user),
        str(peer),
        _read_login(login),
        data,
        state,
        _read_groups(groups),
    )
