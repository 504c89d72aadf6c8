"""A Superset with this project's wheel, prepared and started as in the image of conf/superset: an environment, a
metadata database and a web server of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from installation import build_wheel
from processes import ROOT, Program, free_port, wait_until

ENVIRONMENT = Path(os.environ.get("FRESHGATE_SUPERSET", ROOT / ".cache" / "superset"))
"""Where `scripts/setup --with-superset` installs the packages of requirements-superset.lock."""
PYTHON = ENVIRONMENT / "bin" / "python"
USER, PASSWORD = "admin", "an admin's password"
FILES = ROOT / "conf" / "superset"
"""What the image of Superset consists of, besides its packages."""
COMMAND = re.compile(r"^CMD (\[.*\])$", re.MULTILINE)
PREPARE_SECONDS = 300
START_SECONDS = 120
CALL_SECONDS = 120


class Site:
    """Superset's web server. `prepare` must have run in its directory."""

    def __init__(self, directory: Path) -> None:
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        self.log = directory / "superset.log"
        (found,) = COMMAND.findall((FILES / "Containerfile").read_text(encoding="utf-8"))
        name, address, *options = json.loads(found)
        assert address == "--bind=0.0.0.0:8088"
        command = [_program(name), f"--bind=127.0.0.1:{port}", *options]
        self._program = Program(command, stderr=self.log, variables=variables(directory))
        wait_until(self._is_healthy, START_SECONDS, "Superset's start")

    def _is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=10) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def stop(self) -> None:
        self._program.stop()


class Caller:
    """A user's calls of Superset's REST API."""

    def __init__(self, site: Site) -> None:
        self._url = site.url
        self._headers = {"Content-Type": "application/json", "Referer": site.url}
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        login = {"username": USER, "password": PASSWORD, "provider": "db"}
        token = self.call("POST", "/security/login", login)["access_token"]
        self._headers["Authorization"] = f"Bearer {token}"
        self._headers["X-CSRFToken"] = self.call("GET", "/security/csrf_token/")["result"]

    def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """The answer. Fails the test if it is an error."""
        status, answer = self.try_call(method, path, body)
        assert status < 300, f"{method} {path}: {status} {answer}"
        return answer

    def try_call(self, method: str, path: str, body: object = None) -> tuple[int, dict[str, Any]]:
        """The HTTP status and the answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}/api/v1{path}", data, self._headers, method=method)
        try:
            with self._opener.open(request, timeout=CALL_SECONDS) as answer:
                return answer.status, dict(json.load(answer))
        except urllib.error.HTTPError as error:
            with error:
                return error.code, dict(json.load(error))


def prepare(directory: Path) -> None:
    """Installs the wheel beside the environment, and creates the metadata database with one user."""
    wheel = build_wheel(ROOT, directory / "wheel")
    # Without dependencies, because Superset pins another sqlglot than the gateway needs. The dialect needs none.
    options = ("--quiet", "--no-deps", "--no-index", "--disable-pip-version-check")
    _run(directory, str(PYTHON), "-m", "pip", "install", *options, "--target", str(_packages(directory)), str(wheel))
    _run(directory, str(FILES / "prepare"))


def variables(directory: Path) -> dict[str, str]:
    """The environment variables of Superset's programs."""
    return {
        "PATH": os.pathsep.join([str(ENVIRONMENT / "bin"), os.environ["PATH"]]),
        "PYTHONPATH": str(_packages(directory)),
        "FLASK_APP": "superset.app:create_app()",
        "SUPERSET_HOME": str(directory),
        "SUPERSET_CONFIG_PATH": str(FILES / "superset_config.py"),
        "SUPERSET_PASSWORD": PASSWORD,
        "FRESHGATE_URI": "freshgate://superset@gateway.example:10000/default",
    }


def _packages(directory: Path) -> Path:
    return directory / "packages"


def _program(name: str) -> str:
    return str(ENVIRONMENT / "bin" / name)


def _run(directory: Path, *command: str) -> None:
    environment = {**os.environ, **variables(directory)}
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=PREPARE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
