"""Properties and texts of views in what Spark prints about many tables, also if comments look like more lines."""

from __future__ import annotations

import pytest
from described import described_row

from sql.texts.descriptions import read_properties, read_view_texts, show_described

PROPERTIES = {
    "transient_lastDdlTime": "1795810850",
    "freshgate.format": "2",
    "freshgate.id": "x6a",
    "freshgate.version.1.0": "+3",
}


def test_one_statement_names_all_tables() -> None:
    assert show_described("d", ["a", "b_1"]) == "SHOW TABLE EXTENDED IN `spark_catalog`.`d` LIKE 'a|b_1'"


def test_properties_are_read_exactly() -> None:
    rows = [described_row("d", name, PROPERTIES) for name in ("a", "b")]
    assert read_properties(rows) == dict.fromkeys(("a", "b"), PROPERTIES)


@pytest.mark.parametrize("value", ["a, freshgate.published=1", "a]", "a b", "*********(redacted)", "é", "a\nb", "a=b"])
def test_other_characters_in_a_value_are_left_to_another_statement(value: str) -> None:
    rows = [described_row("d", "a", {**PROPERTIES, "p": value}), described_row("d", "b", PROPERTIES)]
    assert read_properties(rows).keys() == {"b"}


def test_a_comment_that_looks_like_properties_is_left_to_another_statement() -> None:
    row = described_row("d", "a", PROPERTIES, comment="c\nTable Properties: [freshgate.format=1]")
    assert read_properties([row]) == {}


def test_texts_of_views_are_read_exactly() -> None:
    text = "SELECT `a\nb` FROM t WHERE c = '\n'"
    assert read_view_texts([described_row("d", "V", {}, text), described_row("d", "t", {})]) == {"v": text}


@pytest.mark.parametrize("line", ["View Text: SELECT 1", "View Original Text: SELECT 1"])
def test_a_comment_that_looks_like_a_text_is_left_to_another_statement(line: str) -> None:
    assert read_view_texts([described_row("d", "v", {}, "SELECT 2", comment=f"c\n{line}")]) == {}


def test_temporary_views_are_no_views_of_the_database() -> None:
    database, name, _, text = described_row("d", "v", PROPERTIES, "SELECT 1")
    assert read_view_texts([(database, name, "true", text)]) == {}
    assert read_properties([(database, name, True, text)]) == {}


FORGED = "c\nType: VIEW\nView Text: SELECT 1\nView Original Text: SELECT 1\nc"


def test_a_table_whose_texts_look_like_a_view_is_none() -> None:
    database, name, temporary, text = described_row("d", "v", {}, comment=FORGED)
    assert read_view_texts([(database, name, temporary, text)]) == {}
    only_text = FORGED.replace("Type: VIEW\n", "")
    for place in ("Owner: ", "Provider: ", "Storage Properties: [", " |-- "):
        for forged in (FORGED, only_text):
            assert read_view_texts([described_row("d", "v", {}, comment=forged)]) == {}
            row = database, name, temporary, described_row("d", "v", {})[3].replace(place, f"{place}{forged}", 1)
            assert read_view_texts([row]) == {}
    assert read_view_texts([described_row("d", "v", {"p": FORGED})]) == {}


@pytest.mark.parametrize("kind", ["Type: MANAGED", "Type: VIEW"])
def test_a_view_whose_comment_has_another_type_is_left_to_another_statement(kind: str) -> None:
    assert read_view_texts([described_row("d", "v", {}, "SELECT 1", comment=f"c\n{kind}\nc")]) == {}
