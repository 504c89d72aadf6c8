"""One client's connection, joined to one connection to Spark.

Requests are taken strictly one at a time: each is decided by the dispatcher, then answered, or forwarded and
its reply passed on. What a client sends ahead waits in a queue; the client is not read while the queue is
long, and Spark is not read while the client is slow. So a connection never holds more than its limits, in
either direction.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol, cast

from gateway.errors import FreshgateError, LoginAbandoned, LoginUnchecked, UpstreamLost
from gateway.proxy.busy_poll import BusyPoll
from gateway.proxy.farewell import Farewell
from gateway.proxy.half_read import HalfRead
from gateway.proxy.read_ahead import ReadAhead
from gateway.proxy.slices import Slices
from gateway.proxy.traffic import Traffic
from gateway.proxy.trusted_proxies import TrustedProxies
from gateway.proxy.upstream import Upstream, UpstreamRefused, set_socket_options
from gateway.service.decision import Answer, Dispatcher, Forward, Login, Page
from gateway.wire.connection import NOSASL, ClientEnd, DirectReply
from gateway.wire.frame import WireError, WireLimits
from gateway.wire.message import peek
from gateway.wire.reading import Ahead
from gateway.wire.repeat import Repeat
from gateway.wire.reply import exception

log = logging.getLogger(__name__)

ConnectUpstream = Callable[[Login], Awaitable[Upstream]]

_QUEUE_LENGTH_MAX = 64
"""Requests a client may send ahead before it is not read any more. No known client sends even one."""
_SETTLE_SECONDS = 3.0
"""For Spark to answer what the client was answered at once, when that is gone; Spark takes some milliseconds."""


class Clients(Protocol):
    """Who counts the clients: the listener."""

    def begin(self, relay: Relay) -> str | None:
        """A client is there. Returns why it cannot be served, if that is so."""
        ...

    def end(self, relay: Relay) -> None:
        """The client is gone and what it had is cleaned up."""
        ...


class Relay(asyncio.Protocol):
    """The client's end is this Protocol itself; Spark's end calls `upstream_data` and `upstream_gone`."""

    def __init__(
        self,
        open_client: Callable[[], Dispatcher],
        connect_upstream: ConnectUpstream,
        wire: ClientEnd,
        limits: WireLimits,
        clients: Clients,
        traffic: Traffic,
        proxies: TrustedProxies,
    ) -> None:
        self._open_client = open_client
        self._connect_upstream = connect_upstream
        self._limits = limits
        self._clients = clients
        self._traffic = traffic
        self._proxies = proxies
        self._forwarded_for = ""  # As it was when the dispatcher was told where the client is.
        self._loop = asyncio.get_running_loop()
        self._wire = wire
        self._transport: asyncio.Transport | None = None
        self._poll: BusyPoll | None = None
        self._login_timer: asyncio.TimerHandle | None = None
        self._late = False  # The time for a login is over.
        self._dispatcher: Dispatcher | None = None
        self._upstream: Upstream | None = None
        self._task: asyncio.Future[Any] | None = None  # A login, a decision or a new connection in work.
        self._request: bytes | None = None  # The client's request whose reply is due from Spark, and
        self._forward: Forward | None = None  # what was sent to Spark for it, also if the client has its answer.
        self._ahead = ReadAhead(limits.buffer_bytes_max, traffic, self._ahead_changed)
        self._settled: asyncio.Future[None] | None = None  # Somebody waits for Spark's answer in the client's stead.
        self._streamed = False  # Bytes of the reply, or of the last one, went to the client as they came.
        self._queue: deque[bytes] = deque()
        self._queue_bytes = 0
        self._reading = True
        self._writable = True
        self._slices = Slices(self._loop, self._read)
        self._repeat: Repeat | None = None  # The last answer, where it may be given again while
        self._repeat_while: Callable[[], bool] = bool  # this is true.
        self._ended: asyncio.Task[None] | None = None
        self._heard = self._loop.time()  # When the client last sent something, at most a sweep ago.
        self._active = False  # It has sent something since the last sweep.
        self._half = HalfRead(traffic, limits.half_read_bytes_max)
        self._unsent = 0  # Bytes that waited for it at the last sweep.
        self._took = self._completed = self._heard  # When it took some of them, and had no request begun, last.

    # --- the client's end --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._poll = BusyPoll(self._transport, self._traffic)
        set_socket_options(self._transport)
        self._transport.set_write_buffer_limits(high=self._limits.buffer_bytes_max)
        if (problem := self._clients.begin(self)) is not None:
            farewell = Farewell(self._wire, problem, self._traffic)
            self._transport.set_protocol(farewell)
            farewell.connection_made(self._transport)
            return
        self._login_timer = self._loop.call_later(self._limits.login_seconds, self._login_late)

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
        """Takes in what has come; none: goes on with what had come before."""
        self._read_or_pause()
        while not self._is_closing():
            try:
                events = self._wire.receive(data)
            except WireError as error:
                log.info("client %s closed: %s", self._peer(), error)
                # In the place of another request's reply, or in the middle of it, it would be taken for that.
                due = self._request is not None or self._task is not None or not self._writable or self._queue
                self._close(b"" if due else error.answer)
                return
            partial = self._wire.partial
            if (partial or self._half.bytes) and not self._half.has_room(
                len(data), partial=partial, begun=bool(events)
            ):
                log.warning("client %s closed: half-read requests take too much (limits.half_read_bytes)", self._peer())
                self.abort()
                return
            for event in events:
                if isinstance(event, bytes):
                    self._take(event)
                elif isinstance(event, DirectReply):
                    self._send(event.payload)
                else:
                    self._login(event)
            if self._wire.closing and self._is_free():
                self._close()
            if not (events and self._wire.pending and self._is_free()):
                return
            data = b""  # A request was answered at once; the next one has come already.

    def _answer_again(self, repeat: Repeat, data: bytes) -> bytes | None:
        """Answers the last request for as long as it is what comes. Returns what else came, None where nothing did."""
        assert self._poll is not None
        while True:
            answer = repeat.answer(data)
            if answer is None or not self._repeat_while():
                return data
            self._traffic.repeated += 1
            self._traffic.to_clients += len(answer)
            data = self._poll.exchange(answer, len(data))
            if not data:
                return None
            self._traffic.from_clients += len(data)

    def eof_received(self) -> bool:
        # HiveServer2's clients never shut down one direction only: this is how a killed one looks.
        return False

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
        """Closes the client; what was written still goes out. `client_lost` follows as ever."""
        self._close()

    def abort(self) -> None:
        """Closes the client at once, even if it does not read what was written."""
        if self._transport is not None:
            self._transport.abort()

    @property
    def waiting(self) -> bool:
        """The client waits for a reply."""
        return self._task is not None or self._forward is not None

    def sweep(self, now: float) -> None:
        """Closes a client that has stalled or was idle for too long; `now` is the event loop's time in seconds."""
        if self._transport is None:
            return
        if self._active or self.waiting:
            self._active, self._heard = False, now
        unsent = self._transport.get_write_buffer_size()
        if not unsent or unsent < self._unsent:
            self._took = now
        if not self._wire.partial or not self._reading or self._is_closing():
            self._completed = now
        self._unsent = unsent
        self._ahead.sweep(now)
        if now - min(self._took, self._completed) > self._limits.stall_seconds:
            log.warning("client %s closed: it took or sent nothing for too long (limits.stall_seconds)", self._peer())
            self.abort()
        elif self._is_closing():
            return
        elif 0 < self._limits.idle_seconds < now - self._heard and not unsent:
            log.info("client %s closed: no request for too long (limits.idle_seconds)", self._peer())
            self._close()

    def give_up(self) -> None:
        """Waits for the dispatcher's clean-up no longer."""
        if self._ended is not None:
            self._ended.cancel()

    async def _end(self) -> None:
        """What must happen when the client is gone: the dispatcher hears of it, then Spark's end is closed."""
        try:
            if self._task is not None:
                self._task.cancel()
                await asyncio.wait([self._task])
            self._read_spark_or_pause()  # It may be stuck writing a reply that nobody reads any more.
            await self._settle()
            if self._dispatcher is not None and (done := self._dispatcher.client_lost()) is not None:
                await done
        except Exception:
            # Whatever the dispatcher's clean-up ran into, the connections must still be let go.
            log.exception("clean-up of client %s failed", self._peer())
        finally:
            self._part()
            self._clients.end(self)

    @property
    def _is_settling(self) -> bool:
        """Spark still owes the reply to what the client was answered at once."""
        return self._forward is not None and self._request is None

    async def _settle(self) -> None:
        """Spark writes a warning with a stack into its log for each reply that it cannot get rid of."""
        if self._upstream is not None and self._is_settling:
            self._settled = self._loop.create_future()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_SETTLE_SECONDS):
                    await self._settled

    def _part(self) -> None:
        """Leaves Spark's end, whatever it still owes."""
        if self._is_settling:
            self._forward = None
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            self._ahead.part(upstream)

    def _has_settled(self) -> None:
        """What was to be waited for has come."""
        if self._settled is not None and not self._settled.done():
            self._settled.set_result(None)

    # --- login -------------------------------------------------------------------------------------------

    def _login(self, login: Login) -> None:
        before = self._dispatcher
        dispatcher = self._dispatcher = self._open_client()
        self._tell_origin(dispatcher)
        dispatcher.login(login)
        if login.mechanism != NOSASL:
            self._stop_login_timer()
            self._task = self._loop.create_task(self._accept(dispatcher, before))

    async def _accept(self, dispatcher: Dispatcher, before: Dispatcher | None) -> None:
        """The client is accepted when the dispatcher has admitted it, and Spark too where the dispatcher wants that."""
        try:
            await self._leave(before)
            await self._admit(dispatcher)
        except FreshgateError as error:
            dispatcher.login_ended(error)
            log.info("login of client %s refused: %s", self._peer(), error)
            fault = isinstance(error, UpstreamLost | LoginUnchecked)
            self._close(self._wire.refuse_login(str(error), fault=fault))
            return
        except asyncio.CancelledError:
            dispatcher.login_ended(LoginAbandoned())
            raise
        except Exception:
            # Our own fault; without an answer the client would wait for ever.
            dispatcher.login_ended(FreshgateError("The gateway failed at this login."))
            log.exception("login of client %s failed in the gateway", self._peer())
            self._close(self._wire.refuse_login("The gateway failed at this login; its log says why.", fault=True))
            return
        finally:
            self._task = None
        dispatcher.login_ended(None)
        if self._transport is not None and not self._transport.is_closing():
            if words := self._wire.accept_login():
                self._traffic.to_clients += len(words)
                self._transport.write(words)
            self._read(b"")

    async def _leave(self, before: Dispatcher | None) -> None:
        """Over HTTP, another user's request: it must not reach Spark as the one before."""
        try:
            await self._settle()
        finally:
            self._part()
            if before is not None and (done := before.client_lost()) is not None:
                await done

    async def _admit(self, dispatcher: Dispatcher) -> None:
        if await dispatcher.admit():
            await self._join(dispatcher)

    async def _join(self, dispatcher: Dispatcher) -> Upstream:
        try:
            upstream = await self._connect_upstream(dispatcher.upstream_login())
        except UpstreamRefused as error:
            await dispatcher.refused_by_spark(error)
            raise
        upstream.attach(self)
        self._upstream = upstream
        return upstream

    def _login_late(self) -> None:
        """Without SASL an OpenSession is the login: the answer to the one under way is waited for, no further one."""
        self._late = True
        if not self.waiting:
            self._close_late()

    def _close_late(self) -> None:
        message = f"No login within {self._limits.login_seconds:g} seconds."
        log.info("client %s closed: %s", self._peer(), message)
        self._close(self._wire.refuse_login(message))

    def _stop_login_timer(self) -> None:
        if self._login_timer is not None:
            self._login_timer.cancel()
            self._login_timer = None

    # --- requests ----------------------------------------------------------------------------------------

    def _take(self, request: bytes) -> None:
        if self._is_free():  # Then nothing is queued: whatever sets free drains the queue.
            self._decide(request)
            return
        self._queue.append(request)
        self._queue_bytes += len(request)
        self._read_or_pause()

    def _read_or_pause(self) -> None:
        """The client is read while little waits: of what it has sent, and of its replies for it."""
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
        """Goes on with what has queued, as far as no request has to be waited for."""
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
        if self._wire.forwarded_for != self._forwarded_for:
            self._tell_origin(self._dispatcher)  # A proxy sends what several clients ask over one connection.
        try:
            decision = self._dispatcher.request(request)
        except Exception:  # our own fault must end this request, not the connection of a client that waits
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
            # Of a connection that the dispatcher has made itself.
            log.error("a reply of Spark's for client %s cannot be read: %s", self._peer(), error)
            action = Answer(_told(request, f"Spark's reply cannot be read: {error}."))
        except (Exception, asyncio.CancelledError):
            # Cancelled by someone else than us: the client waits for an answer all the same.
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
        if self._upstream is None:
            self._task = self._loop.create_task(self._join_and_send(action))
            return
        self._upstream.send(action.payload)
        if action.at_once is not None:
            self._request = None
            self._answer(action.at_once)
            if action.on_sent is not None:
                action.on_sent()

    def _claim(self, request: bytes, forward: Forward, ahead: Ahead) -> None:
        """The client asks for the page that Spark was asked for already."""
        if not self._ahead.claim(ahead, request):
            self._answer(_told(request, "The connection to Spark broke. Run the statement again."))
            return
        self._request, self._forward, self._streamed = request, forward, False
        self.upstream_data(b"")

    async def _join_and_send(self, forward: Forward) -> None:
        assert self._dispatcher is not None
        try:
            upstream = await self._join(self._dispatcher)
        except Exception as error:
            # Whatever it was, the client waits for an answer.
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
        known = error if isinstance(error, FreshgateError) else UpstreamLost("Spark cannot be used; the log says why.")
        try:
            reply = dispatcher.not_joined(request, known)
        except Exception:  # as in _decide: logged and answered by _fault
            reply = self._fault(request)
        self._answer(reply)
        self._drain()

    def _answer(self, reply: bytes, on_reply: Callable[[bytes], object] | None = None) -> None:
        self._streamed = False
        self._write(self._wire.send(reply))
        if on_reply is not None:
            self._note(on_reply, reply)
        self._replied()
        if self._login_timer is None:
            return
        if self._dispatcher is not None and self._dispatcher.logged_in:
            # Without SASL the login has ended when a session was opened.
            self._stop_login_timer()
            self._wire.accept_login()
        elif self._late:
            self._close_late()

    def _note(self, on_reply: Callable[[bytes], object], reply: bytes) -> None:
        """Raises WireError where the reply is none to its request, or what it says could not be noted."""
        try:
            on_reply(reply)
        except WireError:
            raise
        except Exception as error:
            # Our own fault; the client has its answer. What stands at Spark is given up with the connection, since
            # nobody knows what is known of it.
            log.exception("what Spark answered to client %s could not be noted", self._peer())
            raise WireError("a reply could not be noted") from error

    def _replied(self) -> None:
        if self._dispatcher is not None:
            self._dispatcher.replied()

    def _write(self, data: bytes) -> None:
        """Sends of a reply to the client, and closes where the connection ends with this."""
        self._send(data)
        if self._wire.closing:
            self._close()

    def _send(self, data: bytes) -> None:
        if self._transport is not None:
            self._traffic.to_clients += len(data)
            self._transport.write(data)

    def _fault(self, request: bytes) -> bytes:
        """The answer where our own code failed. One client's fault must end neither the others nor the
        gateway.
        """
        log.exception("a request of client %s failed in the gateway", self._peer())
        return _told(request, "The gateway failed at this request; its log says why.")

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

    def _receive(self, upstream: Upstream, data: bytes) -> None:
        forward = self._forward
        if forward is None:
            self._pass_late(upstream, data)
        elif forward.on_reply is not None or forward.mend is not None or forward.at_once is not None:
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
        """Spark is read while the client takes what comes, and what nobody has asked for yet can be kept."""
        if self._upstream is None:
            return
        if (self._writable or self._is_closing() or self._ahead.discarding) and not self._ahead.full:
            self._upstream.resume()
        else:
            self._upstream.pause()

    def _pass(self, upstream: Upstream, data: bytes) -> None:
        chunk, ended = upstream.wire.relay(data, self._wire.framed)
        if not chunk and not ended:
            return
        self._streamed = True
        page = self._forward.page if self._forward is not None else None
        if ended:
            self._request = self._forward = None
        self._write(self._wire.part(chunk, ended=ended))
        if ended:
            self._replied()
            if page is not None and not self._queue and not self._is_closing():
                self._ahead.ask(upstream, page)
            self._drain()

    def _pass_page(self, upstream: Upstream, page: Page, data: bytes) -> None:
        """A page of rows, before or in the place of which Spark may have to be asked for something else."""
        passed, again = page.receive(data)
        if again is not None:
            upstream.send(again)
        elif passed:
            self._pass(upstream, passed)

    def _pass_late(self, upstream: Upstream, data: bytes) -> None:
        if upstream.wire.framed and not self._streamed:
            raise WireError("Spark sent bytes that answer no request")
        if rest := upstream.wire.late(data, self._wire.framed):
            self._write(self._wire.part(rest, ended=False))

    def _finish_collected(self, forward: Forward, reply: bytes) -> None:
        """Raises WireError where the reply is none to its request: that is still due if it could not be mended."""
        if self._is_settling:
            self._finish_settled(forward, reply)
            return
        assert self._request is not None
        if forward.mend is not None:
            try:
                reply = forward.mend(reply)
            except WireError:
                raise
            except Exception:  # as in _decide: logged and answered by _fault
                reply = self._fault(self._request)
        self._request = self._forward = None
        self._answer(reply, forward.on_reply)
        self._drain()

    def _finish_settled(self, forward: Forward, reply: bytes) -> None:
        """Spark has said what the client has heard already."""
        self._forward = None
        self._has_settled()
        if forward.on_reply is not None:
            self._note(forward.on_reply, reply)
        self._drain()

    def upstream_gone(self) -> None:
        """Spark's end is lost: an error for the client if one can still be given, else the client is closed."""
        self._upstream = None
        self._ahead.lose()
        if self._is_settling:
            self._forward = None
        self._has_settled()
        if not self._is_closing() and self._dispatcher is not None:
            self._tell_lost()

    def _tell_lost(self) -> None:
        """The client is told, or closed."""
        assert self._dispatcher is not None
        request = self._request
        self._request = self._forward = None
        try:
            reply = self._dispatcher.upstream_lost(request)
        except Exception:  # as in _decide: logged and answered by _fault
            reply = self._fault(request) if request is not None else None
        if request is not None:
            if reply is None or self._streamed:
                self._close()
                return
            self._answer(reply)
        self._drain()

    # --- small things ------------------------------------------------------------------------------------

    def _is_closing(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def _close(self, last_words: bytes = b"") -> None:
        self._repeat = None
        if self._transport is None or self._transport.is_closing():
            return
        if last_words:
            self._traffic.to_clients += len(last_words)
            self._transport.write(last_words)
        self._transport.close()

    def _tell_origin(self, dispatcher: Dispatcher) -> None:
        """Where the client is that the last request came from; elsewhere the log names whose the connection is."""
        self._forwarded_for = self._wire.forwarded_for
        name = self._address()
        dispatcher.came_from((name and self._proxies.origin(name[0], self._forwarded_for)) or self._peer())

    def _peer(self) -> str:
        name = self._address()
        return f"{name[0]}:{name[1]}" if name else "unknown"

    def _address(self) -> Any:
        return self._transport.get_extra_info("peername") if self._transport is not None else None


def _told(request: bytes, text: str) -> bytes:
    """The answer to a request that has come to nothing."""
    head = peek(request)
    return exception(head.name, head.seqid, text)
