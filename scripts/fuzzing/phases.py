"""The phases of a run: recorded sessions, idle sessions, attacks beside honest clients, and churn of connections."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from clients import Jdbc, impyla, pyhive, rows
from raw_session import decoded, login
from recorder import Recorder

from fuzzing import http_mutation, monitor_attacks, peer
from fuzzing.actors import GREETINGS, Attacker, Honest, HonestOverBinary, HonestOverHttp
from fuzzing.binary_attacks import BinaryAttacker
from fuzzing.http_attacks import HttpAttacker, SlowHttpAttacker
from fuzzing.misled import MisledOverBinary, MisledOverHttp
from fuzzing.monitor_attacks import MonitorAttacker, Scraper
from fuzzing.peer import BinaryPeer, HttpPeer, Peer, query
from fuzzing.stage import MIB, Stage

CHURN_AT_ONCE = 50
IDLE_AT_ONCE = 50
ACCEPT_SECONDS = 60.0
GROWTH_BYTES_MAX = 96 * MIB
"""How much memory a run may add after its warm-up, for temporary buffers and allocator overhead."""
WARM_UP_SHARE = 0.2
P = TypeVar("P", bound=Peer)


# --- recorded sessions -----------------------------------------------------------------------------------


def record(stage: Stage, *, jdbc: bool) -> list[bytes]:
    """Records what PyHive, with SASL and without, and the Hive JDBC driver send in a short session."""
    recorder = Recorder(stage.gateway.host, stage.gateway.port)
    try:
        for options in ({}, {"auth": "NOSASL"}):
            with pyhive(recorder.host, recorder.port, user="recorded", **options) as cursor:
                rows(cursor, query("recorded", 20))
                with contextlib.suppress(Exception):
                    cursor.fetch_logs()
                cursor.execute(query("recorded", 5), async_=True)
                cursor.poll()
                cursor.fetchall()
        if jdbc:
            with Jdbc(f"jdbc:hive2://{recorder.host}:{recorder.port}/default", "recorded") as connection:
                connection.query(query("recorded", 20))
                connection.connection.getMetaData().getTables(None, "%", "%", None).close()
        return [bytes(each.sent) for each in recorder.recordings if each.sent]
    finally:
        recorder.close()


def record_http(stage: Stage, *, jdbc: bool) -> list[bytes]:
    """Records the same of impyla and the Hive JDBC driver over HTTP."""
    recorder = Recorder(stage.gateway.host, stage.http_port)
    try:
        with impyla(recorder.port, "recorded", use_http_transport=True, http_path="cliservice") as cursor:
            cursor.execute(query("recorded", 20))
            cursor.fetchall()
            cursor.get_tables()
        if jdbc:
            where = "default;transportMode=http;httpPath=cliservice"
            with Jdbc(f"jdbc:hive2://{recorder.host}:{recorder.port}/{where}", "recorded") as connection:
                connection.query(query("recorded", 20))
        return [bytes(each.sent) for each in recorder.recordings if each.sent]
    finally:
        recorder.close()


# --- attacks ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cast:
    """How many clients act concurrently over each transport, and the recordings of real clients."""

    attackers: int
    honest: int
    recorded: Sequence[bytes]
    recorded_http: Sequence[bytes]
    slow: int = 3
    at_monitor: int = 3
    misled: int = 2
    """Misled by the small server in Spark's place."""

    def actors(self, stage: Stage) -> list[Attacker[Any] | Honest[Any]]:
        seeds = iter(lambda: stage.random.randrange(1 << 30), -1)
        found: list[Attacker[Any] | Honest[Any]] = [Scraper(stage, next(seeds))]
        for _ in range(self.at_monitor):
            found.append(MonitorAttacker(stage, next(seeds), monitor_attacks.REQUESTS))
        for _ in range(self.attackers):
            found.append(BinaryAttacker(stage, next(seeds), self.recorded))
            found.append(HttpAttacker(stage, next(seeds), self.recorded_http))
        for _ in range(self.slow):
            found.append(SlowHttpAttacker(stage, next(seeds), self.recorded_http))
        for _ in range(self.misled if stage.spark is not None else 0):
            found.append(MisledOverBinary(stage, next(seeds), self.recorded))
            found.append(MisledOverHttp(stage, next(seeds), self.recorded_http))
        for _ in range(self.honest):
            found.append(HonestOverBinary(stage, next(seeds)))
            found.append(HonestOverHttp(stage, next(seeds)))
        return found


async def fuzz(stage: Stage, minutes: float, cast: Cast) -> None:
    stop = asyncio.Event()
    actors = cast.actors(stage)
    before = stage.descriptors()
    tasks = [asyncio.create_task(actor.run(stop)) for actor in actors]
    await asyncio.sleep(minutes * 60 * WARM_UP_SHARE)
    warm = stage.resident()
    await asyncio.sleep(minutes * 60 * (1 - WARM_UP_SHARE))
    stop.set()
    await asyncio.gather(*tasks)
    await stage.settled(before, "the attacks")
    grown = stage.resident() - warm
    print(f"fuzz: memory {warm / MIB:.1f} MiB after the warm-up, {grown / MIB:+.1f} MiB at the end", flush=True)
    if grown > GROWTH_BYTES_MAX:
        stage.report(f"the gateway's memory grew by {grown / MIB:.1f} MiB")


# --- churn --------------------------------------------------------------------------------------------------


async def _log_in(client: Peer) -> None:
    if isinstance(client, BinaryPeer):
        await client.log_in("visitor")


async def _session_of(client: Peer) -> object:
    await _log_in(client)
    return decoded(await client.exchange(peer.open_session("visitor"))).sessionHandle


async def _nothing(client: Peer) -> None:
    pass


async def _half_a_start(client: BinaryPeer) -> None:
    client.send(login("visitor")[:7])


async def _a_start(client: BinaryPeer) -> None:
    client.send(login("visitor")[:10])


async def _half_a_name(client: BinaryPeer) -> None:
    client.send(login("visitor")[:-3])


async def _a_login_unread(client: BinaryPeer) -> None:
    client.send(login("visitor"))


async def _a_login(client: BinaryPeer) -> None:
    await client.log_in("visitor")


async def _half_a_session(client: Peer) -> None:
    await _log_in(client)
    client.send(client.on_the_wire(peer.open_session("visitor"))[:-9])


async def _a_session_unread(client: Peer) -> None:
    await _log_in(client)
    client.send(client.on_the_wire(peer.open_session("visitor")))


async def _a_session(client: Peer) -> None:
    await _session_of(client)


async def _two_sessions(client: Peer) -> None:
    await _session_of(client)
    await client.exchange(peer.open_session("visitor"))


async def _a_statement_unread(client: Peer) -> None:
    session = await _session_of(client)
    client.send(client.on_the_wire(peer.execute(session, query("visitor", 10))))


async def _a_statement(client: Peer) -> None:
    session = await _session_of(client)
    await client.exchange(peer.execute(session, query("visitor", 10), run_async=True))


async def _a_session_that_is_closed(client: Peer) -> None:
    session = await _session_of(client)
    await client.exchange(peer.close_session(session))


async def _another_protocol(client: Peer) -> None:
    client.send(GREETINGS[0])


async def _half_a_head(client: HttpPeer) -> None:
    client.send(http_mutation.post(b"", client.login)[:30])


async def _a_head(client: HttpPeer) -> None:
    client.send(http_mutation.post(b"", b"Expect: 100-continue", client.login))


async def _two_at_once(client: HttpPeer) -> None:
    client.send(2 * http_mutation.post(peer.open_session("visitor"), client.login))
    await client.reply()
    await client.reply()


STEPS: tuple[Callable[[BinaryPeer], Awaitable[None]], ...] = (
    _nothing,
    _half_a_start,
    _a_start,
    _half_a_name,
    _a_login_unread,
    _a_login,
    _half_a_session,
    _a_session_unread,
    _a_session,
    _two_sessions,
    _a_statement_unread,
    _a_statement,
    _a_session_that_is_closed,
    _another_protocol,
)
WITHOUT_SASL: tuple[Callable[[BinaryPeer], Awaitable[None]], ...] = (
    _nothing,
    _half_a_session,
    _a_session_unread,
    _a_session,
    _a_statement_unread,
    _a_statement,
)
HTTP_STEPS: tuple[Callable[[HttpPeer], Awaitable[None]], ...] = (
    _nothing,
    _half_a_head,
    _a_head,
    _half_a_session,
    _a_session_unread,
    _a_session,
    _two_sessions,
    _a_statement_unread,
    _a_statement,
    _a_session_that_is_closed,
    _two_at_once,
    _another_protocol,
)


async def _binary_visit(stage: Stage, random: Random) -> None:
    framed = random.random() < 0.8
    step = random.choice(STEPS if framed else WITHOUT_SASL)
    await _visit(stage, random, await BinaryPeer.connect(stage.port, framed), step)


async def _http_visit(stage: Stage, random: Random) -> None:
    client = await HttpPeer.connect(stage.http_port, random)
    # Sessions over HTTP stay for a while, and a user may not have too many.
    await client.log_in(f"visitor-{random.randrange(100)}")
    await _visit(stage, random, client, random.choice(HTTP_STEPS))


async def _visit(stage: Stage, random: Random, client: P, step: Callable[[P], Awaitable[None]]) -> None:
    polite = random.random() < 0.5
    try:
        await step(client)
    except Exception as error:
        stage.report(f"a connection as far as{step.__name__.replace('_', ' ')}: {error!r}")
    finally:
        await (client.close() if polite else client.reset())


async def churn(stage: Stage, connections: int) -> None:
    """Opens connections, proceeds to a random step, and closes or resets them; over each transport."""
    for visit, name in ((_binary_visit, "connection"), (_http_visit, "HTTP connection")):
        if connections:
            await _come_and_go(stage, connections, visit, name)


async def _come_and_go(
    stage: Stage, connections: int, visit: Callable[[Stage, Random], Awaitable[None]], name: str
) -> None:
    before = stage.descriptors()
    warm = 0
    random = Random(stage.random.randrange(1 << 30))
    gate = asyncio.Semaphore(CHURN_AT_ONCE)

    async def one() -> None:
        async with gate:
            try:
                async with asyncio.timeout(ACCEPT_SECONDS):
                    await visit(stage, random)
            except Exception as error:
                stage.report(f"a {name} that was to come and go: {error!r}")
            stage.counts[f"{name} that came and went"] += 1

    for start in range(0, connections, 1000):
        await asyncio.gather(*(one() for _ in range(min(1000, connections - start))))
        warm = warm or stage.resident()
    await stage.settled(before, f"the {name}s that came and went")
    grown = stage.resident() - warm
    print(f"fuzz: memory {grown / MIB:+.1f} MiB from the first 1,000 of {connections} {name}s on", flush=True)
    if grown > GROWTH_BYTES_MAX:
        stage.report(f"the gateway's memory grew by {grown / MIB:.1f} MiB with the {name}s")


# --- idle sessions ---------------------------------------------------------------------------------------


async def idle(stage: Stage, sessions: int) -> None:
    """Opens idle sessions, prints what each takes, and closes them; over each transport, in random order.

    Memory freed by the first transport's sessions is reused, so only descriptors are reported for the second.
    """
    ways = [_over_binary, _over_http]
    stage.random.shuffle(ways)
    for over in ways:
        if sessions:
            await _idle(stage, sessions, over, first=over is ways[0])


async def _over_binary(stage: Stage, number: int) -> BinaryPeer:
    return await BinaryPeer.connect(stage.port)


async def _over_http(stage: Stage, number: int) -> HttpPeer:
    client = await HttpPeer.connect(stage.http_port, Random(number))
    await client.log_in(f"idle-{number % 100}")  # A user may not have too many sessions.
    return client


async def _idle(stage: Stage, sessions: int, connect: Callable[[Stage, int], Awaitable[Peer]], *, first: bool) -> None:
    before, descriptors = stage.resident(), stage.descriptors()
    gate = asyncio.Semaphore(IDLE_AT_ONCE)
    clients: list[Peer] = []

    async def one(number: int) -> None:
        async with gate, asyncio.timeout(ACCEPT_SECONDS):
            client = await connect(stage, number)
            clients.append(client)
            await _session_of(client)

    for result in await asyncio.gather(*map(one, range(sessions)), return_exceptions=True):
        if isinstance(result, BaseException):
            stage.report(f"an idle session: {result!r}")
    name = f"idle sessions{connect.__name__.replace('_', ' ')}"
    each = (stage.resident() - before) / max(1, len(clients)) / 1024
    held = stage.descriptors() - descriptors
    memory = f"{each:.1f} KiB and " if first else ""
    print(f"fuzz: {len(clients)} {name}: {memory}{held / max(1, len(clients)):.1f} descriptors each", flush=True)
    for client in clients:
        await client.close()
    await stage.settled(descriptors, f"the {name}")
    if first:
        print(f"fuzz: {(stage.resident() - before) / MIB:+.1f} MiB after they ended", flush=True)
    stage.counts[name] += len(clients)
