"""The dbt adapter of Freshgate: dbt-spark with materialized views."""

from dbt.adapters.base import AdapterPlugin
from dbt.adapters.freshgate.connections import FreshgateConnectionManager, FreshgateCredentials
from dbt.adapters.freshgate.impl import FreshgateAdapter
from dbt.adapters.freshgate.relation import FreshgateRelation
from dbt.include import freshgate

__all__ = ["FreshgateAdapter", "FreshgateConnectionManager", "FreshgateCredentials", "FreshgateRelation", "Plugin"]

Plugin = AdapterPlugin(
    adapter=FreshgateAdapter,  # type: ignore[arg-type]
    credentials=FreshgateCredentials,
    include_path=freshgate.PACKAGE_PATH,
    dependencies=["spark"],
)
