"""The run that a session names is the parent of the refreshes that it causes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from fakes import Site

from gateway.service.clients import own_settings

PARENT = "airflow/Daily.refresh/01920000-0000-7000-8000-00000000000A"


async def parents(site: Site, *texts: str, configuration: dict[str, str] | None = None) -> Sequence[str]:
    """The parents of the refreshes for reads of s.mv, before which these statements ran in the same session."""
    client = await site.client(configuration=configuration)
    found = []
    for text in (*texts, ""):
        site.write("s.t")
        await client.execute("SELECT n FROM s.mv")
        found.append(site.tasks.made[-1][1].parent)
        if text:
            executed = await client.execute(text)
            executed.at_spark.finish()
            await executed.poll()
    return found


async def site_with_view() -> Site:
    made = Site()
    made.table("s.t")
    await made.view("s.mv", "SELECT count(*) n FROM s.t")
    return made


async def test_a_read_has_the_parent_of_its_session() -> None:
    texts = f"SET freshgate.lineage.parent={PARENT}", "RESET freshgate.lineage.parent"
    assert await parents(await site_with_view(), *texts) == ["", PARENT, ""]


async def test_it_may_be_quoted_and_reset_with_all_others() -> None:
    texts = f"set `Freshgate.Lineage.Parent` = '{PARENT}' ;", "RESET", f'SET freshgate.lineage.parent="{PARENT}"'
    assert await parents(await site_with_view(), *texts, "SET freshgate.lineage.parent=") == [
        "",
        PARENT,
        "",
        PARENT,
        "",
    ]


@pytest.mark.parametrize("key", ["freshgate.lineage.parent", "set:hiveconf:freshgate.lineage.parent"])
async def test_a_session_may_be_opened_with_it(key: str) -> None:
    assert await parents(await site_with_view(), configuration={key: PARENT}) == [PARENT]


async def test_a_session_opened_with_another_text_has_none() -> None:
    assert await parents(await site_with_view(), configuration={"set:hiveconf:freshgate.lineage.parent": "x"}) == [""]


@pytest.mark.parametrize(
    "value", ["x", "a/b", "a/b/c", f"/b/{PARENT[-36:]}", f"a//{PARENT[-36:]}", f"a/{'b' * 2000}/{PARENT[-36:]}"]
)
async def test_another_text_is_refused(value: str) -> None:
    client = await (await site_with_view()).client()
    refused = await client.execute(f"SET freshgate.lineage.parent={value}")
    assert refused.sqlstate == "22023"
    assert "NAMESPACE/JOB/RUN, where RUN is a UUID, or empty" in str(refused.error)


def test_a_job_may_have_slashes() -> None:
    assert own_settings.is_parent(f"airflow/a/b/{PARENT[-36:]}")
