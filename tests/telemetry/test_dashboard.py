"""Holds the dashboard and the page to the names that are exported."""

import json
import re
from types import SimpleNamespace
from typing import Any, Final

from groupsdk.admin.watching import ClusterView
from groupsdk.connect.worker_metrics import Metric
from groupsdk.member.metrics import METRICS
from groupsdk.telemetry.openmetrics import worker_families
from groupsdk.telemetry.registry import finding_families, member_families, watched_families
from groupsdk.verdict import KnownLog
from tests.examples.process import ROOT
from tests.support.plain_workers import PlainWorker


_DASHBOARD: Final = ROOT / "docs/grafana-dashboard.json"


def exported_names() -> set[str]:
    with PlainWorker(bootstrap_servers="127.0.0.1:1", group_id="a") as member:
        told = SimpleNamespace(
            snapshot=member.snapshot, metrics=lambda: dict.fromkeys(METRICS, 0.0)
        )
        found = [*member_families(told, {})]
    metrics = [
        Metric("connect-worker-metrics", name, 0)
        for name in ("task-count", "connector-failed-task-count")
    ]
    found += worker_families(SimpleNamespace(metrics=lambda: metrics), {})
    found += [*watched_families(ClusterView(0)), *finding_families((), KnownLog())]
    return {each.sample_name for each in found}


def test_the_dashboard_asks_for_metrics_that_are_exported() -> None:
    dashboard: Any = json.loads(_DASHBOARD.read_text())
    expressions = [t["expr"] for panel in dashboard["panels"] for t in panel["targets"]]
    assert len(expressions) == len(dashboard["panels"]) > 8
    asked = {name for each in expressions for name in re.findall(r"groupsdk_\w+", each)}
    assert asked <= exported_names()
    identifiers = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(identifiers)) == len(identifiers)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]]
    assert len(set(places)) == len(places)


def test_the_page_names_what_is_exported() -> None:
    page = (ROOT / "docs/metrics.md").read_text()
    prefixes = ("groupsdk_member_", "groupsdk_group_", "groupsdk_cluster_")
    named = set(re.findall(r"`(groupsdk_(?:member|group|cluster)_\w+)`", page))
    assert named == {each for each in exported_names() if each.startswith(prefixes)}
