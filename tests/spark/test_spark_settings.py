"""The lists of Spark's settings: complete for the installed release, and never wider than what is known."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import jpype
import pytest
from clients import start_jvm

from sql import spark_settings
from sql.spark_settings import HOW_FAST, HOW_IT_IS_WRITTEN, MEANING, OFFERED, WHAT_IS_SHOWN, names

LIST = Path(__file__).with_name("settings_4.1.txt")
"""The names of all settings of Spark 4.1; `static` follows those of a whole Spark."""
TABLES = {
    "HOW_FAST": HOW_FAST,
    "WHAT_IS_SHOWN": WHAT_IS_SHOWN,
    "HOW_IT_IS_WRITTEN": HOW_IT_IS_WRITTEN,
    "MEANING": MEANING,
    "OFFERED": OFFERED,
}
CODE_PLACES_SECRETS = re.compile(
    r"class|committer|plugin|provider|listener|factory|command|credential|password|secret|token|auth|jar|ur[il]\b|path"
    r"|locations?\b|dir\b|director|python|pyspark",
    re.IGNORECASE,
)

HARMLESS_WORDS = {
    "spark.sql.classic.shuffleDependency.fileCleanup.enabled",
    "spark.sql.files.ignoreInvalidPartitionPaths",
    "spark.sql.codegen.useIdInClassName",
}
"""Settings whose names only look like that."""


def listed() -> dict[str, bool]:
    """The settings of the list, and whether they are static."""
    lines = (line.partition(" ") for line in LIST.read_text(encoding="utf-8").splitlines())
    return {name: bool(static) for name, _, static in lines}


def installed() -> dict[str, bool]:
    """The settings of the installed Spark."""
    start_jvm()
    jpype.JClass("org.apache.spark.sql.internal.StaticSQLConf$")
    jpype.java.lang.Class.forName("org.apache.spark.sql.hive.HiveUtils$")
    conf: Any = jpype.java.lang.Class.forName("org.apache.spark.sql.internal.SQLConf$").getField("MODULE$").get(None)
    for method in conf.getClass().getMethods():  # Some are registered when they are first used.
        if method.getReturnType().getSimpleName().endswith("ConfigEntry") and not method.getParameterCount():
            method.invoke(conf)
    each, found = conf.getConfigEntries().iterator(), {}
    while each.hasNext():
        name = str(each.next().key())
        found[name] = bool(conf.isStaticConfigKey(name))
    return found


def test_the_settings_of_the_installed_release_are_those_of_the_list() -> None:
    """A difference means a release with new settings: they change rows until somebody has looked at them."""
    assert installed() == listed()


def test_every_name_is_a_setting_of_a_session_and_stands_in_one_table() -> None:
    known = {name for name, static in listed().items() if not static}
    given = [name for table in TABLES.values() for name in sorted(names(table))]
    assert sorted(name for name in given if name not in known and not name.startswith("spark.sql.iceberg.")) == []
    assert len(given) == len(set(given))
    assert len(given) == sum(len(text.split()) for table in TABLES.values() for text in table.values())
    static = {name for name, is_static in listed().items() if is_static and name.startswith("spark.sql.")}
    assert static == spark_settings._STATIC


def test_what_is_not_listed_changes_rows() -> None:
    given = frozenset(chain.from_iterable(names(TABLES[table]) for table in ("HOW_FAST", "WHAT_IS_SHOWN")))
    given |= names(HOW_IT_IS_WRITTEN)
    assert {name for name in listed() if spark_settings.is_harmless(name)} == given
    for name in (
        "spark.sql.brandNew",
        "spark.hadoop.x",
        "textinputformat.record.delimiter",
        "fs.s3a.endpoint",
        "hive.x",
    ):
        assert not spark_settings.is_harmless(name)
        assert not spark_settings.has_meaning(name)
        assert not spark_settings.is_offered(name)


def test_no_refresh_has_a_setting_that_changes_what_is_written() -> None:
    assert not [name for name in names(HOW_IT_IS_WRITTEN) if spark_settings.is_offered(name)]
    assert not [name for name in names(HOW_IT_IS_WRITTEN) if spark_settings.has_meaning(name)]


def test_no_view_can_set_code_places_or_secrets() -> None:
    offered = {name for name in chain(listed(), names(OFFERED)) if spark_settings.is_offered(name)}
    assert {name for name in offered if CODE_PLACES_SECRETS.search(name)} == HARMLESS_WORDS


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("spark.sql.ansi.enabled", True),
        ("spark.sql.hive.manageFilesourcePartitions", True),
        ("spark.sql.parquet.outputTimestampType", True),
        ("spark.sql.hive.convertMetastoreParquet.mergeSchema", False),
        ("spark.sql.optimizer.excludedRules", False),
        ("spark.sql.shuffle.partitions", False),
        ("spark.sql.warehouse.dir", False),
        ("spark.app.name", False),
    ],
)
def test_what_spark_keeps_with_a_view(name: str, kept: bool) -> None:
    assert spark_settings.is_kept(name) is kept


@pytest.mark.spark
@pytest.mark.thorough
def test_no_listed_setting_changes_what_it_must_not(tmp_path: Path) -> None:
    """Harmless ones change no rows of a corpus of queries; those that a refresh may have, none that it writes."""
    root = Path(__file__).parents[2]
    command = [sys.executable, str(root / "tests" / "oracle" / "settings_net.py"), str(tmp_path), "check"]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=True, env=environment)
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    found = [line for line in told if "guilty" in line]
    assert len(found) == 2
    assert [line["guilty"] for line in found] == [{}, {}]
