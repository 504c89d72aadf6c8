"""The arguments of the command line `freshgate`.

Tests: `test_config_reference`.
"""

from __future__ import annotations

import argparse
import importlib.metadata
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Not subscriptable at run time.
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

DEFAULT_FILES = (Path("conf/freshgate.toml"), Path("/etc/freshgate/freshgate.toml"))
"""The settings file, if none is named: the first that exists."""
NO_FILE = Path()
"""`config --check` without a file."""
BEELINE = "beeline"
"""The command whose arguments are not parsed here."""
PASSWORD_VARIABLE = "FRESHGATE_PASSWORD"
"""The password for `freshgate status`, if the gateway requires one."""
SECONDS_MAX = 86_400


def parser() -> argparse.ArgumentParser:
    """The parser of the command line. `command` is None without a command."""
    parser = argparse.ArgumentParser(
        prog="freshgate", description="Materialized views for Spark SQL, over plain HiveServer2."
    )
    version = importlib.metadata.version("freshgate")
    parser.add_argument("--version", action="version", version=f"freshgate {version}")
    commands = parser.add_subparsers(dest="command")
    run = commands.add_parser("serve", help="run the gateway", description="Run the gateway until SIGTERM or Ctrl-C.")
    _add_settings(run)
    run.add_argument("--host", help="address to listen on (listen.host)")
    run.add_argument("--port", help="port to listen on, 0 for a free one (listen.port)")
    run.add_argument("--data-dir", metavar="DIR", help="metastore and warehouse of the embedded Spark (data_dir)")
    run.add_argument(
        "--upstream", metavar="HOST:PORT", help="an existing Spark Thrift Server, also as a JDBC URL (upstream.address)"
    )
    run.add_argument(
        "--take-over",
        action="store_true",
        help="change the views even if another gateway on the same storage database is alive; that one then only "
        "forwards statements",
    )
    status = commands.add_parser(
        "status",
        help="show the materialized views, refreshes and next runs of a running gateway",
        description="Show the materialized views, refreshes and next runs of a running gateway. Times are UTC.",
    )
    where = status.add_mutually_exclusive_group()
    where.add_argument(
        "--url", help="HOST:PORT or jdbc:hive2://HOST:PORT/DATABASE; default: the address to listen on in the settings"
    )
    where.add_argument("--port", help="port of a gateway on this machine, as for serve (listen.port)")
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
    _add_config(commands)
    _add_guard(commands)
    _add_demo(commands)
    commands.add_parser(
        BEELINE, help="run Spark's beeline with the arguments that follow (extra engine)", add_help=False
    )
    return parser


def _add_config(commands: _Commands) -> None:
    config = commands.add_parser(
        "config",
        help="print or check settings",
        description="Without options, print every setting with its default and reason, as a TOML file.",
    )
    action = config.add_mutually_exclusive_group()
    action.add_argument(
        "--check",
        nargs="?",
        type=Path,
        const=NO_FILE,
        metavar="FILE",
        help="check a settings file, by default the one that serve reads, and report every problem; exit code 0 or 2",
    )
    action.add_argument(
        "--effective", action="store_true", help="print all settings as serve would use them, with their sources"
    )
    _add_settings(config)


def _add_guard(commands: _Commands) -> None:
    guard = commands.add_parser(
        "guard",
        help="write the guard of materialized views for a Spark that the gateway does not start (extra engine)",
        description="Write the guard of materialized views as a jar for an existing Spark Thrift Server, and print "
        "what to set in the gateway and in that Spark.",
    )
    guard.add_argument("--jar", type=Path, required=True, metavar="FILE", help="the jar to write")
    _add_settings(guard)


def _add_demo(commands: _Commands) -> None:
    demo = commands.add_parser(
        "demo",
        help="show Freshgate at work, with real flights (extra demo)",
        description="Start a gateway with an embedded Spark, load the flights of 2013, and check every answer.",
    )
    demo.add_argument("--keep", action="store_true", help="keep the gateway running until Ctrl-C")
    demo.add_argument("--port", type=int, default=0, help="port of the gateway; a free one by default")
    demo.add_argument(
        "--data", type=Path, metavar="DIR", help="directory of the flights' CSV files; default: the installed ones"
    )


def _add_user_commands(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="action", required=True)
    for action, help_text in (
        ("add", "add a user, or change a user's password, which is asked for or read from standard input"),
        ("remove", "remove a user"),
        ("list", "print the users' names"),
        ("groups", "print the groups of a user, as groups.sources know them"),
    ):
        run = commands.add_parser(action, help=help_text, description=f"{help_text[0].upper()}{help_text[1:]}.")
        if action != "list":
            run.add_argument("name", metavar="NAME")
        if action != "groups":
            run.add_argument("--file", type=Path, help="users file; default: authentication.users_file")
        _add_settings(run)


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help=f"settings file; default: {' or '.join(map(str, DEFAULT_FILES))}, the first that exists",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="set any setting; may be repeated"
    )
    parser.add_argument(
        "--set-file",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="set any setting to the first line of a file, for passwords and secrets; may be repeated",
    )


def _positive_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= SECONDS_MAX:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds above 0 and up to {SECONDS_MAX}")
    return seconds
