"""Tests user names by Hadoop's rules: a table of rules, and that no rule makes one user of another realm's."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.login.principals import NAME_CHARACTERS_MAX, BadRules, LocalNames, NoName, rules_of

REALM = "A.TEST"
PARTS = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters="/@\\"), min_size=1, max_size=12)


def name_of(principal: str, rules: str = "", realm: str = REALM) -> str:
    return LocalNames.parse(rules, realm).name_of(principal)


@pytest.mark.parametrize(
    ("rules", "principal", "name"),
    [
        ("", "ada@A.TEST", "ada"),
        ("", "hive/gate.a.test@A.TEST", "hive"),
        ("DEFAULT", "ada@A.TEST", "ada"),
        ("RULE:[1:$1@$0](.*@B[.]TEST)s/@.*// DEFAULT", "ada@B.TEST", "ada"),
        ("RULE:[1:$1@$0](.*@B[.]TEST)s/@.*// DEFAULT", "bob@A.TEST", "bob"),
        ("RULE:[1:$1.$0](.*[.]B[.]TEST)s/[.]B[.]TEST$/_of_b/ DEFAULT", "ada@B.TEST", "ada_of_b"),
        ("RULE:[2:$1@$0]([nd]n@.*A.TEST)s/.*/hdfs/ DEFAULT", "nn/m1.a.test@A.TEST", "hdfs"),
        ("RULE:[2:$1@$0]([nd]n@.*A.TEST)s/.*/hdfs/\nDEFAULT", "rm/m1.a.test@A.TEST", "rm"),
        ("RULE:[2:$1;$2](^.*;admin$)s/;admin$//", "ada/admin@A.TEST", "ada"),
        ("RULE:[1:$1]", "ada@B.TEST", "ada"),
        ("RULE:[1:user_$1]", "ada@B.TEST", "user_ada"),
        ("RULE:[1:$1]/L", "Ada@A.TEST", "ada"),
        ("RULE:[1:$1](A.*)/L DEFAULT", "Ada@A.TEST", "ada"),
        ("RULE:[1:$1@$0](.*)s/@.*///L", "ADA@B.TEST", "ada"),
        ("RULE:[1:$1]s/a/o/", "banana@A.TEST", "bonana"),
        ("RULE:[1:$1]s/a/o/g", "banana@A.TEST", "bonono"),
        ("RULE:[1:$1@$0]s/([a-z]+)[.]([a-z]+)@.*/$2$1/", "ada.byron@A.TEST", "byronada"),
        ("RULE:[1:$1]s/(a)/$12/", "ab@A.TEST", "a2b"),
        (r"RULE:[1:$1]s/a/\$/", "ab@A.TEST", "$b"),
        ("RULE:[1:$1](b.*) RULE:[1:$1](a.*)s/^/x-/ DEFAULT", "ada@A.TEST", "x-ada"),
    ],
)
def test_the_first_rule_for_a_principal_gives_its_name(rules: str, principal: str, name: str) -> None:
    assert name_of(principal, rules) == name


@pytest.mark.parametrize(
    ("rules", "principal"),
    [
        ("", "ada@B.TEST"),
        ("", "ada@a.test"),
        ("", "hive/gate.a.test@B.TEST"),
        ("RULE:[2:$1]", "ada@A.TEST"),
        ("RULE:[1:$1](bob)", "ada@A.TEST"),
        ("RULE:[1:$1@$0](ada@A)", "ada@A.TEST"),
        ("RULE:[1:$1@$0]", "ada@A.TEST"),
        ("RULE:[2:$1/$2] DEFAULT", "ada/admin@A.TEST"),
        ("RULE:[1:$1]s/.*//", "ada@A.TEST"),
        ("", "ada"),
        ("", "@A.TEST"),
        ("", "a/b/c@A.TEST"),
        ("", "ada@A.TEST@B.TEST"),
        ("", r"ada\@A.TEST@A.TEST"),
        ("", "WELLKNOWN/ANONYMOUS@A.TEST"),
        ("RULE:[2:$1]", "WELLKNOWN/ANONYMOUS@WELLKNOWN:ANONYMOUS"),
        ("", "a\n@A.TEST"),
        ("", "a" * NAME_CHARACTERS_MAX + "@A.TEST"),
    ],
)
def test_other_principals_have_no_name(rules: str, principal: str) -> None:
    with pytest.raises(NoName):
        name_of(principal, rules)


def test_without_a_realm_of_its_own_a_machine_knows_nobody() -> None:
    with pytest.raises(NoName):
        name_of("ada@A.TEST", realm="")


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ("default", "default is not DEFAULT or RULE"),
        ("DEFAULT RULE:[1:$1", "is not DEFAULT or RULE"),
        ("RULE:[1:$1](a)(b)", "is not DEFAULT or RULE"),
        ("RULE:[:$1]", "for 0 parts"),
        ("RULE:[3:$1]", "for 3 parts"),
        ("RULE:[1:$2]", r"only \$0 to \$1"),
        ("RULE:[2:$3]", r"only \$0 to \$2"),
        ("RULE:[1:$]", r"only \$0"),
        ("RULE:[1:$1]([)", "not a regular expression"),
        ("RULE:[1:$1]s/[/x/", "not a regular expression"),
        ("RULE:[1:$1]s/a/$1/", "does not have"),
        ("RULE:[1:$1]s/a/${x}/", "not a replacement"),
        ("RULE:[1:$1]([[a]])", "not a regular expression"),
        ("RULE:[1:$1]s/a/$/", "not a replacement"),
        ("RULE:[1:$1]s/a/\\/", "not a replacement"),
    ],
)
def test_other_texts_are_no_rules(rules: str, said: str) -> None:
    with pytest.raises(BadRules, match=said):
        rules_of(rules)


@given(first=PARTS, second=PARTS | st.just(""), realm=PARTS)
def test_a_foreign_realm_needs_a_rule(first: str, second: str, realm: str) -> None:
    principal = f"{first}{'/' if second else ''}{second}@{realm}"
    with pytest.raises(NoName):
        name_of(principal, realm=f"not-{realm}")
    if first != "WELLKNOWN" and not realm.startswith("WELLKNOWN:"):
        assert name_of(principal, realm=realm) == first
        assert name_of(principal, f"RULE:[1:$1] RULE:[2:$1_$2]({re.escape('x')}) DEFAULT", realm) == first


@given(st.text(max_size=60) | st.text("RULE:[]()$01/sgL. DEFAULT\\{a}", max_size=60), st.text(max_size=60))
def test_any_text_is_read_or_refused(rules: str, principal: str) -> None:
    try:
        names = LocalNames.parse(rules, REALM)
    except BadRules:
        return
    for each in (principal, "ada@A.TEST", "ada/admin@B.TEST"):
        try:
            name = names.name_of(each)
        except NoName:
            continue
        assert name
        assert not {"/", "@"} & set(name)
