"""Tests who is meant by the lists of users and groups in the settings."""

from __future__ import annotations

import pytest

from gateway import settings_file
from gateway.access_list import AccessList, Principal, problem_of
from gateway.config import ConfigError

LIST = AccessList.of(["ada", "group:analysts", " group: data science ", "*"])


@pytest.mark.parametrize(
    ("name", "groups", "named"),
    [
        ("ada", [], True),
        ("Ada", [], False),
        ("eve", ["analysts"], True),
        ("eve", ["x", "data science"], True),
        ("eve", ["Analysts"], False),
        ("eve", ["ada", "*", "group:analysts", ""], False),
        ("analysts", [], False),
        ("group:analysts", [], False),
        ("*", [], False),
        ("", [], False),
    ],
)
def test_users_and_groups_are_different_names(name: str, groups: list[str], named: bool) -> None:
    assert LIST.names(Principal(name, frozenset(groups))) is named


def test_an_empty_list_names_nobody() -> None:
    assert not AccessList().names(Principal("", frozenset({""})))
    assert not AccessList.of([]).everybody
    assert LIST.everybody


@pytest.mark.parametrize("text", ["group:", " ", "group: "])
def test_a_list_without_a_name_is_refused(text: str) -> None:
    assert problem_of(["ada", text])
    with pytest.raises(ConfigError, match=r"access\.administrators' must have names of users, and group:NAME"):
        settings_file.load(None, [f'access.administrators=["{text}"]'])
