"""Holds the exposition to the format, and to prometheus-client's own parser."""

from types import SimpleNamespace

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from groupsdk.connect.worker_metrics import Metric
from groupsdk.member.metrics import METRICS, CoordinatorMetrics
from groupsdk.telemetry.openmetrics import Family, openmetrics, worker_families
from groupsdk.telemetry.registry import coordinator_families


NAN = float("nan")


def test_the_metrics_of_a_member() -> None:
    text = openmetrics(
        coordinator_families(
            {"join-time-avg": 12.5, "join-total": 3.0, "sync-time-max": NAN},
            {"group": 'a"b\\c\nd', "client_id": "x"},
        )
    )
    labels = r'{group="a\"b\\c\nd",client_id="x"}'
    assert text.splitlines() == [
        "# TYPE groupsdk_coordinator_join_time_avg gauge",
        f"# HELP groupsdk_coordinator_join_time_avg {METRICS['join-time-avg']}",
        f"groupsdk_coordinator_join_time_avg{labels} 12.5",
        "# TYPE groupsdk_coordinator_join counter",
        f"# HELP groupsdk_coordinator_join {METRICS['join-total']}",
        f"groupsdk_coordinator_join_total{labels} 3.0",
        "# TYPE groupsdk_coordinator_sync_time_max gauge",
        f"# HELP groupsdk_coordinator_sync_time_max {METRICS['sync-time-max']}",
        f"groupsdk_coordinator_sync_time_max{labels} NaN",
        "# EOF",
    ]
    assert text.endswith("# EOF\n")


def test_a_whole_snapshot_has_each_family_once() -> None:
    text = openmetrics(coordinator_families(CoordinatorMetrics().snapshot(0), {}))
    families = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(families) == len(set(families)) == len(METRICS)
    assert [each.name for each in text_string_to_metric_families(text)] == families


@pytest.mark.parametrize("name", ["", "a-b", "1a", "ü", "a\n"])
def test_a_bad_label_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cannot name a label"):
        openmetrics([Family("a", "gauge", "", (({name: "x"}, 1.0),))])


def test_the_metrics_of_a_worker() -> None:
    metrics = [
        Metric("connect-worker-metrics", "task-count", 2),
        Metric("connect-worker-metrics", "connector-total-task-count", 1, {"connector": 'a"\n\\'}),
        Metric("connect-worker-metrics", "connector-total-task-count", 1, {"connector": "b"}),
        Metric("connect-worker-metrics", "task-startup-attempts-total", 3),
        Metric("connector-metrics", "status", "running", {"connector": "b"}),
        Metric("connect-worker-rebalance-metrics", "rebalance-avg-time-ms", NAN),
    ]
    worker = SimpleNamespace(metrics=lambda: metrics)
    text = openmetrics(worker_families(worker, {}))
    assert text.splitlines() == [
        "# TYPE groupsdk_connect_worker_task_count gauge",
        "groupsdk_connect_worker_task_count 2.0",
        "# TYPE groupsdk_connect_worker_connector_total_task_count gauge",
        r'groupsdk_connect_worker_connector_total_task_count{connector="a\"\n\\"} 1.0',
        'groupsdk_connect_worker_connector_total_task_count{connector="b"} 1.0',
        "# TYPE groupsdk_connect_worker_task_startup_attempts counter",
        "groupsdk_connect_worker_task_startup_attempts_total 3.0",
        "# TYPE groupsdk_connector_status info",
        'groupsdk_connector_status_info{connector="b",value="running"} 1.0',
        "# TYPE groupsdk_connect_worker_rebalance_rebalance_avg_time_ms gauge",
        "groupsdk_connect_worker_rebalance_rebalance_avg_time_ms NaN",
        "# EOF",
    ]
    read = list(text_string_to_metric_families(text))
    assert read[1].samples[0].labels == {"connector": 'a"\n\\'}


def test_control_characters_in_labels_are_escaped() -> None:
    name = 'a\x1b[2J\r\x00\x85\u2028\ud800"\\\nb'
    text = openmetrics([Family("a", "gauge", "", (({"group": name}, 1.0),))])
    assert text.splitlines()[1] == (r'a{group="a\\x1b[2J\\x0d\\x00\\x85\\u2028\\ud800\"\\\nb"} 1.0')
    text.encode()
    (read,) = text_string_to_metric_families(text)
    assert read.samples[0].labels == {"group": 'a\\x1b[2J\\x0d\\x00\\x85\\u2028\\ud800"\\\nb'}


def test_names_that_are_escaped_alike_make_one_series() -> None:
    samples = tuple(({"group": each}, 1.0) for each in ("a\x1b", r"a\x1b"))
    text = openmetrics([Family("a", "gauge", "", samples)])
    assert text.count("a{") == 1
