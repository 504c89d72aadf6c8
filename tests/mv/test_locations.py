"""Where the LOCATION of a view may lie."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import FreshgateError, NotAllowed
from gateway.mv.model.locations import Location, Locations
from sql.names import TableName

NAME = TableName("s", "mv")
OTHER = "s__other__0f1aba1b"
ALLOWED = ("/data/views", "hdfs://name:8020/views/", "s3a://bucket", "file:/srv/views")


def check(location: str, allowed: tuple[str, ...] = ALLOWED) -> None:
    asyncio.run(Locations(allowed).check(NAME, location, [OTHER]))


@pytest.mark.parametrize(
    "location",
    [
        "/data/views",
        "/data/views/",
        "/data/views/a b/c.d",
        "hdfs://name:8020/views/x",
        "s3a://bucket/x",
        "s3a://bucket/",
        "file:///srv/views/x",
        "file:/srv/views/x",
    ],
)
def test_below_a_directory_of_the_setting(location: str) -> None:
    check(location)


@pytest.mark.parametrize(
    "location",
    [
        "/data/viewsx",
        "/data",
        "/",
        "/DATA/views/x",
        "/data/views/../secret",
        "/data/views/./x",
        "/data/views/..",
        "/data/views//x",
        "//data/views/x",
        "data/views/x",
        "",
        "/data/views/%2e%2e/secret",
        "/data/views/%252e%252e/secret",
        "/data/views/..\\secret",
        "/data/views/\0/x",
        "/data/views/x\n",
        "file:/data/views/x",
        "file://elsewhere/srv/views/x",
        "FILE:/srv/views/x",
        "hdfs:/views/x",
        "hdfs://name/views/x",
        "hdfs://NAME:8020/views/x",
        "s3a://bucket2/x",
        "s3a://key:secret@bucket/x",
        "s3a:bucket/x",
        " /data/views/x",
        "C:/data/views/x",
        f"/data/views/{OTHER}",
        f"/data/views/deep/{OTHER.upper()}/freshgate_version=3",
    ],
)
def test_anything_else_is_refused(location: str) -> None:
    with pytest.raises(NotAllowed, match=r"The materialized view s\.mv cannot lie in") as refusal:
        check(location)
    assert refusal.value.sqlstate == "42501"


def test_without_the_setting_location_is_not_offered() -> None:
    with pytest.raises(NotAllowed, match=r"storage\.locations names no directory"):
        check("/data/views/x", ())


def test_symbolic_links_lead_nowhere_else(tmp_path: Path) -> None:
    views, secret = tmp_path / "views", tmp_path / "secret"
    (views / OTHER).mkdir(parents=True)
    secret.mkdir()
    (views / "out").symlink_to(secret)
    (views / "in").symlink_to(views / "fine")
    (views / "other").symlink_to(views / OTHER)
    (tmp_path / "also").symlink_to(views)
    check(f"{views}/in/x", (str(views),))
    check(f"{tmp_path}/also/x", (f"{tmp_path}/also",))
    for location, said in ((f"{views}/out", "not below"), (f"file:{views}/out/x", "not below")):
        with pytest.raises(NotAllowed, match=said):
            check(location, (str(views), f"file:{views}"))
    with pytest.raises(NotAllowed, match="another materialized view is stored there"):
        check(f"{views}/other/x", (str(views),))


@pytest.mark.parametrize("directory", ["views", "/a/../b", "/a%41", "//host/a", ""])
def test_a_setting_that_could_be_read_in_two_ways_is_refused(directory: str) -> None:
    with pytest.raises(FreshgateError, match=r"storage\.locations: .* cannot be used"):
        Locations([directory])


STEPS = st.lists(st.sampled_from(["a", "b", "..", ".", "", "%2e%2e", "views", "..\\", " "]), max_size=6)


@given(STEPS, st.sampled_from(["", "file:", "file://", "hdfs://h"]), st.booleans())
def test_what_is_taken_is_below_it_however_it_is_read(steps: list[str], root: str, escaped: bool) -> None:
    text = f"{root}/data/" + "/".join(quote(step) if escaped else step for step in steps)
    try:
        place = Location.parse(text)
    except ValueError:
        return
    allowed = Location("", ("data", "views"))
    if place.is_below(allowed):
        reached: list[str] = []
        for step in text.split("/"):
            if step == "..":
                reached.pop()
            elif step not in ("", "."):
                reached.append(step)
        assert reached[:2] == ["data", "views"]
        assert root == ""
