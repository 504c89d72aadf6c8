"""Whether Spark, or Kyuubi, may compute the rows of a session's results only when they are fetched."""

from __future__ import annotations

import pytest
from fake_spark import FakeSpark
from raw_session import encoded
from TCLIService import ttypes

from gateway.service.clients.session import Session, may_collect_in_parts
from gateway.service.clients.sides import Sides
from gateway.wire.connection import NOSASL
from gateway.wire.message import open_session, opened
from gateway.wire.sasl import Login
from sql.understood import Understood

OF_SPARK = "spark.sql.thriftServer.incrementalCollect"
OF_KYUUBI = "kyuubi.operation.incremental.collect"


@pytest.mark.parametrize(
    ("text", "may"),
    [
        (f"SET {OF_SPARK}=true", True),
        (f"SET {OF_KYUUBI}=true", True),
        (f"set `{OF_KYUUBI.upper()}` = true", True),
        ("SET spark.sql.shuffle.partitions=1", False),
        ("SELECT collect_list(a) FROM kyuubi.t", False),
    ],
)
def test_a_statement_that_may_turn_it_on_is_recognized(text: str, may: bool) -> None:
    assert may_collect_in_parts(Understood(text).look.words) is may


@pytest.mark.parametrize(
    ("configuration", "in_parts"),
    [
        ({f"set:hiveconf:{OF_SPARK}": "true"}, True),
        ({f"set:hiveconf:{OF_KYUUBI}": "true"}, True),
        ({OF_KYUUBI: "true"}, True),
        ({"set:hiveconf:spark.sql.shuffle.partitions": "1"}, False),
    ],
)
def test_a_session_may_be_opened_with_it(configuration: dict[str, str], in_parts: bool) -> None:
    request = encoded("OpenSession", ttypes.TOpenSessionReq(5, "ada", None, configuration))
    spark = FakeSpark()
    handles = opened(spark.hear(request))
    assert handles is not None
    login = Login("ada", "x", NOSASL)
    session = Session(handles[0], 5, "ada", login, open_session(request), request, Sides(spark, 60.0))
    assert session.collects_in_parts is in_parts
