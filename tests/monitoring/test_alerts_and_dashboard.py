"""conf/monitoring: the alerts for Prometheus and the dashboard for Grafana, against the metrics that exist."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import grafana_dashboard
import pytest
import yaml
from deployments import program, run
from monitoring.test_metrics import NAMES, Stage, catalog_of, door_text, task_of
from processes import ROOT
from prometheus_client.parser import text_string_to_metric_families

from gateway.monitoring import view_metrics
from gateway.mv.model.view import TaskStatus
from gateway.service.clients.audit import Outcome, TakenFor

MONITORING = ROOT / "conf" / "monitoring"
RULES = yaml.safe_load((MONITORING / "alerts.yaml").read_text(encoding="utf-8"))
DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text(encoding="utf-8"))
DOCS, MONITOR = ROOT / "docs", "how-to/monitoring.md"
OF_PROMETHEUS = {"job", "instance"}
"""Labels that Prometheus adds to each series."""

_STRING = r'"(?:[^"\\]|\\.)*"'
_TOKEN = re.compile(rf"{_STRING}|\$?[A-Za-z_:][\w:]*|\[[^\]]*\]|[{{}}()=!~,]|[^\s\w]|\d[\w.]*|\s+")
_NAME = re.compile(r"[A-Za-z_:][\w:]*")
_GROUPING = {"by", "without", "on", "ignoring", "group_left", "group_right"}
_WORDS = {"and", "or", "unless", "bool", "offset"}


class Expression:
    """The metrics, labels and values that an expression names. Knows as much of PromQL as the files use."""

    def __init__(self, text: str) -> None:
        self.metrics: dict[str, dict[str, str]] = {}
        """The values of the labels in braces, by metric and label."""
        self.labels: set[str] = set()
        """Those that are grouped by."""
        tokens = [each for each in _TOKEN.findall(text) if not each.isspace()]
        place = 0
        while place < len(tokens):
            token, following = tokens[place], tokens[place + 1] if place + 1 < len(tokens) else ""
            place += 1
            if token in _GROUPING:
                end = tokens.index(")", place)
                self.labels |= set(tokens[place + 1 : end]) - {","}
                place = end + 1
            elif (
                re.fullmatch(r"[A-Za-z_:][\w:]*", token) and token not in _WORDS and following not in {"(", *_GROUPING}
            ):
                matched = self.metrics.setdefault(token, {})
                if following == "{":
                    end = tokens.index("}", place)
                    inside = tokens[place + 1 : end]
                    names = [each for each, after in pairwise(inside) if after in "=!"]
                    values = [each[1:-1] for each in inside if each.startswith('"')]
                    matched |= dict(zip([each for each in names if each.isidentifier()], values, strict=True))
                    place = end + 1


def test_expressions_are_taken_apart() -> None:
    found = Expression(
        'sum by (a, le) (rate(m_total{x="1", y=~"2|3"}[5m])) / on (job) n and changes(max(o)[1h:1m]) > 0.5'
    )
    assert found.metrics == {"m_total": {"x": "1", "y": "2|3"}, "n": {}, "o": {}}
    assert found.labels == {"a", "le", "job"}


def known_metrics() -> dict[str, set[str]]:
    """The labels of each sample that a gateway or a door shows, by its name."""
    catalog = catalog_of(NAMES)
    catalog.report_damage(catalog.entry("v1"), "its storage table was dropped")
    catalog.entry("v3").history.tasks.append((1, task_of(TaskStatus.FAILED, 1)))
    stage = Stage(catalog)
    stage.tasks.tally.by_view["v2"] = Counter({TaskStatus.FAILED: 1})
    stage.tasks.tally.ended[TaskStatus.FAILED, next(iter(stage.tasks.tally.seconds))] = 1
    stage.audit.counts.statements[TakenFor.READ, Outcome.FAILED] = 1
    found: dict[str, set[str]] = {}
    for text in (stage.text(), door_text()):
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
    return found


KNOWN = known_metrics()


def test_every_family_of_views_has_a_sample() -> None:
    """Otherwise the labels of its metric would not be known here."""
    for family in view_metrics.FAMILIES:
        name = f"freshgate_view_{family.name}" + ("_total" if family.counts else "")
        assert KNOWN[name] == set(family.labels)


def values_of(metric: str, label: str) -> set[str]:
    """What the reference says of a label, with the page of the audit for the values that it refers to."""
    (row,) = re.findall(
        rf"^\| `{_family(metric)}` \|.*$", (DOCS / "reference" / "metrics.md").read_text(), re.MULTILINE
    )
    audit = (DOCS / MONITOR).read_text()
    if label in ("taken_for", "outcome"):
        row += "".join(re.findall(rf"^\| `{label}` \|.*$", audit, re.MULTILINE))
    return set(re.findall(r"`(\w+)`", row))


def _family(metric: str) -> str:
    return metric if metric.endswith("_total") else re.sub(r"_(?:bucket|sum|count)$", "", metric)


def check(text: str) -> Expression:
    found = Expression(text.replace("$__rate_interval", "5m"))
    assert found.metrics, text
    for metric, matched in found.metrics.items():
        assert metric in KNOWN, f"{metric} does not exist: {text}"
        for label, value in matched.items():
            assert label in KNOWN[metric] | OF_PROMETHEUS, f"{metric} has no label {label}: {text}"
            if label not in OF_PROMETHEUS:
                unknown = set(value.split("|")) - values_of(metric, label)
                assert not unknown, f"{label} of {metric} is never {unknown}: {text}"
    labels = set().union(*(KNOWN[metric] for metric in found.metrics)) | OF_PROMETHEUS
    assert found.labels <= labels, f"nothing has {found.labels - labels}: {text}"
    return found


# --- alerts --------------------------------------------------------------------------------------------------------


def alerts() -> list[dict[str, Any]]:
    return [rule for group in RULES["groups"] for rule in group["rules"]]


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: str(alert["alert"]))
def test_an_alert_is_about_metrics_that_exist_and_says_what_to_do(alert: dict[str, Any]) -> None:
    found = check(alert["expr"])
    assert alert["labels"]["severity"] in ("critical", "warning")
    annotations = alert["annotations"]
    assert annotations.keys() == {"summary", "description"}
    labels = set().union(*(KNOWN[metric] for metric in found.metrics)) | OF_PROMETHEUS
    assert set(re.findall(r"\$labels\.(\w+)", str(annotations))) <= labels
    # What is summed has lost its other labels.
    if "sum by (job)" in alert["expr"] or "max by (job)" in alert["expr"]:
        assert "$labels" not in str(annotations)


def test_names_of_alerts_are_unique_and_documented_in_their_order() -> None:
    names = [each["alert"] for each in alerts()]
    assert len(set(names)) == len(names)
    page = (DOCS / MONITOR).read_text(encoding="utf-8")
    assert re.findall(r"^\| `([A-Z]\w+)` \|", page, re.MULTILINE) == names


def test_every_kind_of_trouble_has_an_alert() -> None:
    about = {value for each in alerts() for value in re.findall(r'what="(\w+)"', each["expr"])}
    named = {metric for each in alerts() for metric in Expression(each["expr"]).metrics}
    assert about >= {"late", "unknown", "slow"}
    assert named >= {"freshgate_view_damaged", "freshgate_view_failures_in_a_row", "freshgate_alerts_total"}


def test_prometheus_takes_the_rules() -> None:
    done = run([str(program("promtool")), "check", "rules", str(MONITORING / "alerts.yaml")])
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(alerts())} rules found" in done.stdout + done.stderr


def test_alerts_fire_when_they_should() -> None:
    stories = Path(__file__).with_name("alerts_test.yaml")
    done = run([str(program("promtool")), "test", "rules", str(stories)])
    assert done.returncode == 0, done.stdout + done.stderr


# --- the dashboard -------------------------------------------------------------------------------------------------


def panels() -> list[dict[str, Any]]:
    return [each for each in DASHBOARD["panels"] if each["type"] != "row"]


def test_the_dashboard_is_the_one_of_the_script() -> None:
    again = "Run scripts/grafana_dashboard.py"
    assert (MONITORING / "dashboard.json").read_text(encoding="utf-8") == grafana_dashboard.text(), again


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: str(panel["title"]))
def test_a_panel_shows_metrics_that_exist(panel: dict[str, Any]) -> None:
    assert panel["description"]
    assert panel["targets"]
    for target in panel["targets"]:
        found = check(target["expr"])
        assert all(matched.keys() >= OF_PROMETHEUS for matched in found.metrics.values()), target["expr"]
        grouped = found.labels | OF_PROMETHEUS
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= grouped, target["expr"]
        assert not re.search(r"[@~](?![\"=])|\$(?!job|instance|__rate_interval)", target["expr"].replace('=~"', "")), (
            target
        )


def test_panels_do_not_overlap_and_have_numbers_of_their_own() -> None:
    taken: set[tuple[int, int]] = set()
    for each in DASHBOARD["panels"]:
        place = each["gridPos"]
        assert place["x"] + place["w"] <= grafana_dashboard.WIDTH
        columns, lines = range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        cells = {(x, y) for x in columns for y in lines}
        assert not cells & taken, each["title"]
        taken |= cells
    numbers = [each["id"] for each in DASHBOARD["panels"]]
    assert len(set(numbers)) == len(numbers)


def test_the_dashboard_names_no_source_of_its_own() -> None:
    """It is asked for when the dashboard is imported."""
    for each in panels():
        assert each["datasource"]["uid"] == "${datasource}"
        assert all(target["datasource"]["uid"] == "${datasource}" for target in each["targets"])
    assert [each["name"] for each in DASHBOARD["templating"]["list"]] == ["datasource", "job", "instance"]
