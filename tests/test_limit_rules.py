"""Tests how the rules of limits.rules are read, and which of them count for a user."""

from __future__ import annotations

import json

import pytest

from gateway import settings_file
from gateway.access_list import Principal
from gateway.config import ConfigError
from gateway.limit_rules import SESSIONS, STATEMENTS, LimitRule, LimitRules

ADA = Principal("ada", frozenset({"analysts", "staff"}))
ZOE = Principal("zoe")


@pytest.mark.parametrize(
    ("text", "who", "each", "limits"),
    [
        ("ada: sessions 5", "ada", True, {"sessions": 5}),
        ("group:analysts: statements 4, queue 0", "group:analysts", False, {"statements": 4, "queue": 0}),
        ("group:data science each: statements 4", "group:data science", True, {"statements": 4}),
        ("*: sessions unlimited", "*", False, {"sessions": 9223372036854775807}),
        ("* each:  queue  7 ,statements 1", "* each", True, {"queue": 7, "statements": 1}),
        ("address:10.0.0.0/8: sessions 9", "address:10.0.0.0/8", False, {"sessions": 9}),
        ("address:2001:db8::/32 each: sessions 9", "address:2001:db8::/32", True, {"sessions": 9}),
        ("address:10.0.0.7: sessions 9", "address:10.0.0.7", True, {"sessions": 9}),
        ("ada@example.com: sessions 5", "ada@example.com", True, {"sessions": 5}),
    ],
)
def test_a_rule_says_who_has_which_numbers(text: str, who: str, each: bool, limits: dict[str, int]) -> None:
    rule = LimitRule.parse(text)
    assert (rule.who, rule.each, dict(rule.limits)) == (who.removesuffix(" each"), each, limits)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ada", "is not a limit"),
        ("ada: ", "is not a limit"),
        (": sessions 5", "is not a rule"),
        ("sessions 5", "is not a rule"),
        ("group:: sessions 5", "is not a rule"),
        ("ada: sessions", "is not a limit"),
        ("ada: sessions 0", "is not a limit"),
        ("ada: sessions -1", "is not a limit"),
        ("ada: sessions 5, sessions 6", "occurs twice"),
        ("ada: queue 5", "but not the statements"),
        ("ada: jobs 5", "is not a limit"),
        ("ada: sessions 5 statements 4", "is not a limit"),
        ("address:here: sessions 5", "names no address"),
        ("address:: sessions 5", "is not a rule"),
    ],
)
def test_a_rule_that_cannot_be_read_is_refused_with_a_reason(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        LimitRule.parse(text)
    with pytest.raises(ConfigError, match=r"limits\.rules' must consist of rules WHO: .*"):
        settings_file.load(None, [f"limits.rules={json.dumps([text])}"])


def found(rules: list[str], what: str, who: Principal, peer: str = "10.0.0.7:4711") -> list[tuple[str, str, int]]:
    """The rule, whose number it is, and the number."""
    return [(each.rule.who, each.whose, each.most) for each in LimitRules(rules).bounds(what, who, peer)]


def test_of_the_rules_about_each_user_the_first_counts() -> None:
    rules = [
        "superset: sessions unlimited",
        "ada: statements 2",
        "group:staff each: sessions 5, statements 3",
        "group:analysts each: sessions 7",
        "* each: sessions 9",
    ]
    assert found(rules, SESSIONS, ADA) == [("group:staff", "ada", 5)]
    assert found(rules, STATEMENTS, ADA) == [("ada", "ada", 2)]
    assert found(rules, SESSIONS, ZOE) == [("*", "zoe", 9)]
    assert found(rules, STATEMENTS, ZOE) == []
    assert found(rules, SESSIONS, Principal("superset")) == []
    assert LimitRules(rules).says_of_each_user(SESSIONS, Principal("superset"), "")
    assert not LimitRules(["*: sessions 5"]).says_of_each_user(SESSIONS, ZOE, "")


def test_rules_about_several_together_all_count() -> None:
    rules = ["group:staff: sessions 50", "*: sessions 100", "group:analysts: sessions 40", "group:x: sessions 1"]
    assert found(rules, SESSIONS, ADA) == [("group:staff", "", 50), ("*", "", 100), ("group:analysts", "", 40)]
    assert found(rules, SESSIONS, ZOE) == [("*", "", 100)]


def test_rules_about_addresses_count_beside_those_about_users() -> None:
    rules = [
        "address:10.0.0.7: sessions 500",
        "address:10.0.0.0/8 each: sessions 20",
        "address:10.0.0.0/8: sessions 900",
        "* each: sessions 9",
    ]
    person = ("*", "ada", 9)
    together = ("address:10.0.0.0/8", "", 900)
    assert found(rules, SESSIONS, ADA) == [("address:10.0.0.7", "10.0.0.7", 500), together, person]
    assert found(rules, SESSIONS, ADA, "[::ffff:10.0.0.8]:1") == [
        ("address:10.0.0.0/8", "10.0.0.8", 20),
        together,
        person,
    ]
    assert found(rules, SESSIONS, ADA, "192.0.2.1:1") == found(rules, SESSIONS, ADA, "unknown") == [person]


def test_a_user_named_like_a_group_is_not_in_it() -> None:
    for name in ("analysts", "group:analysts"):
        assert found(["group:analysts: sessions 1"], SESSIONS, Principal(name)) == []
    assert found(["*: sessions 1"], SESSIONS, Principal("")) == [("*", "", 1)]
