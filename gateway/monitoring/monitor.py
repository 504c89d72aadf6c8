"""Runs monitoring: the continuous measurements and the endpoints that report them.

Tests: `test_metrics`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from http import HTTPStatus

from gateway.errors import FreshgateError
from gateway.monitoring.http_server import Admission, Handler, HttpServer, Response
from gateway.monitoring.lag import LoopLag
from gateway.monitoring.metrics import CONTENT_TYPE, MetricsPage
from gateway.monitoring.readiness import Readiness
from gateway.mv.catalog.fence import Fence

log = logging.getLogger(__name__)

JSON = "application/json"
SURE_SECONDS = 30.0
"""How old a check that this gateway leads may be for a probe: idle, it looks every 15 seconds."""
CHECK_SECONDS_MAX = 3.0
"""How long a probe waits for another check."""
Status = Callable[[], dict[str, object]]


class Monitor:
    """Serves /metrics, /healthz, /readyz, /leaderz and /status from `start` to `stop`."""

    def __init__(
        self,
        host: str,
        port: int,
        metrics: MetricsPage,
        lag: LoopLag,
        readiness: Readiness,
        fence: Fence,
        status: Status,
        admission: Admission = lambda *_: None,
    ) -> None:
        self._metrics = metrics
        self._status = status
        self._lag = lag
        self._readiness = readiness
        self._fence = fence
        handlers: dict[str, Handler] = {
            "/metrics": self._text,
            "/healthz": _health,
            "/readyz": self._ready,
            "/leaderz": self._leads,
            "/status": self._tell,
        }
        self._server = HttpServer(host, port, handlers, admission)

    @property
    def port(self) -> int:
        """The port in use, after `start`."""
        return self._server.port

    async def start(self) -> None:
        """Starts measuring and listening. Raises FreshgateError if it cannot listen."""
        await _listen(self._server)
        self._lag.loop.start()
        self._readiness.loop.start()

    async def stop(self) -> None:
        await self._lag.loop.stop()
        await self._readiness.loop.stop()
        await self._server.close()

    async def _text(self) -> Response:
        return Response(HTTPStatus.OK, CONTENT_TYPE, await self._metrics.text())

    async def _ready(self) -> Response:
        return _readiness([*self._readiness.missing, *([] if self._fence.lost is None else [self._fence.lost])])

    async def _leads(self) -> Response:
        """Not only as far as is known: a gateway that was paused does not know what happened meanwhile."""
        missing = self._readiness.missing_here
        if not missing and not self._fence.is_sure(SURE_SECONDS):
            try:
                async with asyncio.timeout(CHECK_SECONDS_MAX):
                    await self._fence.sure()
            except (FreshgateError, TimeoutError) as error:
                missing = [str(error) or "Spark did not answer in time whether this gateway leads."]
        return _leadership(self._status(), missing)

    async def _tell(self) -> Response:
        return _json(HTTPStatus.OK, self._status())


class DoorMonitor:
    """Serves the same paths while a gateway passes its clients on to another one."""

    def __init__(
        self,
        host: str,
        port: int,
        metrics: Callable[[], bytes],
        missing: Callable[[], list[str]],
        status: Status,
        admission: Admission = lambda *_: None,
    ) -> None:
        """`missing` says what is missing before clients can be served, as sentences."""
        self._place = host, port
        self._metrics = metrics
        self._missing = missing
        self._status = status
        self._admission = admission
        self._server: HttpServer | None = None

    async def start(self) -> None:
        """Raises FreshgateError if it cannot listen."""
        handlers: dict[str, Handler] = {
            "/metrics": self._text,
            "/healthz": _health,
            "/readyz": self._ready,
            "/leaderz": self._leads,
            "/status": self._tell,
        }
        self._server = HttpServer(*self._place, handlers, self._admission)
        await _listen(self._server)

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.close()
            self._server = None

    async def _text(self) -> Response:
        return Response(HTTPStatus.OK, CONTENT_TYPE, self._metrics())

    async def _ready(self) -> Response:
        return _readiness(self._missing())

    async def _leads(self) -> Response:
        return _leadership(self._status(), ["This gateway does not lead."])

    async def _tell(self) -> Response:
        return _json(HTTPStatus.OK, self._status())


async def _listen(server: HttpServer) -> None:
    try:
        await server.start()
    except OSError as error:
        raise FreshgateError(
            f"Cannot listen at {server.place} for metrics: {error.strerror or error}. Check metrics.host and "
            f"metrics.port."
        ) from error
    log.info("metrics at http://%s/metrics", server.place)


async def _health() -> Response:
    """An answer shows that the process and its event loop are alive."""
    return _json(HTTPStatus.OK, {"status": "alive"})


def _readiness(missing: list[str]) -> Response:
    if missing:
        return _json(HTTPStatus.SERVICE_UNAVAILABLE, {"status": "not ready", "missing": missing})
    return _json(HTTPStatus.OK, {"status": "ready"})


def _leadership(status: dict[str, object], missing: list[str]) -> Response:
    if missing:
        answer = {"status": "not leading", "leader": status["leader"], "missing": missing}
        return _json(HTTPStatus.SERVICE_UNAVAILABLE, answer)
    return _json(HTTPStatus.OK, {"status": "leading", "epoch": status["epoch"]})


def _json(status: HTTPStatus, content: object) -> Response:
    return Response(status, JSON, json.dumps(content).encode() + b"\n")
