"""Tests the statements that maintain a view. (The end-to-end tests run them on Spark.)"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql.classify import classify
from sql.lexed import Lexed
from sql.names import TableName
from sql.statement import Forwarded, ListedColumn
from sql.texts import maintenance, public_view
from sql.texts.storage_layout import Selection, Shown, StorageLayout, joined

VIEW = TableName("sales", "daily_totals")
STORAGE = TableName("freshgate_storage", "sales__daily__0a1b2c3d")
DEFINITION = TableName("freshgate_storage", "sales__daily__0a1b2c3d__definition")
BY_DAY = StorageLayout("a", "date", "{}", holds_column=True)
SEVERAL = Shown(3, ((1, 1), (3, 3)), {1: frozenset({"2024-01-01", None})})
SOME = Selection(frozenset({"2024-01-01", None}), all_but=False)
BY_BOTH = replace(BY_DAY, further=(StorageLayout("b", "string", "{}", holds_column=True),))
ONE_OF_BOTH = Selection(frozenset({joined(["2024-01-01", "it's"])}), all_but=False)
SEVERAL_OF_BOTH = Shown(3, ((1, 1), (3, 3)), {1: ONE_OF_BOTH.keys})

folded = st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=8).filter(
    lambda name: name == name.lower()
)


numbers = st.integers(0, 2**62)
keys = st.none() | st.text(max_size=5)


@given(
    folded,
    folded,
    st.lists(folded, min_size=1, max_size=4),
    st.frozensets(numbers, min_size=1, max_size=4),
    st.dictionaries(numbers, st.frozensets(keys, min_size=1, max_size=3), max_size=2),
    st.booleans(),
)
def test_the_text_of_a_public_view_parses_back(
    database: str,
    table: str,
    columns: list[str],
    versions: frozenset[int],
    hidden: dict[int, frozenset[str | None]],
    holds: bool,
) -> None:
    storage = TableName(database, table)
    layout = StorageLayout(columns[0], "int", "{}", holds)
    shown = Shown(max(versions), tuple((version, version) for version in sorted(versions)), hidden)
    text = public_view.publish(VIEW, storage, columns, shown, layout)
    query = text.removeprefix(f"ALTER VIEW {VIEW.quoted} AS ")
    assert public_view.read_published(query) == (storage, max(versions))
    # The text of an earlier release.
    short = query.replace(f"FROM {storage.quoted} WHERE", f"FROM {storage.short} WHERE", 1)
    assert public_view.read_published(short) == (storage, max(versions))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "SELECT `a` FROM `s`.`t` WHERE freshgate_version = 1 OR 1 = 1",
        "SELECT `a` FROM `s`.`t` WHERE freshgate_version = x",
        "SELECT `a`, 1 FROM `s`.`t` WHERE freshgate_version = 1",
        "SELECT `a` FROM `t` WHERE freshgate_version = 1",
        "SELECT `a` FROM `s`.`t` WHERE freshgate_version <= 1",
        "SELECT `a` FROM `s`.`t` WHERE freshgate_version <= 1 AND (freshgate_version BETWEEN 1 AND 1) OR 1 = 1",
        "SELECT `a` FROM `s`.`t` WHERE freshgate_version = 1 AND (freshgate_version BETWEEN 1 AND 1)",
    ],
)
def test_the_text_of_another_view_is_not_taken_for_a_public_view(text: str) -> None:
    assert public_view.read_published(text) is None


def test_the_definition_view_holds_the_unchanged_query() -> None:
    text = maintenance.create_definition(
        DEFINITION, "SELECT ${x} FROM t", [ListedColumn("a`b", "it's"), ListedColumn("c")]
    )
    assert text == f"CREATE VIEW {DEFINITION.quoted} (`a``b` COMMENT 'it\\'s', `c`) AS SELECT ${{x}} FROM t"
    assert maintenance.create_definition(DEFINITION, "SELECT 1") == f"CREATE VIEW {DEFINITION.quoted} AS SELECT 1"
    owned = maintenance.create_definition(DEFINITION, "SELECT 1", (), {"k": "${v}"})
    assert owned == f"CREATE VIEW {DEFINITION.quoted} TBLPROPERTIES ('k' = '$\\{{v}}') AS SELECT 1"
    changed = maintenance.set_definition_properties(DEFINITION, {"k": "v"})
    assert changed == f"ALTER VIEW {DEFINITION.quoted} SET TBLPROPERTIES ('k' = 'v')"


def test_the_storage_table_is_created_empty_from_the_definition() -> None:
    text = maintenance.create_storage(STORAGE, DEFINITION, {"k": "${v}"}, "note")
    assert text == (
        f"CREATE TABLE {STORAGE.quoted} USING parquet OPTIONS ('partitionOverwriteMode' = 'dynamic') "
        "PARTITIONED BY (`freshgate_version`) COMMENT 'note' TBLPROPERTIES ('k' = '$\\{v}') "
        f"AS SELECT *, CAST(0 AS BIGINT) AS `freshgate_version` FROM {DEFINITION.quoted} LIMIT 0"
    )


@pytest.mark.parametrize(("adds", "gathered"), [(False, False), (True, True)])
def test_rows_that_are_added_to_a_partition_are_gathered_with_its_own(adds: bool, gathered: bool) -> None:
    """Otherwise it would have more files after each refresh."""
    rows, one = maintenance.RowsQuery("SELECT 1", adds=adds), Selection(frozenset({"x"}), all_but=False)
    text = maintenance.insert_version(STORAGE, rows, 9, None, ["a", "b"], BY_DAY, one)
    assert ("/*+ REBALANCE(`freshgate_partition`) */" in text) == gathered


@pytest.mark.parametrize(
    ("text", "reads", "writes"),
    [
        (maintenance.insert_version(STORAGE, DEFINITION, 9), DEFINITION, STORAGE),
        (public_view.create_public_view(VIEW, STORAGE, ["a"], Shown.only(1), "c"), STORAGE, VIEW),
        (public_view.publish(VIEW, STORAGE, ["a"], Shown.only(1)), STORAGE, VIEW),
        (public_view.publish(VIEW, STORAGE, ["a", "b"], SEVERAL, BY_DAY), STORAGE, VIEW),
        (
            maintenance.insert_version(STORAGE, DEFINITION, 9, None, ["a", "b"], BY_DAY, SOME, "`a` > 1"),
            DEFINITION,
            STORAGE,
        ),
        (
            maintenance.insert_version(STORAGE, DEFINITION, 9, None, ["a", "b"], BY_BOTH, ONE_OF_BOTH),
            DEFINITION,
            STORAGE,
        ),
        (public_view.publish(VIEW, STORAGE, ["a", "b"], SEVERAL_OF_BOTH, BY_BOTH), STORAGE, VIEW),
        (maintenance.partition_rows(STORAGE, SEVERAL_OF_BOTH, BY_BOTH), STORAGE, None),
        (maintenance.drop_partitions(STORAGE, [(1, "a/%"), (2, "it's/b")], 2), None, STORAGE),
        (maintenance.partition_rows(STORAGE, SEVERAL, BY_DAY), STORAGE, None),
        (maintenance.drop_versions(STORAGE, [1, 2]), None, STORAGE),
        (maintenance.drop_partitions(STORAGE, [(1, None), (2, "it's")]), None, STORAGE),
        (maintenance.set_properties(STORAGE, {"a": "b"}), None, STORAGE),
        (maintenance.unset_properties(STORAGE, ["a"]), None, STORAGE),
        (maintenance.drop_view(VIEW), None, VIEW),
        (maintenance.drop_table(STORAGE), None, STORAGE),
        (maintenance.refresh_listing(DEFINITION), None, None),
    ],
)
def test_each_statement_reads_and_writes_only_the_given_tables(
    text: str, reads: TableName | None, writes: TableName | None
) -> None:
    found = classify(Lexed(text))
    assert isinstance(found, Forwarded)
    assert found.exact
    assert [read.parts for read in found.reads] == ([(reads.catalog, reads.database, reads.table)] if reads else [])
    assert found.writes == (((writes.catalog, writes.database, writes.table),) if writes else ())


@pytest.mark.parametrize(
    "call",
    [
        lambda: maintenance.drop_partitions(STORAGE, []),
        lambda: maintenance.drop_versions(STORAGE, []),
        lambda: maintenance.set_properties(STORAGE, {}),
        lambda: maintenance.unset_properties(STORAGE, []),
    ],
)
def test_an_empty_list_is_refused(call: object) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match="no "):
        call()
