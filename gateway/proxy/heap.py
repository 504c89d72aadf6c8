"""What memory costs beside its bytes: the C library's handing it back, and the collector's walks through it."""

from __future__ import annotations

import ctypes
import gc
import logging

log = logging.getLogger(__name__)

# mallopt(3), as in glibc's malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
KEPT_BYTES = 8 * 1024 * 1024
"""Free memory at the heap's end that stays with the process."""
OWN_PAGES_BYTES = 4 * 1024 * 1024
"""Blocks from here on have pages of their own, which go back when they are freed."""


def keep_freed() -> None:
    """Lets the process keep some free memory, where its C library is glibc.

    By itself glibc gives it back after nearly every piece of a wide page that is copied on its way, and takes it again
    for the next one: a page fault for each 4 KiB, three quarters of the processor time of such pages over HTTP.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        log.debug("the C library has no mallopt")
        return
    # The first alone would fix the second at 128 KiB, and each larger piece would cost two calls of the system.
    mallopt(_M_MMAP_THRESHOLD, OWN_PAGES_BYTES)
    mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)


def settle() -> None:
    """What is there now stays, modules and the catalog mostly, so Python's collector need not walk it again.

    A whole collection took 30 ms, in which every client waits; without these 90,000 objects it takes as long as the
    clients' sessions need. What is still dropped later is freed all the same, unless it refers to itself.
    """
    gc.collect()
    gc.freeze()
