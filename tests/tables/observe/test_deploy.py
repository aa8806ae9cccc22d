"""The dashboard and the alerts use exactly the metrics that a running server exports."""

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tables.live_server import run_server
from tables.promql import Exported, find_faults, parse_names
from tables.samples import user
from tables.scraping import full_catalog, scrape

ROOT = Path(__file__).parents[3]
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "livejoin.json").read_text())
ALERTS = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yaml").read_text())
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]


@pytest.fixture(scope="module")
def exported() -> Exported:
    """Scrape a server that has rows, generations and a viewer."""
    with run_server(full_catalog()) as server, server.viewer("users_ui") as viewer:
        viewer.next_frame()
        server.apply(7, 9, user(5))
        viewer.next_frame("data")
        viewer.next_frame("heartbeat")
        exported_labels: dict[str, list[Mapping[str, str]]] = defaultdict(list)
        for name, labels in scrape(server):
            exported_labels[name].append(dict(labels))
    if sys.platform != "linux":  # prometheus-client reads /proc
        exported_labels |= {name: [{}] for name in _process_metrics()}
    return dict(exported_labels)


def _process_metrics() -> set[str]:
    names = (name for expression, _ in _targets() for name in parse_names(expression).metrics)
    return {name for name in names if name.startswith("process_")}


def _targets() -> Iterator[tuple[str, str]]:
    """Yield each expression of the dashboard with its legend."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"], target["legendFormat"]
    for annotation in DASHBOARD["annotations"]["list"]:
        yield annotation["expr"], ""
    for variable in DASHBOARD["templating"]["list"][1:]:
        variable_query = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["definition"])
        assert variable_query is not None, variable
        yield variable_query[1], f"{{{{{variable_query[2]}}}}}"


@pytest.mark.parametrize("target", list(_targets()))
def test_the_dashboard_uses_exported_metrics(target: tuple[str, str], exported: Exported) -> None:
    expression, legend = target
    assert parse_names(expression).metrics
    assert find_faults(expression, exported, legend) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_uses_exported_metrics(rule: dict[str, Any], exported: Exported) -> None:
    notes = " ".join(rule["annotations"].values())
    assert parse_names(rule["expr"]).metrics
    assert find_faults(rule["expr"], exported, notes) == []
    assert rule["annotations"].keys() == {"summary", "description"}
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}


def test_no_alert_fires_for_missing_viewers() -> None:
    assert not [rule for rule in RULES if "livejoin_viewers" in rule["expr"]]


def test_every_exported_metric_is_used_and_documented(exported: Exported) -> None:
    expressions = [*(expression for expression, _ in _targets()), *(r["expr"] for r in RULES)]
    used = {name for expression in expressions for name in parse_names(expression).metrics}
    text = (ROOT / "docs" / "operations.md").read_text()
    own_metrics = {
        re.sub(r"_(bucket|sum|count)$", "", name) for name in exported if "livejoin" in name
    }
    assert {name for name in own_metrics if not {name, f"{name}_bucket"} & used} == set()
    assert {name for name in own_metrics if f"`{name}" not in text} == set()


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("livejoin_nope > 0", "no metric livejoin_nope"),
        ('livejoin_state{state="gone"} == 1', "livejoin_state has no state=gone"),
        ('livejoin_state{table="users_ui"}', "livejoin_state has no table=users_ui"),
        ("sum by (source) (livejoin_viewers)", "no label source"),
    ],
)
def test_a_missing_metric_or_label_is_found(
    expression: str, fault: str, exported: Exported
) -> None:
    assert find_faults(expression, exported) == [fault]
