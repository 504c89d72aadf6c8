"""PyHive's DB-API with Spark's literals and values: what SQLAlchemy calls the dialect's `dbapi` module.

Tests: `test_sqlalchemy_statements`.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pyhive import hive
from pyhive.exc import (
    DatabaseError,
    DataError,
    Error,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,  # DB-API prescribes the name.
)
from TCLIService import ttypes
from thrift.Thrift import TException

from gateway.sqlalchemy.values import READERS, literal

__all__ = [
    "ConnectionLost",
    "DataError",
    "DatabaseError",
    "DriverConnection",
    "DriverCursor",
    "Error",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Refused",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]

apilevel = "2.0"
threadsafety = 1
paramstyle = "pyformat"
Binary = bytes

_UNFINISHED = {
    ttypes.TOperationState.INITIALIZED_STATE,
    ttypes.TOperationState.PENDING_STATE,
    ttypes.TOperationState.RUNNING_STATE,
}


_LOGIN_REFUSED = re.compile(r"Bad status: \d+ \((b['\"].*)\)", re.DOTALL)
"""What thrift_sasl makes of a refused login: the server's message as a literal of Python's."""
_INVALID_AUTHORIZATION = "28000"


class ConnectionLost(OperationalError):  # type: ignore[misc]
    """The server closed the connection, or cannot be reached any more."""


class Refused(OperationalError):  # type: ignore[misc]
    """An error that the server sent: its message without the stack trace, and its SQLSTATE if it has one."""

    def __init__(self, message: str, sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


class DriverCursor(hive.Cursor):  # type: ignore[misc]
    """Values of parameters become Spark's literals. DATE, TIMESTAMP, DECIMAL and INTERVAL DAY TO SECOND become Python's
    objects. Text is the result for arrays, maps, structs and INTERVAL YEAR TO MONTH."""

    def execute(
        self, operation: str, parameters: Mapping[str, object] | Sequence[object] | None = None, **options: Any
    ) -> None:
        """Runs a statement. With parameters, its `%(name)s` become literals, and `%%` becomes `%`. Raises Error."""
        if parameters is not None:
            operation %= _literals(parameters)
        with _connected():
            super().execute(operation, None, **options)

    def executemany(self, operation: str, seq_of_parameters: Sequence[Mapping[str, object]]) -> None:
        for parameters in seq_of_parameters:
            self.execute(operation, parameters)

    def cancel(self) -> None:
        with _connected():
            super().cancel()

    def wait(self, see: Callable[[Any], None]) -> None:
        """Returns once a statement that was executed with `async_=True` has ended. Calls `see` with each status before,
        a TGetOperationStatusResp. The server delays its answers, so this needs no pause. Raises Refused if the
        statement has failed or was cancelled."""
        while (status := self.poll()).operationState in _UNFINISHED:
            see(status)
        if status.operationState != ttypes.TOperationState.FINISHED_STATE:
            name = ttypes.TOperationState._VALUES_TO_NAMES[status.operationState]
            raise Refused(_message(status.errorMessage or f"the statement ended as {name}"), status.sqlState)

    def poll(self, get_progress_update: bool = True) -> Any:
        with _connected():
            return super().poll(get_progress_update)

    def _reset_state(self) -> None:
        with _connected():
            super()._reset_state()

    @property
    def description(self) -> Any:
        with _connected():
            return super().description

    def _fetch_more(self) -> None:
        if not self._operationHandle.hasResultSet:
            raise ProgrammingError("the statement has no rows")
        request = ttypes.TFetchResultsReq(
            self._operationHandle, ttypes.TFetchOrientation.FETCH_NEXT, maxRows=self.arraysize
        )
        with _connected():
            response = self._connection.client.FetchResults(request)
            hive._check_status(response)
        kinds = [column[1] for column in self.description]
        # Of a statement without rows, Spark describes one column and sends none.
        columns = [_read(column, kind) for column, kind in zip(response.results.columns, kinds, strict=False)]
        page = list(zip(*columns, strict=True))
        self._data += page
        if not page:
            self._state = self._STATE_FINISHED


class DriverConnection(hive.Connection):  # type: ignore[misc]
    """A session."""

    def cursor(self, *arguments: Any, **options: Any) -> DriverCursor:
        return DriverCursor(self, *arguments, **options)

    def rollback(self) -> None:
        """Does nothing: a session has no transaction that could be rolled back."""

    def close(self) -> None:
        with _connected():
            super().close()


def connect(**options: Any) -> DriverConnection:
    """Opens a session; options are those of `pyhive.hive.connect`. Raises Error."""
    with _connected():
        return DriverConnection(**options)


@contextlib.contextmanager
def _connected() -> Iterator[None]:
    """Errors of Thrift and of sockets become errors of the DB-API. Those that PyHive makes of the server's responses
    get their messages."""
    try:
        yield
    except OperationalError as error:
        status = getattr(error.args[0] if error.args else None, "status", None)
        if status is None:
            raise
        raise Refused(_message(status.errorMessage), status.sqlState) from error
    except (OSError, EOFError, TException) as error:
        if (refused := _LOGIN_REFUSED.fullmatch(str(error))) is not None:
            reason = ast.literal_eval(refused[1]).decode("utf-8", "replace")
            raise Refused(_message(reason), _INVALID_AUTHORIZATION) from error
        raise ConnectionLost(f"the connection to the server was lost: {error}") from error


def _message(text: str | None) -> str:
    return (text or "the server gave no reason").partition("\n\tat ")[0]


def _literals(parameters: Mapping[str, object] | Sequence[object]) -> dict[str, str] | tuple[str, ...]:
    try:
        if isinstance(parameters, Mapping):
            return {name: literal(value) for name, value in parameters.items()}
        return tuple(map(literal, parameters))
    except (TypeError, ValueError) as error:
        raise ProgrammingError(str(error)) from error


def _read(column: Any, kind: str) -> list[Any]:
    values: list[Any] = hive._unwrap_column(column)
    read = READERS.get(kind)
    return [None if value is None else read(value) for value in values] if read else values
