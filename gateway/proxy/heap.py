"""Reduces the cost of memory management: of glibc returning freed memory, and of Python's garbage collector."""

from __future__ import annotations

import ctypes
import gc
import logging

log = logging.getLogger(__name__)

# mallopt(3), as in glibc's malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
KEPT_BYTES = 8 * 1024 * 1024
"""Free memory that the process keeps at the end of the heap."""
OWN_PAGES_BYTES = 4 * 1024 * 1024
"""Blocks of at least this size get pages of their own, which are returned when they are freed."""


def keep_freed() -> None:
    """Lets the process keep some free memory, if its C library is glibc.

    By default glibc returns it after nearly every piece of a wide page that is copied, and takes it again for the next
    one. That causes a page fault per 4 KiB, three quarters of the processor time for such pages over HTTP.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        log.debug("the C library has no mallopt")
        return
    # Setting only the trim threshold would fix the mmap threshold at 128 KiB, and each larger piece would cost two
    # system calls.
    mallopt(_M_MMAP_THRESHOLD, OWN_PAGES_BYTES)
    mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)


def settle() -> None:
    """Excludes the existing objects, mostly modules and the catalog, from garbage collection.

    A full collection took 30 ms, during which every client waits. Without these 90,000 objects it takes only as long as
    the clients' sessions need. Excluded objects are still freed when they are dropped, unless they are part of a cycle.
    """
    gc.collect()
    gc.freeze()
