"""Runs monitoring: the continuous measurements and the endpoints that report them."""

from __future__ import annotations

import json
from http import HTTPStatus

from gateway.monitoring.http_server import Admission, HttpServer, Response
from gateway.monitoring.lag import LoopLag
from gateway.monitoring.metrics import CONTENT_TYPE, MetricsPage
from gateway.monitoring.readiness import Readiness
from gateway.mv.catalog.fence import Fence

JSON = "application/json"


class Monitor:
    """Serves /metrics, /healthz and /readyz from `start` to `stop`."""

    def __init__(
        self,
        host: str,
        port: int,
        metrics: MetricsPage,
        lag: LoopLag,
        readiness: Readiness,
        fence: Fence,
        admission: Admission = lambda *_: None,
    ) -> None:
        self._metrics = metrics
        self._lag = lag
        self._readiness = readiness
        self._fence = fence
        handlers = {"/metrics": self._text, "/healthz": self._health, "/readyz": self._ready}
        self._server = HttpServer(host, port, handlers, admission)

    @property
    def port(self) -> int:
        """The port in use, after `start`."""
        return self._server.port

    async def start(self) -> None:
        """Starts measuring and listening. Raises OSError if it cannot listen."""
        await self._server.start()
        self._lag.loop.start()
        self._readiness.loop.start()

    async def stop(self) -> None:
        await self._lag.loop.stop()
        await self._readiness.loop.stop()
        await self._server.close()

    async def _text(self) -> Response:
        return Response(HTTPStatus.OK, CONTENT_TYPE, await self._metrics.text())

    async def _health(self) -> Response:
        """An answer shows that the process and its event loop are alive."""
        return _json(HTTPStatus.OK, {"status": "alive"})

    async def _ready(self) -> Response:
        missing = [*self._readiness.missing, *([] if self._fence.lost is None else [self._fence.lost])]
        if missing:
            return _json(HTTPStatus.SERVICE_UNAVAILABLE, {"status": "not ready", "missing": missing})
        return _json(HTTPStatus.OK, {"status": "ready"})


def _json(status: HTTPStatus, content: object) -> Response:
    return Response(status, JSON, json.dumps(content).encode() + b"\n")
