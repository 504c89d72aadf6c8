"""Tests the statements and literals that SQLAlchemy's dialect writes, and the values that it reads."""

from __future__ import annotations

import datetime
import decimal
import math
import uuid
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.schema import CreateTable, SetTableComment
from sqlalchemy_dialect import fake_session

from gateway.sqlalchemy import column_types, values
from gateway.sqlalchemy.driver import ConnectionLost, DriverConnection, DriverCursor, ProgrammingError, Refused

ENGINE = fake_session.engine_of(fake_session.Session({}))
TABLE = sa.Table(
    "orders",
    sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("100%", sa.String, nullable=False, comment="it's"),
    sa.Column("paid", sa.Boolean),
    sa.Column("at", sa.DateTime),
    sa.Column("price", sa.Numeric(10, 2)),
    sa.Column("weight", sa.Float),
    sa.Column("took", sa.Interval),
    schema="shop",
    comment="all of them",
)
C = TABLE.c


def compiled(statement: Any) -> str:
    text = str(statement.compile(ENGINE, compile_kwargs={"literal_binds": True}))
    return " ".join(text.split()).replace("`shop`.`orders`.", "")


def where(condition: Any) -> str:
    return compiled(sa.select(C.id).where(condition)).partition(" WHERE ")[2]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (True, "true"),
        (-3, "-3"),
        (1 << 70, "1180591620717411303424"),
        (0.5, "0.5D"),
        (1e300, "1e+300D"),
        (math.nan, "DOUBLE('NaN')"),
        (-math.inf, "DOUBLE('-Infinity')"),
        (decimal.Decimal("1E+3"), "1000BD"),
        (decimal.Decimal("-0.50"), "-0.50BD"),
        ("it's \\ a\nline", "'it\\'s \\\\ a\\nline'"),
        ("${system:user.name} $x", "'$\\{system:user.name} $x'"),
        (b"\x00\xff", "X'00ff'"),
        (datetime.date(7, 1, 2), "DATE'0007-01-02'"),
        (datetime.datetime(7, 1, 2, 3, 4, 5, 6), "TIMESTAMP'0007-01-02 03:04:05.000006'"),
        (datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), "TIMESTAMP'2020-01-01 00:00:00+00:00'"),
        (datetime.time(1, 2), "TIME'01:02:00'"),
        (datetime.timedelta(days=-1, microseconds=1), "INTERVAL '-0 23:59:59.999999' DAY TO SECOND"),
        (datetime.timedelta(days=1, hours=2), "INTERVAL '1 02:00:00.000000' DAY TO SECOND"),
        (uuid.UUID(int=1), "'00000000-0000-0000-0000-000000000001'"),
        ((1, "x"), "(1, 'x')"),
    ],
)
def test_a_value_has_a_literal(value: object, text: str) -> None:
    assert values.literal(value) == text


def test_a_value_without_literal_is_refused() -> None:
    with pytest.raises(TypeError, match="no literal for an object of the class object"):
        values.literal(object())
    with pytest.raises(ValueError, match="DECIMAL has no value NaN"):
        values.literal(decimal.Decimal("NaN"))
    with pytest.raises(ProgrammingError, match="no literal"):
        DriverCursor(None).execute("SELECT %(x)s", {"x": object()})
    with pytest.raises(sa.exc.CompileError, match="no literal"):
        compiled(sa.select(sa.literal(object(), sa.String)))


@given(st.timedeltas())
def test_a_duration_is_read_as_it_is_written(value: datetime.timedelta) -> None:
    text = values.literal(value).split("'")[1]
    assert values.duration(text) == values.duration(f"{text}000") == value


def test_values_that_python_lacks_stay_texts() -> None:
    assert values.date("2020-02-29") == datetime.date(2020, 2, 29)
    assert values.date("+10000-01-01") == "+10000-01-01"
    assert values.timestamp("2020-01-31 12:34:56.7") == datetime.datetime(2020, 1, 31, 12, 34, 56, 700000)
    assert values.timestamp("-0001-01-01 00:00:00") == "-0001-01-01 00:00:00"
    assert values.duration("1-2") == "1-2"


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (C["100%"] == "a%'", "`100%%` = 'a%%\\''"),
        (C.paid.is_(True), "`paid` IS true"),
        (C.paid.is_not(None), "`paid` IS NOT NULL"),
        (C.at >= datetime.datetime(2020, 1, 1), "`at` >= TIMESTAMP'2020-01-01 00:00:00'"),
        (C.price == decimal.Decimal("1.5"), "`price` = 1.5BD"),
        (C.weight > 1, "`weight` > 1"),
        (C.took == datetime.timedelta(1), "`took` = INTERVAL '1 00:00:00.000000' DAY TO SECOND"),
        (C.id.in_([1, 2]), "`id` IN (1, 2)"),
        (C["100%"].contains("5%", autoescape=True), "(`100%%` LIKE '%%' || '5/%%' || '%%' ESCAPE '/')"),
        (C["100%"].ilike("A/_", escape="/"), "`100%%` ILIKE 'A/_' ESCAPE '/'"),
        (~C["100%"].ilike("A"), "`100%%` NOT ILIKE 'A'"),
        (C["100%"].regexp_match("^a"), "`100%%` RLIKE '^a'"),
        (~C["100%"].regexp_match("^a"), "`100%%` NOT RLIKE '^a'"),
        (C["100%"].regexp_replace("a", "b") == "c", "(regexp_replace(`100%%`, 'a', 'b')) = 'c'"),
        (sa.func.date_trunc("month", C.at) == C.at, "date_trunc('month', `at`) = `at`"),
        (C.id % 2 == 0, "`id` %% 2 = 0"),
        (sa.cast(C.id, sa.Float) == 1, "CAST(`id` AS DOUBLE) = 1"),
        (sa.cast(C.id, sa.String) == "1", "CAST(`id` AS STRING) = '1'"),
        (sa.cast(C.id, sa.Numeric) == 1, "CAST(`id` AS DECIMAL(38, 18)) = 1"),
        (sa.cast(C.id, column_types.ARRAY(sa.INTEGER())).is_(None), "CAST(`id` AS ARRAY<INTEGER>) IS NULL"),
        (sa.extract("year", C.at) == 2020, "EXTRACT(year FROM `at`) = 2020"),
    ],
)
def test_a_condition_is_written(condition: Any, text: str) -> None:
    assert where(condition) == text


def test_rows_are_limited() -> None:
    query = sa.select(C.id)
    assert compiled(query.limit(3)).endswith("`orders` LIMIT 3")
    assert compiled(query.limit(3).offset(2)).endswith("`orders` LIMIT 3 OFFSET 2")
    assert compiled(query.offset(2)).endswith("`orders` OFFSET 2")
    assert compiled(query.fetch(3).offset(2)).endswith("`orders` LIMIT 3 OFFSET 2")
    assert compiled(query.with_for_update()).endswith("FROM `shop`.`orders`")
    with pytest.raises(sa.exc.CompileError, match="WITH TIES"):
        compiled(query.fetch(3, with_ties=True))


def test_flags_of_regular_expressions_are_refused() -> None:
    for condition in (C["100%"].regexp_match("a", flags="i"), C["100%"].regexp_replace("a", "b", flags="i")):
        with pytest.raises(sa.exc.CompileError, match=r"\(\?i\)"):
            compiled(sa.select(condition))


def test_rows_are_inserted_with_one_statement() -> None:
    rows = [{"id": 1, "100%": "x"}, {"id": 2, "100%": None}]
    wanted = "INSERT INTO `shop`.`orders` (`id`, `100%%`) VALUES (1, 'x'), (2, NULL)"
    assert compiled(sa.insert(TABLE).values(rows)) == wanted


def test_a_table_is_created_without_keys() -> None:
    assert compiled(CreateTable(TABLE)) == (
        "CREATE TABLE `shop`.`orders` ( `id` INT, `100%%` STRING NOT NULL COMMENT 'it\\'s', `paid` BOOLEAN, "
        "`at` TIMESTAMP, `price` DECIMAL(10, 2), `weight` DOUBLE, `took` INTERVAL DAY TO SECOND ) "
        "COMMENT 'all of them'"
    )
    assert compiled(SetTableComment(TABLE)) == "COMMENT ON TABLE `shop`.`orders` IS 'all of them'"


def test_every_name_is_quoted() -> None:
    table = sa.Table("a`b", sa.MetaData(), sa.Column("Select", sa.Integer), schema="x.y")
    assert compiled(sa.select(table.c.Select)) == "SELECT `x.y`.`a``b`.`Select` FROM `x.y`.`a``b`"


def test_parameters_are_placed_where_their_names_are() -> None:
    cursor = Recorder(DriverConnection.__new__(DriverConnection))
    cursor.execute("SELECT %(a)s, '100%%'", {"a": "%(b)s"})
    cursor.execute("SELECT '100%'")
    assert cursor.texts == ["SELECT '%(b)s', '100%'", "SELECT '100%'"]


class Recorder(DriverCursor):
    """Keeps the statements instead of sending them."""

    def __init__(self, connection: Any) -> None:
        self.texts: list[str] = []
        super().__init__(connection)
        recorder = self

        class Client:
            def ExecuteStatement(self, request: Any) -> Any:
                recorder.texts.append(request.statement)
                raise EOFError

        connection._client, connection._sessionHandle = Client(), None

    def execute(self, *arguments: Any, **options: Any) -> None:
        with pytest.raises(ConnectionLost):
            super().execute(*arguments, **options)


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("freshgate://ada@h/shop", {"host": "h", "port": 10000, "username": "ada", "database": "shop"}),
        (
            "freshgate://ada:s%40@h:1",
            {"host": "h", "port": 1, "username": "ada", "password": "s@", "auth": "LDAP", "database": "default"},
        ),
        (
            "freshgate://h/shop?auth=NOSASL",
            {"host": "h", "port": 10000, "username": None, "auth": "NOSASL", "database": "shop"},
        ),
        (
            "freshgate+http://ada:x@h:2/shop",
            {"scheme": "http", "host": "h", "port": 2, "username": "ada", "password": "x", "database": "shop"},
        ),
    ],
)
def test_a_url_names_the_connection(url: str, options: dict[str, object]) -> None:
    parsed = sa.engine.make_url(url)
    assert parsed.get_dialect()().create_connect_args(parsed) == ([], options)


@pytest.mark.parametrize(
    ("query", "certificate", "name"),
    [("", "required", "true"), ("?ssl_cert=none", "none", "false"), ("?check_hostname=false", "required", "false")],
)
def test_a_certificate_is_checked(query: str, certificate: str, name: str) -> None:
    parsed = sa.engine.make_url(f"freshgate+https://ada:x@h/shop{query}")
    _, options = parsed.get_dialect()().create_connect_args(parsed)
    assert (options["ssl_cert"], options["check_hostname"]) == (certificate, name)
    assert (options["scheme"], options["port"], options["database"]) == ("https", 10001, "shop")


def test_a_lost_connection_is_recognized() -> None:
    dialect = ENGINE.dialect
    assert dialect.is_disconnect(ConnectionLost("gone"), None, None)
    assert dialect.is_disconnect(Refused("Invalid SessionHandle: SessionHandle [x]"), None, None)
    assert not dialect.is_disconnect(Refused("syntax", "42601"), None, None)
