"""What the connected release of Spark understands. The gateway learns the release once, when it connects."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

Release = tuple[int, int]
OLDEST: Release = (3, 5)
"""The gateway refuses to start in front of an older Spark."""
_VERSION = re.compile(r"\s*(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class Dialect:
    """The statements by which releases differ. The gateway's statements are those of Spark 4; `gateway.spark.older`
    says what it runs in place of those that an older Spark does not understand."""

    describes_as_json: bool = True
    """DESCRIBE … AS JSON, which also says with which settings a view was created."""
    takes_options: bool = True
    """FROM relation WITH ('option' = 'value')."""


Speaking = Callable[[], Dialect]
"""What the connected Spark understands, as far as that is known when it is called."""
NEWEST = Dialect()
"""Of Spark 4, and of every release that is not known yet."""
SPARK_3_5 = Dialect(describes_as_json=False, takes_options=False)


def release_of(version: str) -> Release | None:
    """The release in the answer to `SELECT version()`, such as `3.5.9 7c14a3c2`; None if there is none."""
    found = _VERSION.match(version)
    return (int(found[1]), int(found[2])) if found else None


def dialect_of(release: Release | None) -> Dialect:
    """What a release understands; None: one that is not known."""
    return SPARK_3_5 if release is not None and release < (4, 0) else NEWEST
