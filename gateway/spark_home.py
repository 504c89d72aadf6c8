"""Where PySpark is installed, the package's extra `engine`. It is found without being imported."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from gateway.errors import FreshgateError

MODULE = "pyspark"


class SparkMissing(FreshgateError):
    """PySpark is not installed."""

    sqlstate = "08001"


def find(otherwise: str = "") -> Path:
    """Returns PySpark's directory, which is a SPARK_HOME with `bin` and `jars`. Raises SparkMissing. `otherwise`: what
    else can be done, as the rest of a sentence."""
    found = importlib.util.find_spec(MODULE)
    if found is None or not found.submodule_search_locations:
        raise SparkMissing(
            f'PySpark, which contains Spark, is not installed. Run pip install "freshgate[engine]"{otherwise}.'
        )
    return Path(found.submodule_search_locations[0])
