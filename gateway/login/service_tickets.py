"""The gateway's own tickets for Spark: from its keytab, in memory, and renewed before they end.

Tests: `test_service_tickets`.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import gssapi
from gssapi.exceptions import GSSError

from gateway.errors import NoTicket
from gateway.login import keytab as keytab_file
from gateway.login.kerberos import Sealing, default_realm, reason_of
from gateway.login.keytab import BadKeytab
from gateway.login.verifier import Unavailable
from gateway.wire.frame import WireError

log = logging.getLogger(__name__)

RENEWED_AT = 0.8
"""Of a ticket's life: the rest is for a KDC that does not answer."""
ANSWER_SECONDS = 8.0
"""How long a login at Spark waits for a ticket. libkrb5 itself asks a silent KDC for longer."""
AGAIN_SECONDS = 30.0
"""After an attempt to renew a ticket that failed, while it still lives."""
THREADS = 4
"""Logins that ask a KDC at the same time. With a silent one all are busy, and nothing else waits for them."""
WAITING_MAX = 64
"""Further logins are refused at once."""
HOST = "_HOST"
"""In a principal: the server's host, as in Hive's settings and URLs."""
_numbers = itertools.count(1)


class Initiated:
    """The client's end of a context. Implements `wire.gssapi.ClientContext`."""

    def __init__(self, context: gssapi.SecurityContext) -> None:
        """Asks the KDC for a ticket for the server, if there is none in memory. Raises GSSError."""
        self._context = context
        self._sealing = Sealing(context)
        self.token = bytes(context.step() or b"")

    def accept(self, answer: bytes) -> None:
        """Knows the server by its token. Raises WireError if that is wrong."""
        try:
            self._context.step(answer)
            complete = self._context.complete
        except GSSError as error:
            raise WireError(f"the server's answer to the ticket is wrong: {reason_of(error)}") from None
        if not complete:
            raise WireError("the server has not answered to the ticket")

    def wrap(self, data: bytes, *, confidential: bool) -> bytes:
        """As `wire.sasl.SecurityContext`."""
        return self._sealing.wrap(data, confidential=confidential)

    def unwrap(self, data: bytes) -> tuple[bytes, bool]:
        """As `wire.sasl.SecurityContext`."""
        return self._sealing.unwrap(data)


@dataclass(frozen=True, slots=True)
class _Own:
    """The gateway's ticket for the KDC, and with it those for servers, in a cache in memory."""

    credentials: gssapi.Credentials
    renewed: float
    """When it is to be renewed, and"""
    ends: float
    """when it ends, both by time.monotonic()."""


class ServiceTickets:
    """Implements `wire.endpoint.TicketSource`, for the principal `user` of a keytab. `service`: Spark's principal."""

    def __init__(
        self,
        keytab: str,
        user: str,
        service: str,
        answer_seconds: float = ANSWER_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = Path(keytab)
        self._user = user if "@" in user else f"{user}@{default_realm()}"
        self._service = service
        self._answer_seconds = answer_seconds
        self._clock = clock
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="ticket")
        self._waiting = 0
        self._own: _Own | None = None
        self._renewing = threading.Lock()

    def start(self) -> None:
        """Raises Unavailable if the keytab has no key for the gateway itself. Asks no KDC."""
        try:
            found = list(keytab_file.principals(keytab_file.read(self._path.read_bytes())))
        except (OSError, BadKeytab) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise Unavailable(f"the keytab {self._path} cannot be read: {reason}") from error
        if self._user not in found:
            raise Unavailable(f"the keytab {self._path} has no key of {self._user}, but of {', '.join(found)}")

    async def ticket(self, host: str) -> Initiated:
        """A new context for the server on this host. Raises NoTicket, which says why."""
        service = self._service.replace(HOST, host.lower())
        if self._waiting >= WAITING_MAX:
            raise self._failed(service, "too many logins already wait for the KDC")
        self._waiting += 1
        try:
            async with asyncio.timeout(self._answer_seconds):
                return await asyncio.get_running_loop().run_in_executor(self._threads, self._initiated, service)
        except TimeoutError:
            raise self._failed(service, f"the KDC did not answer within {self._answer_seconds:g} seconds") from None
        except GSSError as error:
            raise self._failed(service, reason_of(error)) from error
        finally:
            self._waiting -= 1

    def _failed(self, service: str, reason: str) -> NoTicket:
        log.warning("no ticket of %s for %s: %s", self._user, service, reason)
        return NoTicket(
            f"The gateway has no ticket of Kerberos for Spark ({service}): {reason}. Open sessions go on; try again "
            f"later."
        )

    def _initiated(self, service: str) -> Initiated:
        credentials = self._current()
        name = gssapi.Name(service, gssapi.NameType.kerberos_principal)
        flags = gssapi.RequirementFlag.mutual_authentication | gssapi.RequirementFlag.integrity
        return Initiated(
            gssapi.SecurityContext(
                name=name,
                creds=credentials,
                mech=gssapi.MechType.kerberos,
                usage="initiate",
                flags=flags | gssapi.RequirementFlag.confidentiality,
            )
        )

    def _current(self) -> gssapi.Credentials:
        """Raises GSSError if there is none, and no KDC for a new one."""
        own, now = self._own, self._clock()
        if own is not None and now < own.renewed:
            return own.credentials
        usable = own is not None and now < own.ends
        # While one thread asks the KDC, the others use what there is.
        if not self._renewing.acquire(blocking=not usable):
            assert own is not None
            return own.credentials
        try:
            if self._own is not None and self._own is not own:
                return self._own.credentials  # Another thread has renewed it meanwhile.
            self._own = self._renewed()
        except GSSError as error:
            if own is None or not usable:
                raise
            log.warning("the ticket of %s could not be renewed: %s", self._user, reason_of(error))
            self._own = _Own(own.credentials, self._clock() + AGAIN_SECONDS, own.ends)
        finally:
            self._renewing.release()
        return self._own.credentials

    def _renewed(self) -> _Own:
        began = self._clock()
        # A cache of its own each time: libkrb5 would otherwise keep to the old ticket until it ends.
        store = {"client_keytab": f"FILE:{self._path}", "ccache": f"MEMORY:freshgate-{next(_numbers)}"}
        name = gssapi.Name(self._user, gssapi.NameType.kerberos_principal)
        credentials = gssapi.Credentials(usage="initiate", name=name, store=store)
        seconds = float(credentials.lifetime)
        log.info("a ticket of %s ends in %.0f s", self._user, seconds)
        return _Own(credentials, began + RENEWED_AT * seconds, began + seconds)
