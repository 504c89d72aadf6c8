"""The command line `freshgate`: starts and stops the gateway, shows its status, edits users, checks settings.

Tests: `test_start_refusals`.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import uvloop

from gateway import settings_file, spark_home
from gateway.arguments import BEELINE, DEFAULT_FILES, NO_FILE, PASSWORD_VARIABLE
from gateway.arguments import parser as argument_parser
from gateway.assembly.doors import node, registered_in, registration_of
from gateway.assembly.one_gateway import Lasting
from gateway.config import EVERY_ADDRESS, OFF, Address, ConfigError, Settings
from gateway.demonstration import command as demo_command
from gateway.discovery.registration import Registration
from gateway.discovery.server_nodes import ServerNode, server_nodes
from gateway.errors import FreshgateError
from gateway.gateways.node import GatewayNode
from gateway.login import command as user_command
from gateway.login import exposure, methods
from gateway.login.user_file import BadUser
from gateway.monitoring import logs
from gateway.proxy import descriptors, heap
from gateway.proxy.entrance import PortUnavailable
from gateway.server import Server
from gateway.spark import guard_command
from gateway.spark.engine import EmbeddedEngine, ExternalEngine, find_java
from gateway.status import command
from gateway.status.client import BadUrl, StatusFailed, Target
from gateway.watchdog import Watchdog

log = logging.getLogger(__name__)

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""The address at which a gateway that listens on every interface is reached from its own machine."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line. Returns the exit code: 0 done, 1 failed, 2 wrong usage or settings, 130 interrupted."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == [BEELINE]:
        _beeline(given[1:])
    parser = argument_parser()
    options = parser.parse_args(given)
    if options.command is None:
        parser.print_help()
        return 0
    run = {"serve": _serve, "config": _config, "demo": _demo, "guard": _guard, "status": _status, "user": _user}
    return run[options.command](options)


def _serve(options: argparse.Namespace) -> int:
    warnings: list[str] = []
    try:
        settings = _settings(options, warnings.append)
    except ConfigError as error:
        return _fail(str(error), EXIT_USAGE)
    logs.set_up(settings.log.level, settings.log.format)
    for warning in warnings:
        log.warning("%s", warning)
    try:
        uvloop.run(serve(settings, take_over=options.take_over))
    except FreshgateError as error:
        return _fail(str(error), EXIT_FAILED)
    except PortUnavailable as error:
        return _fail(_listen_problem(settings, error), EXIT_FAILED)
    return 0


def _warn(message: str) -> None:
    print(f"freshgate: {message}", file=sys.stderr)


def _settings(options: argparse.Namespace, warn: Callable[[str], None] = _warn) -> Settings:
    named = {"listen.host": "host", "listen.port": "port", "data_dir": "data_dir", "upstream.address": "upstream"}
    given = {
        f"--{option.replace('_', '-')}": (name, value)
        for name, option in named.items()
        if (value := getattr(options, option, None)) is not None
    }
    return settings_file.load(_file(options), options.set, given, warn, options.set_file)


def _file(options: argparse.Namespace) -> Path | None:
    if options.config is not None:
        return Path(options.config)
    return next(filter(os.path.exists, DEFAULT_FILES), None)


def _config(options: argparse.Namespace) -> int:
    if options.check is None and not options.effective:
        sys.stdout.write(settings_file.reference())
        return 0
    named = options.check not in (None, NO_FILE)
    path = options.check if named else _file(options)
    reading = settings_file.read(path, options.set, files=options.set_file)
    problems = list(reading.problems)
    if not problems:
        try:
            exposure.check(reading.settings)
        except FreshgateError as error:
            problems.append(str(error))
    for warning in reading.warnings:
        _warn(warning)
    for problem in problems:
        _fail(problem, EXIT_USAGE)
    if problems:
        return EXIT_USAGE
    if options.effective:
        sys.stdout.write(settings_file.effective(reading))
    else:
        print(f"freshgate: {path or 'no settings file'}: no problems found")
    return 0


def _demo(options: argparse.Namespace) -> int:
    return demo_command.run(demo_command.DemoOptions(options.keep, options.port, options.data))


def _guard(options: argparse.Namespace) -> int:
    try:
        settings = _settings(options)
    except ConfigError as error:
        return _fail(str(error), EXIT_USAGE)
    try:
        guard_command.write(options.jar)
    except FreshgateError as error:
        return _fail(str(error), EXIT_FAILED)
    print(*guard_command.instructions(options.jar, settings), sep="\n")
    return 0


def _beeline(arguments: Sequence[str]) -> NoReturn:
    """Replaces this process by Spark's beeline, whose own script would look for PySpark with the `python3` in PATH."""
    try:
        home = spark_home.find()
        find_java()
    except FreshgateError as error:
        sys.exit(_fail(str(error), EXIT_FAILED))
    program = str(home / "bin" / "beeline")
    os.execve(program, [program, *arguments], {**os.environ, "SPARK_HOME": str(home)})


def _status(options: argparse.Namespace) -> int:
    try:
        target = Target.parse(options.url) if options.url is not None else _own_target(_settings(options))
    except (BadUrl, ConfigError) as error:
        return _fail(str(error), EXIT_USAGE)
    if options.user:
        target = replace(target, user=options.user)
    if options.ca:
        target = replace(target, tls=True, ca=options.ca)
    if options.cert:
        target = replace(target, tls=True, certificate=options.cert)
    if target.password is None:
        # Not an option, because other users of the machine can see command lines.
        target = replace(target, password=os.environ.get(PASSWORD_VARIABLE))
    try:
        command.run(command.StatusOptions(target, options.database, options.watch, options.json))
    except StatusFailed as error:
        return _fail(str(error), EXIT_FAILED)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return 0


def _groups(options: argparse.Namespace) -> int:
    try:
        sources = methods.groups_of(_settings(options))
    except ConfigError as error:
        return _fail(str(error), EXIT_USAGE)
    except FreshgateError as error:
        return _fail(str(error), EXIT_FAILED)
    if not sources.has_sources:
        return _fail("groups.sources names no source that knows groups by users' names alone.", EXIT_FAILED)
    for group in sorted(asyncio.run(sources.of(options.name))):
        print(group)
    return 0


def _user(options: argparse.Namespace) -> int:
    if options.action == "groups":
        return _groups(options)
    try:
        path = options.file or Path(_settings(options).authentication.users_file)
    except ConfigError as error:
        return _fail(str(error), EXIT_USAGE)
    try:
        if options.action == "add":
            print(user_command.add(path, options.name))
        elif options.action == "remove":
            print(user_command.remove(path, options.name))
        else:
            for name in user_command.names(path):
                print(name)
    except BadUser as error:
        return _fail(str(error), EXIT_FAILED)
    except OSError as error:
        return _fail(f"{path} cannot be used: {error.strerror}. Check --file.", EXIT_FAILED)
    except UnicodeDecodeError:
        return _fail(f"{path} is not a users file: it is not UTF-8. Check --file.", EXIT_FAILED)
    except (KeyboardInterrupt, EOFError):
        return EXIT_INTERRUPTED
    return 0


def _own_target(settings: Settings) -> Target:
    """The address of a gateway with these settings on its own machine. Raises BadUrl."""
    listen = settings.listen
    if listen.port in (0, OFF):
        meaning = "any free port" if listen.port == 0 else "no port"
        raise BadUrl(
            f"listen.port is {listen.port}, {meaning}. Pass --url with the URL that the gateway printed at its start."
        )
    tls = bool(settings.tls.certificate) and "binary" in settings.tls.ports
    return Target(
        Address(ANY_ADDRESS.get(listen.host, listen.host), listen.port), sasl="sasl" in listen.transports, tls=tls
    )


async def serve(settings: Settings, *, take_over: bool = False) -> None:
    """Runs the gateway until a signal. Raises FreshgateError without Spark, PortUnavailable if it cannot listen."""
    exposure.check(settings)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    http_sessions = settings.limits.connections if settings.listen.http_port != OFF else 0
    descriptors.make_room(settings.limits.connections, http_sessions)
    heap.keep_freed()
    engine = _engine(settings)
    registration = registration_of(settings, stopping.set)
    server = _server(settings, engine, registration, take_over=take_over)
    _on_hangup(loop, stopping, server)
    watchdog = Watchdog(stopping.set)
    watchdog.start()
    await server.bind()
    stopped = asyncio.create_task(stopping.wait())
    try:
        try:
            if registration is not None:
                registration.start()
            await server.watch()
            if not await _unless(stopped, engine.start()):
                return
            if await _unless(stopped, server.start()):
                heap.settle()
                for address in _addresses(settings, server.ports):
                    print(f"freshgate: listening on jdbc:hive2://{address}", flush=True)
                if registration is not None:
                    registration.enter(await _server_nodes(settings, server.ports))
                await stopped
                stopping.clear()
                stopped = asyncio.create_task(stopping.wait())
                if registration is not None:
                    await registration.leave()
                await _unless(stopped, server.drain())
        finally:
            if registration is not None:
                await registration.leave()
            await server.stop()
    finally:
        stopped.cancel()
        await engine.stop()
        watchdog.leave()


def _server(
    settings: Settings,
    engine: EmbeddedEngine | ExternalEngine,
    registration: Registration | None,
    *,
    take_over: bool,
) -> Server | GatewayNode:
    registered = registered_in(registration)
    if not settings.gateways.enabled:
        return Server(settings, engine, take_over=take_over, registered=registered)

    def open_term(lasting: Lasting) -> Server:
        return Server(settings, engine, take_over=True, lasting=lasting, registered=registered)

    return node(settings, engine, open_term, registration)


def _addresses(settings: Settings, ports: Sequence[int]) -> Iterator[str]:
    """The addresses for clients, as in JDBC URLs after `jdbc:hive2://`; `ports` are those in use."""
    listen, tls = settings.listen, settings.tls
    bound = iter(ports)
    if listen.port != OFF:
        tail = "/;ssl=true" if tls.certificate and "binary" in tls.ports else ""
        yield f"{Address(listen.host, next(bound))}{tail}"
    if listen.http_port != OFF:
        tail = ";ssl=true" if tls.certificate and "http" in tls.ports else ""
        yield f"{Address(listen.host, next(bound))}/;transportMode=http;httpPath=cliservice{tail}"


async def _server_nodes(settings: Settings, ports: Sequence[int]) -> list[ServerNode]:
    """What clients find in ZooKeeper."""
    host = settings.listen.host
    if host in EVERY_ADDRESS:
        gateways = settings.gateways
        host = Address.parse(gateways.address).host if gateways.enabled else await asyncio.to_thread(socket.getfqdn)
    return server_nodes(settings, ports, host)


def _on_hangup(loop: asyncio.AbstractEventLoop, stopping: asyncio.Event, server: Server | GatewayNode) -> None:
    """On SIGHUP, a gateway in a terminal stops, because the terminal was closed; a service goes on, and reads again
    what was replaced. Under nohup, the signal stays ignored."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return
    loop.add_signal_handler(signal.SIGHUP, stopping.set if os.isatty(0) else server.reload)


def _engine(settings: Settings) -> EmbeddedEngine | ExternalEngine:
    if (place := settings.upstream.place) is not None:
        uis = [url.strip() for url in settings.upstream.ui.split(",") if url.strip()]
        return ExternalEngine([Address.parse(address) for address in place.addresses], uis)
    return EmbeddedEngine(settings)


async def _unless(stopped: asyncio.Task[bool], work: Coroutine[Any, Any, Any]) -> bool:
    """Does the work; returns whether it ended before the gateway received a signal to stop."""
    task = asyncio.create_task(work)
    await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
        return False
    task.result()
    return not stopped.done()


def _listen_problem(settings: Settings, error: PortUnavailable) -> str:
    port = error.port
    name, option = ("listen.port", "--port")
    relay = settings.gateways.address
    if relay and (port.host, port.port) == (Address.parse(relay).host, Address.parse(relay).port):
        name, option = ("gateways.address", "--set gateways.address=HOST:PORT")
    elif port.port != settings.listen.port:
        name, option = ("listen.http_port", "--set listen.http_port=PORT")
    if error.errno == errno.EADDRINUSE:
        return (
            f"Port {port.port} ({name}) is in use at {port.host}. Stop what listens there, or choose another with "
            f"{option}."
        )
    place = Address(port.host, port.port)
    if error.errno == errno.EACCES:
        return f"Not allowed to listen at {place} ({name}). Ports below 1024 need privileges; choose one with {option}."
    return f"Cannot listen at {place}: {error.strerror}. Check listen.host and {name}."


def _fail(message: str, code: int) -> int:
    print(f"freshgate: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
