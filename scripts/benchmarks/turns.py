"""Measures how long one statement blocks the gateway's event loop.

Needs no Spark: a small server answers in its place, over sockets; a warehouse in memory, for a view of very many
partitions. A turn is measured in processor time, which other programs do not affect.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from fakes import Site
from hostile_texts import texts
from partitioned_warehouse import life
from raw_session import RawSession
from TCLIService import ttypes
from views import given

from benchmarks.figures import Figure
from gateway.proxy.entrance import Entrance, Port
from gateway.proxy.heap import settle
from gateway.proxy.listener import Listener
from gateway.proxy.upstream import UpstreamSocket, connect
from gateway.service.dispatch import Dispatch
from gateway.service.routing import long_texts
from gateway.wire.connection import ClientConnection
from gateway.wire.endpoint import Endpoint
from gateway.wire.frame import WireLimits, frame
from gateway.wire.sasl import COMPLETE, PLAIN, Login, SaslServer, negotiation
from sql.texts.rewrite import REWRITTEN_CHARACTERS_MAX

SIZES = tuple(int(size) for size in os.environ.get("BENCH_TURNS_SIZES", "8000000 450000 3900").split())
"""Characters: the longest statement, the longest that may be rewritten, and the longest that is read on the event
loop."""
PARTITIONS = int(os.environ.get("BENCH_TURNS_PARTITIONS", "100000"))
TURN_MS = 100
WORST = 3
"""Kinds that are shown per size."""
LIMITS = WireLimits()


def figures() -> Iterator[Figure]:
    """The kinds of statements with the longest turns."""
    # On a busy machine a reading may exceed its time limit; then what follows it would not be measured.
    long_texts.READ_SECONDS = 3_600.0
    for size in SIZES:
        found = dict[str, float]()
        # Longer texts are not rewritten.
        for name, state in list(STATES.items())[: None if size <= REWRITTEN_CHARACTERS_MAX else 1]:
            for kind, seconds in asyncio.run(_turns(state, texts(size))).items():
                print(f"bench:     {seconds * 1e3:6.1f} ms  {name}, {kind}", file=sys.stderr, flush=True)
                found[f"{kind}, {name}"] = seconds
        for subject, seconds in sorted(found.items(), key=lambda item: -item[1])[:WORST]:
            yield Figure("turns", f"{subject}; {size:,} characters", seconds * 1e3, "ms", TURN_MS, runs=1)
    done = asyncio.run(_turns_over_partitions())
    for subject, seconds in sorted(done.items(), key=lambda item: -item[1])[:WORST]:
        yield Figure("turns", f"{subject}; {PARTITIONS:,} partitions", seconds * 1e3, "ms", TURN_MS, runs=1)


class State:
    """The state in which the statements arrive."""

    properties: Mapping[str, str] = {}
    before: tuple[str, ...] = ()
    stale = False


class Stale(State):
    stale = True


class Inline(Stale):
    properties: Mapping[str, str] = {"when_stale": "INLINE"}


class Pinned(State):
    before = ("BEGIN TRANSACTION",)


STATES: Mapping[str, type[State]] = {
    "a fresh view": State,
    "a stale one": Stale,
    "one whose definition stands in": Inline,
    "in a transaction": Pinned,
}


class Watch:
    """The longest turn of the event loop since the last call of `take`: from the end of one wait to the next."""

    def __init__(self) -> None:
        selector = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]
        self._worst, self._wait = 0.0, selector.select
        self._began: float | None = None
        selector.select = self._select

    def _select(self, timeout: float | None = None) -> Any:
        if self._began is not None:
            self._worst = max(self._worst, time.thread_time() - self._began)
        found = self._wait(timeout)
        self._began = time.thread_time()
        return found

    def take(self) -> float:
        worst, self._worst = self._worst, 0.0
        return worst


async def _turns(state: type[State], statements: Mapping[str, str]) -> dict[str, float]:
    """The longest turn in seconds, by kind of statement."""
    site = await _site(state)
    with socket.create_server(("127.0.0.1", 0)) as spark:
        threading.Thread(target=_accept, args=(spark, site), daemon=True).start()
        endpoint = Endpoint("127.0.0.1", spark.getsockname()[1], PLAIN)

        async def upstream(login: Login, at: str | None) -> UpstreamSocket:
            return await connect(endpoint, login, LIMITS)

        port = Port("127.0.0.1", 0, lambda: ClientConnection(frozenset({PLAIN}), LIMITS))
        listener = Listener(Entrance([port], LIMITS.login_seconds), LIMITS, lambda: Dispatch(site.service), upstream)
        await listener.start()
        try:
            return await _measured(Watch(), listener.ports[0], state, statements)
        finally:
            await site.router.close()
            await listener.close(1)


async def _turns_over_partitions() -> dict[str, float]:
    """Seconds of the longest turn, by what was done with a view of so many partitions."""
    watch, found = Watch(), {}
    async for done in life(PARTITIONS):
        found[done] = watch.take()
        print(f"bench:     {found[done] * 1e3:6.1f} ms  {done}", file=sys.stderr, flush=True)
    return found


async def _site(state: type[State]) -> Site:
    site = Site()
    site.table("s.t")
    await site.view("s.mv", "SELECT count(*) n FROM s.t")
    given(site.entry("s.mv"), properties=state.properties)
    if state.stale:

        async def refresh(*_: object) -> None:
            """Leaves the view stale, for the next statement."""

        site.tasks.make_fresh = refresh  # type: ignore[method-assign, assignment]
        site.write("s.t")
    return site


async def _measured(watch: Watch, port: int, state: type[State], statements: Mapping[str, str]) -> dict[str, float]:
    found = {}
    client = None
    for kind, text in statements.items():
        if client is None:
            server = SimpleNamespace(host="127.0.0.1", port=port)
            client = await asyncio.to_thread(RawSession, server)
            client.socket.settimeout(None)
            for before in ("USE s", *state.before):
                await asyncio.to_thread(_run, client, before)
        settle()
        await asyncio.sleep(0)  # The collection ends with this turn.
        watch.take()
        try:
            await asyncio.to_thread(_run, client, text)
        except Exception as error:  # If the fakes have no answer, the gateway has already read the statement.
            print(f"bench:     {kind}: {error!r:.200}", file=sys.stderr)
            client.close()
            client = None
        found[kind] = watch.take()
    if client is not None:
        client.close()
    return found


def _run(client: RawSession, text: str) -> None:
    begun = client.ask("ExecuteStatement", ttypes.TExecuteStatementReq(client.handle, text, {}, True))
    if begun.operationHandle is not None:
        client.wait(begun.operationHandle)
        client.ask("CloseOperation", ttypes.TCloseOperationReq(begun.operationHandle))


# --- in Spark's place --------------------------------------------------------------------------------------


def _accept(listening: socket.socket, site: Site) -> None:
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        threading.Thread(target=_answer, args=(connection, site), daemon=True).start()


def _answer(connection: socket.socket, site: Site) -> None:
    with connection, connection.makefile("rb") as source:
        server, login = SaslServer(10_000), None
        while login is None:
            login = server.receive(source.read1())
        connection.sendall(negotiation(COMPLETE))
        while len(size := source.read(4)) == 4:
            connection.sendall(frame(site.spark.hear(source.read(int.from_bytes(size)))))
