"""Joins one client's connection to one connection to Spark.

Requests are processed strictly one at a time: the dispatcher decides on each, then it is answered, or forwarded and its
reply passed on. Requests that a client sends ahead wait in a queue. The client is not read while the queue is long, and
Spark is not read while the client is slow. So a connection never holds more than its limits, in either direction.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol, cast

from gateway.errors import FreshgateError, LoginAbandoned, LoginDenied, LoginUnchecked, UpstreamLost
from gateway.proxy.busy_poll import BusyPoll
from gateway.proxy.door_transport import DoorTransport
from gateway.proxy.farewell import Farewell
from gateway.proxy.half_read import HalfRead
from gateway.proxy.read_ahead import ReadAhead
from gateway.proxy.slices import Slices
from gateway.proxy.traffic import Traffic
from gateway.proxy.trusted_proxies import TrustedProxies
from gateway.proxy.upstream import UpstreamRefused, UpstreamSocket, set_socket_options
from gateway.sealed_transport import SealedTransport
from gateway.service.decision import Answer, Dispatcher, Forward, Login, Page
from gateway.wire.chunks import TICKET_BYTES_MAX, Chunk, chunk
from gateway.wire.connection import NOSASL, ClientEnd, DirectReply, Sealed
from gateway.wire.frame import WireError, WireLimits
from gateway.wire.message import peek
from gateway.wire.reading import Ahead
from gateway.wire.repeat import Repeat
from gateway.wire.reply import exception

log = logging.getLogger(__name__)

ConnectUpstream = Callable[[Login, str | None], Awaitable[UpstreamSocket]]
"""With a login, and the name of the server; None: any one."""

_QUEUE_LENGTH_MAX = 64
"""Requests that a client may send ahead before it is no longer read. No known client sends even one."""
_SETTLE_SECONDS = 3.0
"""How long to wait for a reply that Spark owes to a client that has gone. Spark takes a few milliseconds."""


class Clients(Protocol):
    """Counts the clients: the listener."""

    def begin(self, relay: Relay) -> str | None:
        """Registers a client. Returns why it cannot be served, or None."""
        ...

    def end(self, relay: Relay) -> None:
        """Removes a client whose clean-up is complete."""
        ...


class Relay(asyncio.Protocol):
    """This Protocol is the client's end; Spark's end calls `upstream_data` and `upstream_gone`."""

    def __init__(
        self,
        open_client: Callable[[], Dispatcher],
        connect_upstream: ConnectUpstream,
        wire: ClientEnd,
        limits: WireLimits,
        clients: Clients,
        traffic: Traffic,
        proxies: TrustedProxies,
        peer: tuple[str, int] | None = None,
    ) -> None:
        """`peer`: the client's address, if a door passes the client's bytes on; then the transport must be a
        `DoorTransport`."""
        self._door: DoorTransport | None = None
        self.ticket: bytes | None = None
        """That of a client which another leader has served, until it is connected."""
        self._more = False  # Further requests came with the one that is being processed.
        self._open_client = open_client
        self._connect_upstream = connect_upstream
        self._limits = limits
        self._clients = clients
        self._traffic = traffic
        self._proxies = proxies
        self._passed_from = peer
        self._reported = ("", "")
        """The value of `_origin` that was last reported to the dispatcher."""
        self._loop = asyncio.get_running_loop()
        self._wire = wire
        self._transport: asyncio.Transport | None = None
        self._poll: BusyPoll | None = None
        self._login_timer: asyncio.TimerHandle | None = None
        self._login_overdue = False  # The time for a login is over.
        self._dispatcher: Dispatcher | None = None
        self._upstream: UpstreamSocket | None = None
        self._task: asyncio.Future[Any] | None = None  # A login, a decision or a new connection in progress.
        self._request: bytes | None = None  # The client's request whose reply is due from Spark, and
        self._forward: Forward | None = None  # what was sent to Spark for it, even if the client has its answer.
        self._ahead = ReadAhead(limits.buffer_bytes_max, traffic, self._ahead_changed)
        self._settled: asyncio.Future[None] | None = None  # `_settle` waits for Spark's reply in the client's place.
        self._streamed = False  # Part of the current or the last reply was streamed to the client.
        self._queue: deque[bytes] = deque()
        self._queue_bytes = 0
        self._reading = True
        self._writable = True
        self._slices = Slices(self._loop, self._read)
        self._repeat: Repeat | None = None  # The last answer, which may be repeated while
        self._repeat_while: Callable[[], bool] = bool  # this is true.
        self._ended: asyncio.Task[None] | None = None
        self._last_active = self._loop.time()  # When the client last sent something; updated by each sweep.
        self._active = False  # The client has sent something since the last sweep.
        self._sealed: SealedTransport | None = None
        self._half = HalfRead(traffic, limits.half_read_bytes_max)
        self._unsent = 0  # Bytes that waited for the client at the last sweep.
        # When the client last took some of them, and last had no incomplete request.
        self._took = self._completed = self._last_active

    @property
    def relayed(self) -> bool:
        """Another gateway passes the client's bytes on."""
        return self._passed_from is not None

    @property
    def descriptor(self) -> int:
        """That of the client's connection."""
        assert self._transport is not None
        return int(self._transport.get_extra_info("socket").fileno())

    # --- the client's end --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._door = transport if isinstance(transport, DoorTransport) else None
        self._poll = BusyPoll(self._transport if self._door is None else self._door.inner, self._traffic)
        set_socket_options(self._transport)
        self._transport.set_write_buffer_limits(high=self._limits.buffer_bytes_max)
        problem = self._clients.begin(self)
        if problem is not None and self.ticket is not None:
            log.warning("client %s, which another gateway has served, is closed: %s", self._peer(), problem)
            self._transport.close()
            return
        if problem is not None:
            farewell = Farewell(self._wire, problem, self._traffic)
            self._transport.set_protocol(farewell)
            farewell.connection_made(self._transport)
            return
        if self.ticket is not None:
            self._arrive(self.ticket)
            return
        self._login_timer = self._loop.call_later(self._limits.login_seconds, self._login_timed_out)

    def _arrive(self, ticket: bytes) -> None:
        """Goes on with a client of another leader."""
        dispatcher = self._dispatcher = self._open_dispatcher()
        try:
            login = dispatcher.moving.arrive(ticket)
            self._wire.resume(framed=login.mechanism != NOSASL)
        except WireError as error:
            log.error("client %s, which another gateway has served, is closed: %s", self._peer(), error)
            self._close()
            return
        self._renew_ticket()

    def data_received(self, data: bytes) -> None:
        self._traffic.from_clients += len(data)
        self._active = True
        if self._repeat is not None:
            other = self._answer_again(self._repeat, data)
            if other is None:
                return
            self._repeat, data = None, other
        self._slices.feed(data)

    def _read(self, data: bytes) -> None:
        """Processes received data; with none, continues with what was received before."""
        self._read_or_pause()
        while not self._is_closing():
            try:
                events = self._wire.receive(data)
            except WireError as error:
                log.info("client %s closed: %s", self._peer(), error)
                # The client would take it for the reply to another request, or for the rest of one.
                due = self._request is not None or self._task is not None or not self._writable or self._queue
                self._close(b"" if due else error.answer)
                return
            partial = self._wire.partial
            if (partial or self._half.bytes) and not self._half.has_room(
                len(data), partial=partial, begun=bool(events)
            ):
                log.warning("client %s closed: incomplete requests take too much", self._peer())
                self.abort()
                return
            for position, event in enumerate(events, start=1):
                self._more = position < len(events)
                if isinstance(event, bytes):
                    self._take(event)
                elif isinstance(event, DirectReply):
                    self._renew_ticket()
                    self._send(event.payload, whole=self._wire.tied)  # Over HTTP, it precedes a reply.
                elif isinstance(event, Sealed):
                    self._seal(event)
                else:
                    self._login(event)
            if self._wire.closing and self._is_free():
                self._close()
            if not (events and self._wire.pending and self._is_free()):
                return
            data = b""  # A request was answered at once, and the next one has already been received.

    def _seal(self, sealed: Sealed) -> None:
        """What the client sends and gets is protected from here on. Another gateway could not go on with that."""
        assert self._transport is not None
        rest = sealed.rest + self._slices.take()
        self._read_or_pause()
        if self._dispatcher is not None:
            self._dispatcher.moving.stays()
        self._door = None
        self._sealed = self._transport = SealedTransport(
            self._transport, self, sealed.seal, self._limits.request_bytes_max, rest
        )

    def _answer_again(self, repeat: Repeat, data: bytes) -> bytes | None:
        """Repeats the last answer while the same request comes. Returns other data; None if there is none."""
        assert self._poll is not None
        while True:
            answer = repeat.answer(data)
            if answer is None or not self._repeat_while():
                return data
            if self._door is not None:
                answer = chunk(Chunk.REPLY, answer)
            self._traffic.repeated += 1
            self._traffic.to_clients += len(answer)
            data = self._poll.exchange(answer, len(data))
            if not data:
                return None
            self._traffic.from_clients += len(data)

    def eof_received(self) -> bool:
        return False  # HiveServer2's clients never shut down only one direction: this one was killed.

    def pause_writing(self) -> None:
        self._writable = False
        self._repeat = None
        self._read_or_pause()
        self._read_spark_or_pause()

    def resume_writing(self) -> None:
        self._writable = True
        self._read_spark_or_pause()
        self._drain()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._login_timer is not None:
            self._login_timer.cancel()
        self._queue.clear()
        self._half.release()
        self._repeat = None
        self._ended = self._loop.create_task(self._end())

    def close(self) -> None:
        """Closes the client after what was already written, or leaves it to the next leader. `client_lost` follows as
        usual."""
        if self._door is None:
            self._close()
        else:
            self._move_on(self._door)

    def _move_on(self, door: DoorTransport) -> None:
        """Leaves the client to the next leader."""
        if door.is_closing():
            return
        self._repeat = None
        self._queue.clear()
        has_session = self._dispatcher is not None and self._dispatcher.logged_in
        if not self._writable or (self._wire.tied and not has_session):
            door.close()
        else:
            if self._dispatcher is not None:
                self._dispatcher.moving.left()
            if self.waiting:
                door.cut()
            else:
                door.leave()

    def abort(self) -> None:
        """Closes the client at once, even if it has not read what was written."""
        if self._transport is not None:
            self._transport.abort()

    @property
    def waiting(self) -> bool:
        """The client waits for a reply."""
        return self._task is not None or self._forward is not None

    @property
    def idle(self) -> bool:
        """Nothing of the client runs, and it has sent no part of a request: what it does next, it can do anew over
        another connection."""
        runs = self.waiting or bool(self._queue) or self._wire.partial
        return not runs and not (self._dispatcher is not None and self._dispatcher.is_busy)

    def sweep(self, now: float) -> None:
        """Closes a client that has stalled or was idle for too long; `now` is the event loop's time in seconds."""
        if self._transport is None:
            return
        if self._active or self.waiting:
            self._active, self._last_active = False, now
        unsent = self._transport.get_write_buffer_size()
        if not unsent or unsent < self._unsent:
            self._took = now
        partial = self._wire.partial or (self._sealed is not None and self._sealed.partial)
        if not partial or not self._reading or self._is_closing():
            self._completed = now
        self._unsent = unsent
        self._ahead.sweep(now)
        if now - min(self._took, self._completed) > self._limits.stall_seconds:
            log.warning("client %s closed: it stalled while reading or sending", self._peer())
            self.abort()
        elif self._is_closing():
            return
        elif 0 < self._limits.idle_seconds < now - self._last_active and not unsent:
            log.info("client %s closed: it was idle for too long (limits.idle_seconds)", self._peer())
            self._close()

    def give_up(self) -> None:
        """Stops waiting for the dispatcher's clean-up."""
        if self._ended is not None:
            self._ended.cancel()

    async def _end(self) -> None:
        """Cleans up after the client: tells the dispatcher, then closes Spark's end."""
        try:
            if self._task is not None:
                self._task.cancel()
                await asyncio.wait([self._task])
            self._read_spark_or_pause()  # Spark may be blocked writing a reply that nobody reads any more.
            await self._settle()
            if self._dispatcher is not None and (done := self._dispatcher.client_lost()) is not None:
                await done
        except Exception:  # Whatever the dispatcher's clean-up raises, the connections must be released.
            log.exception("clean-up of client %s failed", self._peer())
        finally:
            self._release_upstream()
            self._clients.end(self)

    @property
    def _is_settling(self) -> bool:
        """Spark still owes the reply to a request that the gateway answered at once."""
        return self._forward is not None and self._request is None

    async def _settle(self) -> None:
        """Waits for an owed reply, because Spark logs a warning with a stack trace if it cannot deliver one."""
        if self._upstream is not None and self._is_settling:
            self._settled = self._loop.create_future()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_SETTLE_SECONDS):
                    await self._settled

    def _release_upstream(self) -> None:
        """Releases Spark's end, whatever it still owes."""
        if self._is_settling:
            self._forward = None
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            self._ahead.part(upstream)

    def _has_settled(self) -> None:
        """The awaited reply has come, or never will."""
        if self._settled is not None and not self._settled.done():
            self._settled.set_result(None)

    # --- login -------------------------------------------------------------------------------------------

    def _login(self, login: Login) -> None:
        before = self._dispatcher
        dispatcher = self._dispatcher = self._open_dispatcher()
        dispatcher.login(login)
        if login.mechanism != NOSASL:
            self._stop_login_timer()
            self._task = self._loop.create_task(self._accept(dispatcher, before))

    async def _accept(self, dispatcher: Dispatcher, before: Dispatcher | None) -> None:
        """Accepts the client once the dispatcher has admitted it, and Spark too if the dispatcher requires that."""
        try:
            await self._leave(before)
            await self._admit(dispatcher)
        except FreshgateError as error:
            dispatcher.login_ended(error)
            if not isinstance(error, LoginDenied | LoginUnchecked):  # What checks logins logs these, within bounds.
                log.info("login of client %s refused: %s", self._peer(), error)
            fault = isinstance(error, UpstreamLost | LoginUnchecked)
            self._close(self._wire.refuse_login(str(error), fault=fault))
            return
        except asyncio.CancelledError:
            dispatcher.login_ended(LoginAbandoned())
            raise
        except Exception:
            # A fault of the gateway; without an answer the client would wait forever.
            dispatcher.login_ended(FreshgateError("The gateway failed to process this login."))
            log.exception("login of client %s failed in the gateway", self._peer())
            self._close(
                self._wire.refuse_login("The gateway failed to process this login; its log says why.", fault=True)
            )
            return
        finally:
            self._task = None
        dispatcher.login_ended(None)
        if self._transport is not None and not self._transport.is_closing():
            answer = self._wire.accept_login(dispatcher.identity)
            self._renew_ticket()
            self._send(answer, whole=True)
            self._read(b"")

    def _open_dispatcher(self) -> Dispatcher:
        dispatcher = self._open_client()
        self._report_origin(dispatcher)
        if self._door is not None and self._wire.tied:
            dispatcher.moving.passed_on()
        return dispatcher

    def _renew_ticket(self) -> None:
        """Tells the door what the next leader would need now."""
        if self._door is None or self._dispatcher is None or not self._wire.tied or self._is_closing():
            return
        if self._wire.bound:
            return
        if (ticket := self._dispatcher.moving.ticket()) is not None:
            # Without a ticket the client is closed with this gateway.
            self._door.ticket(ticket if len(ticket) <= TICKET_BYTES_MAX else b"")

    async def _leave(self, before: Dispatcher | None) -> None:
        """Over HTTP, the next request is another user's: it must not reach Spark as the previous user."""
        try:
            await self._settle()
        finally:
            self._release_upstream()
            if before is not None and (done := before.client_lost()) is not None:
                await done

    async def _admit(self, dispatcher: Dispatcher) -> None:
        if await dispatcher.admit():
            await self._join(dispatcher)

    async def _join(self, dispatcher: Dispatcher) -> UpstreamSocket:
        try:
            upstream = await self._connect_upstream(dispatcher.upstream_login(), dispatcher.at)
        except UpstreamRefused as error:
            await dispatcher.refused_by_spark(error)
            raise
        upstream.attach(self)
        dispatcher.joined(upstream.at)
        self._upstream = upstream
        return upstream

    def _login_timed_out(self) -> None:
        """The time for a login is over. Without SASL an OpenSession is the login: one in progress is still answered."""
        self._login_overdue = True
        if not self.waiting:
            self._close_overdue()

    def _close_overdue(self) -> None:
        message = f"No login within {self._limits.login_seconds:g} seconds."
        log.info("client %s closed: %s", self._peer(), message)
        self._close(self._wire.refuse_login(message))

    def _stop_login_timer(self) -> None:
        if self._login_timer is not None:
            self._login_timer.cancel()
            self._login_timer = None

    # --- requests ----------------------------------------------------------------------------------------

    def _take(self, request: bytes) -> None:
        if self._is_free():  # Then nothing is queued, because whatever frees the connection drains the queue.
            self._decide(request)
            return
        self._queue.append(request)
        self._queue_bytes += len(request)
        self._read_or_pause()

    def _read_or_pause(self) -> None:
        """Reads the client while few of its requests, and few bytes of its replies, wait."""
        wanted = self._writable and not self._queue_is_long() and not self._slices
        if wanted == self._reading or self._is_closing() or self._transport is None:
            return
        self._reading = wanted
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _is_free(self) -> bool:
        return self._forward is None and self._task is None and self._writable

    def _queue_is_long(self) -> bool:
        return len(self._queue) > _QUEUE_LENGTH_MAX or self._queue_bytes > self._limits.buffer_bytes_max

    def _drain(self) -> None:
        """Processes queued requests until one has to be waited for."""
        while self._queue and self._is_free() and not self._is_closing():
            request = self._queue.popleft()
            self._queue_bytes -= len(request)
            self._decide(request)
        self._read_or_pause()
        if self._wire.closing and self._is_free():
            self._close()
        if self._wire.pending and self._is_free() and not self._is_closing():
            self._read(b"")

    def _decide(self, request: bytes) -> None:
        assert self._dispatcher is not None
        if self._door is not None and self._dispatcher.moving.leaves(request):
            self._move_on(self._door)
            return
        if self._origin != self._reported:
            self._report_origin(self._dispatcher)  # A proxy may send requests of several clients over one connection.
        try:
            decision = self._dispatcher.request(request)
        except Exception:  # A fault of the gateway must end this request, not the client's connection.
            self._answer(self._fault(request))
            return
        if isinstance(decision, (Answer, Forward)):
            self._act(request, decision)
        else:
            self._task = asyncio.ensure_future(decision)
            self._task.add_done_callback(partial(self._decided, request))

    def _decided(self, request: bytes, decision: asyncio.Future[Forward | Answer]) -> None:
        self._task = None
        if self._is_closing():
            return
        try:
            action = decision.result()
        except WireError as error:
            # From a connection that the dispatcher has made itself.
            log.error("Spark's reply for client %s cannot be read: %s", self._peer(), error)
            action = Answer(_exception_reply(request, f"Spark's reply cannot be read: {error}."))
        except (Exception, asyncio.CancelledError):
            # Cancelled from elsewhere: the client still waits for an answer.
            action = Answer(self._fault(request))
        self._act(request, action)
        self._drain()

    def _act(self, request: bytes, action: Forward | Answer) -> None:
        if isinstance(action, Answer):
            self._answer(action.payload)
            if action.repeat_while is not None and self._writable and not self._queue and not self._slices:
                on_wire = self._wire.on_wire(request, action.payload)
                self._repeat = Repeat(request, action.payload, on_wire) if on_wire else None
                self._repeat_while = action.repeat_while
            return
        if action.page is not None and action.page.claims is not None:
            self._claim(request, action, action.page.claims)
            return
        self._ahead.make_way()
        self._request, self._forward, self._streamed = request, action, False
        if self._upstream is not None and not self._upstream.wire.usable:
            self._upstream.close()
            self._upstream = None
        if self._upstream is not None and self._is_elsewhere(self._upstream):
            self._release_upstream()
        if self._upstream is None:
            self._task = self._loop.create_task(self._join_and_send(action))
            return
        self._upstream.send(action.payload)
        if action.at_once is not None:
            self._request = None
            self._answer(action.at_once)
            if action.on_sent is not None:
                action.on_sent()

    def _is_elsewhere(self, upstream: UpstreamSocket) -> bool:
        """Whether the request is for another server. The dispatcher forwards none to there while the connection must
        stay."""
        return self._dispatcher is not None and self._dispatcher.at not in (None, upstream.at)

    def _claim(self, request: bytes, forward: Forward, ahead: Ahead) -> None:
        """The client asks for the page that was read ahead."""
        if not self._ahead.claim(ahead, request):
            self._answer(_exception_reply(request, "The connection to Spark broke. Run the statement again."))
            return
        self._request, self._forward, self._streamed = request, forward, False
        self.upstream_data(b"")

    async def _join_and_send(self, forward: Forward) -> None:
        assert self._dispatcher is not None
        try:
            upstream = await self._join(self._dispatcher)
        except Exception as error:
            # Whatever failed, the client waits for an answer.
            log.warning("no connection to Spark for client %s: %s", self._peer(), error)
            self._task = None
            self._not_joined(self._dispatcher, error)
            return
        self._task = None
        upstream.send(forward.payload)

    def _not_joined(self, dispatcher: Dispatcher, error: Exception) -> None:
        request = self._request
        self._request = self._forward = None
        if request is None or self._is_closing():
            return
        known = (
            error
            if isinstance(error, FreshgateError)
            else UpstreamLost("The gateway could not connect to Spark; its log says why.")
        )
        try:
            reply = dispatcher.not_joined(request, known)
        except Exception:  # As in _decide; _fault logs and answers it.
            reply = self._fault(request)
        self._answer(reply)
        self._drain()

    def _answer(self, reply: bytes, on_reply: Callable[[bytes], object] | None = None) -> None:
        self._streamed = False
        self._renew_ticket()
        self._write(self._wire.send(reply), whole=True)
        if on_reply is not None:
            self._process_reply(on_reply, reply)
        self._replied()
        if self._login_timer is None:
            return
        if self._dispatcher is not None and self._dispatcher.logged_in:
            # Without SASL the login is complete once a session is open.
            self._stop_login_timer()
            self._wire.accept_login()
        elif self._login_overdue:
            self._close_overdue()

    def _process_reply(self, on_reply: Callable[[bytes], object], reply: bytes) -> None:
        """Reports a reply. Raises WireError if it does not match its request, or if processing it failed."""
        try:
            on_reply(reply)
        except WireError:
            raise
        except Exception as error:
            # A fault of the gateway; the client has its answer. The connection is given up, because the gateway no
            # longer knows what exists at Spark.
            log.exception("Spark's reply to client %s could not be processed", self._peer())
            raise WireError("a reply could not be processed") from error

    def _replied(self) -> None:
        if self._dispatcher is not None:
            self._dispatcher.replied()
            self._renew_ticket()

    def _write(self, data: bytes, *, whole: bool) -> None:
        """Sends a reply, or part of one, and closes the client if the connection ends with it."""
        self._send(data, whole=whole)
        if self._wire.closing:
            self._close()

    def _send(self, data: bytes, *, whole: bool = False) -> None:
        """`whole`: a reply ends with it."""
        if self._transport is None or self._transport.is_closing():
            return
        self._traffic.to_clients += len(data)
        if self._door is not None and whole and not self._has_more:
            self._door.reply(data)
        elif data:
            self._transport.write(data)

    @property
    def _has_more(self) -> bool:
        """The client has sent more than the request that is being answered."""
        return self._more or bool(self._queue or self._slices or self._wire.partial or self._wire.pending)

    def _fault(self, request: bytes) -> bytes:
        """Logs a fault of the gateway's own code and returns the answer. It must end neither other requests nor the
        gateway."""
        log.exception("a request of client %s failed in the gateway", self._peer())
        return _exception_reply(request, "The gateway failed to process this request; its log says why.")

    # --- Spark's end -------------------------------------------------------------------------------------

    def upstream_data(self, data: bytes) -> None:
        upstream = self._upstream
        if upstream is None:
            return
        try:
            for piece in self._ahead.receive(data):
                if not self._is_closing() or self._is_settling:
                    self._receive(upstream, piece)
        except WireError as error:
            log.error("connection to Spark of client %s closed: %s", self._peer(), error)
            upstream.close()
            self.upstream_gone()

    def _receive(self, upstream: UpstreamSocket, data: bytes) -> None:
        forward = self._forward
        if forward is None:
            self._pass_late(upstream, data)
        elif forward.collected:
            if (reply := upstream.wire.collect(data)) is not None:
                self._finish_collected(forward, reply)
        elif forward.page is not None and upstream.wire.framed:
            self._pass_page(upstream, forward.page, data)
        else:
            self._pass(upstream, data)

    def _ahead_changed(self) -> None:
        if self._upstream is not None:
            self._ahead.go_back(self._upstream)
        self._read_spark_or_pause()

    def _read_spark_or_pause(self) -> None:
        """Reads Spark while the client takes its data, and while data that nobody has asked for yet can be kept."""
        if self._upstream is None:
            return
        if (self._writable or self._is_closing() or self._ahead.discarding) and not self._ahead.full:
            self._upstream.resume()
        else:
            self._upstream.pause()

    def _pass(self, upstream: UpstreamSocket, data: bytes) -> None:
        piece, ended = upstream.wire.relay(data, self._wire.framed)
        if not piece and not ended:
            return
        self._streamed = True
        page = self._forward.page if self._forward is not None else None
        if ended:
            self._request = self._forward = None
        self._write(self._wire.part(piece, ended=ended), whole=ended)
        if ended:
            self._replied()
            if page is not None and not self._queue and not self._is_closing():
                self._ahead.ask(upstream, page)
            self._drain()

    def _pass_page(self, upstream: UpstreamSocket, page: Page, data: bytes) -> None:
        """Passes a page of rows; before it, or in its place, Spark may have to be asked for something else."""
        passed, again = page.receive(data)
        if again is not None:
            upstream.send(again)
        elif passed:
            self._pass(upstream, passed)

    def _pass_late(self, upstream: UpstreamSocket, data: bytes) -> None:
        if upstream.wire.framed and not self._streamed:
            raise WireError("Spark sent bytes without a request")
        if rest := upstream.wire.late(data, self._wire.framed):
            self._write(self._wire.part(rest, ended=False), whole=False)

    def _finish_collected(self, forward: Forward, reply: bytes) -> None:
        """Answers with a collected reply. Raises WireError if it does not match its request (still due if `mend`
        raised)."""
        if self._is_settling:
            self._finish_settled(forward, reply)
            return
        assert self._request is not None
        if forward.mend is not None:
            try:
                reply = forward.mend(reply)
            except WireError:
                raise
            except Exception:  # As in _decide; _fault logs and answers it.
                reply = self._fault(self._request)
        request, self._request, self._forward = self._request, None, None
        if forward.confirm is None:
            self._answer(reply, forward.on_reply)
        else:
            if forward.on_reply is not None:
                self._process_reply(forward.on_reply, reply)
            self._task = asyncio.ensure_future(_confirmed(forward.confirm(reply)))
            self._task.add_done_callback(partial(self._decided, request))
        self._drain()

    def _finish_settled(self, forward: Forward, reply: bytes) -> None:
        """Spark has sent the reply that the client already got from the gateway."""
        self._forward = None
        self._has_settled()
        if forward.on_reply is not None:
            self._process_reply(forward.on_reply, reply)
        self._drain()

    def upstream_gone(self) -> None:
        """Spark's end is lost: the client gets an error if one can still be sent, else it is closed."""
        self._upstream = None
        self._ahead.lose()
        if self._is_settling:
            self._forward = None
        self._has_settled()
        if not self._is_closing() and self._dispatcher is not None:
            self._report_loss()

    def _report_loss(self) -> None:
        """Tells the client, or closes it."""
        assert self._dispatcher is not None
        request = self._request
        self._request = self._forward = None
        try:
            reply = self._dispatcher.upstream_lost(request)
        except Exception:  # As in _decide; _fault logs and answers it.
            reply = self._fault(request) if request is not None else None
        if request is not None:
            if reply is None or self._streamed:
                self._close()
                return
            self._answer(reply)
        self._drain()

    # --- helpers -----------------------------------------------------------------------------------------

    def _is_closing(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def _close(self, answer: bytes = b"") -> None:
        self._repeat = None
        if self._transport is None or self._transport.is_closing():
            return
        if answer:
            self._traffic.to_clients += len(answer)
            self._transport.write(answer)
        self._transport.close()

    @property
    def _origin(self) -> tuple[str, str]:
        """What the last request says about where it comes from, and in whose name."""
        return self._wire.forwarded_for, self._wire.do_as

    def _report_origin(self, dispatcher: Dispatcher) -> None:
        """Reports where the last request came from. All other log messages name the connection's peer."""
        forwarded_for, do_as = self._reported = self._origin
        name = self._address()
        dispatcher.came_from((name and self._proxies.origin(name[0], forwarded_for)) or self._peer(), do_as)

    def _peer(self) -> str:
        name = self._address()
        if not name:
            return "unknown"
        return f"[{name[0]}]:{name[1]}" if ":" in name[0] else f"{name[0]}:{name[1]}"

    def _address(self) -> Any:
        if self._passed_from is not None:
            return self._passed_from
        return self._transport.get_extra_info("peername") if self._transport is not None else None


async def _confirmed(reply: Awaitable[bytes]) -> Answer:
    return Answer(await reply)


def _exception_reply(request: bytes, text: str) -> bytes:
    """A Thrift exception that answers the request."""
    head = peek(request)
    return exception(head.name, head.seqid, text)
