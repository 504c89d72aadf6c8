"""Which paths lead into a directory that is to be left alone."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from views import view_of

from gateway.mv.catalog.directories import Directories, Directory, Reach
from gateway.mv.catalog.index import Catalog
from gateway.mv.model.view import Version
from sql.names import TableName
from sql.statement import CreateClauses

STORAGE = Directory.at("file:/data/warehouse/freshgate_storage.db", unique=True)
PLAIN = Directory.at("hdfs://nn:8020/data/warehouse/s.db", unique=False)
BUCKET = Directory.at("s3a://bucket/warehouse/s.db", unique=False)

WITHIN = [
    "/data/warehouse/freshgate_storage.db",
    "/data/warehouse/freshgate_storage.db/",
    "/data/warehouse/freshgate_storage.db/d__v__1/freshgate_version=1",
    "file:/data/warehouse/freshgate_storage.db/x",
    "FILE:///data/warehouse/freshgate_storage.db/x",
    "file://localhost/data/warehouse/freshgate_storage.db",
    "/data//warehouse/./freshgate_storage.db//x",
    "/data/other/../warehouse/freshgate_storage.db",
    "/../../data/warehouse/freshgate_storage.db",
    "/data/warehouse/freshgate%5Fstorage.db",
    "/data/warehouse/%66reshgate_storage.db",
    "/data/warehouse/freshgate%255Fstorage.db",
    "/data/warehouse/freshgate_storage.db.",
    "/data/warehouse/freshgate_storage.db /x",
    "/DATA/Warehouse/FRESHGATE_STORAGE.DB",
    "/data/warehouse/freshgate*",
    "/data/warehouse/*",
    "/data/warehouse/f[a-z]eshgate_storage.db",
    "/data/{warehouse,x}/*/x",
    r"/data/warehouse/freshgate\_storage.db",
    "freshgate_storage.db/x",
    "../freshgate_storage.db",
    "warehouse/freshgate_storage.db/x",
    "x/../warehouse/freshgate_storage.db/x",
    "file:warehouse/freshgate_storage.db",
    "//data/warehouse/freshgate_storage.db",
    "///data/warehouse/freshgate_storage.db",
    "/proc/self/root/data/warehouse/freshgate_storage.db",
    "/link/to/the/freshgate_storage.db/x",
]
ABOVE = [
    "/data/warehouse",
    "/data",
    "/",
    "",
    ".",
    "..",
    "../..",
    "file:/data/",
    "file:///",
    "warehouse",
    "data/warehouse",
]
ABOVE += ["/proc/self/root", "/proc/1/cwd/x", "/*/warehouse", "warehouse/x/.."]
ELSEWHERE = [
    "/data/warehouse/other.db",
    "/data/warehouse/freshgate_storage.db2",
    "/data/warehousefreshgate_storage.db",
    "/tmp/x",
    "hdfs://nn/lake/sales",
    "s3a://bucket/x/y",
    "sales/2024",
    "/data/*/x.csv",
    "../other.db/x",
]


@pytest.mark.parametrize("path", WITHIN)
def test_paths_within(path: str) -> None:
    assert STORAGE.reached_by(path) is Reach.WITHIN


@pytest.mark.parametrize("path", ABOVE)
def test_paths_above(path: str) -> None:
    assert STORAGE.reached_by(path) is Reach.ABOVE


@pytest.mark.parametrize("path", ELSEWHERE)
def test_paths_elsewhere(path: str) -> None:
    assert STORAGE.reached_by(path) is None


def test_the_authority_counts_where_it_is_a_part_of_the_place() -> None:
    assert BUCKET.reached_by("s3://bucket/warehouse/s.db/x") is Reach.WITHIN
    assert BUCKET.reached_by("/warehouse/s.db/x") is Reach.WITHIN
    assert BUCKET.reached_by("s3a://other/warehouse/s.db/x") is None
    assert PLAIN.reached_by("hdfs://alias/data/warehouse/s.db") is Reach.WITHIN
    assert PLAIN.reached_by("/home/s.db/x") is None


@given(
    st.sampled_from(
        ["/data/warehouse/freshgate_storage.db", "/data/warehouse", "/data/warehouse/freshgate_storage.db/v"]
    ),
    st.lists(st.sampled_from(["/./", "//", "/x/../", "/x/y/../../"]), min_size=4, max_size=4),
    st.sampled_from(["", "file:", "File://", "hdfs://nn", "viewfs:"]),
    st.randoms(use_true_random=False),
)
def test_no_spelling_hides_a_path(path: str, between: list[str], scheme: str, random: object) -> None:
    segments = path.strip("/").split("/")
    spelt = "".join(gap + _escaped(segment, random) for gap, segment in zip(between, segments, strict=False))
    assert STORAGE.reached_by(scheme + "/" + spelt.lstrip("/")) is not None


def _escaped(segment: str, random: object) -> str:
    return "".join(f"%{ord(c):02x}" if random.random() < 0.3 else c for c in segment)  # type: ignore[attr-defined]


PATHS = st.lists(
    st.sampled_from(
        [
            "/",
            "//",
            "..",
            ".",
            "*",
            "{a,b}",
            "f*",
            "data",
            "warehouse",
            "freshgate_storage.db",
            "s.db",
            "x",
            "proc",
            "hdfs:",
        ]
    ),
    max_size=8,
).map("".join)


@given(st.text() | PATHS)
def test_any_text_may_be_a_path(path: str) -> None:
    """And none is passed over that leads to one of several directories."""
    fence = cast(Any, SimpleNamespace(lost=None, locations=[STORAGE.location]))
    catalog = Catalog("freshgate_storage", fence)
    for number, location in enumerate(("/lake/x", "s3a://bucket/data")):
        view = view_of(Version.whole(1, 0, 0, {}))
        made = replace(
            view, id=f"v{number}", name=TableName("s", f"v{number}"), clauses=CreateClauses(location=location)
        )
        catalog.show(catalog.reserve(made))
    directories = Directories(catalog, fence)
    each = [(directory, reach) for directory in directories.all() if (reach := directory.reached_by(path)) is not None]
    assert directories.reached_by(path) == each


def test_a_pattern_of_any_length_is_compared_at_once() -> None:
    """Made an expression of, that took minutes."""
    assert STORAGE.reached_by("/data/warehouse/" + "*f?" * 200_000) is None
    assert STORAGE.reached_by("/data/warehouse/" + "*" * 500_000 + "s" + "*" * 500_000) is Reach.WITHIN
