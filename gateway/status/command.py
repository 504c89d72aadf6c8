"""`freshgate status`: prints the status of a gateway once, or repeatedly."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from gateway.status import text
from gateway.status.client import Client, StatusFailed, Target
from gateway.status.model import Status, json_of

HOME = "\x1b[H"
END_OF_LINE = "\x1b[K"
END_OF_SCREEN = "\x1b[J"
BEYOND_ASCII = "█░…"
"""Characters that the terminal's encoding must support; otherwise the output is ASCII."""


@dataclass(frozen=True, slots=True)
class StatusOptions:
    """The options of the command line."""

    target: Target
    database: str | None = None
    """None: all databases."""
    watch_seconds: float | None = None
    """None: print once."""
    as_json: bool = False


def run(options: StatusOptions) -> None:
    """Prints the status once, or until Ctrl-C. Raises StatusFailed if the first attempt fails, KeyboardInterrupt on
    Ctrl-C."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    try:
        if options.watch_seconds is None:
            _print_once(options)
        else:
            _watch(options, options.watch_seconds)
    except BrokenPipeError:
        # The reader of the output, such as `head`, has closed it. Python would report an error when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_once(options: StatusOptions) -> None:
    client = Client.connect(options.target)
    try:
        _show(client.status(options.database, everything=options.as_json), options)
    finally:
        client.close()


def _watch(options: StatusOptions, seconds: float) -> None:
    # A shell starts background processes with SIGINT ignored; this one must end on it all the same.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    client: Client | None = None
    seen = False
    try:
        while True:
            try:
                client = client or Client.connect(options.target)
                status = client.status(options.database, everything=options.as_json)
            except StatusFailed as error:
                if not seen:
                    raise
                if client is not None:
                    client.close()
                    client = None
                _report(error, seconds, redraws=_redraws(options))
            else:
                seen = True
                _show(status, options)
            time.sleep(seconds)
    except KeyboardInterrupt:
        return
    finally:
        if client is not None:
            client.close()


def _show(status: Status, options: StatusOptions) -> None:
    now = datetime.now(UTC)
    watching = options.watch_seconds is not None
    if options.as_json:
        print(json.dumps(json_of(status, now), indent=None if watching else 2), flush=True)
        return
    redraws = _redraws(options)
    lines = text.render(status, now, _style(redraws), str(options.target))
    if redraws:
        _draw(lines)
    else:
        print(*lines, *[""] * watching, sep="\n", flush=True)


def _redraws(options: StatusOptions) -> bool:
    return options.watch_seconds is not None and not options.as_json and sys.stdout.isatty()


def _draw(lines: list[str]) -> None:
    """Overwrites the terminal's content line by line, so that it does not flicker."""
    shown = "".join(f"{line}{END_OF_LINE}\n" for line in lines)
    print(f"{HOME}{shown}{END_OF_SCREEN}", end="", flush=True)


def _report(error: StatusFailed, seconds: float, *, redraws: bool) -> None:
    line = text.plain(f"freshgate: {error} Trying again every {seconds:g} s.")
    if redraws:
        _draw([line])
    else:
        print(line, file=sys.stderr, flush=True)


def _style(redraws: bool) -> text.Style:
    terminal = sys.stdout.isatty()
    size = shutil.get_terminal_size()
    return text.Style(
        width=size.columns,
        # The cursor has the line below.
        height=size.lines - 1 if redraws else None,
        colour=terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb",
        unicode=_can_show(BEYOND_ASCII, sys.stdout.encoding),
    )


def _can_show(characters: str, encoding: str | None) -> bool:
    try:
        characters.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
