"""What `freshgate serve` says of a start that cannot be, before it starts Spark."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import environment


def serve(folder: Path, *options: str, upstream: str = "127.0.0.1:1") -> subprocess.CompletedProcess[str]:
    """A gateway that must end by itself."""
    command = [sys.executable, "-m", "gateway", "serve", *(["--upstream", upstream] if upstream else []), *options]
    return subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=60, check=False
    )


@contextlib.contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """A server that says this to whatever it is told; its address."""
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
def test_room_for_the_clients_is_made_as_far_as_the_system_lets_it(tmp_path: Path, hard: int, warned: bool) -> None:
    """A shell gives a process few descriptors at first."""
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
    text = "the system lets the gateway have 1000 files and sockets open, and limits.connections (1000) clients with "
    assert (f"{text}limits.http_sessions (0) may need 3200." in ended.stderr) == warned


def test_an_address_that_is_not_here_is_named(tmp_path: Path) -> None:
    ended = serve(tmp_path, "--host", "192.0.2.1", "--port", "28041")
    assert ended.returncode == 1
    said = "Cannot listen at 192.0.2.1:28041: Cannot assign requested address. Check listen.host and listen.port."
    assert said in ended.stderr


def test_the_embedded_engine_does_not_listen_for_other_machines(tmp_path: Path) -> None:
    """Whoever is let in has the account that runs it. Nothing is started before that is said."""
    ended = serve(tmp_path, "--host", "0.0.0.0", "--port", "0", "--set", "authentication=file", upstream="")
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr.startswith("freshgate: listen.host is 0.0.0.0, which other machines reach")
    assert "accept that with engine.accept_user_code = true" in ended.stderr
    assert not (tmp_path / "freshgate-data").exists()


def test_passwords_in_plain_text_are_a_warning(tmp_path: Path) -> None:
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        ended = serve(tmp_path, "--host", "0.0.0.0", "--port", str(port))
    assert f"Port {port} (listen.port) is in use" in ended.stderr
    assert "WARNING" in ended.stderr
    assert "passwords come to listen.port on 0.0.0.0 unencrypted" in ended.stderr


@pytest.mark.parametrize(
    ("transport", "answer", "said"),
    [
        (
            "sasl",
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            "HTTP, and the gateway does not. Set upstream.transport to",
        ),
        (
            "nosasl",
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            "HTTP, and the gateway does not. Set upstream.transport to",
        ),
        ("sasl", b"\x15\x03\x03\x00\x02\x02\x0a", "TLS, and the gateway does not. Set upstream.tls to true"),
    ],
)
def test_a_server_that_speaks_another_protocol_is_not_waited_for(
    tmp_path: Path, transport: str, answer: bytes, said: str
) -> None:
    with answering(answer) as address:
        ended = serve(tmp_path, "--port", "0", "--set", f"upstream.transport={transport}", upstream=address)
    assert ended.returncode == 1
    assert f"freshgate: The server at {address} speaks {said}" in ended.stderr


def test_a_jdbc_url_names_the_upstream(tmp_path: Path) -> None:
    with answering(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n") as address:
        url = f"jdbc:hive2://{address}/;transportMode=http;httpPath=here"
        ended = serve(tmp_path, "--port", "0", "--set", "engine.start_timeout=1", upstream=url)
    assert ended.returncode == 1
    assert (
        f"What Spark at {address} answers is no reply: the upstream server answered with HTTP status 404"
        in ended.stderr
    )
