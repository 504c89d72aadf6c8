"""Generates HTTP requests: all valid forms, and malformed ones as clients, proxies and attackers write them.

Pure, and without imports from elsewhere, like `mutation`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from random import Random

END = b"\r\n"
TARGET = b"/cliservice"
METHODS = (b"GET", b"HEAD", b"PUT", b"OPTIONS", b"CONNECT", b"TRACE", b"PRI", b"post", b"POST ", b"\x80")
TARGETS = (
    b"/",
    b"*",
    b"",
    b"/cliservice/",
    b"/cliservice?doAs=root",
    b"http://other/cliservice",
    b"//cliservice",
    b"/cliservice/../x",
    b"http://h:999999/cliservice",
    b"/%00",
    b"/\xff",
    b"/cli service",
    b"h:1",
    b"/#\0",
)
VERSIONS = (b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/1.10", b"HTTP/1.1 ", b"ICE/1.0", b"RTSP/1.0", b"", b"HTTP")
HEADERS = (
    b"Content-Length: 0",
    b"Content-Length: 5",
    b"Content-Length: -1",
    b"Content-Length: +7",
    b"Content-Length: 7, 7",
    b"Content-Length: 99999999999999999999",
    b"Content-Length: 2000000",
    b"Content-Length:",
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: gzip, chunked",
    b"Transfer-Encoding: chunked, identity",
    b"Transfer-Encoding:\r\n chunked",
    b"Transfer-Encoding : chunked",
    b"Trailer: Authorization",
    b"TE: trailers",
    b"Expect: 100-continue",
    b"Expect: 200-ok",
    b"Connection: close",
    b"Connection: keep-alive, close",
    b"Connection: Upgrade\r\nUpgrade: websocket",
    b"Connection: Content-Length",
    b"Upgrade: h2c",
    b"Authorization: Basic",
    b"Authorization: Basic ====",
    b"Authorization: Basic " + base64.b64encode(b"a\0b:\xff\xfe"),
    b"Authorization: Basic " + base64.b64encode(b":x"),
    b"Authorization: Basic " + base64.b64encode(b"m" * 30_000 + b":x"),
    b"Authorization: Negotiate YIIB",
    b"authorization: bearer x.y.z",
    b"Cookie: hive.server2.auth=",
    b'Cookie: hive.server2.auth="; hive.server2.auth=x',
    b"Cookie: " + b"hive.server2.auth=x; " * 500,
    b"Cookie: hive.server2.auth=\xff\xfe",
    b"X: " + b"y" * 70_000,
    b"\r\n".join(b"X%d: y" % number for number in range(3000)),
    b"X: a\r\n folded",
    b"X: a\0b",
    b"X: a\rb: c",
    b"X\nY: z",
    b": no name",
    b"no colon",
    b" leading: space",
)
SPELLINGS = ((b":", b" :"), (b": ", b":\r\n "), (b" ", b"\t"), (b" ", b""), (b":", b"\n:"), (b"", b"\0"))
"""A part of a line, and its malformed replacement."""
LASTS = (b"0\r\n\r\n", b"0\r\n", b"", b"0\r\nAuthorization: x\r\n\r\n", b"0\r\n" + b"T: u\r\n" * 20_000)
"""Ends of a chunked body."""
SIZES = (
    b"0",
    b"-1",
    b"+5",
    b"0x5",
    b"ffffffff",
    b"fffffffffffffffff",
    b"7fffffffffffffff",
    b"00000000000000000005",
    b"",
    b" ",
    b"5 ",
    b"5;",
    b"5;a=b",
    b'5;a="\r\n"',
    b"5;" + b"e" * 70_000,
    b"g",
    b"5\n",
    b"\xb2",
)


def basic(user: str, password: str = "x") -> bytes:
    """The Authorization header of a login."""
    return b"Authorization: Basic " + base64.b64encode(f"{user}:{password}".encode())


def head(method: bytes, target: bytes, version: bytes, headers: Sequence[bytes]) -> bytes:
    return END.join([b" ".join((method, target, version)), b"Host: here", *headers, b"", b""])


def post(body: bytes, *headers: bytes) -> bytes:
    """A POST request as drivers write it."""
    return head(b"POST", TARGET, b"HTTP/1.1", [b"Content-Length: %d" % len(body), *headers]) + body


def chunked(body: bytes, random: Random) -> bytes:
    """The body in chunks of any length, with occasional extensions and trailers, all of which HTTP allows."""
    written = bytearray()
    while body:
        size = random.choice((1, 7, 100, len(body)))
        chunk, body = body[:size], body[size:]
        extension = b";x=y" if random.random() < 0.1 else b""
        zeros = b"0" * random.choice((0, 0, 0, 3))
        written += zeros + b"%x" % len(chunk) + extension + END + chunk + END
    trailer = b"X-Sum: 1\r\n" if random.random() < 0.1 else b""
    return bytes(written) + b"0\r\n" + trailer + END


def written(body: bytes, headers: Sequence[bytes], random: Random) -> bytes:
    """A valid request in any form that HTTP allows."""
    headers = list(headers)
    target = TARGET if random.random() < 0.9 else random.choice((b"http://here" + TARGET, TARGET + b"?a=b"))
    if random.random() < 0.1:
        headers.append(b"Expect: 100-continue")
    if random.random() < 0.3:
        headers = [b"Transfer-Encoding: chunked", *headers]
        return head(b"POST", target, b"HTTP/1.1", headers) + chunked(body, random)
    version = b"HTTP/1.0" if random.random() < 0.05 else b"HTTP/1.1"
    if version == b"HTTP/1.0":
        headers.append(b"Connection: keep-alive")
    headers.insert(random.randrange(len(headers) + 1), b"Content-Length: %d" % len(body))
    return head(b"POST", target, version, headers) + body


# --- malformed ones --------------------------------------------------------------------------------------


def change_request_line(lines: list[bytes], random: Random) -> None:
    """Changes the method, target or version."""
    parts = lines[0].split(b" ")
    place, others = random.choice(((0, METHODS), (1, TARGETS), (2, VERSIONS)))
    if place < len(parts):
        parts[place] = random.choice(others)
    lines[0] = b" ".join(parts)


def add(lines: list[bytes], random: Random) -> None:
    """Adds a header."""
    lines.insert(random.randrange(1, len(lines) + 1), random.choice(HEADERS))


def exchange(lines: list[bytes], random: Random) -> None:
    """Replaces a header with another."""
    lines[random.randrange(len(lines))] = random.choice(HEADERS)


def double(lines: list[bytes], random: Random) -> None:
    """Repeats a line."""
    lines.append(random.choice(lines))


def drop(lines: list[bytes], random: Random) -> None:
    del lines[random.randrange(len(lines))]


def respell(lines: list[bytes], random: Random) -> None:
    """Inserts white space, line ends and folds where they do not belong."""
    place = random.randrange(len(lines))
    old, new = random.choice(SPELLINGS)
    lines[place] = lines[place].replace(old, new, 1)


def recount(lines: list[bytes], random: Random) -> None:
    """Changes the declared length."""
    for place, line in enumerate(lines):
        if line.lower().startswith(b"content-length:"):
            length = int(line[15:]) if line[15:].strip().isdigit() else 0
            lines[place] = b"Content-Length: %d" % max(0, length + random.choice((-50, -1, 1, 50, 100_000)))


CHANGES: tuple[Callable[[list[bytes], Random], None], ...]
CHANGES = (change_request_line, add, add, exchange, double, drop, respell, recount)


def wrong_head(request: bytes, random: Random, times: int = 1) -> bytes:
    """A request with a malformed head."""
    whole, empty, body = request.partition(END + END)
    lines = whole.split(END)
    for _ in range(times):
        if lines:
            random.choice(CHANGES)(lines, random)
    line_end = END if random.random() < 0.95 else b"\n"
    return line_end.join(lines) + empty + body


def wrong_chunks(body: bytes, headers: Sequence[bytes], random: Random) -> bytes:
    """A chunked body with malformed sizes, ends or trailers."""
    at = random.randrange(len(body) + 1)
    first, rest = body[:at], body[at:]
    size = random.choice((*SIZES, b"%x" % len(rest), b"%x" % (len(rest) + 1), b"%X" % max(0, len(rest) - 1)))
    ends = [END if random.random() < 0.9 else random.choice((b"\n", b"\r", b"", b"\r\r\n")) for _ in range(4)]
    last = random.choice(LASTS)
    chunks = b"%x" % len(first) + ends[0] + first + ends[1] + size + ends[2] + rest + ends[3] + last
    return head(b"POST", TARGET, b"HTTP/1.1", [b"Transfer-Encoding: chunked", *headers]) + chunks


def ambiguous(hidden: bytes, body: bytes, headers: Sequence[bytes], random: Random) -> bytes:
    """A request whose end is ambiguous to two readers, with another request hidden in what follows its head.

    RFC 9112, 6.3, 7.1 and 11.2: it must be refused, or the connection must end with its reply; the hidden request must
    never be answered.
    """
    length, other = b"Content-Length: %d" % len(body), b"Content-Length: %d" % (len(body) + len(hidden))
    coding, size = b"Transfer-Encoding: chunked", b"%x" % len(body)
    in_chunks = size + END + body + b"\r\n0\r\n\r\n" + hidden
    of_one_size = [
        ([length, other], body + hidden),
        ([b"Content-Length: %d, %d" % (len(body), len(body) + len(hidden))], body + hidden),
        ([b"Content-Length: +%d" % len(body)], body + hidden),
        ([b"Content-Length : %d" % len(body)], body + hidden),
        ([b"Content-Length: 0x%x" % len(body)], body + hidden),
        ([b"X: y\rContent-Length: 0", length], body + hidden),
        ([b"X: y\nContent-Length: 0", length], body + hidden),
        ([b"X: y\r\n z", length], body + hidden),
    ]
    of_two_kinds = [([coding, other], in_chunks), ([other, coding], in_chunks)]
    of_codings = [
        ([b"Transfer-Encoding: " + each], in_chunks)
        for each in (b"xchunked", b"identity", b"chunked, identity", b"\x0bchunked", b"\r\n chunked", b"chunked;q=1")
    ]
    of_codings.append(([coding, b"Transfer-Encoding: identity"], in_chunks))
    of_chunks = [
        ([coding], each + END + body + b"\r\n0\r\n\r\n" + hidden)
        for each in (b"+" + size, b"-" + size, b"0x" + size, size + b" ", b"ffffffffffffffff" + size, size + b";\n")
    ]
    chosen, rest = random.choice([*of_one_size, *of_two_kinds, *of_codings, *of_chunks])
    version = b"HTTP/1.1"
    if random.random() < 0.1:
        # HTTP 1.0 has no chunks, so an intermediary may not have seen them.
        version, chosen, rest = b"HTTP/1.0", [coding, b"Connection: keep-alive"], in_chunks
    return head(b"POST", TARGET, version, [*headers, *chosen]) + rest


LONG = (
    b"POST " + b"/" * 70_000,
    b"POST / HTTP/1.1\r\nX: " + b"y" * 70_000,
    b"\r\n" * 50_000,
    b"POST / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000,
    b"POST / HTTP/1.1\r\n" + b"y" * 70_000,
)
