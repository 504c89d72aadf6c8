"""Ends the process at SIGTERM and Ctrl-C even if the event loop is blocked, or a thread never ends.

Python only notes a signal, and the event loop processes it in its next turn. If no turn comes, a thread ends the
process after a while. If that thread does not run either, because what blocks the loop never releases the interpreter's
lock, a second signal ends the process: the kernel restores the default action with the first one.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import faulthandler
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable

REACTION_SECONDS = 10.0
"""How long the event loop may take to notice a signal. Service managers kill a process after thirty seconds or more."""
LEAVING_SECONDS = 10.0
"""How long the process may take to end when everything is stopped: threads may still work."""
STOPPING = (signal.SIGTERM, signal.SIGINT)
EXIT = 1
_HEARD, _LEAVING = 0, 255
"""What is written to the pipe besides numbers of signals. The event loop ignores zeros."""
_ONE_SHOT = 0x80000000


class Watchdog:
    """Belongs to an event loop in the main thread, which handles the signals that stop the gateway."""

    def __init__(self, stop: Callable[[], object]) -> None:
        """`stop` is called by the event loop for each signal."""
        self._stop = stop
        self._source, self._target = os.pipe()
        self._loops = -1

    def start(self) -> None:
        """Handles the signals from now on. Other handlers must have been added to the loop before."""
        loop = asyncio.get_running_loop()
        for number in STOPPING:
            loop.add_signal_handler(number, self._heard, number)
            _reset_once(number)
        os.set_blocking(self._target, False)
        self._loops = signal.set_wakeup_fd(self._target, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def leave(self) -> None:
        """Everything is stopped: the process must end soon."""
        signal.set_wakeup_fd(self._loops)
        self._write(_LEAVING)

    def _heard(self, number: int) -> None:
        self._write(_HEARD)
        signal.signal(number, signal.getsignal(number))
        _reset_once(number)
        self._stop()

    def _write(self, sign: int) -> None:
        with contextlib.suppress(OSError):
            os.write(self._target, bytes([sign]))

    # --- in the thread -------------------------------------------------------------------------------

    def _watch(self) -> None:
        deadline: float | None = None
        what = ""
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([self._source], [], [], left)[0]:
                _end(what)
            for sign in os.read(self._source, 256):
                if sign == _HEARD:
                    deadline = None
                elif sign == _LEAVING:
                    deadline = time.monotonic() + LEAVING_SECONDS
                    what = f"did not end within {LEAVING_SECONDS:g} seconds after everything was stopped"
                else:
                    if sign in STOPPING:
                        deadline = deadline or time.monotonic() + REACTION_SECONDS
                        what = f"did not react to {signal.Signals(sign).name} within {REACTION_SECONDS:g} seconds"
                    with contextlib.suppress(OSError):  # It is full, so the loop will wake up, or closed.
                        os.write(self._loops, bytes([sign]))


def _end(what: str) -> None:
    """Writes where every thread is, and ends the process. Logging could wait for a lock of a blocked thread."""
    os.write(2, f"freshgate: the gateway {what}, and ends now. What it was doing:\n".encode())
    faulthandler.dump_traceback(sys.__stderr__ or 2, all_threads=True)
    os._exit(EXIT)


# --- the kernel's part ---------------------------------------------------------------------------------------


class _Action(ctypes.Structure):
    """`struct sigaction` of Linux's C libraries."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ubyte * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


def _reset_once(number: int) -> None:
    """Lets the next signal of this kind restore the default action, which ends the process."""
    if sys.platform != "linux":
        return
    libc, action = ctypes.CDLL(None), _Action()
    if libc.sigaction(number, None, ctypes.byref(action)) == 0:
        action.flags |= ctypes.c_int(_ONE_SHOT).value
        libc.sigaction(number, ctypes.byref(action), None)
