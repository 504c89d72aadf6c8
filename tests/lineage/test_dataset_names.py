"""Tables have the names that openlineage-spark gives them. The real one is compared in `test_same_names_as_spark`."""

from __future__ import annotations

import pytest

from gateway.lineage.dataset_names import DatasetName, NamedDataset, Naming, of_location, trimmed
from sql.names import TableName

ORDERS = TableName("shop", "orders")
WAREHOUSE = {"spark.sql.warehouse.dir": "file:/w", "spark.sql.catalogImplementation": "hive"}
HIVE = WAREHOUSE | {"spark.hadoop.hive.metastore.uris": "thrift://meta:9083,thrift://other:9083"}


@pytest.mark.parametrize(
    ("location", "namespace", "name"),
    [
        ("file:/w/shop.db/orders", "file", "/w/shop.db/orders"),
        ("file:///w/shop.db/orders/", "file", "/w/shop.db/orders"),
        ("/w/a b", "file", "/w/a b"),
        ("file:/", "file", "/"),
        ("hdfs://name:8020/w/t", "hdfs://name:8020", "/w/t"),
        ("hdfs:///w/t", "hdfs", "/w/t"),
        ("s3a://bucket/w/t/", "s3://bucket", "w/t"),
        ("s3n://bucket", "s3://bucket", "/"),
        ("gs://bucket/t", "gs://bucket", "t"),
        ("abfs://in@account.dfs.core.windows.net/t", "abfss://in@account.dfs.core.windows.net", "t"),
        ("wasb://in@account/t", "wasbs://in@account", "t"),
        ("dbfs:/t", "dbfs", "/t"),
    ],
)
def test_a_table_is_named_by_its_location(location: str, namespace: str, name: str) -> None:
    assert of_location(location) == DatasetName(namespace, name)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("/w/t/2024-02-29", "/w/t"),
        ("/w/t/2024-02-31", "/w/t"),
        ("/w/t/2024-13-01", "/w/t/2024-13-01"),
        ("/w/t/29.02.2024", "/w/t"),
        ("/w/t/20240229", "/w/t"),
        ("/w/t/20240229T101500Z", "/w/t"),
        ("/w/t/x20240229", "/w/t/x20240229"),
        ("/w/t/202402", "/w/t"),
        ("/w/t/2024-02", "/w/t"),
        ("/w/t/2024/02", "/w/t"),
        ("/w/t/2024/02/29", "/w/t"),
        ("/w/t/day=1", "/w/t"),
        ("/w/t/year=2024/month=2", "/w/t"),
        ("/w/t/a=b=c", "/w/t/a=b=c"),
        ("/w/t/shop__mv__20240229", "/w/t/shop__mv__20240229"),
        ("/20240229", "/20240229"),
        ("/", "/"),
    ],
)
def test_partitions_at_the_end_do_not_count(name: str, wanted: str) -> None:
    assert trimmed(name) == wanted


@pytest.mark.parametrize(
    ("settings", "metastore", "symlinks"),
    [
        (HIVE, "", [("hive://meta:9083", "shop.orders")]),
        (WAREHOUSE, "hive://meta:9083/", [("hive://meta:9083", "shop.orders")]),
        (HIVE, "arn:aws:glue:eu-west-1:123", [("arn:aws:glue:eu-west-1:123", "table/shop/orders")]),
        (WAREHOUSE, "", [("file:/w", "shop.orders")]),
        ({**HIVE, "spark.sql.catalogImplementation": "in-memory"}, "", [("file:/w", "shop.orders")]),
        ({"spark.sql.warehouse.dir": "file:/elsewhere"}, "", []),
        ({"spark.sql.warehouse.dir": "file:/w/shop"}, "", []),
        ({}, "", []),
    ],
)
def test_its_name_in_the_metastore_is_a_further_one(
    settings: dict[str, str], metastore: str, symlinks: list[tuple[str, str]]
) -> None:
    named = Naming(settings, metastore).table(ORDERS, "file:/w/shop.db/orders")
    assert named == NamedDataset(
        DatasetName("file", "/w/shop.db/orders"), tuple(DatasetName(*each) for each in symlinks)
    )


def test_a_warehouse_in_an_object_store_is_a_namespace() -> None:
    named = Naming({"spark.sql.warehouse.dir": "s3a://b/w"}).table(ORDERS, "s3a://b/w/shop.db/orders")
    assert named == NamedDataset(DatasetName("s3://b", "w/shop.db/orders"), (DatasetName("s3://b/w", "shop.orders"),))


@pytest.mark.parametrize(
    ("settings", "symlinks"),
    [
        ({"type": "hadoop", "warehouse": "file:/ice"}, [("file:/ice", "shop.orders")]),
        ({"type": "hive", "uri": "thrift://ice:9083"}, [("hive://ice:9083", "shop.orders")]),
        ({"type": "hive"}, [("hive://meta:9083", "shop.orders")]),
        ({"type": "rest", "uri": "https://ice/v1"}, [("https://ice/v1", "shop.orders")]),
        ({"catalog-impl": "org.apache.iceberg.aws.glue.GlueCatalog"}, []),
    ],
)
def test_tables_of_other_catalogs(settings: dict[str, str], symlinks: list[tuple[str, str]]) -> None:
    every = HIVE | {f"spark.sql.catalog.ice.{name}": value for name, value in settings.items()}
    named = Naming(every).table(TableName("shop", "orders", "ice"), "s3a://b/shop/orders")
    assert named == NamedDataset(DatasetName("s3://b", "shop/orders"), tuple(DatasetName(*each) for each in symlinks))


def test_a_table_without_a_location_is_named_by_the_metastore() -> None:
    assert Naming(HIVE).table(ORDERS, "") == NamedDataset(DatasetName("hive://meta:9083", "shop.orders"))
    with pytest.raises(ValueError, match="neither a location nor a metastore"):
        Naming({}).table(ORDERS, "")


def test_files_are_named_by_their_path() -> None:
    assert Naming(HIVE).table(TableName("parquet", "/data/x"), "") == NamedDataset(DatasetName("file", "/data/x"))


def test_a_view_has_both_of_its_names() -> None:
    named = Naming(HIVE).table(TableName("store", "v__1"), "file:/w/store.db/v__1", TableName("shop", "v"))
    assert [each.name for each in named.symlinks] == ["shop.v", "store.v__1"]
