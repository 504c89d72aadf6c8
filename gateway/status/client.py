"""Connects to a gateway by its URL, and reads its status in a few statements."""

from __future__ import annotations

import base64
import contextlib
import getpass
import logging
import re
import socket
import ssl
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, Self
from urllib.parse import unquote

from pyhive import hive
from pyhive.exc import Error as HiveError
from thrift.Thrift import TException
from thrift.transport.THttpClient import THttpClient
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException
from thrift_sasl import TSaslClientTransport

from gateway.config import Address, ConfigError
from gateway.errors import FreshgateError
from gateway.status.model import MOMENTS, NO_ACTIVITY, Activity, Row, Status, status_of

DEFAULT_PORT = 10000
CONNECT_SECONDS = 10.0
REPLY_SECONDS = 120.0
"""The gateway writes its catalog into the query's text, and Spark parses only a few megabytes of it per second."""
PAGE_ROWS = 10_000
ERROR_BYTES_MAX = 1000
"""How much of an error page over HTTP is read."""
NO_SUCH_COLUMN = "42703"
NO_SUCH_TABLE = "42P01"
SYNTAX_ERROR = "42601"
NO_SUCH_SCHEMA = "[SCHEMA_NOT_FOUND]"
"""Spark uses the SQLSTATE of this error for other errors too."""

VIEW_COLUMNS = (
    *("database_name", "name", "state", "schema_change", "freshness", "stale_because", "stale_since", "version"),
    *("refresh_trigger", "refresh_schedule", "last_refresh_time", "is_refreshing", "last_task_status"),
    *("last_task_error", "job_status", "next_refresh_time"),
    *("stale_noticed", "stale_by", "failures_in_a_row", "failing_since", "paused_because"),
    *("memory", "memory_asked_by", "memory_reason", "memory_rows", "memory_bytes", "memory_since", "memory_answers"),
)
"""Without those for rows and bytes, which Spark would have to count."""
ATTENTION_COLUMNS = ("place", "what", "database_name", "name", "owner", "since", "why", "advice", "error")
READS_COLUMNS = (
    *("database_name", "name", "owner", "named_reads", "rewritten_reads", "memory_reads", "waited_ms"),
    *("reads_7_days", "reads_35_days", "last_read_time", "users", "user_names"),
)
COST_COLUMNS = (
    *("database_name", "name", "owner", "expected_method", "expected_ms", "because", "percent"),
    *("complete_ms", "partial_ms", "incremental_ms"),
    *("median_complete_ms", "median_partial_ms", "median_incremental_ms", "refreshes", "refreshes_ms"),
)
STATEMENT_COLUMNS = (
    *("statement", "start_time", "user_name", "account", "client", "session", "taken_for", "outcome", "total_ms"),
    *("waited_ms", "spark_ms", "from_memory", "answered_from", "not_answered_because", "views", "refreshed"),
    *("sqlstate", "error", "text"),
)
TABLE_COLUMNS = (
    *("database_name", "name", "memory", "memory_reason", "memory_rows", "memory_bytes", "memory_since"),
    "memory_answers",
)
STATEMENTS_MAX = 200
"""Of freshgate.statements, those that ended last."""
INSTANTS = MOMENTS | {
    "since",
    "stale_since",
    "stale_noticed",
    "last_refresh_time",
    "next_refresh_time",
    "failing_since",
    "memory_since",
}
NEWER_COLUMNS = (
    frozenset({"job_status"}),
    frozenset({"next_refresh_time"}),
    frozenset({"stale_noticed", "stale_by", "failures_in_a_row", "failing_since", "paused_because"}),
    frozenset(each for each in VIEW_COLUMNS if each.startswith("memory")),
)
"""Columns that an older gateway lacks, those together that came together."""

_URL = re.compile(r"(?:jdbc:)?hive2://([^/;?#]*)(?:/([^;?#]*))?((?:;[^;?#]*)*)(?:[?#].*)?", re.IGNORECASE | re.DOTALL)
_ADDRESS = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[\w.-]+):[0-9]+")
HTTP_PATH = "cliservice"
_UNKNOWN_COLUMN = re.compile(r"with name `(\w+)` cannot be resolved")
"""How Spark names the first missing column."""
_LOGIN_REFUSED = re.compile(r"Bad status: [34] \((?:b?['\"])?(.*?)['\"]?\)", re.DOTALL)
"""How thrift_sasl reports a negotiation that ended with BAD or ERROR, with the server's text."""
_REASONS = {
    TTransportException.TIMED_OUT: "it does not answer",
    TTransportException.END_OF_FILE: "it closed the connection",
}
_FAILURES = (
    *(HiveError, TException, HTTPException, OSError, EOFError, ValueError, AssertionError, TypeError, struct.error),
)
"""What PyHive and Thrift raise if the peer is gone, refuses, or does not speak HiveServer2."""


class BadUrl(FreshgateError):
    """An invalid URL."""

    sqlstate = "22023"


class StatusFailed(FreshgateError):
    """The gateway cannot be reached (08001), or refuses the request (with its own SQLSTATE)."""

    sqlstate = "08001"


@dataclass(frozen=True, slots=True)
class Target:
    """The server, database and user to connect to. As a string, the URL without user and password."""

    address: Address
    database: str = "default"
    sasl: bool = True
    user: str | None = None
    password: str | None = None
    http_path: str | None = None
    """None for the binary transport."""
    tls: bool = False
    ca: str | None = None
    """PEM file of CA certificates that the gateway's certificate is verified with; None: the system's."""
    certificate: str | None = None
    """PEM file of the client's certificate and key, if the gateway requires one (`tls.client_ca`)."""

    def __str__(self) -> str:
        variables = ("" if self.sasl else ";auth=noSasl") + (";ssl=true" if self.tls else "")
        if self.http_path is not None:
            variables += f";transportMode=http;httpPath={self.http_path}"
        return f"jdbc:hive2://{self.address}/{self.database}{variables}"

    @classmethod
    def parse(cls, url: str) -> Self:
        """Parses a URL in the format of Hive's JDBC driver, or HOST:PORT. Raises BadUrl."""
        form = "Write HOST:PORT or jdbc:hive2://HOST:PORT/DATABASE, for example jdbc:hive2://127.0.0.1:10000/default."
        text = url.strip()
        found = _URL.fullmatch(f"hive2://{text}" if _ADDRESS.fullmatch(text) else text)
        if found is None:
            raise BadUrl(f"'{_without_secrets(url)}' is not the URL of a gateway. {form}")
        place, database, variables = found[1], found[2], _variables(found[3])
        if "," in place:
            raise BadUrl(f"'{place}' names several hosts. Name only the gateway's host.")
        ported = re.fullmatch(r"(?:\[[^\]]*\]|[^:\[\]]*):.*", place)
        try:
            address = Address.parse(unquote(place if ported else f"{place}:{DEFAULT_PORT}"))
        except ConfigError as error:
            raise BadUrl(f"'{_without_secrets(url)}' is not the URL of a gateway. {form}") from error
        mode = variables.get("transportmode", "binary").lower()
        if mode not in ("binary", "http"):
            raise BadUrl(f"transportMode={mode} is not supported. Write binary or http.")
        if "principal" in variables:
            raise BadUrl(
                "The gateway does not support Kerberos. Remove principal from the URL, and specify a user instead."
            )
        return cls(
            address,
            unquote(database or "") or "default",
            variables.get("auth", "").lower() != "nosasl",
            variables.get("user"),
            variables.get("password"),
            variables.get("httppath", HTTP_PATH).strip("/") if mode == "http" else None,
            variables.get("ssl", "").lower() == "true",
        )


def _variables(text: str) -> dict[str, str]:
    """Parses `;name=value;...`; names are returned in lower case."""
    pairs = (piece.partition("=") for piece in text.split(";") if piece)
    return {unquote(name).strip().lower(): unquote(value).strip() for name, _, value in pairs}


def _without_secrets(url: str) -> str:
    return re.sub(r"(?i)(;\s*password=)[^;?#]*", r"\1...", url)


def _transport(target: Target, user: str) -> tuple[Any, Any]:
    """Returns the object that takes time-outs, and Thrift's transport. Raises StatusFailed if the CA file cannot be
    read."""
    # Servers that check no passwords require one all the same.
    password = target.password or "x"
    host, port = target.address.host, target.address.port
    tls = _tls(target) if target.tls else None
    if target.http_path is not None:
        http = _Http(target, tls)
        credentials = base64.b64encode(f"{user}:{password}".encode()).decode("ascii")
        http.setCustomHeaders({"Authorization": f"Basic {credentials}"})
        return http, http
    connection = _Socket(host, port, tls)
    if not target.sasl:
        return connection, TBufferedTransport(connection)
    return connection, TSaslClientTransport(
        lambda: hive.get_installed_sasl(host, "PLAIN", username=user, password=password), "PLAIN", connection
    )


def _tls(target: Target) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=target.ca)
    except OSError as error:
        # OpenSSL's errors are OSErrors too, and name its source files.
        reason = "it contains no certificate" if isinstance(error, ssl.SSLError) else error.strerror or error
        raise StatusFailed(
            f"Cannot read the CA certificates of --ca {target.ca}: {reason}. Name a PEM file of CA certificates.",
            "22023",
        ) from error
    if target.certificate is not None:
        try:
            # An empty password, because there may be no terminal to ask for one.
            context.load_cert_chain(target.certificate, password="")
        except OSError as error:
            reason = (
                "it has no certificate with its key" if isinstance(error, ssl.SSLError) else error.strerror or error
            )
            raise StatusFailed(
                f"Cannot use the certificate of --cert {target.certificate}: {reason}. Name a PEM file of your "
                "certificate and its key, without a password.",
                "22023",
            ) from error
    return context


class _Socket(TSocket):  # type: ignore[misc]
    """Thrift's socket, over TLS if there is a context. Thrift's own TLS socket does not report why a handshake
    failed."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        super().__init__(host, port, socket_keepalive=True)
        self._tls = tls
        self._name = host

    def _do_open(self, family: int, kind: int) -> socket.socket:
        opened: socket.socket = super()._do_open(family, kind)
        return self._tls.wrap_socket(opened, server_hostname=self._name) if self._tls else opened


class _Http(THttpClient):  # type: ignore[misc]
    """Thrift's HTTP client, which would take an error page for a reply."""

    def __init__(self, target: Target, tls: ssl.SSLContext | None) -> None:
        super().__init__(f"{'https' if tls else 'http'}://{target.address}/{target.http_path}", ssl_context=tls)
        self._target = target

    def flush(self) -> None:
        """Sends the request. Raises StatusFailed if the status of the answer is not 200."""
        super().flush()
        if self.code == HTTPStatus.OK:
            return
        reason = _first_line(self.read(ERROR_BYTES_MAX).decode("utf-8", "replace")).rstrip(".")
        if self.code == HTTPStatus.UNAUTHORIZED:
            raise _login_refused(self._target, reason.removeprefix("Authentication Error: "))
        busy = self.code >= HTTPStatus.INTERNAL_SERVER_ERROR
        advice = "Try again" if busy else "Specify the gateway's URL, including httpPath, with --url"
        raise StatusFailed(f"{self._target} answers with status {self.code} ({reason or self.message}). {advice}.")


class _Connection(hive.Connection):  # type: ignore[misc]
    """PyHive's connection, which would leave its session open if a statement fails while it is opened, for example
    because the database does not exist."""

    def __init__(self, *, thrift_transport: Any, **options: Any) -> None:
        try:
            super().__init__(thrift_transport=thrift_transport, **options)
        except BaseException:
            self.end(thrift_transport)
            raise

    def end(self, transport: Any) -> None:
        """Ends the session, if there is one; raises nothing."""
        # A binary connection ends its session when it is closed; after Ctrl-C during a call, CloseSession would wait
        # for that call's reply. A session over HTTP outlives its connections, because each call has its own.
        if not isinstance(transport, THttpClient):
            transport.close()
            return
        if getattr(self, "_sessionHandle", None) is not None:
            transport.setTimeout(CONNECT_SECONDS * 1000)
            with contextlib.suppress(StatusFailed, *_FAILURES):
                self.close()
        if transport.isOpen():
            transport.close()


class Client:
    """A session on a gateway, made with `connect`."""

    def __init__(self, target: Target, connection: Any, transport: Any) -> None:
        self._target = target
        self._connection = connection
        self._transport = transport
        self._missing: frozenset[str] = frozenset()
        self._absent: set[str] = set()
        """Statements that an older gateway refuses."""

    @classmethod
    def connect(cls, target: Target) -> Self:
        """Connects and logs in. Raises StatusFailed."""
        # Thrift logs the errors that it also raises.
        logging.getLogger("thrift").setLevel(logging.CRITICAL + 1)
        user = target.user or _own_name()
        try:
            timed, transport = _transport(target, user)
            timed.setTimeout(CONNECT_SECONDS * 1000)
            connection = _Connection(
                username=user, database=target.database.replace("`", "``"), thrift_transport=transport
            )
        except _FAILURES as error:
            raise _failed(target, error) from error
        timed.setTimeout(REPLY_SECONDS * 1000)
        return cls(target, connection, transport)

    def status(self, database: str | None, *, everything: bool = False) -> Status:
        """Reads what is wrong, and the views, jobs and tasks, of one database, or of all. `everything`: also who reads
        them, what refreshes would cost, and the last statements. Raises StatusFailed; the client cannot be used after
        that."""
        try:
            views = self._views(database)
            if not views and database is not None:
                self._check_database(database)
            has_jobs = not views or "job_status" in views[0]
            jobs = [] if has_jobs else self._rows('SELECT * FROM jobs("type"="mv")', "MvDatabaseName", database)
            tasks = self._rows(
                "SELECT * FROM tasks(\"type\"=\"mv\") WHERE Status IN ('RUNNING', 'PENDING')",
                "MvDatabaseName",
                database,
            )
            attention = self._table("freshgate.attention", ATTENTION_COLUMNS, database)
            about = self._optional("SELECT * FROM freshgate.gateway") or [{}]
            # It is not sent to Spark.
            gateways = self._optional("SHOW GATEWAYS", SYNTAX_ERROR) or []
            activity = self._activity(database) if everything else NO_ACTIVITY
            # They are held only beside views.
            held = any(view.get("memory") for view in views)
            tables = self._table("freshgate.tables_in_memory", TABLE_COLUMNS, database) if held else None
        except _FAILURES as error:
            raise _failed(self._target, error) from error
        if attention is not None:
            attention.sort(key=lambda row: row["place"])
        return status_of(views, jobs, tasks, about[0], gateways, attention, activity, tables)

    def _activity(self, database: str | None) -> Activity:
        reads = self._table("freshgate.reads", READS_COLUMNS, database)
        statements = self._table("freshgate.statements", STATEMENT_COLUMNS, None, f" LIMIT {STATEMENTS_MAX}")
        costs = self._table("freshgate.refresh_costs", COST_COLUMNS, database)
        return Activity(reads, statements, costs)

    def _table(self, table: str, columns: tuple[str, ...], database: str | None, limit: str = "") -> list[Row] | None:
        """The rows of a table; None if the gateway is an older one."""
        return self._optional(f"SELECT {_shown(columns)} FROM {table}{limit}", NO_SUCH_TABLE, database)

    def _optional(self, sql: str, refusal: str = NO_SUCH_TABLE, database: str | None = None) -> list[Row] | None:
        """The rows of a statement that an older gateway refuses with this SQLSTATE: then None, now and later."""
        if sql in self._absent:
            return None
        try:
            return self._rows(sql, "database_name", database)
        except HiveError as error:
            if _status(error)[0] != refusal:
                raise
            self._absent.add(sql)
            return None

    def _views(self, database: str | None) -> list[Row]:
        while True:
            columns = [column for column in VIEW_COLUMNS if column not in self._missing]
            try:
                return self._rows(
                    f"SELECT {_shown(columns)} FROM freshgate.materialized_views", "database_name", database
                )
            except HiveError as error:
                sqlstate, message = _status(error)
                unknown = _UNKNOWN_COLUMN.search(message)
                newer = (
                    [] if unknown is None else [each for each in NEWER_COLUMNS if unknown[1] in each - self._missing]
                )
                if sqlstate != NO_SUCH_COLUMN or not newer:
                    raise
                self._missing = self._missing.union(*newer)

    def _check_database(self, database: str) -> None:
        """Raises StatusFailed if the database does not exist, to tell a misspelled name from a database without
        views."""
        quoted = database.replace("`", "``")
        cursor = self._connection.cursor()
        try:
            cursor.execute(f"DESCRIBE DATABASE `{quoted}`")
        except HiveError as error:
            sqlstate, message = _status(error)
            if NO_SUCH_SCHEMA not in message:
                raise
            raise StatusFailed(
                f"{self._target} has no database '{database}'. Choose another with --database.", sqlstate
            ) from error
        cursor.close()

    def _rows(self, sql: str, column: str, database: str | None) -> list[Row]:
        """The rows of a query, restricted to one database if one is named; `column` contains its name."""
        parameters: Mapping[str, str] | None = None
        if database is not None:
            sql += f" {'AND' if ' WHERE ' in sql else 'WHERE'} {column} = %(database)s"
            parameters = {"database": database.lower()}
        cursor = self._connection.cursor(arraysize=PAGE_ROWS)
        cursor.execute(sql, parameters)
        names = [each[0].lower() for each in cursor.description]
        rows: list[Row] = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        # Not in a finally block: after Ctrl-C during a call, this one would wait for that call's reply.
        cursor.close()
        return rows

    def close(self) -> None:
        """Ends the session, also after a failure or Ctrl-C. Raises nothing."""
        self._connection.end(self._transport)


def _shown(columns: Iterable[str]) -> str:
    """The items of SELECT: instants as milliseconds since the epoch, which no time zone changes."""
    return ", ".join(f"unix_millis({each}) AS {each}" if each in INSTANTS else each for each in columns)


def _own_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "anonymous"


def _failed(target: Target, error: BaseException) -> StatusFailed:
    """Converts an error to a message that says what to do."""
    sqlstate, message = _status(error)
    if sqlstate == NO_SUCH_TABLE:
        return StatusFailed(
            f"{target} is not a Freshgate gateway: it has no freshgate.materialized_views. Specify the gateway's URL, "
            "which it prints when it starts, not Spark's.",
            sqlstate,
        )
    if sqlstate:
        return StatusFailed(
            f"{target} refused the request: {message} Fix the cause, or choose another --user or --url.", sqlstate
        )
    refused = _LOGIN_REFUSED.fullmatch(message)
    if refused is not None:
        return _login_refused(target, refused[1].rstrip("."))
    # Thrift wraps the errors of its socket, but not those of HTTP.
    untrusted = next((each for each in (error, getattr(error, "inner", None)) if isinstance(each, ssl.SSLError)), None)
    if untrusted is not None:
        return StatusFailed(
            f"Cannot reach a gateway at {target}: TLS failed ({untrusted}). Name the CA certificates with --ca, your "
            "own certificate with --cert if the gateway requires one, or another URL with --url."
        )
    known = _REASONS.get(error.type) if isinstance(error, TTransportException) else None
    reason = known or message or type(error).__name__
    return StatusFailed(
        f"Cannot reach a gateway at {target}: {reason}. Start it with `freshgate serve`, or specify its URL with --url."
    )


def _login_refused(target: Target, reason: str) -> StatusFailed:
    reason = reason or "it gave no reason"
    return StatusFailed(
        f"{target} refused the login: {reason}. Check --user, and the URL's user and password.", "28000"
    )


def _status(error: BaseException) -> tuple[str, str]:
    """SQLSTATE and message; the SQLSTATE is "" if the gateway did not send the error."""
    reply = error.args[0] if error.args else None
    status = getattr(reply, "status", None)
    if status is not None:
        return status.sqlState or "HY000", _first_line(status.errorMessage or "").rstrip(";")
    # Thrift's message names addresses; the error that it wraps has the reason.
    inner = getattr(error, "inner", None)
    reason = getattr(inner, "strerror", None) or inner or getattr(error, "message", None) or error
    return "", _first_line(str(reason)).rstrip(".")


def _first_line(text: str) -> str:
    return next(iter(text.strip().splitlines()), "")
