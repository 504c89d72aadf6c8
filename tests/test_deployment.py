"""Tests the files with which the gateway is deployed: they agree with each other and with the settings."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import bill_of_materials
import pytest
from deployments import ENVIRONMENT, parsed, program
from installation import build_wheel
from processes import ROOT

from gateway import settings_file
from gateway.__main__ import main
from gateway.arguments import parser
from gateway.config import Address, Discovery, Gateways, Settings
from gateway.login import exposure

CONF = ROOT / "conf"
CONTAINER = CONF / "container.toml"


COMPOSE = ("compose.yaml", "compose.superset.yaml")
COMPOSES = ("compose.yaml", "compose.several.yaml")
INSTRUCTIONS = re.compile(r"^(FROM|COPY|VOLUME|EXPOSE|USER) (.*)$", re.MULTILINE)


def text(name: str) -> str:
    return (CONF / name).read_text(encoding="utf-8")


def test_the_settings_of_the_images_serve_an_upstream(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--check", str(CONTAINER), "--set", "upstream.address=spark:10000"]) == 0
    assert str(CONTAINER) in capsys.readouterr().out
    # Without an upstream, users' code would run in the container: that has to be asked for.
    assert main(["config", "--check", str(CONTAINER)]) == 2
    exposure.check(settings_file.load(CONTAINER, ["engine.accept_user_code=true"]))


def test_the_images_expose_and_check_the_ports_of_their_settings() -> None:
    settings, file = settings_file.load(CONTAINER), text("Containerfile")
    assert f"EXPOSE {settings.listen.port} {settings.metrics.port}\n" in file
    assert f"http://127.0.0.1:{settings.metrics.port}/readyz" in file
    (volume,) = re.findall(r"^VOLUME (\S+)$", file, re.MULTILINE)
    for path in (settings.data_dir, settings.authentication.users_file):
        assert path.startswith(f"{volume}/")


def test_the_images_do_not_end_as_root() -> None:
    for stage in re.split(r"^FROM ", text("Containerfile"), flags=re.MULTILINE)[1:]:
        if re.match(r"\S+ AS (slim|engine)\n", stage):
            assert re.findall(r"^USER (\S+)$", stage, re.MULTILINE)[-1] == "10001:10001"


def test_the_compose_file_names_the_stages_and_ports_of_the_images() -> None:
    settings, compose = settings_file.load(CONTAINER), text("compose.yaml")
    stages = set(re.findall(r"^FROM \S+ AS (\S+)$", text("Containerfile"), re.MULTILINE))
    assert set(re.findall(r"target: (\w+)", compose)) <= stages
    for port in (settings.listen.port, settings.metrics.port):
        assert f'"127.0.0.1:{port}:{port}"' in compose


@pytest.mark.parametrize("name", ["Containerfile", "superset/Containerfile"])
def test_the_images_copy_files_that_exist(name: str) -> None:
    for kind, rest in INSTRUCTIONS.findall(text(name)):
        # scripts/release makes dist/.
        if kind == "COPY" and not rest.startswith(("--from", "dist/ ")):
            *sources, _ = rest.split()
            assert all((ROOT / source).exists() for source in sources), rest


def test_the_image_of_superset_has_the_places_that_its_files_name() -> None:
    found = dict(INSTRUCTIONS.findall(text("superset/Containerfile")))
    assert found["USER"] == "10001:10001"
    file = text("superset/Containerfile")
    assert f"SUPERSET_HOME={found['VOLUME']}\n" in file
    assert f"--bind=0.0.0.0:{found['EXPOSE']}" in file
    assert f"http://127.0.0.1:{found['EXPOSE']}/health" in file
    for path in re.findall(r"/etc/superset/([\w.]+)", file):
        assert (CONF / "superset" / path).is_file(), path


def services() -> dict[str, dict[str, Any]]:
    """The services of both compose files."""
    found: dict[str, dict[str, Any]] = {}
    for name in COMPOSE:
        (document,) = parsed(text(name))
        assert found.keys().isdisjoint(document["services"])
        for service in document["services"].values():
            for volume in service.get("volumes", []):
                assert volume.partition(":")[0] in document["volumes"]
        found |= document["services"]
    return found


def several() -> dict[str, Any]:
    (document,) = parsed(text("compose.several.yaml"))
    return dict(document)


def test_each_of_several_gateways_starts_with_its_own_addresses(tmp_path: Path) -> None:
    secret, found = tmp_path / "gateways", dict[str, Settings]()
    secret.write_text("5" * 64 + "\n", encoding="ascii")
    document = several()
    assert document["secrets"] == {"gateways": {"file": "./several/secret"}}
    for name, service in document["services"].items():
        if not name.startswith("gateway-"):
            continue
        options = parser().parse_args(service["command"])
        files = [each.replace("/run/secrets", str(tmp_path)) for each in options.set_file]
        upstream = {"--upstream": ("upstream.address", options.upstream)}
        found[name] = settings = settings_file.load(CONTAINER, options.set, upstream, files=files)
        exposure.check(settings)
        assert settings.gateways.enabled
        assert settings.gateways.secret == "5" * 64
        assert Address.parse(settings.gateways.address).host == service["hostname"] == name
        reached = {each.rpartition(":")[2]: each.rpartition(":")[0] for each in service["ports"]}
        assert reached[str(settings.listen.port)] == settings.discovery.address
        assert str(settings.metrics.port) in reached
    assert len(found) == 3
    assert len({each.discovery.address for each in found.values()}) == 3
    first, *others = (replace(each, gateways=Gateways(), discovery=Discovery()) for each in found.values())
    assert all(other == first for other in others)
    (zookeeper,) = {each.discovery.zookeeper for each in found.values()}
    assert Address.parse(zookeeper).host in document["services"]


def test_the_services_of_several_gateways_agree() -> None:
    document, file = several(), text("Containerfile")
    services = document["services"]
    stages = set(re.findall(r"^FROM \S+ AS (\S+)$", file, re.MULTILINE))
    for name, service in services.items():
        for other in service.get("depends_on", {}):
            assert services[other]["healthcheck"]["test"], name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
        assert all(volume.partition(":")[0] in document["volumes"] for volume in service.get("volumes", []))
        if "build" in service:
            assert service["build"]["target"] in stages
        else:
            assert re.search(r":\d", service["image"]), "the release is not named"
    assert "python3 /opt/freshgate/metastore_tables.py" in services["spark"]["command"][0]
    # The driver is the one of the tests.
    lock = (ROOT / "requirements-jars.lock").read_text(encoding="utf-8")
    ((version, digest),) = re.findall(r"^org\.postgresql:postgresql:(\S+):jar --hash=sha256:(\w+)$", lock, re.MULTILINE)
    assert f"--checksum=sha256:{digest} " in file
    assert f"/postgresql/{version}/postgresql-{version}.jar" in file


def test_the_services_have_images_that_are_built() -> None:
    built = set()
    for service in services().values():
        if build := service.get("build"):
            file = ROOT / build["dockerfile"]
            assert (CONF / build["context"]).resolve() == ROOT
            stages = re.findall(r"^FROM \S+ AS (\S+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert build.get("target") is None or build["target"] in stages
            built.add(service["image"])
    assert built == {service["image"] for service in services().values()}


@pytest.mark.parametrize(("name", "service"), [("Containerfile", "gateway"), ("superset/Containerfile", "superset")])
def test_the_services_are_checked_as_their_images_are(name: str, service: str) -> None:
    (command,) = re.findall(r"^  CMD (\[.*urlopen.*\])$", text(name), re.MULTILINE)
    assert services()[service]["healthcheck"]["test"] == ["CMD", *json.loads(command)]


def test_the_services_find_each_other_and_are_not_reached_from_elsewhere() -> None:
    found, settings = services(), settings_file.load(CONTAINER)
    for name, service in found.items():
        for other, needed in service.get("depends_on", {}).items():
            assert needed == {"condition": "service_healthy"}
            assert found[other]["healthcheck"]["test"], name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
    url = found["superset"]["environment"]["FRESHGATE_URI"]
    assert url.partition("@")[2] == f"gateway:{settings.listen.port}/default"
    assert url.partition("://")[0] == "freshgate"


@pytest.mark.parametrize(
    "files", [COMPOSE[:1], COMPOSE, ("compose.several.yaml",)], ids=["spark", "superset", "several"]
)
def test_compose_reads_the_files(files: tuple[str, ...]) -> None:
    command = [str(program("podman-compose"))]
    if shutil.which("podman") is None:
        pytest.skip("podman-compose does nothing without podman")
    for name in files:
        command += ["-f", str(CONF / name)]
    environment = {"PATH": f"{ENVIRONMENT / 'bin'}:{os.environ['PATH']}", "SUPERSET_PASSWORD": "a secret"}
    done = subprocess.run(
        [*command, "config"], capture_output=True, text=True, timeout=60, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    (merged,) = parsed(done.stdout)
    expected = {name for file in files for name in parsed(text(file))[0]["services"]}
    assert set(merged["services"]) == expected
    if len(files) == 2:
        assert merged["services"]["superset"]["environment"]["SUPERSET_PASSWORD"] == "a secret"
        del environment["SUPERSET_PASSWORD"]
        refused = subprocess.run(
            [*command, "config"], capture_output=True, text=True, timeout=60, check=False, env=environment
        )
        assert refused.returncode != 0
        assert "Set SUPERSET_PASSWORD" in refused.stderr


def test_a_stop_leaves_the_gateway_its_time() -> None:
    limits = settings_file.load().limits
    needed = limits.drain_seconds + 20
    (unit,) = re.findall(r"^TimeoutStopSec=(\d+)$", text("freshgate.service"), re.MULTILINE)
    graces = [found for name in COMPOSES for found in re.findall(r"stop_grace_period: (\d+)s", text(name))]
    assert len(graces) == 2
    assert min(map(int, [unit, *graces])) > needed


def test_the_unit_is_valid(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    # It checks that programs exist.
    unit = text("freshgate.service").replace("/opt/freshgate/bin/freshgate", sys.executable)
    files = {"freshgate.service": unit, "freshgate.socket": text("freshgate.socket")}
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    done = subprocess.run(
        [program, "verify", *(str(tmp_path / name) for name in files)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert [line for line in done.stderr.splitlines() if any(name in line for name in files)] == []
    assert done.returncode == 0


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def locked() -> dict[str, str]:
    return dict(bill_of_materials.versions((ROOT / "requirements.lock").read_text(encoding="utf-8")))


def test_the_bill_of_materials_names_what_the_package_needs(wheel: Path, locked: dict[str, str]) -> None:
    bill = bill_of_materials.bill(wheel, locked)
    assert json.dumps(bill) == json.dumps(bill_of_materials.bill(wheel, locked))
    found = {component["name"]: component for component in bill["components"]}
    assert {"pyspark", "py4j", "sqlglot", "sqlglotc", "thrift", "six"} <= set(found)
    assert found.keys().isdisjoint({"pytest", "mypy", "duckdb", "freshgate"})
    assert all(locked[name] == component["version"] for name, component in found.items())
    assert all(component["licenses"] for component in found.values())
    project = bill["metadata"]["component"]
    assert project["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}]
    references = {project["bom-ref"], *(component["bom-ref"] for component in found.values())}
    edges = {edge["ref"]: edge["dependsOn"] for edge in bill["dependencies"]}
    assert set(edges) == references
    assert {each for needs in edges.values() for each in needs} == references - {project["bom-ref"]}


def test_a_dependency_that_is_not_locked_is_named(wheel: Path, locked: dict[str, str]) -> None:
    without = {name: version for name, version in locked.items() if name != "py4j"}
    with pytest.raises(bill_of_materials.NotLocked, match=r"does not pin py4j"):
        bill_of_materials.bill(wheel, without)


def test_an_environment_with_other_versions_is_refused(wheel: Path, locked: dict[str, str]) -> None:
    with pytest.raises(bill_of_materials.NotLocked, match=r"pyspark is installed as .*, but requirements.lock says 1"):
        bill_of_materials.bill(wheel, {**locked, "pyspark": "1"})
