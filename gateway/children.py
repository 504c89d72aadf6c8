"""Child processes that run modules of this package."""

from __future__ import annotations

import os
import site
from pathlib import Path

PACKAGE = __name__.rpartition(".")[0]
"""`gateway`, or `freshgate.gateway` in an installed package: what `python -m` takes."""


def environment() -> dict[str, str]:
    """This process's environment, with which a child can import this package also from a checkout."""
    root = Path(__file__).parents[__name__.count(".")]
    if str(root) in (*site.getsitepackages(), site.getusersitepackages()):
        # Named in PYTHONPATH, its modules would precede those of the standard library.
        return dict(os.environ)
    paths = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
