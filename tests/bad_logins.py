"""Sends a gateway logins that must be refused, at a rate: `bad_logins.py`, with its orders as JSON on standard input.

It prints what became of each kind as JSON. Its connections come from an address of their own, as a stranger's would.
"""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from TCLIService import TCLIService
from TCLIService.ttypes import TOpenSessionReq
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TTransport import TMemoryBuffer

ADDRESS = "127.0.0.2"
"""Where the connections come from."""
ANSWER_SECONDS = 30.0
START, OK = 1, 2
"""Of SASL over Thrift."""


@dataclass
class Orders:
    host: str
    port: int
    http_port: int
    rate: float
    """Logins a second."""
    seconds: float
    passwords: list[tuple[str, str]] = field(default_factory=list)
    tokens: dict[str, str] = field(default_factory=dict)
    """By what is wrong with them."""


def frame(status: int, content: bytes) -> bytes:
    return struct.pack(">BI", status, len(content)) + content


def plain(user: str, password: str) -> bytes:
    return frame(START, b"PLAIN") + frame(OK, f"\0{user}\0{password}".encode())


def requests(orders: Orders) -> list[tuple[str, int, bytes]]:
    """The kinds, with the port and the bytes of each."""
    found = [(f"password of {user}", orders.port, plain(user, password)) for user, password in orders.passwords]
    found += [
        ("garbage", orders.port, bytes(range(255, 155, -1))),
        ("unknown mechanism", orders.port, frame(START, b"GARBAGE") + frame(OK, b"x")),
        ("no names", orders.port, frame(START, b"PLAIN") + frame(OK, b"\xff\xfe\xfd")),
    ]
    user, password = orders.passwords[0]
    credentials = {f"{kind} token": f"Bearer {token}" for kind, token in orders.tokens.items()}
    credentials["password over HTTP"] = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
    body = open_session()
    for kind, value in credentials.items():
        head = (
            f"POST /cliservice HTTP/1.1\r\nHost: localhost\r\nAuthorization: {value}\r\nContent-Length: {len(body)}\r\n"
        )
        found.append((kind, orders.http_port, head.encode() + b"\r\n" + body))
    return found


def open_session() -> bytes:
    sent = TMemoryBuffer()
    TCLIService.Client(TBinaryProtocol(sent)).send_OpenSession(TOpenSessionReq())
    written: bytes = sent.getvalue()
    return written


async def outcome(orders: Orders, port: int, sent: bytes) -> str:
    """`refused`, or what happened instead."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            reader, writer = await asyncio.open_connection(orders.host, port, local_addr=(ADDRESS, 0))
            try:
                writer.write(sent)
                answer = await reader.read(4096)
                if answer[:1] == bytes([OK]):  # The mechanism is known; then comes what it says of the password.
                    answer = answer[5:] or await reader.read(4096)
            finally:
                writer.close()
    except (OSError, TimeoutError) as error:
        return type(error).__name__
    if not answer or answer[0] in (3, 4) or answer.startswith((b"HTTP/1.1 401", b"HTTP/1.1 503")):
        return "refused"
    return repr(answer[:40])


async def run(orders: Orders) -> dict[str, Any]:
    kinds, counts, began = requests(orders), Counter[str](), time.monotonic()
    sent: list[asyncio.Task[None]] = []

    async def one(kind: str, port: int, text: bytes) -> None:
        counts[f"{kind}: {await outcome(orders, port, text)}"] += 1

    while (passed := time.monotonic() - began) < orders.seconds:
        for number in range(len(sent), int(passed * orders.rate) + 1):
            sent.append(asyncio.create_task(one(*kinds[number % len(kinds)])))
        await asyncio.sleep(0.005)  # The rate itself.
    await asyncio.gather(*sent)
    return {"sent": len(sent), "seconds": orders.seconds, "outcomes": counts}


if __name__ == "__main__":
    json.dump(asyncio.run(run(Orders(**json.load(sys.stdin)))), sys.stdout)
