"""Tests that passwords in texts are redacted, and that everything else is kept."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql.redaction import REPLACEMENT, redact

SECRET = "hunter2"


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE t USING jdbc OPTIONS (url 'jdbc:x', password 'hunter2', user 'bob')",
        "CREATE TABLE t USING jdbc OPTIONS ('password' = 'hunter2', user 'bob')",
        'OPTIONS ("password" = "hunter2", user \'bob\')',
        "OPTIONS (`password` 'hunter2', user 'bob')",
        "OPTIONS (password = r'hunter2', user 'bob')",
        "OPTIONS (db.PASSWORD 'it''s hunter2', user 'bob')",
        r"OPTIONS (db.password 'it\'s hunter2', user 'bob')",
        "OPTIONS (password 'a' 'hunter2', user 'bob')",
        "OPTIONS (password 'a' || 'hunter2', user 'bob')",
        "OPTIONS (password = concat('hun', lower('hunter2')), user 'bob')",
        "OPTIONS (password/* c */=/**/'hunter2', user 'bob')",
        "OPTIONS (password -- c\n 'hunter2', user 'bob')",
        "OPTIONS ('my password here' 'hunter2', user 'bob')",
        "OPTIONS ('my password here' = 'hunter2', user 'bob')",
        "OPTIONS (\"fs.azure.account.key.x.y\" 'hunter2', user 'bob')",
        "ALTER TABLE t SET TBLPROPERTIES ('a.secret'='hunter2', 'user'='bob')",
        "SELECT 'bob'; SET spark.my.password=hunter2; and hunter2",
        "/* 'bob' */ set `a.token` = hunter2",
        "-- 'bob'\nSET spark.hadoop.fs.s3a.access.key=hunter2",
        r"EXECUTE IMMEDIATE 'CREATE TABLE t USING jdbc OPTIONS (password \'hunter2\', user \'bob\')'",
        "EXECUTE IMMEDIATE 'CREATE TABLE t OPTIONS (password ''hunter2'', user ''bob'')'",
        "EXECUTE IMMEDIATE \"CREATE TABLE t OPTIONS (password 'hunter2', user 'bob')\"",
        "OPTIONS (url 'jdbc:postgresql://bob:hunter2@db:5432/x')",
        "OPTIONS (url 'jdbc:postgresql://bob:hun@hunter2@db:5432/x')",
        "OPTIONS (url 'jdbc:oracle:thin:bob/hunter2@db:1521')",
        "OPTIONS (url 'jdbc:postgresql://db/x?user=bob&password=hunter2&ssl=true')",
        "OPTIONS (url 'jdbc:sqlserver://db;user=bob;password={hunter2;x};encrypt=true')",
        "OPTIONS (url 'jdbc:sqlserver://db;user=bob;password=hunter2;encrypt=true')",
        "SELECT 'bob' FROM csv.`s3a://AKIA:hun/ter/hunter2@bucket/x`",
        "read_files('bob', password => 'hunter2')",
        "from_json('bob', map('password', 'hunter2'))",
        '{"user": "bob", "password": "hunter2"}',
        "OPTIONS (user 'bob', password 'hunter2",
        "SELECT 'bob', aes_encrypt('hunter2', 'hunter2')",
        "CREATE USER bob IDENTIFIED BY 'hunter2'",
        "OPTIONS (pass 'hunter2', user 'bob')",
        "OPTIONS (db.pass = 'hunter2', user 'bob')",
        "SELECT 'bob' FROM csv.`wasbs://c@a.blob.core.windows.net/x?sv=2022&sig=hunter2%3D&se=1`",
        "OPTIONS ('Authorization' 'Bearer hunter2', user 'bob')",
        "Authorization: Basic hunter2== bob",
        "bob, curl -H 'bearer hunter2'",
        "Spark said: [X] Cannot connect bob (password=hunter2)",
    ],
)
def test_passwords_are_redacted(text: str) -> None:
    shown = redact(text)
    assert SECRET not in shown
    assert "bob" in shown or "bob" not in text
    assert REPLACEMENT in shown


@pytest.mark.parametrize(
    "text",
    [
        "SELECT password, token FROM tokens WHERE a = 'b'",
        "INSERT INTO password VALUES (1, 'b')",
        "CREATE TABLE token (a INT)",
        "SELECT * FROM parquet.`abfss://c@acc.dfs.core.windows.net/x` WHERE a = 'b'",
        "SELECT password FROM (SELECT 'x' AS password)",
        "SELECT count(token) AS tokens FROM t GROUP BY a ORDER BY token LIMIT 10",
        "WHERE token IS NOT NULL AND x = 'b'",
        "SET spark.sql.shuffle.partitions=4",
        "SELECT passenger, sig FROM t WHERE bypass_lane = 'b'",
        "the bearer of bad news",
        "metrics at http://127.0.0.1:9100/metrics",
        "client 127.0.0.1:4711 closed",
    ],
)
def test_a_text_without_passwords_is_unchanged(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    "text",
    ["OPTIONS (password 'hunter2'", "url 'jdbc:x://bob:hunter2@db'", "url 'x?password=hunter2'", "SET a.token=hunter2"],
)
def test_passwords_in_a_truncated_text_are_redacted(text: str) -> None:
    for end in range(len(text) + 1):
        shown = redact(text[:end], cut=True)
        assert "hu" not in shown, text[:end]


KEYS = st.sampled_from(
    ["password", "PASSWORD", "db.password", "my_token", "aws.secret.key", "fs.access.key", "accesskey"]
)
QUOTED = st.sampled_from(["{}", "'{}'", '"{}"', "`{}`"])
BETWEEN = st.sampled_from([" ", " = ", "=", "  ", "\n=\n", " /* x */ ", "\t==\t", " -- x\n"])
SPOKEN = st.text(st.characters(exclude_characters="'\"\\`", exclude_categories=["Cs"]), max_size=20)
AROUND = st.text(st.sampled_from("abc ,();='\"\\`-/*\n:@%"), max_size=30)


@given(KEYS, QUOTED, BETWEEN, SPOKEN, SPOKEN, st.sampled_from("'\""), AROUND, AROUND)
def test_a_literal_after_a_secret_name_is_redacted_in_any_context(
    key: str, quoted: str, between: str, before: str, after: str, quote: str, prefix: str, suffix: str
) -> None:
    text = f"{prefix} {quoted.format(key)}{between}{quote}{before}hunter2{after}{quote}{suffix}"
    assert SECRET not in redact(text)


PIECES = [
    "password",
    "secret ",
    "://",
    ":thin:",
    "'",
    '"',
    "\\",
    "(",
    ")",
    "/*",
    "*/",
    "--",
    "\n",
    "=",
    "@",
    ":",
    "x",
    ",",
    "set ",
]


@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join), st.booleans())
def test_the_rest_of_any_text_is_kept_in_order(text: str, cut: bool) -> None:
    rest = text
    for kept in redact(text, cut=cut).split(REPLACEMENT):
        assert kept in rest
        rest = rest[rest.index(kept) + len(kept) :]


@given(st.text(st.characters(exclude_characters=":", exclude_categories=["Cs"])))
def test_a_text_without_secret_names_is_unchanged(text: str) -> None:
    words = ("secret", "passw", "pwd", "passphrase", "token", "credential", "signature", "key", "identified", "aes_")
    if not any(word in text.casefold() for word in words):
        assert redact(text) == text


def test_a_truncated_literal_does_not_hide_the_next_one() -> None:
    """For example, a log line with the start of a statement and an error that quotes all of it."""
    shown = redact("not understood: OPTIONS (password 'hunter2\nError: OPTIONS (password 'hunter2')")
    assert SECRET not in shown


@pytest.mark.parametrize("piece", ["identified by f(", "identified by /*", "pwd /*", "pwd'/*", "aes_encrypt(("])
def test_many_unclosed_values_take_no_quadratic_time(piece: str) -> None:
    """In quadratic time, a text of this length would take minutes."""
    started = time.process_time()
    redact(piece * (400_000 // len(piece)) + "*/")
    assert time.process_time() - started < 10


@pytest.mark.parametrize("comment", ["/* ", "--"])
def test_an_unclosed_comment_hides_no_value(comment: str) -> None:
    assert SECRET not in redact(f"x identified by {comment}identified by 'hunter2'")
    assert SECRET not in redact(f"x pwd {comment}pwd 'hunter2' and pwd 'cut")


@pytest.mark.parametrize("comment", ["/**/", "/*/ x */", "/* '*/ ", "/*a*/ /* b */ -- c\n", "/***/"])
def test_a_value_after_comments_is_redacted(comment: str) -> None:
    assert SECRET not in redact(f"x identified by {comment}'hunter2' /* and */ pwd {comment}= {comment}'hunter2'")


def test_deep_nesting_takes_no_quadratic_time() -> None:
    depth = 5_000
    shown = redact("password=f(" * depth + "hunter2" + ")" * depth)
    assert SECRET not in shown
