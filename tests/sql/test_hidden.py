"""Tests which views the statements within other texts change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql.classify import glance
from sql.lexed import Lexed
from sql.names import Parts
from sql.reading.hidden import HiddenChanges, changes, composes, moves, temporaries

G = ("global_temp", "g")


def views(*names: str) -> HiddenChanges:
    return HiddenChanges(views=frozenset(tuple(name.split(".")) for name in names))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("EXECUTE IMMEDIATE 'DROP VIEW r13.v'", views("r13.v")),
        ("BEGIN DROP VIEW IF EXISTS `a b`.v; END", views("a b.v")),
        ("BEGIN ALTER VIEW v RENAME TO w; SELECT 1; CREATE OR REPLACE VIEW x AS SELECT 1; END", views("v", "x")),
        ("DROP VIEW IDENTIFIER('s.mv')", views("s.mv")),
        ("DROP /* c */ VIEW -- d\n IDENTIFIER ( 's.mv' )", views("s.mv")),
        ('DROP VIEW "c8"."m"', views("c8.m")),
        ("DROP VIEW c8.IDENTIFIER('m')", views("c8.m")),
        ("DROP VIEW IDENTIFIER('a.c8').IDENTIFIER('m')", views("a.c8.m")),
        ("DROP VIEW IDENTIFIER('c8').IDENTIFIER(:m)", HiddenChanges(told=False)),
        ("DROP VIEW IDENTIFIER('c8.\"m\"')", views("c8.m")),
        ("EXECUTE IMMEDIATE \"BEGIN EXECUTE IMMEDIATE 'ALTER VIEW v AS SELECT 1'; END\"", views("v")),
        ("DROP VIEW IDENTIFIER('s.' || 'mv')", HiddenChanges(told=False)),
        ('DROP VIEW IDENTIFIER("v")', HiddenChanges(told=False)),
        ("DROP VIEW", HiddenChanges(told=False)),
        (r"EXECUTE IMMEDIATE '\u0044ROP VIEW \166'", views("v")),
        ("EXECUTE IMMEDIATE 'DROP SCHEMA IF EXISTS d CASCADE'", HiddenChanges(databases=frozenset({("d",)}))),
        (r"EXECUTE IMMEDIATE 'D\ROP \VIEW s.mv'", views("s.mv")),
        (r"EXECUTE IMMEDIATE 'DROP\nVIEW\ts.mv'", views("s.mv")),
        ("EXECUTE IMMEDIATE 'DROP VI' 'EW s./**/mv'", views("s.mv")),
        ("EXECUTE IMMEDIATE 'DR''OP VIEW mv'", views("mv")),
        ("EXECUTE IMMEDIATE R'DROP VIEW mv'", views("mv")),
        (r"EXECUTE IMMEDIATE 'EXECUTE IMMEDIATE \'D\\ROP VIEW mv\''", views("mv")),
        ("BEGIN /* /*+ */ DROP VIEW mv; -- */\nEND", views("mv")),
        ("BEGIN SELECT /*+ x(' */') */ 1; DROP VIEW mv; -- '\nEND", views("mv")),
        ("EXECUTE IMMEDIATE 'DROP V\u0131EW mv'", views("mv")),
        ("BEGIN DROP V\u0131EW mv; CREATE OR REPLACE VIEW w AS SELECT 1; END", views("mv", "w")),
        ("DROP SCHEMA IDENTIFIER('a' || 'b')", HiddenChanges(told_databases=False)),
        ("BEGIN SELECT 'DROP VIEW mv'; END", HiddenChanges()),
        (
            "BEGIN CREATE OR REPLACE TEMP VIEW v AS SELECT 1; DROP TABLE v; CREATE VIEW w AS SELECT 2; END",
            HiddenChanges(),
        ),
        ("BEGIN ADD JAR'; IF (`--t`) THEN DROP VIEW v; END IF; END", HiddenChanges(told=False)),
        ("BEGIN ADD JAR it's.jar; DROP SCHEMA d; END", HiddenChanges(told_databases=False)),
        (
            r"""EXECUTE IMMEDIATE 'BEGIN EXECUTE IMMEDIATE \'DROP\\t\\U00000056IEW \\u0071'' USING 1; END'""",
            HiddenChanges(views=frozenset({("q",)}), told=False, told_databases=False),
        ),
        ("SELECT 'drop', replace(alter, 'a', 'b') FROM v", HiddenChanges()),
        ("SELECT drop, view FROM v", HiddenChanges()),
    ],
)
def test_changed_views_are_found(text: str, expected: HiddenChanges) -> None:
    assert changes(Lexed(text)) == expected


@given(st.text(st.sampled_from("DROP VIEWalterTMC'\"`.;() \n")) | st.text())
def test_any_text_can_be_searched_for_changes(text: str) -> None:
    changes(Lexed(text))
    temporaries(Lexed(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("BEGIN CREATE OR REPLACE TEMP VIEW X AS SELECT 1; END", {("x",)}),
        ("BEGIN DESCRIBE t; CREATE TEMPORARY TABLE v (b STRING) USING parquet; END", {("v",)}),
        ("EXECUTE IMMEDIATE 'CREATE TEMPORARY VIEW IF NOT EXISTS `a b` AS SELECT 1'", {("a b",)}),
        ("BEGIN CREATE GLOBAL TEMP VIEW g AS SELECT 1; CREATE TEMP FUNCTION f() RETURN 1; END", {G, ("f",)}),
        ("BEGIN CACHE LAZY TABLE c AS SELECT 1; CACHE TABLE d OPTIONS ('a' = 'b') AS SELECT 1; END", {("c",), ("d",)}),
        ("CREATE TEMP VIEW IDENTIFIER('x') AS SELECT 1", {("x",)}),
        ("CREATE TEMP VIEW IDENTIFIER(:x) AS SELECT 1", {("",)}),
        ("CREATE GLOBAL TEMPORARY VIEW ${x} AS SELECT 1", {("global_temp", "")}),
        ("EXECUTE IMMEDIATE 'CREATE TEMP VIEW ' || said", {("",)}),
        ("EXECUTE IMMEDIATE 'CREATE TEMP VIEW x' || said", {("",)}),
        ("EXECUTE IMMEDIATE 'CREATE TEMP' || ' VIEW x AS SELECT 1'", {("",)}),
        (r"EXECUTE IMMEDIATE 'CREATE \u0054EMP VIEW \170 AS SELECT 1'", {("x",)}),
        (r"EXECUTE IMMEDIATE 'CREATE T\EMP V\IEW \x AS SELECT 1'", {("x",)}),
        ("SELECT temp, cache FROM view; DROP TEMPORARY FUNCTION IF EXISTS f", {("if",)}),
        ("UNCACHE TABLE c; SELECT temp view FROM t", {("from",)}),
        ("SELECT temperature FROM views", set()),
        ("SELECT ${a} FROM temp", set()),
        ("SELECT ${a} FROM cache WHERE kind = 'temp' OR kind = \"cache table\"", set()),
    ],
)
def test_temporary_views_are_found(text: str, expected: set[Parts]) -> None:
    """Too many names are harmless, because a name without a temporary view has no effect."""
    assert temporaries(Lexed(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT a FROM t", False),
        ("SELECT a FROM ${t}", True),
        ("SELECT a FROM IDENTIFIER('t')", False),
        ("SELECT a FROM IDENTIFIER('t' || '')", True),
        (r"SELECT a FROM IDENTIFIER('\u0074')", True),
        ("SELECT a FROM IDENTIFIER(:t)", True),
        ("EXECUTE IMMEDIATE 'SELECT a FROM t WHERE a = ?' USING 1", False),
        ("EXECUTE IMMEDIATE 'SELECT ''t'' FROM t'", False),
        ("EXECUTE IMMEDIATE concat('SELECT a', ' FROM t')", True),
        ("EXECUTE IMMEDIATE said", True),
        ("EXECUTE IMMEDIATE CAST('SELECT 1' AS STRING)", True),
        ("EXECUTE IMMEDIATE 'SELECT a FROM' ' t'", False),
        ("BEGIN EXECUTE IMMEDIATE 'SELECT a FROM t' INTO x; EXECUTE /* c */ IMMEDIATE 'SELECT 1'; END", False),
        ("EXECUTE IMMEDIATE 'EXECUTE IMMEDIATE ?' USING 'SELECT 1'", True),
        (r"EXECUTE IMMEDIATE 'SELECT a FROM \u0024{t}'", True),
        (r"EXECUTE IMMEDIATE 'SELECT a FROM IDENTIF\IER(:t)'", True),
        ("SELECT immediate FROM t", False),
        ("BEGIN ADD JAR'; SELECT 1 FROM `/*t`; END", True),
        ("BEGIN SELECT 'a', \"it's\", `b'` FROM t; END", False),
        ("SELECT it's FROM t", False),
        ("SELECT a FROM IDENTIFIER('m''v')", True),
        ("EXECUTE IMMEDIATE 'SELECT customer_identifier, ''immediately'' FROM t'", False),
        ("EXECUTE IMMEDIATE \"SELECT customer_identifier FROM t WHERE a RLIKE 'x\\\\\\\\1'\"", True),
        ("EXECUTE IMMEDIATE 'SELECT a FROM IDENTIFIER(:t)' USING which AS t", True),
        ("EXECUTE IMMEDIATE \"SELECT a FROM IDENTIFIER('t')\"", True),
        (r"EXECUTE IMMEDIATE 'SELECT a FROM IDENTIFIER(\'t\')'", False),
        (r"EXECUTE IMMEDIATE 'SELECT a FROM \u0074'", False),
        ("EXECUTE IMMEDIATE \"TRUNCATE TABLE s . IDENTIFIER('t')\"", True),
        ("EXECUTE IMMEDIATE \"TRUNCATE TABLE IDENTIFIER('s').t\"", True),
        ("TRUNCATE TABLE s.IDENTIFIER('t')", False),
        ("EXECUTE IMMEDIATE \"EXECUTE IMMEDIATE 'SELECT a FROM t'\"", True),
        ("EXECUTE IMMEDIATE \"EXECUTE IMMEDIATE 'SELECT a FROM ' || 't'\"", True),
    ],
)
def test_a_text_that_builds_names_at_run_time_is_recognized(text: str, expected: bool) -> None:
    assert composes(Lexed(text), glance(Lexed(text)).words) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT a FROM IDENTIFIER(:t)", False),
        ("EXECUTE IMMEDIATE 'SELECT 1'", False),
        ("EXECUTE IMMEDIATE 'U' || 'SE s'", True),
        ("${x}", True),
    ],
)
def test_a_text_that_may_change_the_database_is_recognized(text: str, expected: bool) -> None:
    assert moves(Lexed(text), glance(Lexed(text)).words) is expected
