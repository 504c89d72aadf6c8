"""The frames between the gateway and the engine's process: a length, the number of a call, a kind, and the content.

The content of most kinds is JSON.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

HEADER = struct.Struct(">IQB")
"""The length of the content, the number of the call, and the kind."""


LOADS_AT_ONCE = 2


class FrameKind(IntEnum):
    # From the gateway; the first frame of a call:
    RUN = 1
    """`text`, `types` (Spark's, of the columns), `rows_max`, `bytes_max`."""
    LOAD = 2
    """`table`, `columns` (pairs of name and type), `kept` (KeptRows, or null)."""
    DROP = 3
    """`table`."""
    # Later ones:
    PART = 4
    """Of a load: a page of lines, as Spark sent it."""
    LAST = 5
    """Of a load: no more parts."""
    STOP_CALL = 6
    """Interrupts a query, or gives a load up. The call is answered all the same."""
    # From the engine's process:
    READY = 11
    """It has started."""
    TAKEN = 12
    """Of a load: the next part may come. Of a query: it has begun."""
    PAGE = 13
    """Of a query: a FetchResults reply."""
    DONE = 14
    """The call is complete; what it returns."""
    FAILED = 15
    """The call has failed: `reason`, `detail`."""


def frame(call: int, kind: FrameKind, content: bytes = b"") -> bytes:
    return HEADER.pack(len(content), call, kind) + content


def described(call: int, kind: FrameKind, content: Mapping[str, Any]) -> bytes:
    """A frame with JSON."""
    return frame(call, kind, json.dumps(content).encode("utf-8"))
