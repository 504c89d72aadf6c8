"""The process that reads long texts.

Standard input brings calls, standard output takes answers, one after the other, each a pickle with its length before
it in eight bytes. It ends when its input does, and so never outlives its parent.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
import sys
from enum import Enum
from typing import Any

from sql.grammar.cursor import SyntaxProblem
from sql.understood import PART_BYTES_MAX

ANSWER_BYTES_MAX = 8 * PART_BYTES_MAX
"""Of all parts of a reading together."""
MEMORY_BYTES_MAX = 4 << 30
NICENESS = 5
"""Where processors are few the gateway comes first."""


class Outcome(Enum):
    DONE = 1
    SYNTAX = 2
    """A faulty statement of ours: with the fields of a SyntaxProblem."""
    TOO_MUCH = 3
    FAILED = 4
    """With the reason."""


def answered(request: bytes) -> bytes:
    """The answer to one call, with its length."""
    answer = pickle.dumps(_outcome(request))
    if len(answer) > ANSWER_BYTES_MAX:
        answer = pickle.dumps((Outcome.TOO_MUCH, None))
    return len(answer).to_bytes(8) + answer


def _outcome(request: bytes) -> tuple[Outcome, Any]:
    try:
        function, arguments, named = pickle.loads(request)
        return Outcome.DONE, function(*arguments, **named)
    except SyntaxProblem as problem:
        return Outcome.SYNTAX, (str(problem), problem.position, problem.sqlstate)
    except (MemoryError, RecursionError):
        return Outcome.TOO_MUCH, None
    except Exception as error:
        return Outcome.FAILED, repr(error)[:1_000]


def main() -> None:
    """Answers until standard input ends."""
    os.nice(NICENESS)
    with contextlib.suppress(ValueError, OSError):  # a lower limit may be set already
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    source, target = sys.stdin.buffer, sys.stdout.buffer
    while len(header := source.read(8)) == 8:
        target.write(answered(source.read(int.from_bytes(header))))
        target.flush()
