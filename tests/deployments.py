"""Programs that read the files of `conf/` for containers and Kubernetes, and what they make of them."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from processes import ROOT

ENVIRONMENT = Path(os.environ.get("FRESHGATE_DEPLOYMENT", ROOT / ".cache" / "deployment"))
"""Where `scripts/setup --with-deployment` installs helm and the packages of requirements-deployment.lock."""
CHART = ROOT / "conf" / "helm" / "freshgate"
KUBERNETES = "1.31.0"
"""The release that templates are rendered for."""
PROGRAM_SECONDS = 120


@functools.cache
def program(name: str) -> Path:
    """A program of the environment, or else of PATH. Skips the test if there is none."""
    found = shutil.which(name, path=f"{ENVIRONMENT / 'bin'}:{os.environ['PATH']}")
    if found is None:
        pytest.skip(f"{name} is not installed: scripts/setup --with-deployment")
    return Path(found)


def run(command: list[str], text: str = "") -> subprocess.CompletedProcess[str]:
    """Runs a program with a text as its input."""
    return subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False, cwd=ROOT
    )


def parsed(text: str) -> list[Any]:
    """The documents of a YAML text that are not empty."""
    return [document for document in yaml.safe_load_all(text) if document]


def helm(values: dict[str, Any], chart: Path = CHART) -> subprocess.CompletedProcess[str]:
    """`helm template` of a chart, as the release `tea` in the namespace `shop`. JSON is YAML, too."""
    command = [str(program("helm")), "template", "tea", str(chart), "--namespace", "shop"]
    return run([*command, "--kube-version", KUBERNETES, "--values", "-"], json.dumps(values))


def manifests(values: dict[str, Any]) -> dict[tuple[str, str], Any]:
    """The manifests that the chart makes of these values, by kind and name."""
    done = helm(values)
    assert done.returncode == 0, done.stderr
    found = {(each["kind"], each["metadata"]["name"]): each for each in parsed(done.stdout)}
    assert len(found) == done.stdout.count("\nkind: ")
    return found
