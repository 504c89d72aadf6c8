"""Simulates a network between the programs by limiting the rate at which each server sends.

Without a limit, the client, the gateway and Spark talk over the loopback interface: a large result then takes as long
as the processors, which all three share, need. With a limit it takes at least as long as on a network.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import subprocess

CLONE_NEWNET = 0x40000000
"""unshare(2): a network namespace of this process's own, with its own loopback interface."""
RATE = re.compile(r"[0-9]+[kmg]?bit")
"""A rate as tc(8) accepts it."""
BURST = "256k"
"""Packets on the loopback interface have up to 64 KiB; a bucket must hold several."""


class Wire:
    """The loopback interface of a network namespace for this process and its children. Create it before any thread.

    Raises SystemExit if that is not possible: it needs root, iproute2, and sch_htb and cls_u32 in the kernel.
    """

    def __init__(self, rate: str) -> None:
        self._rate = rate
        self._classes = itertools.count(10)
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
            raise SystemExit(f"bench: --wire needs root ({os.strerror(ctypes.get_errno())}).")
        _run("ip link set lo up")
        _run("tc qdisc add dev lo root handle 1: htb default 1")

    def limit(self, port: int) -> None:
        """Limits the server on this port to the rate, for all its clients together."""
        number = next(self._classes)
        _run(f"tc class add dev lo parent 1: classid 1:{number} htb rate {self._rate} burst {BURST} cburst {BURST}")
        _run(f"tc filter add dev lo parent 1: protocol ip u32 match ip sport {port} 0xffff flowid 1:{number}")


def _run(command: str) -> None:
    try:
        subprocess.run(command.split(), check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise SystemExit(f"bench: --wire needs {error.filename}; run apt-get install iproute2.") from error
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"bench: --wire: {command}: {error.stderr.strip()}") from error
