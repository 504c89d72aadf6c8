"""The order of the test modules, and which of them one process runs because they share a Spark.

Modules that take long begin first: one that began last would leave the other processors idle. Those without a Spark
fill the end.
"""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadFileScheduling

FIXTURES = {
    "lake_engine": "a Spark with Delta Lake and Iceberg",
    "rewriting": "a gateway with an embedded Spark",
    "thrift_servers": "a Spark with several Thrift servers",
}
"""What modules share, by the fixture that starts it."""
SHARING = {
    "tests/end_to_end/test_changed_dimensions.py": "a Spark with Delta Lake and Iceberg",
    "tests/end_to_end/test_changes_by_provider.py": "a Spark with Delta Lake and Iceberg",
    "tests/mv/test_added_rows_on_spark.py": "a Spark with Delta Lake and Iceberg",
    "tests/mv/test_observation.py": "a Spark with Delta Lake and Iceberg",
    "tests/spark/test_lake_plans.py": "a Spark with Delta Lake and Iceberg",
    "tests/end_to_end/test_lake_increments.py": "a Spark with Delta Lake and Iceberg",
    "tests/end_to_end/test_refresh_histories.py": "a Spark with Delta Lake and Iceberg",
    "tests/drivers/test_dbt_adapter.py": "a Spark with Delta Lake and Iceberg",
    "tests/end_to_end/test_fault_points.py": "a Spark with Delta Lake and Iceberg",
    "tests/end_to_end/test_answered_queries_seen_on_spark.py": "a gateway with an embedded Spark",
    "tests/end_to_end/test_answered_queries_on_spark.py": "a gateway with an embedded Spark",
    "tests/end_to_end/test_stale_partitions.py": "a gateway with an embedded Spark",
    "tests/end_to_end/test_guard_in_spark.py": "a gateway with an embedded Spark",
    "tests/end_to_end/test_suggestions.py": "a gateway with an embedded Spark",
    "tests/end_to_end/test_demo_story.py": "a gateway with an embedded Spark",
    "tests/end_to_end/test_session_settings.py": "a gateway with an embedded Spark",
    "tests/end_to_end/test_each_setting.py": "a gateway with an embedded Spark",
    "tests/transports/test_http_clients.py": "a Spark with several Thrift servers",
    "tests/transports/test_nginx.py": "a Spark with several Thrift servers",
    "tests/transports/test_own_sessions.py": "a Spark with several Thrift servers",
    "tests/transports/test_tls_clients.py": "a Spark with several Thrift servers",
    "tests/transports/test_upstreams.py": "a Spark with several Thrift servers",
}
"""Modules with a Spark that is not the one of most tests. Each process would start one of its own."""
LONGEST = (
    "tests/drivers/test_superset.py",
    "tests/end_to_end/test_incremental.py",
    "tests/end_to_end/test_lake_increments.py",
    "tests/end_to_end/test_refresh_histories.py",
    "tests/drivers/test_dbt_adapter.py",
    "tests/end_to_end/test_changes_by_provider.py",
    "tests/end_to_end/test_changed_dimensions.py",
    "tests/mv/test_observation.py",
    "tests/mv/test_added_rows_on_spark.py",
    "tests/end_to_end/test_answered_queries_on_spark.py",
    "tests/end_to_end/test_answered_queries_seen_on_spark.py",
    "tests/end_to_end/test_stale_partitions.py",
    "tests/end_to_end/test_suggestions.py",
    "tests/end_to_end/test_demo_story.py",
    "tests/end_to_end/test_each_setting.py",
    "tests/end_to_end/test_session_settings.py",
    "tests/end_to_end/test_guard_in_spark.py",
    "tests/end_to_end/test_row_policies.py",
    "tests/end_to_end/test_statements.py",
    "tests/end_to_end/test_reads.py",
    "tests/world/test_histories.py",
    "tests/spark/test_random_proofs.py",
    "tests/end_to_end/test_writes.py",
    "tests/end_to_end/test_partitions.py",
    "tests/end_to_end/test_versions.py",
    "tests/end_to_end/test_status_command.py",
    "tests/transports/test_http_clients.py",
    "tests/transports/test_nginx.py",
    "tests/transports/test_own_sessions.py",
    "tests/transports/test_tls_clients.py",
    "tests/transports/test_upstreams.py",
    "tests/spark/test_engine.py",
    "tests/end_to_end/test_second_engine.py",
    "tests/end_to_end/test_fault_points.py",
)
"""In the order in which they begin."""


def order(item: pytest.Item) -> tuple[int, int]:
    """The key by which modules are sorted; tests of one module keep their order."""
    file = item.nodeid.partition("::")[0]
    if file in LONGEST:
        return 0, LONGEST.index(file)
    return (1 if _with_spark(file) else 2), 0


def _with_spark(file: str) -> bool:
    return file.startswith(("tests/drivers/", "tests/end_to_end/", "tests/spark/"))


class Scheduling(LoadFileScheduling):
    """Gives the tests of a module, or of modules that share a Spark, to one process."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return SHARING.get(file, file)
