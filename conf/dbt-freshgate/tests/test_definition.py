"""What the settings of a model become, without a server."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from dbt.adapters.freshgate.definition import (
    REASONS,
    RECORD,
    Changes,
    Definition,
    Existing,
    changes,
    check_names,
    fingerprint,
    literal,
)
from dbt_common.exceptions import CompilationError

pytestmark = pytest.mark.sample


def model(description: str = "", columns: dict[str, str] | None = None, **settings: object) -> Any:
    """A model as dbt describes it."""
    documented = {name: SimpleNamespace(description=text) for name, text in (columns or {}).items()}
    return SimpleNamespace(identifier="daily", config=settings, description=description, columns=documented)


def definition(query: str = "select 1", **settings: Any) -> Definition:
    return Definition.of(model(**settings), query)


def existing(wanted: Definition, **details: str) -> Existing:
    """The view that CREATE makes of a definition."""
    shown = {"Refresh": f"BUILD IMMEDIATE {wanted.refreshing.described()}", "When Stale": wanted.when_stale}
    comment = {} if wanted.comment is None else {"Comment": wanted.comment}
    return Existing({**wanted.properties, RECORD: wanted.record()}, {**shown, **comment, **details})


class TestFingerprint:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("select  1\n", "select 1"),
            ("select 1;", "select 1"),
            ("select 1 -- it's one\nfrom t", "select 1 from t"),
            ("/* it's */ select 1", "select 1"),
            ("select 'a''b' , 1", "select 'a''b' , 1  "),
        ],
    )
    def test_equal(self, one: str, other: str) -> None:
        assert fingerprint(one) == fingerprint(other)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("select 'a  b'", "select 'a b'"),
            ("select '-- a'", "select '-- b'"),
            ("select 'it\\'s  a'", "select 'it\\'s a'"),
            ('select "a  b"', 'select "a b"'),
            ("select `a  b`", "select `a b`"),
            ("select /*+ broadcast(a) */ 1", "select /*+ broadcast(b) */ 1"),
            ("select r'\\', 'a  b'", "select r'\\', 'a b'"),
            ("select 1 /* a /* b */ 'x  y' */", "select 1 /* a /* b */ 'x y' */"),
            ("select 1", "select 2"),
            ("select 1 - -1", "select 1 -1"),
        ],
    )
    def test_different(self, one: str, other: str) -> None:
        assert fingerprint(one) != fingerprint(other)


class TestSchedules:
    @pytest.mark.parametrize(
        ("given", "shown"),
        [
            ("every 1 hour", "EVERY 1 HOUR"),
            ("Every  2  Hours", "EVERY 2 HOUR"),
            ("every 1 day starts '2030-01-31'", 'EVERY 1 DAY STARTS "2030-01-31 00:00:00"'),
            ("every 1 day starts '2030-01-31T04:05'", 'EVERY 1 DAY STARTS "2030-01-31 04:05:00"'),
            ('every 1 day starts "2030-01-31 04:05:06"', 'EVERY 1 DAY STARTS "2030-01-31 04:05:06"'),
            ("cron '0 4 * * *'", 'CRON "0 4 * * *"'),
            ("cron '0  4 * * mon' at time zone 'UTC'", 'CRON "0 4 * * mon" AT TIME ZONE "UTC"'),
        ],
    )
    def test_a_schedule_is_spelled_as_the_gateway_does(self, given: str, shown: str) -> None:
        assert definition(schedule=given).refreshing.schedule == shown

    @pytest.mark.parametrize(
        ("settings", "shown", "clauses"),
        [
            ({"target_lag": "600 seconds"}, 'TARGET LAG "10 minutes"', ["refresh auto", "TARGET LAG '10 minutes'"]),
            ({"target_lag": "Downstream"}, "TARGET LAG DOWNSTREAM", ["refresh auto", "TARGET LAG DOWNSTREAM"]),
            (
                {"target_lag": "1 hour", "at_most_every": "90 Minutes"},
                'TARGET LAG "1 hour" AT MOST EVERY "90 minutes"',
                ["refresh auto", "TARGET LAG '1 hour' AT MOST EVERY '90 minutes'"],
            ),
            (
                {"refresh_on": "commit", "at_most_every": "60 seconds"},
                'ON COMMIT AT MOST EVERY "1 minute"',
                ["refresh auto on commit AT MOST EVERY '1 minute'"],
            ),
        ],
    )
    def test_lags_and_paces_are_spelled_as_the_gateway_does(
        self, settings: dict[str, Any], shown: str, clauses: list[str]
    ) -> None:
        refreshing = definition(**settings).refreshing
        assert refreshing.described() == f"REFRESH AUTO {shown}"
        assert list(refreshing.clauses()) == clauses

    @pytest.mark.parametrize(
        "settings",
        [
            {"target_lag": "soon"},
            {"target_lag": "0 minutes"},
            {"target_lag": "1 hour", "schedule": "every 1 hour"},
            {"at_most_every": "1 hour"},
            {"refresh_on": "manual", "at_most_every": "1 hour"},
            {"target_lag": "downstream", "at_most_every": "1 hour"},
        ],
        ids=str,
    )
    def test_lags_that_make_no_sense_are_refused(self, settings: dict[str, Any]) -> None:
        with pytest.raises(CompilationError):
            definition(**settings)


class TestClauses:
    def test_texts_are_escaped(self) -> None:
        assert literal("it's \\ 1") == "'it\\'s \\\\ 1'"

    def test_columns_are_listed_only_with_documentation(self) -> None:
        docs = {"persist_docs": {"columns": True}, "columns": {"Day": "it's a day", "other": ""}}
        assert definition(**docs).clauses(["day", "a`b"]).startswith("(`day` comment 'it\\'s a day', `a``b`)")
        assert not definition(persist_docs={"columns": True}).clauses([]).startswith("(")

    def test_the_location_is_named_as_that_of_a_table(self) -> None:
        clauses = definition(location_root="s3a://lake/it's", file_format="orc").clauses([]).split("\n")
        assert "location 's3a://lake/it\\'s/daily'" in clauses
        assert not any(each.startswith("location") for each in definition().clauses([]).split("\n"))

    def test_booleans_and_numbers_are_properties(self) -> None:
        given = definition(tblproperties={"a": True, "b": 2}, enable_rewrite=False, in_memory=True, grace_period=30)
        clauses = {"use_for_rewrite": "false", "in_memory": "true", "grace_period": "30"}
        assert given.properties == {"a": "true", "b": "2", **clauses}


class TestChanges:
    def test_none(self) -> None:
        wanted = definition(schedule="every 1 hour", tblproperties={"Flag": "TRUE"}, persist_docs={"relation": True})
        assert changes(wanted, existing(wanted)) is None

    @pytest.mark.parametrize(
        ("settings", "reason"),
        [
            ({"query": "select 2"}, "query"),
            ({"partition_by": "day"}, "layout"),
            ({"file_format": "orc"}, "layout"),
            ({"location_root": "/data/views"}, "layout"),
            ({"columns": {"day": "changed"}, "persist_docs": {"columns": True}}, "columns"),
        ],
    )
    def test_what_only_a_replacement_can_change(self, settings: dict[str, Any], reason: str) -> None:
        found = changes(definition(**settings), existing(definition()))
        assert found is not None
        assert found.replaced == (REASONS[reason],)

    @pytest.mark.parametrize("stored", [None, "", "no json", "[]"])
    def test_a_view_without_a_record_is_replaced(self, stored: str | None) -> None:
        properties = {} if stored is None else {RECORD: stored}
        assert changes(definition(), Existing(properties, {})) == Changes(("dbt did not create it",), ())

    def test_a_property_that_is_no_longer_given_is_removed(self) -> None:
        before = definition(tblproperties={"a": "1", "b": "2"})
        found = changes(definition(tblproperties={"b": "2"}), existing(before))
        assert found is not None
        assert not found.replaced
        assert found.statements[0] == "unset tblproperties if exists ('a')"
        assert found.reasons == ("properties removed: a",)

    def test_properties_of_others_stay(self) -> None:
        wanted = definition()
        view = existing(wanted)
        assert changes(wanted, Existing({**view.properties, "of_others": "1"}, view.details)) is None

    @pytest.mark.parametrize(
        "details",
        [{"Refresh": "BUILD IMMEDIATE REFRESH COMPLETE ON MANUAL"}, {"When Stale": "SERVE"}, {"Comment": "altered"}],
        ids=str,
    )
    def test_what_someone_altered_is_set_again(self, details: dict[str, str]) -> None:
        wanted = definition(description="a", persist_docs={"relation": True})
        found = changes(wanted, existing(wanted, **details))
        assert found is not None
        assert found.statements

    def test_the_record_follows_every_change(self) -> None:
        found = changes(definition(refresh_on="commit"), existing(definition()))
        assert found is not None
        assert found.statements[0] == "refresh auto on commit"
        assert found.reasons == ("its schedule, trigger or method has changed",)
        assert json.dumps("COMMIT") in found.statements[-1]


class TestNames:
    @pytest.mark.parametrize(("name", "meant"), [("shedule", "schedule"), ("grace_periode", "grace_period")])
    def test_a_misspelt_setting_is_refused(self, name: str, meant: str) -> None:
        misspelt = SimpleNamespace(identifier="daily", config=SimpleNamespace(_extra={name: "x"}))
        with pytest.raises(CompilationError, match=f"`{name}` is not a setting .* `{meant}`"):
            check_names(misspelt, ["schedule", "grace_period"])

    def test_settings_of_others_pass(self) -> None:
        others = SimpleNamespace(identifier="daily", config=SimpleNamespace(_extra={"team": "x", "schedule": "y"}))
        check_names(others, ["schedule", "grace_period"])
