"""Tests beeline of Spark (Hive 2.3.10) and of Hive 3.1.3. Maven Central does not have that of Hive 4.0."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable

import pytest
from byte_chain import Chain, assert_same_bytes
from clients import BEELINE_SECONDS, SPARK_HOME
from drivers.contents import COLUMNS, DATABASE, DIVIDES, EVERY_TYPE, UNKNOWN_TABLE, USER, Reference, Server, life
from drivers.hive_jdbc import SPARK_JARS
from jars import jar
from tiers import sampled

# Archives that Spark ships and that the newer beeline needs in addition to its driver's standalone archive.
NEEDED = (
    "hadoop-client-*",
    "slf4j-api-*",
    "commons-cli-*",
    "commons-io-*",
    "commons-lang-*",
    "jline-2*",
    "super-csv-*",
    "libthrift-*",
)
PROMPTS = re.compile(r"^(?:(?:\. )+\.?> )+|\x00")
"""Prompts, and the characters with which 2.3.10 quotes a string that contains a tab."""
TIME = re.compile(r"\([\d.]+ seconds\)")
STACK = re.compile(r"\s+at |WARNING:|SLF4J:")
Command = list[str]


def _of_spark() -> Command:
    return [str(SPARK_HOME / "bin" / "beeline")]


def _of_hive_3() -> Command:
    needed = [path for pattern in NEEDED for path in SPARK_JARS.glob(f"{pattern}.jar")]
    archives = [jar("hive-beeline", "3.1.3"), jar("hive-jdbc", "3.1.3"), *needed]
    java = os.path.join(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else "java"
    return [java, "-cp", os.pathsep.join(map(str, archives)), "org.apache.hive.beeline.BeeLine"]


BEELINES = {"2.3.10": _of_spark, "3.1.3": _of_hive_3}


@pytest.fixture(params=sampled(tuple(BEELINES), {"2.3.10"}))
def command(request: pytest.FixtureRequest) -> Callable[[], Command]:
    return BEELINES[request.param]


def run(server: Server, command: Callable[[], Command], *statements: str, force: bool = False) -> tuple[int, str, str]:
    """The exit code, standard output and standard error, without what differs between runs."""
    line = [*command(), "-u", server.url, "-n", USER, "--outputformat=tsv2", f"--force={str(force).lower()}"]
    for statement in statements:
        line += ["-e", statement]
    done = subprocess.run(
        line,
        capture_output=True,
        text=True,
        timeout=BEELINE_SECONDS,
        check=False,
        env={**os.environ, "SPARK_HOME": str(SPARK_HOME)},
    )
    return done.returncode, _steady(server, done.stdout), _steady(server, done.stderr)


def _steady(server: Server, output: str) -> str:
    """The output of beeline without prompts, addresses, times and stack traces."""
    output = output.replace(f"{server.host}:{server.port}", "<server>").replace("\r", "")
    lines = [PROMPTS.sub("", line) for line in output.splitlines()]
    return "\n".join(TIME.sub("(<time>)", line) for line in lines if not STACK.match(line))


def looks(server: Server, command: Callable[[], Command]) -> tuple[int, str, str]:
    return run(
        server,
        command,
        EVERY_TYPE,
        "!tables",
        "!columns every_type",
        "!typeinfo",
        "!procedures",
        "SELECT id FROM range(8)",
        UNKNOWN_TABLE,
        DIVIDES,
        "SELECT 1 AS still_there",
        force=True,
    )


@pytest.mark.thorough
def test_beeline_reads_and_lists(server: Server, reference: Reference, command: Callable[[], Command]) -> None:
    _, output, errors = reference.answer(server, looks, command)
    lines = [line.split("\t") for line in output.splitlines()]
    assert ["id", *COLUMNS] in lines
    assert ["3", *["NULL"] * len(COLUMNS)] in lines
    assert {(DATABASE, name) for name in ("every_type", "orders", "orders_view")} <= {
        (line[1], line[2]) for line in lines if len(line) > 3
    }
    assert ["still_there"] in lines
    assert "(state=42P01,code=0)" in errors
    assert "(state=22012,code=0)" in errors


@pytest.mark.thorough
def test_beeline_runs_the_life_cycle_of_a_view(
    through: Server, life_database: str, command: Callable[[], Command]
) -> None:
    steps = life(f"{life_database}.orders", f"{life_database}.totals")
    # A line separates the answers. The first line of an answer has the names of its columns.
    marked = [part for statement, _ in steps for part in (statement, "SELECT '--end--' AS mark")]
    code, output, errors = run(through, command, *marked)
    assert code == 0, errors
    answers = f"{output}\n".split("mark\n--end--\n")
    for (statement, expected), answer in zip(steps, answers, strict=False):
        if expected is not None:
            found = [tuple(line.lower().split("\t")) for line in answer.splitlines() if line.strip(" .>")][1:]
            assert found == expected, statement
    assert "Refreshed materialized view" in errors


@pytest.mark.thorough
def test_beeline_sees_the_bytes_of_spark(recorded: Chain) -> None:
    server = Server("recorded", recorded.host, recorded.port)
    for command in BEELINES.values():
        looks(server, command)
    assert assert_same_bytes(recorded)["OpenSession"] == len(BEELINES)
