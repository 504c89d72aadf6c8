"""Writes the dashboard for Grafana from the list of its panels.

Run it after a change of the list: `.venv/bin/python scripts/grafana_dashboard.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DASHBOARD = Path(__file__).parent.parent / "conf" / "helm" / "freshgate" / "monitoring" / "dashboard.json"
WIDTH, HEIGHT = 24, 8
"""Of Grafana's grid, and of most panels."""
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
ONE = '{job=~"$job", instance=~"$instance"}'
RATE = "[$__rate_interval]"


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    about: str
    queries: Sequence[tuple[str, str]]
    """Expressions and their legends. `@` stands for the selector of jobs and instances, to which labels may be added as
    `@{label="value"}`, and `~` for the window of rates."""
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    stacked: bool = False


def _quantiles(metric: str, by: str = "") -> list[tuple[str, str]]:
    """The median and the 95th percentile of a histogram."""
    labels, legend = (f"{by}, le", f"{{{{{by}}}}}, ") if by else ("le", "")
    return [
        (f"histogram_quantile({quantile}, sum by ({labels}) (rate({metric}_bucket@~)))", f"{legend}{word}")
        for quantile, word in ((0.5, "median"), (0.95, "95 %"))
    ]


ROWS: Sequence[tuple[str, Sequence[Panel]]] = (
    (
        "Now",
        (
            Panel(
                "Spark answers",
                "0: no statement reaches Spark.",
                [("min(freshgate_upstream_up@)", "")],
                "bool",
                "stat",
                4,
            ),
            Panel("Gateways that lead", "Should be 1.", [("sum(freshgate_leader@)", "")], "short", "stat", 4),
            Panel("Views", "In the catalog.", [("max(freshgate_materialized_views@)", "")], "short", "stat", 4),
            Panel(
                "Views with something wrong",
                "By what is wrong. The page's Attention and freshgate.attention say why, and what to do.",
                [
                    ("sum by (what) (freshgate_view_trouble@)", "{{what}}"),
                    ("sum(freshgate_view_damaged@)", "damaged"),
                ],
                "short",
                "stat",
                12,
            ),
        ),
    ),
    (
        "Views",
        (
            Panel(
                "What is wrong",
                "Each view that is failing, late, unknown, paused or slow, and damaged ones.",
                [
                    ("sum by (database, view, what) (freshgate_view_trouble@)", ""),
                    ('label_replace(sum by (database, view) (freshgate_view_damaged@), "what", "damaged", "", "")', ""),
                ],
                kind="table",
            ),
            Panel(
                "Failures in a row",
                "How many refreshes of a view have failed since one succeeded.",
                [("topk(20, max by (database, view) (freshgate_view_failures_in_a_row@))", "{{database}}.{{view}}")],
            ),
            Panel(
                "Stale for, the ten worst",
                "How long views have missed a change. A view without a trigger is stale until the next read.",
                [("topk(10, max by (database, view) (freshgate_view_staleness_seconds@))", "{{database}}.{{view}}")],
                "s",
            ),
        ),
    ),
    (
        "Refreshes",
        (
            Panel(
                "Duration by method",
                "Median and 95th percentile at Spark, of refreshes that had something to do.",
                _quantiles("freshgate_refresh_duration_seconds", "method"),
                "s",
            ),
            Panel(
                "Ended refreshes",
                "By outcome and method. not_refresh: nothing had changed.",
                [("sum by (outcome, method) (rate(freshgate_refreshes_total@~))", "{{outcome}}, {{method}}")],
                "ops",
                stacked=True,
            ),
            Panel(
                "Running and waiting",
                "Refreshes at Spark, and those that wait for another refresh of the same view.",
                [
                    ("sum(freshgate_refreshes_running@)", "running"),
                    ("sum(freshgate_refreshes_waiting@)", "waiting"),
                ],
            ),
        ),
    ),
    (
        "Statements",
        (
            Panel(
                "Answered from",
                "Memory; a view that the statement does not name; a view that it names, fresh or after waiting for its "
                "refresh; Spark alone (forwarded).",
                [
                    (
                        "sum(rate(freshgate_result_cache_hits_total@~) + rate(freshgate_result_cache_shared_total@~))",
                        "memory",
                    ),
                    ("sum(rate(freshgate_rewrite_used_total@~))", "a view without its name"),
                    ('sum(rate(freshgate_statements_total@{taken_for="read"}~))', "a view by name"),
                    ('sum(rate(freshgate_statements_total@{taken_for="waited"}~))', "a view, after its refresh"),
                    ('sum(rate(freshgate_statements_total@{taken_for="forwarded"}~))', "forwarded"),
                ],
                "ops",
                stacked=True,
            ),
            Panel(
                "Duration",
                "From a statement's arrival until its outcome was known.",
                _quantiles("freshgate_statement_duration_seconds"),
                "s",
            ),
            Panel(
                "Waiting",
                "Which part of their time statements have waited, for refreshes of views and for their turn by "
                "limits.rules.",
                [
                    (
                        "sum(rate(freshgate_statement_waited_seconds_total@~)) / "
                        "sum(rate(freshgate_statement_duration_seconds_sum@~))",
                        "waited",
                    ),
                ],
                "percentunit",
            ),
            Panel(
                "Not succeeded",
                "Ended statements by outcome.",
                [
                    (
                        'sum by (outcome) (rate(freshgate_statements_total@{outcome!="succeeded"}~))',
                        "{{outcome}}",
                    )
                ],
                "ops",
                stacked=True,
            ),
            Panel(
                "At a limit",
                "Statements that wait because of limits.rules, and numbers used up: freshgate.limits says whose.",
                [
                    ("sum(freshgate_statements_waiting@)", "statements that wait"),
                    ("sum by (what) (freshgate_limits_full@)", "{{what}} used up"),
                ],
            ),
            Panel(
                "Sessions and connections",
                "Of clients.",
                [
                    ("sum(freshgate_sessions@)", "sessions"),
                    ("sum(freshgate_client_connections@)", "connections"),
                    ("sum(freshgate_operations@)", "operations"),
                ],
            ),
        ),
    ),
    (
        "Rewriting",
        (
            Panel(
                "Misses by reason",
                "Why queries on base tables of views that take part were forwarded unchanged.",
                [("sum by (reason) (rate(freshgate_rewrite_refused_total@~)) > 0", "{{reason}}")],
                "ops",
                stacked=True,
            ),
            Panel(
                "Time saved",
                "Estimated seconds that answers from views save in each second.",
                [("sum(rate(freshgate_rewrite_saved_seconds_total@~))", "saved")],
                "s",
            ),
            Panel(
                "Compared, different, failed",
                "Answers compared with those of the base tables, those that differed (should be 0), and texts on views "
                "that failed at Spark.",
                [
                    ("sum(increase(freshgate_rewrite_compared_total@~))", "compared"),
                    ("sum(increase(freshgate_rewrite_differed_total@~))", "different"),
                    ("sum(increase(freshgate_rewrite_failed_total@~))", "failed"),
                ],
            ),
        ),
    ),
    (
        "Views in memory",
        (
            Panel(
                "Answered, and misses by reason",
                "Reads answered from rows in memory, and why Spark answered the others.",
                [
                    ("sum(rate(freshgate_memory_answers_total@~))", "answered"),
                    ("sum by (reason) (rate(freshgate_memory_misses_total@~)) > 0", "{{reason}}"),
                ],
                "ops",
                stacked=True,
            ),
            Panel(
                "Time saved in memory",
                "Estimated seconds that these answers save in each second.",
                [("sum(rate(freshgate_memory_saved_seconds_total@~))", "saved")],
                "s",
            ),
            Panel(
                "Bytes in memory",
                "Of the rows of views.",
                [("sum by (instance) (freshgate_memory_bytes@)", "{{instance}}")],
                "bytes",
            ),
            Panel(
                "Loads and what left memory",
                "Loads by outcome, and views that left memory by reason. room: memory.bytes is too small.",
                [
                    ("sum by (outcome) (increase(freshgate_memory_loads_total@~)) > 0", "load {{outcome}}"),
                    ("sum by (reason) (increase(freshgate_memory_evictions_total@~)) > 0", "left {{reason}}"),
                ],
                width=12,
            ),
            Panel(
                "Compared in memory, and different",
                "Answers that were compared with Spark's, and those that differed (should be 0).",
                [
                    ("sum(increase(freshgate_memory_compared_total@~))", "compared"),
                    ("sum(increase(freshgate_memory_differed_total@~))", "different"),
                ],
                width=12,
            ),
        ),
    ),
    (
        "Spark",
        (
            Panel(
                "Time to connect and log in",
                "For clients: median and 95th percentile.",
                _quantiles("freshgate_upstream_connect_duration_seconds"),
                "s",
            ),
            Panel(
                "Failed connections",
                "Attempts to connect to Spark for clients.",
                [("sum by (instance) (rate(freshgate_upstream_connect_failures_total@~))", "{{instance}}")],
                "ops",
            ),
            Panel(
                "Several Spark servers",
                "Sessions at each; empty with one server.",
                [("sum by (server) (freshgate_spark_server_sessions@)", "{{server}}")],
                stacked=True,
            ),
        ),
    ),
    (
        "Gateways",
        (
            Panel(
                "Takeovers",
                "The epoch grows with each. Steps within an hour: the leaders' logs say why they gave up.",
                [("max by (job) (freshgate_epoch@)", "epoch of {{job}}")],
            ),
            Panel(
                "Duration of takeovers, and of checks",
                "From the suspicion that the leader has gone until another one served; and checks whether it leads.",
                [
                    (
                        "sum(increase(freshgate_takeover_seconds_sum@~)) / "
                        "sum(increase(freshgate_takeover_seconds_count@~))",
                        "takeover",
                    ),
                    (
                        "histogram_quantile(0.95, sum by (le) (rate(freshgate_epoch_check_seconds_bucket@~)))",
                        "check, 95 %",
                    ),
                ],
                "s",
            ),
            Panel(
                "Lag of the event loop",
                "The maximum of a minute. All clients of a gateway wait that long.",
                [("max by (instance) (freshgate_event_loop_lag_max_seconds@)", "{{instance}}")],
                "s",
            ),
            Panel(
                "Processor",
                "Cores that the process uses; one at most does what clients wait for.",
                [
                    (
                        "sum by (instance) (rate(process_cpu_seconds_total@~) and on (job, instance) freshgate_info@)",
                        "{{instance}}",
                    )
                ],
            ),
            Panel(
                "Memory",
                "Resident, without the embedded Spark.",
                [
                    (
                        "sum by (instance) (process_resident_memory_bytes@ and on (job, instance) freshgate_info@)",
                        "{{instance}}",
                    ),
                    ("sum(freshgate_result_cache_bytes@)", "results in memory"),
                ],
                "bytes",
            ),
            Panel(
                "Audit and alerts",
                "Lines of the audit that could not be written (a full disk), and alerts that notify.url did not take.",
                [
                    ("sum(increase(freshgate_audit_lines_lost_total@~))", "lines lost"),
                    (
                        'sum by (outcome) (increase(freshgate_notifications_total@{outcome=~"failed|dropped"}~))',
                        "alerts {{outcome}}",
                    ),
                ],
            ),
        ),
    ),
)


def expression(text: str) -> str:
    """The expression for Prometheus, with Grafana's variables."""
    own = ONE.removesuffix("}")
    return text.replace("@{", f"{own}, ").replace("@", ONE).replace("~)", f"{RATE})").replace("~ ", f"{RATE} ")


def dashboard() -> dict[str, Any]:
    return {
        "title": "Freshgate",
        "uid": "freshgate",
        "tags": ["freshgate"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "1m",
        "templating": {"list": list(_variables())},
        "panels": list(_panels()),
    }


def _variables() -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    for name, query in (
        ("job", "label_values(freshgate_info, job)"),
        ("instance", 'label_values(freshgate_info{job=~"$job"}, instance)'),
    ):
        yield {
            "name": name,
            "label": name.capitalize(),
            "type": "query",
            "datasource": SOURCE,
            "query": {"query": query, "refId": name},
            "refresh": 2,
            "multi": True,
            "includeAll": True,
            "current": {"text": ["All"], "value": ["$__all"]},
            "sort": 1,
        }


def _panels() -> Iterator[dict[str, Any]]:
    number, top = 0, 0
    for title, panels in ROWS:
        number += 1
        place = {"x": 0, "y": top, "w": WIDTH, "h": 1}
        yield {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}
        top, left = top + 1, 0
        height = 4 if panels[0].kind == "stat" else HEIGHT
        for panel in panels:
            if left + panel.width > WIDTH:
                top, left = top + height, 0
            number += 1
            yield _panel(number, panel, {"x": left, "y": top, "w": panel.width, "h": height})
            left += panel.width
        top += height


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    table, stat = panel.kind == "table", panel.kind == "stat"
    defaults: dict[str, Any] = {"unit": panel.unit, **({"noValue": "none"} if table or stat else {})}
    if not (table or stat):
        stacking = {"mode": "normal" if panel.stacked else "none"}
        defaults |= {"min": 0, "custom": {"fillOpacity": 20 if panel.stacked else 0, "stacking": stacking}}
    shown: dict[str, Any] = {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + place),
                "datasource": SOURCE,
                "expr": expression(text),
                "legendFormat": legend or "__auto",
                **({"format": "table"} if table else {}),
                **({"instant": True, "range": False} if table or stat else {}),
            }
            for place, (text, legend) in enumerate(panel.queries)
        ],
    }
    if table:
        hidden = {"Time": True, "Value": True, **{f"Value #{chr(ord('A') + place)}": True for place in range(9)}}
        shown["transformations"] = [
            {"id": "merge", "options": {}},
            {"id": "organize", "options": {"excludeByName": hidden}},
        ]
    if stat:
        shown["options"] = {"reduceOptions": {"calcs": ["lastNotNull"]}, "textMode": "auto"}
    return shown


def text() -> str:
    """The file's text."""
    return json.dumps(dashboard(), indent=2) + "\n"


if __name__ == "__main__":
    DASHBOARD.write_text(text(), encoding="utf-8")
