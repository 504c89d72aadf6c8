"""Tests which settings of sessions clients may not set or see, in OpenSession and in statements."""

from __future__ import annotations

import pytest
from fakes import Site
from TCLIService import ttypes
from wire import calls

from gateway import settings_file
from gateway.config import ConfigError, SessionRules
from gateway.errors import NotAllowed, SyntaxRefused
from gateway.service.clients.setting_rules import SUBSTITUTE, Patterns, SettingRules
from gateway.wire import message
from sql.understood import Understood

RULES = SettingRules.of(
    SessionRules(
        refused=("spark.sql.files.*", "*.password"),
        ignored=("spark.noise.*", "spark.sql.ignored"),
        forced=("spark.sql.ansi.enabled=true", "spark.sql.ignored = a=b"),
    )
)
HIDING = SettingRules.of(SessionRules(hidden=("*secret*",)))


@pytest.mark.parametrize(
    ("pattern", "names", "others"),
    [
        ("a.b", ["a.b", "A.B"], ["a.b.c", "xa.b", "a_b", ""]),
        ("a.*", ["a.", "a.b.c"], ["a", "xa.b"]),
        ("*.a", [".a", "x.a"], ["a", "x.ab"]),
        ("*a*b*", ["ab", "xaxbx"], ["ba", "a"]),
        ("a*a", ["aa", "aba"], ["a"]),
        ("a**b", ["ab", "axb"], ["a"]),
        ("*", ["", "a"], []),
    ],
)
def test_patterns(pattern: str, names: list[str], others: list[str]) -> None:
    patterns = Patterns.of([pattern])
    assert [name for name in (*names, *others) if patterns.match(name)] == names
    assert not Patterns.of([" "])


# --- OpenSession -----------------------------------------------------------------------------------------------------


def opened(rules: SettingRules, **configuration: str) -> dict[str, str]:
    """The configuration that Spark gets."""
    request = ttypes.TOpenSessionReq(9, "ada", "x", configuration)
    return dict(message.open_session(rules.opened(calls.call("OpenSession", request, 7))).configuration)


FORCED = {"set:hiveconf:spark.sql.ansi.enabled": "true", "set:hiveconf:spark.sql.ignored": "a=b"}


def test_a_session_begins_with_the_forced_settings() -> None:
    assert opened(RULES) == FORCED
    assert opened(RULES, **{"use:database": "d", "spark.sql.x": "1"}) == {
        "use:database": "d",
        "spark.sql.x": "1",
        **FORCED,
    }
    assert opened(SettingRules(), a="b") == {"a": "b"}
    assert opened(HIDING) == {f"set:hiveconf:{SUBSTITUTE}": "false"}


@pytest.mark.parametrize("prefix", ["", "set:", "set:hiveconf:", "set:hivevar:", "hiveconf:", "SET:HIVECONF:", " "])
def test_ignored_settings_are_left_out_and_refused_ones_refuse_the_session(prefix: str) -> None:
    for name in ("spark.noise.x", "SPARK.noise.y", "spark.sql.ignored"):
        assert opened(RULES, **{prefix + name: "1", "b": "c"}) == {"b": "c", **FORCED}
    for name in ("spark.sql.files.x", "my.password", "spark.sql.ansi.enabled", "Spark.SQL.ansi.enabled"):
        with pytest.raises(NotAllowed, match=r"cannot be set or reset .*session\.\*") as refusal:
            opened(RULES, **{prefix + name: "true"})
        assert refusal.value.sqlstate == "42501"


async def test_a_client_is_told_that_its_session_is_refused() -> None:
    site = Site(session=SessionRules(refused=("spark.bad",), forced=("spark.sql.good=1",)))
    client = await site.client()
    opened = await client.exchange(
        calls.call("OpenSession", ttypes.TOpenSessionReq(9, "ada", "x", {"set:hiveconf:spark.bad": "1"}), 7)
    )
    assert message.reply_status(opened).sqlstate == "42501"
    assert client.session.call.configuration["set:hiveconf:spark.sql.good"] == "1"
    assert message.open_session(client.session.open_payload).configuration["set:hiveconf:spark.sql.good"] == "1"


# --- statements ------------------------------------------------------------------------------------------------------


def decide(text: str, rules: SettingRules = RULES) -> str | None:
    return rules.decide(Understood(text))


@pytest.mark.parametrize(
    "text",
    [
        "SET spark.sql.files.x=1",
        "SET `spark.sql.files.x` = `1`",
        "SET my.password=1",
        "SET spark.sql.ansi.enabled=false",
        "SET spark.sql.ANSI.enabled = true",
        "RESET spark.sql.ansi.enabled",
        "RESET spark.sql.files.x",
        "RESET",
        "SET ${x}=1",
        "${x}",
        "EXECUTE IMMEDIATE 'SET spark.sql.ansi.enabled=false'",
        "EXECUTE IMMEDIATE 'SET spark.noise.x=1'",
        "EXECUTE IMMEDIATE v",
        "BEGIN EXECUTE IMMEDIATE 'RESET'; END",
    ],
)
def test_a_refused_or_forced_setting_cannot_be_changed(text: str) -> None:
    with pytest.raises(NotAllowed) as refusal:
        decide(text)
    assert refusal.value.sqlstate == "42501"


def test_an_ignored_setting_is_shown_instead_of_changed() -> None:
    assert decide("SET spark.noise.x=1") == "SET `spark.noise.x`"
    assert decide("RESET spark.sql.ignored") == "SET `spark.sql.ignored`"


@pytest.mark.parametrize(
    "text",
    ["SET spark.sql.x=1", "SET", "SET spark.sql.ansi.enabled", "SELECT '${x}'", "RESET spark.sql.x", "SET VAR x=1"],
)
def test_other_statements_pass(text: str) -> None:
    assert decide(text) is None
    assert decide(text, SettingRules()) is None


def test_without_forced_settings_all_may_be_reset() -> None:
    assert decide("RESET", SettingRules.of(SessionRules(refused=("a",)))) is None


def test_settings_for_one_statement_are_refused() -> None:
    for rules in (RULES, HIDING):
        with pytest.raises(NotAllowed, match="confOverlay"):
            rules.decide(Understood("SELECT 1"), overlaid=True)


def test_hidden_settings_are_not_shown() -> None:
    for text in ("SET", "SET -v", "SET my.secret.x"):
        assert decide(text, HIDING) == text
    assert decide("SET my.other", HIDING) is None
    for text in ("EXECUTE IMMEDIATE 'SET'", "BEGIN EXECUTE IMMEDIATE 'SET my.secret'; DROP TABLE t; END"):
        with pytest.raises(NotAllowed):
            decide(text, HIDING)
    with pytest.raises(NotAllowed):
        decide(f"SET {SUBSTITUTE}=true", HIDING)
    rows = [("a", "1"), ("my.Secret", "hunter2")]
    assert HIDING.shown(rows) == [("a", "1")]
    assert HIDING.shown(rows[1:]) == [("my.Secret", "<undefined>")]


async def test_a_statement_is_answered_by_these_rules() -> None:
    site = Site(session=SessionRules(refused=("spark.bad",), ignored=("spark.noise",), hidden=("*secret*",)))
    client = await site.client()
    refused = await client.execute("SET spark.bad=1")
    assert refused.sqlstate == "42501"
    ignored = await client.execute("SET spark.noise=1")
    assert ignored.sqlstate is None
    await client.execute("SET spark.fine=1")
    assert [text for text in site.spark.texts if text.startswith("SET")] == ["SET spark.fine=1"]


async def test_settings_of_the_gateway_can_be_forced() -> None:
    site = Site(session=SessionRules(forced=("Freshgate.Rewrite=OFF",)))
    client = await site.client()
    assert not client.session.settings.rewrites
    assert client.session.settings.keeps_results
    assert (await client.execute("SET freshgate.rewrite=on")).sqlstate == "42501"
    assert not client.session.settings.rewrites
    with pytest.raises(SyntaxRefused, match=r"freshgate\.rewrite can be off or on, not never"):
        SettingRules.of(SessionRules(forced=("freshgate.rewrite=never",)))


@pytest.mark.parametrize("text", ["a", "=b", "a b=c"])
def test_a_forced_setting_needs_a_value(text: str) -> None:
    with pytest.raises(ConfigError, match=r"session\.forced' must have the form NAME=VALUE"):
        settings_file.load(None, [f'session.forced=["{text}"]'])
