"""The connection to a gateway: its URL, and one look at it in at most three statements."""

from __future__ import annotations

import base64
import contextlib
import getpass
import logging
import re
import socket
import ssl
import struct
from collections.abc import Mapping
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
from gateway.status.model import Row, Status, status_of

DEFAULT_PORT = 10000
CONNECT_SECONDS = 10.0
REPLY_SECONDS = 120.0
"""The gateway writes its catalog into the query's text, of which Spark reads some megabytes a second."""
PAGE_ROWS = 10_000
SAID_BYTES_MAX = 1000
"""Of the page of an error over HTTP."""
NO_SUCH_COLUMN = "42703"
NO_SUCH_TABLE = "42P01"
NO_SUCH_SCHEMA = "[SCHEMA_NOT_FOUND]"
"""Spark's SQLSTATE for it is that of other things as well."""

VIEW_COLUMNS = (
    *("database_name", "name", "state", "schema_change", "freshness", "stale_because", "stale_since", "version"),
    *("refresh_trigger", "refresh_schedule", "last_refresh_time", "is_refreshing", "last_task_status"),
    *("last_task_error", "job_status", "next_refresh_time"),
)
"""Not those of rows and bytes: Spark would have to count."""
INSTANTS = frozenset({"stale_since", "last_refresh_time", "next_refresh_time"})
NEWER_COLUMNS = frozenset({"job_status", "next_refresh_time"})
"""Columns that an older gateway has not."""

_URL = re.compile(r"(?:jdbc:)?hive2://([^/;?#]*)(?:/([^;?#]*))?((?:;[^;?#]*)*)(?:[?#].*)?", re.IGNORECASE | re.DOTALL)
HTTP_PATH = "cliservice"
_UNKNOWN_COLUMN = re.compile(r"with name `(\w+)` cannot be resolved")
"""How Spark names the first column that a relation has not."""
_LOGIN_REFUSED = re.compile(r"Bad status: [34] \((?:b?['\"])?(.*?)['\"]?\)", re.DOTALL)
"""How thrift_sasl tells a negotiation's status BAD or ERROR, with what the server says to it."""
_SAID = {
    TTransportException.TIMED_OUT: "it does not answer",
    TTransportException.END_OF_FILE: "it closed the connection",
}
_FAILURES = (
    *(HiveError, TException, HTTPException, OSError, EOFError, ValueError, AssertionError, TypeError, struct.error),
)
"""What PyHive and Thrift raise where a peer is gone, refuses, or does not speak HiveServer2."""


class BadUrl(FreshgateError):
    """A URL that cannot be meant."""

    sqlstate = "22023"


class LookFailed(FreshgateError):
    """The gateway cannot be reached (08001), or refuses what is asked (its own SQLSTATE)."""

    sqlstate = "08001"


@dataclass(frozen=True, slots=True)
class Target:
    """Where to connect, and as whom. Its text is the URL without user and password."""

    address: Address
    database: str = "default"
    sasl: bool = True
    user: str | None = None
    password: str | None = None
    http_path: str | None = None
    """None: the binary transport."""
    tls: bool = False
    ca: str | None = None
    """PEM file of the authorities that the gateway's certificate may be of; None: those that this machine trusts."""
    certificate: str | None = None
    """PEM file of the client's own certificate and its key, where the gateway asks for one (`tls.client_ca`)."""

    def __str__(self) -> str:
        variables = ("" if self.sasl else ";auth=noSasl") + (";ssl=true" if self.tls else "")
        if self.http_path is not None:
            variables += f";transportMode=http;httpPath={self.http_path}"
        return f"jdbc:hive2://{self.address}/{self.database}{variables}"

    @classmethod
    def parse(cls, url: str) -> Self:
        """Reads a URL as Hive's JDBC driver has it. Raises BadUrl."""
        form = "Write jdbc:hive2://HOST:PORT/DATABASE, for example jdbc:hive2://127.0.0.1:10000/default."
        found = _URL.fullmatch(url.strip())
        if found is None:
            raise BadUrl(f"'{_without_secrets(url)}' is not the URL of a gateway. {form}")
        place, database, variables = found[1], found[2], _variables(found[3])
        if "," in place:
            raise BadUrl(f"'{place}' names several hosts. Give the one that the gateway listens at.")
        ported = re.fullmatch(r"(?:\[[^\]]*\]|[^:\[\]]*):.*", place)
        try:
            address = Address.parse(unquote(place if ported else f"{place}:{DEFAULT_PORT}"))
        except ConfigError as error:
            raise BadUrl(f"'{_without_secrets(url)}' is not the URL of a gateway. {form}") from error
        mode = variables.get("transportmode", "binary").lower()
        if mode not in ("binary", "http"):
            raise BadUrl(f"There is no transportMode={mode}. Write binary or http.")
        if "principal" in variables:
            raise BadUrl("The gateway has no Kerberos. Leave principal out of the URL, and give a user instead.")
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
    """`;name=value;...`, names in small letters."""
    pairs = (piece.partition("=") for piece in text.split(";") if piece)
    return {unquote(name).strip().lower(): unquote(value).strip() for name, _, value in pairs}


def _without_secrets(url: str) -> str:
    return re.sub(r"(?i)(;\s*password=)[^;?#]*", r"\1...", url)


def _transport(target: Target, user: str) -> tuple[Any, Any]:
    """What has the time-outs, and Thrift's transport. Raises LookFailed for authorities that cannot be read."""
    # Servers that check no passwords want one all the same.
    password = target.password or "x"
    host, port = target.address.host, target.address.port
    tls = _tls(target) if target.tls else None
    if target.http_path is not None:
        http = _Http(target, tls)
        names = base64.b64encode(f"{user}:{password}".encode()).decode("ascii")
        http.setCustomHeaders({"Authorization": f"Basic {names}"})
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
        # OpenSSL's own errors are OSErrors too, and tell of its source files.
        said = "it has no certificate in PEM" if isinstance(error, ssl.SSLError) else error.strerror or error
        raise LookFailed(
            f"Cannot read the authorities of --ca {target.ca}: {said}. Name a file with their certificates in PEM.",
            "22023",
        ) from error
    if target.certificate is not None:
        try:
            # The password is for nobody to ask on a terminal that may not be there.
            context.load_cert_chain(target.certificate, password="")
        except OSError as error:
            said = "it has no certificate with its key" if isinstance(error, ssl.SSLError) else error.strerror or error
            raise LookFailed(
                f"Cannot use the certificate of --cert {target.certificate}: {said}. Name a PEM file that has your "
                "certificate and its key, without a password.",
                "22023",
            ) from error
    return context


class _Socket(TSocket):  # type: ignore[misc]
    """Thrift's socket, over TLS where there is a context: Thrift's own does not tell why a handshake failed."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        super().__init__(host, port, socket_keepalive=True)
        self._tls = tls
        self._name = host

    def _do_open(self, family: int, kind: int) -> socket.socket:
        opened: socket.socket = super()._do_open(family, kind)
        return self._tls.wrap_socket(opened, server_hostname=self._name) if self._tls else opened


class _Http(THttpClient):  # type: ignore[misc]
    """Thrift's, which takes the page of an error for a reply."""

    def __init__(self, target: Target, tls: ssl.SSLContext | None) -> None:
        super().__init__(f"{'https' if tls else 'http'}://{target.address}/{target.http_path}", ssl_context=tls)
        self._target = target

    def flush(self) -> None:
        """Sends the request. Raises LookFailed where the status of the answer is not 200."""
        super().flush()
        if self.code == HTTPStatus.OK:
            return
        said = _first_line(self.read(SAID_BYTES_MAX).decode("utf-8", "replace")).rstrip(".")
        if self.code == HTTPStatus.UNAUTHORIZED:
            raise _login_refused(self._target, said.removeprefix("Authentication Error: "))
        busy = self.code >= HTTPStatus.INTERNAL_SERVER_ERROR
        advice = "Try again" if busy else "Give the gateway's URL with --url, with its httpPath"
        raise LookFailed(f"{self._target} answers with status {self.code} ({said or self.message}). {advice}.")


class _Connection(hive.Connection):  # type: ignore[misc]
    """PyHive's, which leaves its session open where it cannot begin it, such as in a database that does not exist."""

    def __init__(self, *, thrift_transport: Any, **options: Any) -> None:
        try:
            super().__init__(thrift_transport=thrift_transport, **options)
        except BaseException:
            self.end(thrift_transport)
            raise

    def end(self, transport: Any) -> None:
        """Ends the session, where there is one; raises nothing."""
        # A binary connection ends its session with itself, and after Ctrl-C amid a call an answer would wait for the
        # reply of that one. A session over HTTP outlives its connections, of which each call has one of its own.
        if not isinstance(transport, THttpClient):
            transport.close()
            return
        if getattr(self, "_sessionHandle", None) is not None:
            transport.setTimeout(CONNECT_SECONDS * 1000)
            with contextlib.suppress(LookFailed, *_FAILURES):
                self.close()
        if transport.isOpen():
            transport.close()


class Client:
    """A session on a gateway. Make one with `connect`."""

    def __init__(self, target: Target, connection: Any, transport: Any) -> None:
        self._target = target
        self._connection = connection
        self._transport = transport
        self._missing: frozenset[str] = frozenset()

    @classmethod
    def connect(cls, target: Target) -> Self:
        """Connects and logs in. Raises LookFailed."""
        # Thrift logs what it also raises.
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

    def look(self, database: str | None) -> Status:
        """Views, jobs and tasks of one database, or of all. Raises LookFailed; the client is of no use then."""
        try:
            views = self._views(database)
            if not views and database is not None:
                self._check_database(database)
            told = not views or "job_status" in views[0]
            jobs = [] if told else self._rows('SELECT * FROM jobs("type"="mv")', "MvDatabaseName", database)
            tasks = self._rows(
                "SELECT * FROM tasks(\"type\"=\"mv\") WHERE Status IN ('RUNNING', 'PENDING')",
                "MvDatabaseName",
                database,
            )
        except _FAILURES as error:
            raise _failed(self._target, error) from error
        return status_of(views, jobs, tasks)

    def _views(self, database: str | None) -> list[Row]:
        while True:
            columns = [column for column in VIEW_COLUMNS if column not in self._missing]
            shown = ", ".join(f"unix_millis({each}) AS {each}" if each in INSTANTS else each for each in columns)
            try:
                return self._rows(f"SELECT {shown} FROM freshgate.materialized_views", "database_name", database)
            except HiveError as error:
                sqlstate, message = _status(error)
                unknown = _UNKNOWN_COLUMN.search(message)
                if sqlstate != NO_SUCH_COLUMN or unknown is None or unknown[1] not in NEWER_COLUMNS - self._missing:
                    raise
                self._missing |= {unknown[1]}

    def _check_database(self, database: str) -> None:
        """Raises LookFailed for a database that does not exist: a slip is told, and no database without views."""
        quoted = database.replace("`", "``")
        cursor = self._connection.cursor()
        try:
            cursor.execute(f"DESCRIBE DATABASE `{quoted}`")
        except HiveError as error:
            sqlstate, message = _status(error)
            if NO_SUCH_SCHEMA not in message:
                raise
            raise LookFailed(
                f"{self._target} has no database '{database}'. Choose another with --database.", sqlstate
            ) from error
        cursor.close()

    def _rows(self, sql: str, column: str, database: str | None) -> list[Row]:
        """The rows of a query, of one database where one is named: `column` has the name."""
        parameters: Mapping[str, str] | None = None
        if database is not None:
            sql += f" {'AND' if ' WHERE ' in sql else 'WHERE'} {column} = %(database)s"
            parameters = {"database": database.lower()}
        cursor = self._connection.cursor(arraysize=PAGE_ROWS)
        cursor.execute(sql, parameters)
        names = [each[0].lower() for each in cursor.description]
        rows: list[Row] = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        # Only here: after Ctrl-C amid a call, the next one would wait for the reply of that.
        cursor.close()
        return rows

    def close(self) -> None:
        """Ends the session, also after a look that failed or was left by Ctrl-C. Raises nothing."""
        self._connection.end(self._transport)


def _own_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "anonymous"


def _failed(target: Target, error: BaseException) -> LookFailed:
    """What to tell of an error, with what to do."""
    sqlstate, message = _status(error)
    if sqlstate == NO_SUCH_TABLE:
        return LookFailed(
            f"{target} is no gateway of Freshgate: it knows no freshgate.materialized_views. Give the gateway's URL, "
            "which it prints when it starts, not that of Spark.",
            sqlstate,
        )
    if sqlstate:
        return LookFailed(f"{target} refused: {message} Mend the cause, or choose another --user or --url.", sqlstate)
    refused = _LOGIN_REFUSED.fullmatch(message)
    if refused is not None:
        return _login_refused(target, refused[1].rstrip("."))
    # Thrift hands its socket's error on inside its own, and that of HTTP as it is.
    untrusted = next((each for each in (error, getattr(error, "inner", None)) if isinstance(each, ssl.SSLError)), None)
    if untrusted is not None:
        return LookFailed(
            f"Cannot reach a gateway at {target}: TLS failed ({untrusted}). Name a file with the authorities of its "
            "certificate with --ca, one with your own certificate with --cert if it asks for one, or give another URL "
            "with --url."
        )
    known = _SAID.get(error.type) if isinstance(error, TTransportException) else None
    said = known or message or type(error).__name__
    return LookFailed(
        f"Cannot reach a gateway at {target}: {said}. Start it with `freshgate serve`, or give its URL with --url."
    )


def _login_refused(target: Target, said: str) -> LookFailed:
    said = said or "it gave no reason"
    return LookFailed(f"{target} refused the login: {said}. Check --user, and the URL's user and password.", "28000")


def _status(error: BaseException) -> tuple[str, str]:
    """SQLSTATE and message; the SQLSTATE is "" where the error is not one that the gateway sent."""
    reply = error.args[0] if error.args else None
    status = getattr(reply, "status", None)
    if status is not None:
        return status.sqlState or "HY000", _first_line(status.errorMessage or "").rstrip(";")
    # Thrift names addresses in its message, and the reason in the error that it got.
    inner = getattr(error, "inner", None)
    said = getattr(inner, "strerror", None) or inner or getattr(error, "message", None) or error
    return "", _first_line(str(said)).rstrip(".")


def _first_line(text: str) -> str:
    return next(iter(text.strip().splitlines()), "")
