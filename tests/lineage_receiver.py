"""A receiver of OpenLineage for tests: it keeps the events that it is sent."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class LineageReceiver:
    """Answers with these codes, one after another, and the last one from then on."""

    def __init__(self) -> None:
        self.answers = [201]
        self.taken: list[tuple[str, dict[str, str], bytes]] = []
        """The path, the headers and the body of each request."""
        self.open = threading.Event()
        """While it is cleared, nothing is answered."""
        self.open.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.taken.append((self.path, dict(self.headers), body))
                receiver.open.wait(60)
                code = receiver.answers.pop(0) if len(receiver.answers) > 1 else receiver.answers[0]
                self.send_response(code)
                if code == 302:
                    self.send_header("Location", receiver.url + "/elsewhere")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, _, body in list(self.taken)]

    def of(self, job: str) -> list[dict[str, Any]]:
        """The events of the refreshes of a view."""
        return [each for each in self.events if each.get("job", {}).get("name") == job]

    def close(self) -> None:
        self.open.set()
        self.server.shutdown()
        self.server.server_close()
