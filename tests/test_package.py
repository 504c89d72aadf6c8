"""Tests the wheel: what is in it, and that the gateway runs from it without PySpark and beside foreign modules."""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import re
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import distribution
import pytest
from fuzzing.spark import Spark
from installation import Installation, build_sdist, build_wheel
from processes import READY, ROOT, Program
from pyhive import hive

IMPORT_ALL = """
import importlib, json, pkgutil, freshgate
missing = {}
for module in pkgutil.walk_packages(freshgate.__path__, "freshgate."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            missing[module.name] = error.name.partition(".")[0]
print(json.dumps(missing))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Installation:
    """Without extras, so without PySpark."""
    return Installation(tmp_path_factory.mktemp("installed"), wheel)


@contextmanager
def small_spark() -> Iterator[str]:
    """A small Thrift server in place of Spark; yields its address."""
    loop, spark, ready = asyncio.new_event_loop(), Spark(1), threading.Event()

    async def serve() -> None:
        await spark.start()
        ready.set()

    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(serve(), loop).result(10)
    try:
        yield spark.address
    finally:
        asyncio.run_coroutine_threadsafe(spark.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_everything_is_below_one_name(wheel: Path) -> None:
    names = contents(wheel)
    assert {name.partition("/")[0] for name in names} == {"freshgate", "freshgate-0.1.0.dist-info"}
    sources = {str(path.relative_to(ROOT)) for folder in ("gateway", "sql") for path in (ROOT / folder).rglob("*.py")}
    assert {name.removeprefix("freshgate/") for name in names if name.endswith(".py")} == sources | {"__init__.py"}
    assert "freshgate/gateway/spark/PlanWriter.java" in names
    entry = names["freshgate-0.1.0.dist-info/entry_points.txt"].decode()
    assert "freshgate = freshgate.gateway.__main__:main" in entry
    assert "freshgate.https = freshgate.gateway.sqlalchemy.dialect:FreshgateHttpsDialect" in entry


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").exists()


def test_no_module_is_named_in_a_string() -> None:
    """Only imports are renamed in the wheel: anything else has to derive names from `__name__`."""
    named = re.compile(r"""(?:["']|-m |\bimport )((?:gateway|sql)(?:\.[a-z_]+)+|(?<=-m )(?:gateway|sql)\b)""")
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for folder in ("gateway", "sql")
        for path in (ROOT / folder).rglob("*.py")
        for name in named.findall(re.sub(r'""".*?"""', "", path.read_text(encoding="utf-8"), flags=re.DOTALL))
        if is_module(name)
    ]
    assert found == []


def test_the_source_distribution_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    subprocess.run(["tar", "-xzf", build_sdist(tmp_path), "-C", tmp_path], check=True)
    (tree,) = tmp_path.glob("freshgate-*/")
    assert {path.name for path in tree.iterdir()} >= {"gateway", "sql", "scripts", "LICENSE", "CHANGELOG.md"}
    assert contents(build_wheel(tree, tmp_path / "again")) == contents(wheel)


def test_the_description_leads_to_no_missing_page(wheel: Path) -> None:
    text = contents(wheel)["freshgate-0.1.0.dist-info/METADATA"].decode()
    assert "# Freshgate" in text
    assert re.findall(r"\]\((?!https?://)", text) == []


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("from sql.names import TableName\n", "from freshgate.sql.names import TableName\n"),
        ("from gateway import loops\n", "from freshgate.gateway import loops\n"),
        (
            "if X:\n    from gateway.a import (\n        b,\n    )\n",
            "if X:\n    from freshgate.gateway.a import (\n        b,\n    )\n",
        ),
        ("x = 1; from sql import names\n", "x = 1; from freshgate.sql import names\n"),
        ("from sqlglot import exp\nimport gatewayish\n", "from sqlglot import exp\nimport gatewayish\n"),
        ("'''\nfrom sql import names\n'''\n", "'''\nfrom sql import names\n'''\n"),
    ],
)
def test_imports_are_renamed(source: str, wanted: str) -> None:
    assert distribution.renamed(source, "a.py") == wanted


@pytest.mark.parametrize("source", ["import gateway.config\n", "import os, sql\n", "from  sql import names\n"])
def test_an_import_that_cannot_be_renamed_is_refused(source: str) -> None:
    with pytest.raises(distribution.CannotRename, match=r"^a\.py:1: write `from "):
        distribution.renamed(source, "a.py")


def test_packages_of_the_extras_are_needed_only_for_these(installation: Installation) -> None:
    done = installation.run(installation.python, "-c", IMPORT_ALL)
    assert done.returncode == 0, done.stderr
    missing = json.loads(done.stdout)
    assert missing == {
        "freshgate.gateway.lineage.events": "openlineage",
        "freshgate.gateway.login.code_logins": "joserfc",
        "freshgate.gateway.login.kerberos": "gssapi",
        "freshgate.gateway.login.service_tickets": "gssapi",
        "freshgate.gateway.login.signing_keys": "joserfc",
        "freshgate.gateway.login.tokens": "joserfc",
        "freshgate.gateway.memory.engine_process": "duckdb",
        "freshgate.gateway.page.application": "jinja2",
        "freshgate.gateway.page.page_assembly": "jinja2",
        "freshgate.gateway.page.page_server": "uvicorn",
        "freshgate.gateway.page.screens": "starlette",
        "freshgate.gateway.spark.guard_code": "py4j",
        "freshgate.gateway.spark.host": "py4j",
        "freshgate.gateway.spark.plan_writing": "py4j",
        "freshgate.gateway.sqlalchemy.column_types": "sqlalchemy",
        "freshgate.gateway.sqlalchemy.dialect": "sqlalchemy",
        "freshgate.gateway.sqlalchemy.rendering": "sqlalchemy",
        "freshgate.gateway.sqlalchemy.superset": "sqlalchemy",
    }


def test_the_commands_answer(installation: Installation) -> None:
    version = importlib.metadata.version("freshgate")
    assert installation.run(installation.program, "--version").stdout == f"freshgate {version}\n"
    alone, helped = installation.run(installation.program), installation.run(installation.program, "--help")
    assert alone.stdout == helped.stdout
    assert alone.returncode == 0
    printed = installation.run(installation.program, "config").stdout
    assert printed == (ROOT / "conf" / "freshgate.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("command", "extra"), [(["serve", "--port", "0"], "engine"), (["beeline", "-u", "x"], "engine"), (["demo"], "demo")]
)
def test_a_missing_extra_is_named(installation: Installation, command: list[str], extra: str) -> None:
    done = installation.run(installation.program, *command)
    assert done.returncode == 1
    assert f'pip install "freshgate[{extra}]"' in done.stderr
    assert "Traceback" not in done.stderr
    assert not (installation.directory / "freshgate-data").exists()


def test_the_gateway_serves_an_upstream(installation: Installation, tmp_path: Path) -> None:
    log = tmp_path / "log"
    long_token = "x" * 20_000  # Read by a process of its own.
    with small_spark() as address:
        command = [installation.program, "serve", "--port", "0", "--upstream", address]
        program = Program(list(map(str, command)), stderr=log, variables={"PYTHONPATH": ""})
        try:
            line = program.line()
            assert line.startswith(READY), log.read_text(encoding="utf-8")
            connection = hive.connect("127.0.0.1", int(line.rpartition(":")[2]), username="ada")
            with closing(connection), closing(connection.cursor()) as cursor:
                for token in ("t", long_token):
                    cursor.execute(f"SELECT '{token}' AS token, CAST(id AS STRING) AS number FROM range(2)")
                    assert cursor.fetchall() == [(token, "0"), (token, "1")]
            assert program.stop() == 0
        finally:
            program.stop()
    text = log.read_text(encoding="utf-8")
    assert "Traceback" not in text
    assert " gateway.server: " in text, "an installed package logs under the names of the repository"
