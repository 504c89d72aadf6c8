"""Tests what SQLAlchemy's dialect reads from SHOW and DESCRIBE."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from sqlalchemy_dialect import fake_session
from sqlalchemy_dialect.fake_session import Answer, Session, engine_of

from gateway.sqlalchemy.driver import Refused

TABLES = ("namespace", "tableName", "isTemporary")
VIEWS = ("viewName", "namespace", "isTemporary")
"""As the gateway answers PyHive: the name first."""
MATERIALIZED = ("database", "name", "freshness")
DESCRIBED = ("col_name", "data_type", "comment")
MISSING = Refused("[TABLE_OR_VIEW_NOT_FOUND] The table or view `nothing` cannot be found.", "42P01")


def inspector_of(answers: dict[str, Answer]) -> tuple[Session, sa.Inspector]:
    session = Session(answers)
    return session, sa.inspect(engine_of(session))


def test_lists_are_disjoint() -> None:
    _, inspector = inspector_of(
        {
            "SHOW TABLES IN `s``x`": (
                TABLES,
                [("s", "t", False), ("s", "v", False), ("s", "m", False), ("", "x", True)],
            ),
            "SHOW VIEWS IN `s``x`": (VIEWS, [("v", "s", False), ("m", "s", False), ("x", "", True)]),
            "SHOW MATERIALIZED VIEWS IN `s``x`": (MATERIALIZED, [("s", "m", "FRESH")]),
        }
    )
    assert inspector.get_table_names("s`x") == ["t"]
    assert inspector.get_view_names("s`x") == ["v"]
    assert inspector.get_materialized_view_names("s`x") == ["m"]


def test_only_their_list_has_temporary_views() -> None:
    rows = [("x", "", True), ("v", "s", False)]
    _, inspector = inspector_of({"SHOW VIEWS": (VIEWS, rows)})
    assert inspector.get_temp_view_names() == ["x"]


def test_many_tables_are_one_statement_of_each_kind() -> None:
    names = [f"t{number}" for number in range(10_000)]
    session, inspector = inspector_of(
        {
            "SHOW TABLES IN `s`": (TABLES, [("s", name, False) for name in names]),
            "SHOW VIEWS IN `s`": (VIEWS, [(name, "s", False) for name in names[:5000]]),
            "SHOW MATERIALIZED VIEWS IN `s`": (MATERIALIZED, [("s", name, "FRESH") for name in names[:10]]),
        }
    )
    assert inspector.get_table_names("s") == names[5000:]
    assert inspector.get_view_names("s") == names[10:5000]
    assert inspector.get_materialized_view_names("s") == names[:10]
    assert sorted(session.statements) == ["SHOW MATERIALIZED VIEWS IN `s`", "SHOW TABLES IN `s`", "SHOW VIEWS IN `s`"]


def test_spark_alone_has_no_materialized_views() -> None:
    _, inspector = inspector_of(
        {
            "SHOW MATERIALIZED VIEWS IN `s`": Refused("[PARSE_SYNTAX_ERROR] Syntax error at or near 'VIEWS'.", "42601"),
            "SHOW VIEWS IN `s`": (VIEWS, [("v", "s", False)]),
            "SHOW MATERIALIZED VIEWS IN `nowhere`": Refused("There is no database nowhere.", "42704"),
        }
    )
    assert inspector.get_materialized_view_names("s") == []
    assert inspector.get_view_names("s") == ["v"]
    with pytest.raises(sa.exc.OperationalError, match="no database nowhere"):
        inspector.get_materialized_view_names("nowhere")


def test_a_schema_is_found_whatever_its_case() -> None:
    _, inspector = inspector_of({"SHOW DATABASES": (("namespace",), [("default",), ("shop",)])})
    assert inspector.get_schema_names() == ["default", "shop"]
    assert inspector.has_schema("Shop")
    assert not inspector.has_schema("nothing")
    assert inspector.default_schema_name == "shop"


def test_a_missing_table_is_no_error() -> None:
    _, inspector = inspector_of(
        {
            "DESCRIBE TABLE `nothing`": MISSING,
            "DESCRIBE TABLE `s`.`nothing`": MISSING,
            "DESCRIBE TABLE `s`.`t`": (DESCRIBED, [("a", "int", None)]),
            "DESCRIBE TABLE `forbidden`": Refused("no rights", "42501"),
            "SHOW CREATE TABLE `nothing`": MISSING,
        }
    )
    assert not inspector.has_table("nothing")
    assert not inspector.has_table("nothing", schema="s")
    assert inspector.has_table("t", schema="s")
    with pytest.raises(sa.exc.OperationalError, match="no rights"):
        inspector.has_table("forbidden")
    for read in (inspector.get_columns, inspector.get_view_definition):
        with pytest.raises(sa.exc.NoSuchTableError, match="`nothing`"):
            read("nothing")


def test_columns_are_read() -> None:
    _, inspector = inspector_of(
        {
            "DESCRIBE TABLE `t`": (
                DESCRIBED,
                [
                    ("a", "int", "first"),
                    ("odd", "geometry(4326)", ""),
                    ("p", "date", None),
                    ("# Partition Information", "", ""),
                    ("# col_name", "data_type", "comment"),
                    ("p", "date", None),
                ],
            )
        }
    )
    with pytest.warns(sa.exc.SAWarning, match="Did not recognize type 'geometry"):
        found = inspector.get_columns("t")
    seen = [(column["name"], str(column["type"]), column["comment"], column["nullable"]) for column in found]
    assert seen == [("a", "INTEGER", "first", True), ("odd", "NULL", None, True), ("p", "DATE", None, True)]
    assert inspector.get_pk_constraint("t")["constrained_columns"] == []
    assert inspector.get_foreign_keys("t") == []
    assert inspector.get_indexes("t") == []
    assert inspector.get_unique_constraints("t") == []
    assert inspector.get_check_constraints("t") == []


@pytest.mark.parametrize(("text", "comment"), [("why", "why"), ("", None)])
def test_the_comment_is_not_that_of_a_column(text: str, comment: str | None) -> None:
    rows = [("Comment", "string", "of a column"), ("", "", ""), ("# Detailed Table Information", "", "")]
    rows += [("Type", "MANAGED", ""), ("Comment", text, "")]
    _, inspector = inspector_of({"DESCRIBE TABLE EXTENDED `t`": (DESCRIBED, rows)})
    assert inspector.get_table_comment("t") == {"text": comment}


def test_a_text_of_the_user_keeps_its_percent_signs() -> None:
    session = Session({"SELECT '100%'": (("x",), [("100%",)])})
    with engine_of(session).connect() as connection:
        assert connection.exec_driver_sql("SELECT '100%'").scalar_one() == "100%"


def test_the_engine_caches_statements() -> None:
    assert fake_session.engine_of(Session({})).dialect._supports_statement_cache
