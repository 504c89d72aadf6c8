"""Connections to the gateway: Thrift over TCP or HTTP, each with or without TLS."""

from __future__ import annotations

import base64
import re
import ssl
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from dbt.adapters.contracts.connection import AdapterResponse, Connection, ConnectionState
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.exceptions import FailedToConnectError
from dbt.adapters.spark import SparkConnectionManager, SparkCredentials
from dbt.adapters.spark.connections import PyhiveConnectionWrapper, SparkConnectionMethod
from dbt_common.exceptions import DbtRuntimeError
from pyhive import hive
from pyhive.sasl_compat import PureSASLClient
from thrift.transport import THttpClient, TTransport
from thrift.transport.TSocket import TSocket
from thrift.transport.TSSLSocket import TSSLSocket
from thrift_sasl import TSaslClientTransport

logger = AdapterLogger("Freshgate")
DONE = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(create\s+or\s+replace|create|alter|refresh|drop)\s+materialized\s+view",
    re.IGNORECASE | re.DOTALL,
)
"""A statement about a materialized view, behind the comment with which dbt begins each."""
METHODS = (SparkConnectionMethod.THRIFT, SparkConnectionMethod.HTTP)


@dataclass
class FreshgateCredentials(SparkCredentials):
    """A profile with `type: freshgate`. What dbt-spark needs for Databricks (token, cluster, ...) has no effect."""

    method: SparkConnectionMethod = SparkConnectionMethod.THRIFT
    port: int = 10000
    poll_interval: float = 0.05  # type: ignore[assignment]
    """Seconds between two polls of a running statement. The server holds each poll until the statement has ended,
    for up to 5 seconds, so a short pause costs few requests."""
    http_path: str = "cliservice"
    ssl_ca: str | None = None
    """A file with the certificates that may sign the gateway's. None: those that the machine trusts."""

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise DbtRuntimeError(f"method: {self.method} is not one of freshgate's: use thrift or http")
        given = {str(key): str(value) for key, value in self.server_side_parameters.items()}
        super().__post_init__()
        # dbt-spark adds a parameter of its own, which Spark ignores in this form.
        self.server_side_parameters = given
        if self.user is None:
            raise DbtRuntimeError("Must specify `user` in profile")

    @property
    def type(self) -> str:
        return "freshgate"

    @property
    def unique_field(self) -> str:
        return f"{self.host}:{self.port}"

    def _connection_keys(self) -> tuple[str, ...]:
        return "host", "port", "method", "user", "schema", "use_ssl", "poll_interval"


class Session(PyhiveConnectionWrapper):
    """dbt-spark's connection, which also knows what its last statement has done to a materialized view."""

    done: tuple[str, ...] = ()

    def execute(self, sql: str, bindings: list[Any] | None = None) -> None:
        super().execute(sql, bindings)
        found = DONE.match(sql)
        verb = () if found is None else (" ".join(found[1].split()).upper(),)
        # A model whose settings have changed takes an ALTER for each change, then a REFRESH.
        self.done = verb if self.done[-1:] != ("ALTER",) or verb == ("ALTER",) else (*self.done, *verb)


class FreshgateConnectionManager(SparkConnectionManager):
    """Opens connections; what runs on them is dbt-spark's."""

    TYPE = "freshgate"

    @classmethod
    def get_response(cls, cursor: Any) -> AdapterResponse:
        """What dbt shows of a model that was built: whether its materialized view was created, altered or refreshed."""
        if not isinstance(cursor, Session) or not cursor.done:
            return super().get_response(cursor)
        return AdapterResponse(_message=", ".join(cursor.done))

    @classmethod
    def open(cls, connection: Connection) -> Connection:
        """Opens the connection. Raises FailedToConnectError once all `connect_retries` are used up."""
        if connection.state == ConnectionState.OPEN:
            return connection
        credentials: FreshgateCredentials = connection.credentials

        def connect() -> Session:
            try:
                return _connect(credentials)
            except Exception as error:
                raise FailedToConnectError(_refusal(credentials, error)) from error

        return cls.retry_connection(
            connection,
            connect=connect,
            logger=logger,
            retry_limit=credentials.connect_retries,
            retry_timeout=credentials.connect_timeout,
            retryable_exceptions=[FailedToConnectError],
        )


def _connect(credentials: FreshgateCredentials) -> Session:
    # Spark and the gateway take settings of a session only in this form.
    configuration = {f"set:hiveconf:{key}": value for key, value in credentials.server_side_parameters.items()}
    over_http = credentials.method == SparkConnectionMethod.HTTP
    connection = hive.connect(
        thrift_transport=_http(credentials) if over_http else _tcp(credentials),
        username=credentials.user,
        configuration=configuration,
    )
    return Session(
        connection,
        poll_interval=credentials.poll_interval,  # type: ignore[arg-type]
        query_timeout=credentials.query_timeout,
        query_retries=credentials.query_retries,
    )


def _refusal(credentials: FreshgateCredentials, error: BaseException) -> str:
    """Names the first of the errors: the drivers hide that of TLS behind others."""
    while (deeper := getattr(error, "inner", None) or error.__context__) is not None:
        error = deeper
    place = f"{credentials.host}:{credentials.port} by {credentials.method}"
    reason = f"{type(error).__name__}: {error}"
    return f"failed to connect to {place}{' with TLS' if credentials.use_ssl else ''}: {reason}"


def _tls(credentials: FreshgateCredentials) -> ssl.SSLContext | None:
    """Unlike dbt-spark's, it checks the server's certificate and name."""
    return ssl.create_default_context(cafile=credentials.ssl_ca) if credentials.use_ssl else None


class _Http(THttpClient.THttpClient):  # type: ignore[misc]
    """Thrift's own class would read the page of an error as if it were Thrift."""

    def flush(self) -> None:
        super().flush()
        if self.code != HTTPStatus.OK:
            raise TTransport.TTransportException(message=f"HTTP status {self.code} {self.message}")


def _http(credentials: FreshgateCredentials) -> Any:
    scheme = "https" if credentials.use_ssl else "http"
    url = f"{scheme}://{credentials.host}:{credentials.port}/{credentials.http_path.strip('/')}"
    transport = _Http(url, ssl_context=_tls(credentials))
    login = f"{credentials.user}:{credentials.password or 'x'}".encode()
    transport.setCustomHeaders({"Authorization": f"Basic {base64.standard_b64encode(login).decode()}"})
    return transport


def _tcp(credentials: FreshgateCredentials) -> Any:
    context = _tls(credentials)
    host, port = credentials.host, credentials.port
    socket = TSocket(host, port) if context is None else TSSLSocket(host, port, ssl_context=context)
    if (credentials.auth or "").upper() == "NOSASL":
        return TTransport.TBufferedTransport(socket)

    def client() -> PureSASLClient:
        # A password that nobody checks must not be empty, either.
        return PureSASLClient(host, mechanism="PLAIN", username=credentials.user, password=credentials.password or "x")

    return TSaslClientTransport(client, "PLAIN", socket)
