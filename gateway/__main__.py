"""The command line `freshgate`: starts and stops the gateway, shows its status, edits users, prints settings."""

from __future__ import annotations

import argparse
import asyncio
import errno
import importlib.metadata
import logging
import os
import signal
import sys
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvloop

from gateway import settings_file
from gateway.config import OFF, Address, ConfigError, Settings
from gateway.errors import FreshgateError
from gateway.login import command as user_command
from gateway.login import exposure
from gateway.login.user_file import BadUser
from gateway.monitoring import logs
from gateway.proxy import descriptors, heap
from gateway.proxy.listener import PortUnavailable
from gateway.server import Server
from gateway.spark.engine import EmbeddedEngine, ExternalEngine
from gateway.status import command
from gateway.status.client import BadUrl, StatusFailed, Target

log = logging.getLogger(__name__)

DEFAULT_FILE = Path("conf/freshgate.toml")
PASSWORD_VARIABLE = "FRESHGATE_PASSWORD"
"""The password for `freshgate status`, if the gateway requires one."""
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
SECONDS_MAX = 86_400
ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""The address at which a gateway that listens on every interface is reached from its own machine."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line. Returns the exit code: 0 done, 1 failed, 2 wrong usage or settings, 130 interrupted."""
    options = _parser().parse_args(arguments)
    if options.command == "config":
        sys.stdout.write(settings_file.reference())
        return 0
    if options.command == "status":
        return _status(options)
    if options.command == "user":
        return _user(options)
    try:
        settings = _settings(options)
    except ConfigError as error:
        return _fail(str(error), EXIT_USAGE)
    logs.set_up(settings.log.level, settings.log.format)
    try:
        uvloop.run(serve(settings))
    except FreshgateError as error:
        return _fail(str(error), EXIT_FAILED)
    except PortUnavailable as error:
        return _fail(_listen_problem(settings, error), EXIT_FAILED)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="freshgate", description="Materialized views for Spark SQL, over plain HiveServer2."
    )
    version = importlib.metadata.version("freshgate")
    parser.add_argument("--version", action="version", version=f"freshgate {version}")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("serve", help="run the gateway", description="Run the gateway until SIGTERM or Ctrl-C.")
    _add_settings(run)
    run.add_argument("--host", help="address to listen on (listen.host)")
    run.add_argument("--port", help="port to listen on, 0 for a free one (listen.port)")
    run.add_argument("--data-dir", metavar="DIR", help="metastore and warehouse of the embedded Spark (data_dir)")
    run.add_argument(
        "--upstream", metavar="HOST:PORT", help="an existing Spark Thrift Server, also as a JDBC URL (upstream.address)"
    )
    status = commands.add_parser(
        "status",
        help="show the materialized views, refreshes and next runs of a running gateway",
        description="Show the materialized views, refreshes and next runs of a running gateway. Times are UTC.",
    )
    status.add_argument(
        "--url", help="jdbc:hive2://HOST:PORT/DATABASE; default: the address to listen on in the settings"
    )
    status.add_argument(
        "--user",
        help=f"user to log in, with the URL's password or ${PASSWORD_VARIABLE}; default: the URL's or this account",
    )
    status.add_argument("--ca", metavar="FILE", help="connect with TLS; PEM file of CA certificates")
    status.add_argument(
        "--cert", metavar="FILE", help="PEM file of your own certificate and key, if the gateway requires one"
    )
    status.add_argument("--database", help="show only materialized views of this database")
    status.add_argument(
        "--watch",
        nargs="?",
        type=_positive_seconds,
        const=2.0,
        metavar="SECONDS",
        help="repeat every SECONDS (default: 2) until Ctrl-C",
    )
    status.add_argument("--json", action="store_true", help="print a JSON object; with --watch, one per line")
    _add_settings(status)
    _add_user_commands(commands.add_parser("user", help="edit the users file (authentication.method file)"))
    commands.add_parser("config", help="print every setting with its default and reason, as a TOML file")
    return parser


def _add_user_commands(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="action", required=True)
    for action, help_text in (
        ("add", "add a user, or change a user's password, which is asked for or read from standard input"),
        ("remove", "remove a user"),
        ("list", "print the users' names"),
    ):
        run = commands.add_parser(action, help=help_text, description=f"{help_text[0].upper()}{help_text[1:]}.")
        if action != "list":
            run.add_argument("name", metavar="NAME")
        run.add_argument("--file", type=Path, help="users file; default: authentication.users_file")
        _add_settings(run)


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help=f"settings file; default: {DEFAULT_FILE} if it exists"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="set any setting; may be repeated"
    )


def _positive_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= SECONDS_MAX:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds above 0 and up to {SECONDS_MAX}")
    return seconds


def _settings(options: argparse.Namespace) -> Settings:
    named = {"listen.host": "host", "listen.port": "port", "data_dir": "data_dir", "upstream.address": "upstream"}
    given = {
        f"--{option.replace('_', '-')}": (name, value)
        for name, option in named.items()
        if (value := getattr(options, option, None)) is not None
    }
    path: Path | None = options.config
    if path is None and DEFAULT_FILE.exists():
        path = DEFAULT_FILE
    return settings_file.load(path, options.set, given)


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
        command.run(command.Options(target, options.database, options.watch, options.json))
    except StatusFailed as error:
        return _fail(str(error), EXIT_FAILED)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return 0


def _user(options: argparse.Namespace) -> int:
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


async def serve(settings: Settings) -> None:
    """Runs the gateway until a signal. Raises FreshgateError without Spark, PortUnavailable if it cannot listen."""
    exposure.check(settings)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    http_sessions = settings.limits.http_sessions if settings.listen.http_port != OFF else 0
    descriptors.make_room(settings.limits.connections, http_sessions)
    heap.keep_freed()
    engine = _engine(settings)
    server = Server(settings, engine)
    await server.bind()
    stopped = asyncio.create_task(stopping.wait())
    try:
        try:
            await server.watch()
            if not await _unless(stopped, engine.start()):
                return
            if await _unless(stopped, server.start()):
                heap.settle()
                for address in server.addresses:
                    print(f"freshgate: listening on jdbc:hive2://{address}", flush=True)
                await stopped
                log.info("stopping when the running statements have ended; a second signal stops at once")
                stopping.clear()
                stopped = asyncio.create_task(stopping.wait())
                await _unless(stopped, server.drain())
        finally:
            await server.stop()
    finally:
        stopped.cancel()
        await engine.stop()


def _engine(settings: Settings) -> EmbeddedEngine | ExternalEngine:
    if settings.upstream.address:
        return ExternalEngine(Address.parse(settings.upstream.address), settings.upstream.ui)
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
    if port.port != settings.listen.port:
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
