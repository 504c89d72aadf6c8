"""The process that reads long texts.

It reads calls from standard input and writes the answers to standard output, one after the other. Each is a pickle
after its length in eight bytes. The process ends at the end of its input, and when its parent has ended, even while it
reads a text.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import resource
import signal
import sys
from enum import Enum
from typing import Any

from sql.grammar.cursor import SyntaxProblem
from sql.understood import PART_BYTES_MAX

ANSWER_BYTES_MAX = 8 * PART_BYTES_MAX
"""The maximum size of an answer: all parts of a text."""
MEMORY_BYTES_MAX = 4 << 30
_SIGNAL_AT_END_OF_PARENT = 1
"""PR_SET_PDEATHSIG."""
NICENESS = 5
"""The gateway has priority on a machine with few processors."""


class ReadingOutcome(Enum):
    DONE = 1
    SYNTAX = 2
    """A malformed statement of the gateway's own; the value has the fields of a SyntaxProblem."""
    TOO_MUCH = 3
    FAILED = 4
    """The value is the reason."""


def answered(request: bytes) -> bytes:
    """The answer to a call, after its length."""
    answer = pickle.dumps(_outcome(request))
    if len(answer) > ANSWER_BYTES_MAX:
        answer = pickle.dumps((ReadingOutcome.TOO_MUCH, None))
    return len(answer).to_bytes(8) + answer


def _outcome(request: bytes) -> tuple[ReadingOutcome, Any]:
    try:
        function, arguments, named = pickle.loads(request)
        return ReadingOutcome.DONE, function(*arguments, **named)
    except SyntaxProblem as problem:
        return ReadingOutcome.SYNTAX, (str(problem), problem.position, problem.sqlstate)
    except (MemoryError, RecursionError):
        return ReadingOutcome.TOO_MUCH, None
    except Exception as error:
        return ReadingOutcome.FAILED, repr(error)[:1_000]


def main() -> None:
    """Answers calls until the end of standard input."""
    if sys.platform == "linux":
        # The thread that has started this process lives as long as the parent needs it.
        ctypes.CDLL(None).prctl(_SIGNAL_AT_END_OF_PARENT, signal.SIGKILL)
    os.nice(NICENESS)
    with contextlib.suppress(ValueError, OSError):  # A lower limit may be set already.
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    source, target = sys.stdin.buffer, sys.stdout.buffer
    while len(header := source.read(8)) == 8:
        target.write(answered(source.read(int.from_bytes(header))))
        target.flush()
