"""Renders SQLAlchemy's expressions, types and tables as Spark SQL.

Tests: `test_sqlalchemy_statements`.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import exc, types
from sqlalchemy.sql import compiler, schema

from gateway.sqlalchemy.values import literal, quoted


class _Every(set[str]):
    """Contains every word."""

    def __contains__(self, _: object) -> bool:
        return True


class Identifiers(compiler.IdentifierPreparer):
    """Quotes all names. Whether Spark reserves a word depends on the session's settings."""

    reserved_words = _Every()

    def __init__(self, dialect: Any, **options: Any) -> None:
        super().__init__(dialect, **{"initial_quote": "`", "escape_quote": "`", **options})


class Statements(compiler.SQLCompiler):
    """SELECT, INSERT, UPDATE and DELETE."""

    def render_literal_value(self, value: Any, type_: Any) -> str:
        """The same text as for a parameter."""
        bound = type_.dialect_impl(self.dialect).bind_processor(self.dialect)
        try:
            text = literal(bound(value) if bound else value)
        except (TypeError, ValueError) as error:
            raise exc.CompileError(str(error)) from error
        return text.replace("%", "%%") if self.preparer._double_percents else text

    def limit_clause(self, select: Any, **kw: Any) -> str:
        text = ""
        if select._limit_clause is not None:
            text += f"\n LIMIT {self.process(select._limit_clause, **kw)}"
        if select._offset_clause is not None:
            text += f"\n OFFSET {self.process(select._offset_clause, **kw)}"
        return text

    def fetch_clause(self, select: Any, *_: Any, **kw: Any) -> str:
        """Spark has no FETCH FIRST. Raises CompileError for the variants that LIMIT cannot express."""
        if any(select._fetch_clause_options.values()):
            raise exc.CompileError("Spark SQL has no FETCH FIRST ... PERCENT and no WITH TIES.")
        text = f"\n LIMIT {self.process(select._fetch_clause, **kw)}"
        if select._offset_clause is not None:
            text += f"\n OFFSET {self.process(select._offset_clause, **kw)}"
        return text

    def for_update_clause(self, select: Any, **kw: Any) -> str:
        """Spark has no locks."""
        return ""

    def visit_empty_set_expr(self, element_types: Any, **kw: Any) -> str:
        return f"SELECT {', '.join(['NULL'] * len(element_types or [None]))} WHERE false"

    def visit_ilike_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return self._ilike("ILIKE", binary, **kw)

    def visit_not_ilike_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return self._ilike("NOT ILIKE", binary, **kw)

    def _ilike(self, words: str, binary: Any, **kw: Any) -> str:
        text = f"{self.process(binary.left, **kw)} {words} {self.process(binary.right, **kw)}"
        escape = binary.modifiers.get("escape")
        return f"{text} ESCAPE {self.render_literal_value(escape, types.String())}" if escape is not None else text

    def visit_regexp_match_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return self._regexp("RLIKE", binary, **kw)

    def visit_not_regexp_match_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return self._regexp("NOT RLIKE", binary, **kw)

    def _regexp(self, words: str, binary: Any, **kw: Any) -> str:
        """Raises CompileError for flags: Java's expressions contain theirs, `(?i)`."""
        if binary.modifiers.get("flags"):
            raise exc.CompileError("Write the flags into the regular expression: (?i)...")
        return f"{self.process(binary.left, **kw)} {words} {self.process(binary.right, **kw)}"

    def visit_regexp_replace_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        if binary.modifiers.get("flags"):
            raise exc.CompileError("Write the flags into the regular expression: (?i)...")
        # SQLAlchemy 1.4 passes the replacement as a modifier, 2.0 within the right side.
        parts = [binary.left, binary.right, *filter(None.__ne__, [binary.modifiers.get("replacement")])]
        return f"regexp_replace({', '.join(self.process(part, **kw) for part in parts)})"


class TypeCompiler(compiler.GenericTypeCompiler):
    """Types in CAST and CREATE TABLE."""

    def visit_INTEGER(self, type_: Any, **kw: Any) -> str:
        return "INT"

    def visit_float(self, type_: Any, **kw: Any) -> str:
        """A Python float needs eight bytes."""
        return "DOUBLE"

    def visit_FLOAT(self, type_: Any, **kw: Any) -> str:
        return "FLOAT"

    def visit_double(self, type_: Any, **kw: Any) -> str:
        return "DOUBLE"

    def visit_DOUBLE(self, type_: Any, **kw: Any) -> str:
        return "DOUBLE"

    def visit_DOUBLE_PRECISION(self, type_: Any, **kw: Any) -> str:
        return "DOUBLE"

    def visit_REAL(self, type_: Any, **kw: Any) -> str:
        return "FLOAT"

    def visit_NUMERIC(self, type_: Any, **kw: Any) -> str:
        """Spark's DECIMAL without digits has no fraction, SQLAlchemy's Numeric has one."""
        if type_.precision is None:
            return f"DECIMAL(38, {18 if type_.scale is None else type_.scale})"
        return f"DECIMAL({type_.precision}, {type_.scale or 0})"

    visit_DECIMAL = visit_NUMERIC

    def visit_VARCHAR(self, type_: Any, **kw: Any) -> str:
        return f"VARCHAR({type_.length})" if type_.length else "STRING"

    visit_NVARCHAR = visit_VARCHAR

    def visit_CHAR(self, type_: Any, **kw: Any) -> str:
        return f"CHAR({type_.length})" if type_.length else "STRING"

    visit_NCHAR = visit_CHAR

    def visit_TEXT(self, type_: Any, **kw: Any) -> str:
        return "STRING"

    visit_CLOB = visit_JSON = visit_TEXT

    def visit_uuid(self, type_: Any, **kw: Any) -> str:
        return "STRING"

    def visit_BINARY(self, type_: Any, **kw: Any) -> str:
        return "BINARY"

    visit_VARBINARY = visit_BLOB = visit_BINARY

    def visit_DATETIME(self, type_: Any, **kw: Any) -> str:
        return "TIMESTAMP"

    def visit_TIMESTAMP(self, type_: Any, **kw: Any) -> str:
        return "TIMESTAMP"

    def visit_TIME(self, type_: Any, **kw: Any) -> str:
        return "TIME"


class TableCompiler(compiler.DDLCompiler):
    """CREATE TABLE and its comments. Spark's own tables have no keys, so these are left out."""

    def get_column_specification(self, column: schema.Column[Any], **kw: Any) -> str:
        name = self.preparer.format_column(column)
        text = f"{name} {self.dialect.type_compiler.process(column.type, type_expression=column)}"
        if not column.nullable and not column.primary_key:
            text += " NOT NULL"
        return f"{text} COMMENT {self._text(column.comment)}" if column.comment else text

    def create_table_constraints(self, table: schema.Table, *_: Any, **kw: Any) -> str:
        return ""

    def post_create_table(self, table: schema.Table) -> str:
        return f" COMMENT {self._text(table.comment)}" if table.comment else ""

    def visit_set_table_comment(self, create: Any, **kw: Any) -> str:
        return f"COMMENT ON TABLE {self.preparer.format_table(create.element)} IS {self._text(create.element.comment)}"

    def visit_drop_table_comment(self, drop: Any, **kw: Any) -> str:
        return f"COMMENT ON TABLE {self.preparer.format_table(drop.element)} IS NULL"

    def _text(self, comment: str) -> str:
        return quoted(comment).replace("%", "%%")
