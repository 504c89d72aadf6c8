"""Reads long texts in separate processes, because reading one would block the event loop.

A thread is not enough: each match of a regular expression holds the interpreter's lock until it returns. There is one
process for texts of up to 500,000 characters and one for longer texts. Each is started for the first such text and ends
when it has been idle for a while. Users and their sessions take turns. A thread starts each process and communicates
with it, because forking (which copies the gateway's page tables) and sending megabytes through a pipe take
milliseconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any, ParamSpec, TypeVar

from gateway import children
from gateway.errors import FreshgateError, LimitReached
from gateway.service.clients.context import ORIGIN
from gateway.service.routing import long_text_process
from gateway.service.routing.fair_turns import FairTurns, Who
from gateway.service.routing.long_text_process import ReadingOutcome
from sql.grammar.cursor import SyntaxProblem
from sql.understood import TooMuch, Understood, packed

log = logging.getLogger(__name__)

Work = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
T = TypeVar("T")
P = ParamSpec("P")

LONG_CHARACTERS = 4_000
"""Reading a longer text may take milliseconds, so it is done in a thread."""
SEMICOLONS_MAX = 400
"""A text with more may be a script of so many statements, each of which is read by itself; it counts as a long one."""
APART_CHARACTERS = 16_000
"""Reading a longer text may hold the interpreter's lock for too long, so it is done in another process."""
VERY_LONG_CHARACTERS = 500_000
"""Longer texts have their own process, so that shorter ones do not wait for them."""
READ_SECONDS = 180.0
"""The maximum duration of one reading. The slowest texts of 8 MiB take about a minute."""
TOO_MUCH = "The statement has too many names. Split it into shorter statements."
WAITING_MAX = 100
WAITING_OF_USER_MAX = 50
"""The maximum number of one user's texts that wait, so that others find room."""
IDLE_SECONDS = 60.0
"""The idle time after which a process is ended."""


@contextlib.contextmanager
def parts_bounded() -> Iterator[None]:
    """Raises LimitReached if a part of a long text is needed that is too large."""
    try:
        yield
    except TooMuch:
        raise LimitReached(TOO_MUCH) from None


class LongTexts:
    """Applies functions of `sql` to texts without blocking the event loop."""

    def __init__(self) -> None:
        self._long, self._very_long = _Process(), _Process()

    async def read(self, known: Understood) -> None:
        """Computes all parts of a long text, so that none is computed on the event loop.

        Raises SyntaxProblem if it is a malformed statement of the gateway's own, and LimitReached if it takes too long.
        """
        if known.packed is None and not _is_short(known.text):
            known.packed = await self.apply(packed, *known.recipe)

    async def apply(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Returns `function(*arguments, **named)`, a function of a module in `sql` whose first argument is the text.

        Raises SyntaxProblem like the function, and LimitReached if it takes too long or its result is too large.
        """
        text = str(arguments[0])
        if _is_short(text):
            return function(*arguments, **named)
        length = len(text)
        if length <= APART_CHARACTERS:
            return await asyncio.to_thread(function, *arguments, **named)
        process = self._long if length <= VERY_LONG_CHARACTERS else self._very_long
        answer: T = await process.call((function, arguments, named))
        return answer

    async def close(self) -> None:
        """Ends the processes."""
        await asyncio.gather(self._long.close(), self._very_long.close())


def _is_short(text: str) -> bool:
    return len(text) <= LONG_CHARACTERS and text.count(";") <= SEMICOLONS_MAX


class _Process:
    """A child process, which executes one call at a time."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._starting: asyncio.Future[subprocess.Popen[bytes]] | None = None
        self._thread = ThreadPoolExecutor(1, "long-texts")
        self._turns = FairTurns()
        self._calls: dict[asyncio.Task[Any], str] = {}
        """With the user of each."""
        self._endings: set[asyncio.Future[None]] = set()
        self._idle: asyncio.TimerHandle | None = None

    async def call(self, work: Work) -> Any:
        origin = ORIGIN.get()
        waiting = sum(user == origin.user for user in self._calls.values())
        if len(self._calls) >= WAITING_MAX or waiting >= WAITING_OF_USER_MAX:
            raise LimitReached(
                f"{waiting} of {len(self._calls)} long statements that wait to be parsed are yours. Try again in a few "
                f"seconds."
            )
        call = asyncio.get_running_loop().create_task(self._call(work, (origin.user, origin.session)))
        self._calls[call] = origin.user
        call.add_done_callback(self._done)
        # A cancelled caller lets the child finish, so that the next caller does not receive this answer.
        return await asyncio.shield(call)

    def _done(self, call: asyncio.Task[Any]) -> None:
        del self._calls[call]
        if not call.cancelled():
            call.exception()  # Marks it as retrieved; the caller may have gone.

    async def _call(self, work: Work, who: Who) -> Any:
        async with self._turns.of(who):
            outcome, value = await self._exchange(work)
        match outcome:
            case ReadingOutcome.DONE:
                return value
            case ReadingOutcome.SYNTAX:
                raise SyntaxProblem(*value)
            case ReadingOutcome.TOO_MUCH:
                raise LimitReached(TOO_MUCH)
        raise FreshgateError(f"The gateway failed to parse the statement: {value}.", "58005")

    async def _exchange(self, work: Work) -> tuple[ReadingOutcome, Any]:
        if self._idle is not None:
            self._idle.cancel()
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(READ_SECONDS):
                child = await self._started()
                answer = await loop.run_in_executor(self._thread, _ask, child, work)
        except TimeoutError:
            self._kill()
            raise LimitReached(
                f"The statement could not be parsed within {READ_SECONDS:g} seconds. Split it into shorter statements."
            ) from None
        except (OSError, EOFError) as error:  # It was killed or ran out of memory.
            self._kill()
            log.warning("the process that parses long statements ended: %s", error or type(error).__name__)
            raise LimitReached("The statement takes too much memory to parse. Split it into shorter ones.") from error
        except BaseException:
            self._kill()
            raise
        self._idle = loop.call_later(IDLE_SECONDS, self._retire)
        return answer

    async def _started(self) -> subprocess.Popen[bytes]:
        if self._child is not None and self._child.poll() is None:
            return self._child
        if self._starting is None:
            self._starting = asyncio.get_running_loop().run_in_executor(self._thread, _start)
            self._starting.add_done_callback(self._has_started)
        # If the caller is cancelled, the next caller or `close` takes over the child.
        return await asyncio.shield(self._starting)

    def _has_started(self, starting: asyncio.Future[subprocess.Popen[bytes]]) -> None:
        self._starting = None
        self._child = None if starting.cancelled() or starting.exception() else starting.result()

    def _retire(self) -> None:
        if not self._turns.busy:
            self._leave()

    def _kill(self) -> None:
        if self._child is not None:
            self._child.kill()
        self._leave()

    def _leave(self) -> None:
        """Ends the child in the background."""
        child, self._child = self._child, None
        if child is not None:
            ending = asyncio.get_running_loop().run_in_executor(self._thread, _end, child)
            self._endings.add(ending)
            ending.add_done_callback(self._endings.discard)

    async def close(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        for call in self._calls:
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        if self._starting is not None:
            await asyncio.wait([self._starting])
        self._kill()
        await asyncio.gather(*self._endings)
        self._thread.shutdown()


# --- in the thread of a process ----------------------------------------------------------------------------


def _start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        # With -m, the classes of the answers would belong to __main__, which is another module in this process.
        [sys.executable, "-c", f"from {long_text_process.__name__} import main; main()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=children.environment(),
        # A Ctrl-C in the terminal is for the gateway; the child ends with it.
        start_new_session=True,
    )


def _ask(child: subprocess.Popen[bytes], work: Work) -> tuple[ReadingOutcome, Any]:
    """Raises OSError or EOFError if the child has ended."""
    assert child.stdin is not None
    assert child.stdout is not None
    request = pickle.dumps(work)
    child.stdin.write(len(request).to_bytes(8))
    child.stdin.write(request)
    child.stdin.flush()
    size = int.from_bytes(_exactly(child.stdout, 8))
    answer: tuple[ReadingOutcome, Any] = pickle.loads(_exactly(child.stdout, size))
    return answer


def _exactly(source: IO[bytes], size: int) -> bytes:
    found = source.read(size)
    if len(found) < size:
        raise EOFError
    return found


def _end(child: subprocess.Popen[bytes]) -> None:
    """Closes the child's input, on which it ends."""
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):  # Unsent input of a child that has ended.
                pipe.close()
    child.wait()
