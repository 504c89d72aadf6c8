"""A DB-API connection for SQLAlchemy that answers from memory and keeps the statements that it got."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy
from sqlalchemy.dialects import registry

registry.register("freshgate", "gateway.sqlalchemy.dialect", "FreshgateDialect")
registry.register("freshgate.http", "gateway.sqlalchemy.dialect", "FreshgateHttpDialect")
registry.register("freshgate.https", "gateway.sqlalchemy.dialect", "FreshgateHttpsDialect")

Answer = tuple[tuple[str, ...], list[tuple[Any, ...]]] | Exception
"""The names of the columns and the rows, or the error."""


class Session:
    """A connection, and its only cursor."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self._answers = answers
        self._rows: Iterator[tuple[Any, ...]] = iter(())
        self.description: list[tuple[Any, ...]] | None = None
        self.statements: list[str] = []
        self.rowcount = -1

    def cursor(self) -> Session:
        return self

    def execute(self, statement: str, parameters: object = None) -> None:
        self.statements.append(statement)
        answer = self._answers[statement]
        if isinstance(answer, Exception):
            raise answer
        names, rows = answer
        self.description = [(name, "STRING_TYPE", None, None, None, None, True) for name in names]
        self._rows = iter(rows)

    def fetchone(self) -> tuple[Any, ...] | None:
        return next(self._rows, None)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return list(self._rows)

    def close(self) -> None: ...


def engine_of(session: Session) -> sqlalchemy.Engine:
    return sqlalchemy.create_engine("freshgate://ada@localhost/shop", creator=lambda: session)
