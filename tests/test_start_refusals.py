"""Tests that `freshgate serve` refuses impossible settings with a clear message, before it starts Spark."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from answering_server import Served
from forks import completed
from processes import environment


def serve(
    folder: Path, *options: str, upstream: str = "127.0.0.1:1", constants: dict[str, object] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a gateway that must end by itself. `constants`: for `tuned_gateway`."""
    tuned = [str(Path(__file__).parent / "tuned_gateway.py"), json.dumps(constants)] if constants else []
    program = [*tuned, "-m", "gateway", "serve", *(["--upstream", upstream] if upstream else []), *options]
    return completed(program, environment(), directory=folder)


@contextlib.contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """A server that sends this answer to every client; yields its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    peer, _ = listener.accept()
                    with peer, contextlib.suppress(OSError):
                        peer.recv(4096)
                        peer.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


@pytest.mark.parametrize(
    ("options", "name", "way_out"),
    [
        (["--set", "listen.http_port=0", "--port"], "listen.port", "--port"),
        (["--port", "0", "--set"], "listen.http_port", "--set listen.http_port=PORT"),
    ],
)
def test_a_port_in_use_is_named(tmp_path: Path, options: list[str], name: str, way_out: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        ended = serve(tmp_path, *options, str(port) if options[-1] == "--port" else f"{name}={port}")
    assert ended.returncode == 1
    assert ended.stderr.endswith(
        f"freshgate: Port {port} ({name}) is in use at 127.0.0.1. Stop what listens there, or choose another with "
        f"{way_out}.\n"
    )


@pytest.mark.parametrize(("hard", "warned"), [(4096, False), (1000, True)])
def test_the_limit_of_open_files_is_raised_for_the_clients(tmp_path: Path, hard: int, warned: bool) -> None:
    """A shell's soft limit is low. If the hard limit is too low as well, the gateway warns."""
    settings = ["limits.connections=1000", "log.level=WARNING"]
    options = " ".join(f"--set {each}" for each in settings)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = f"ulimit -Sn 256; ulimit -Hn {hard}; {sys.executable} -m gateway serve --port {port} {options}"
        ended = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert f"Port {port} (listen.port) is in use" in ended.stderr
    text = "the gateway may open 1000 files and sockets, but limits.connections (1000) "
    assert (f"{text}may need 3200." in ended.stderr) == warned


def test_an_address_of_another_machine_is_refused(tmp_path: Path) -> None:
    ended = serve(tmp_path, "--host", "192.0.2.1", "--port", "28041")
    assert ended.returncode == 1
    message = "Cannot listen at 192.0.2.1:28041: Cannot assign requested address. Check listen.host and listen.port."
    assert message in ended.stderr


def test_the_embedded_engine_does_not_listen_for_other_machines(tmp_path: Path) -> None:
    """Its users can run code under the gateway's account. The refusal comes before anything is started."""
    ended = serve(tmp_path, "--host", "0.0.0.0", "--port", "0", "--set", "authentication=file", upstream="")
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr.startswith("freshgate: listen.host is 0.0.0.0, which other machines can reach")
    assert "accept the risk with engine.accept_user_code = true" in ended.stderr
    assert not (tmp_path / "freshgate-data").exists()


def test_a_data_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """As root no right is missing, so a directory is in the place of a file."""
    (tmp_path / "data" / "lock").mkdir(parents=True)
    ended = serve(tmp_path, "--port", "0", "--data-dir", "data", upstream="")
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    lock = tmp_path / "data" / "lock"
    assert f"freshgate: Cannot use the data directory {lock.parent}: {lock}: Is a directory. Make the" in ended.stderr


def test_unencrypted_passwords_cause_a_warning(tmp_path: Path) -> None:
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        ended = serve(tmp_path, "--host", "0.0.0.0", "--port", str(port))
    assert f"Port {port} (listen.port) is in use" in ended.stderr
    assert "WARNING" in ended.stderr
    assert "passwords reach listen.port on 0.0.0.0 unencrypted" in ended.stderr


@pytest.mark.parametrize(
    ("transport", "answer", "message"),
    [
        (
            "sasl",
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            "HTTP, but the settings say otherwise. Add ;transportMode=http;httpPath=PATH",
        ),
        (
            "nosasl",
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            "HTTP, but the settings say otherwise. Add ;transportMode=http;httpPath=PATH",
        ),
        (
            "sasl",
            b"\x15\x03\x03\x00\x02\x02\x0a",
            "TLS, but the settings say otherwise. Add ;ssl=true",
        ),
    ],
)
def test_an_upstream_with_another_protocol_is_refused(
    tmp_path: Path, transport: str, answer: bytes, message: str
) -> None:
    with answering(answer) as address:
        url = f"jdbc:hive2://{address}/{';auth=noSasl' if transport == 'nosasl' else ''}"
        ended = serve(tmp_path, "--port", "0", upstream=url)
    assert ended.returncode == 1
    assert f"freshgate: The server at {address} speaks {message}" in ended.stderr


def test_the_upstream_may_be_a_jdbc_url(tmp_path: Path) -> None:
    with answering(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n") as address:
        url = f"jdbc:hive2://{address}/;transportMode=http;httpPath=here"
        ended = serve(tmp_path, "--port", "0", upstream=url, constants={"gateway.server.UPSTREAM_SECONDS": 1})
    assert ended.returncode == 1
    assert (
        f"Spark at {address} sent an invalid reply: the upstream server answered with HTTP status 404" in ended.stderr
    )


def test_a_kyuubi_does_not_get_the_secret_of_a_guard(tmp_path: Path) -> None:
    with contextlib.closing(Served()) as kyuubi:
        kyuubi.sessions.told = {"kyuubi.session.engine.launch.handle.guid": "eA=="}
        place = f"jdbc:hive2://127.0.0.1:{kyuubi.server_port}/;transportMode=http;httpPath=cliservice"
        ended = serve(tmp_path, "--port", "0", "--set", f"upstream.guard_secret={'s' * 64}", upstream=place)
        seen = kyuubi.sessions
    assert ended.returncode == 1
    assert "remove upstream.guard_secret" in ended.stderr
    assert seen.configurations != []
    assert "s" * 64 not in repr((seen.configurations, seen.statements))
    assert seen.open == set()
