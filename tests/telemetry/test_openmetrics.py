"""Holds the exposition to the format, and to prometheus-client's own parser."""

from io import StringIO
from types import SimpleNamespace

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_fd_to_metric_families

from groupsdk.admin.watching import ClusterView
from groupsdk.connect.worker_metrics import Metric
from groupsdk.member.metrics import METRICS, CoordinatorMetrics
from groupsdk.telemetry.openmetrics import (
    CONTENT_TYPE,
    TEXT_TYPE,
    Family,
    exposition,
    openmetrics,
    text_format,
    worker_families,
)
from groupsdk.telemetry.registry import coordinator_families, finding_families, watched_families
from groupsdk.verdict import Finding, GroupVerdict, Severity
from tests.support.promtool import promtool


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
    lines = text.splitlines()
    assert (
        "# HELP groupsdk_connect_worker_task_count task-count of Kafka Connect's connect-worker-metrics"
        in lines
    )
    assert [each for each in lines if not each.startswith("# HELP")] == [
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


def test_prometheus_own_format_names_each_metric_as_its_samples() -> None:
    families = [
        Family("joins", "counter", 'Joins, "all"\nof them', (({"group": 'a"b'}, 3.0),)),
        Family("group", "info", "Its state", (({"state": "Stable"}, 1.0),)),
        Family("members", "gauge", "", (({}, 2.0),)),
    ]
    assert text_format(families).splitlines() == [
        r'# HELP joins_total Joins, "all"\nof them',
        "# TYPE joins_total counter",
        r'joins_total{group="a\"b"} 3.0',
        "# HELP group_info Its state",
        "# TYPE group_info gauge",
        'group_info{state="Stable"} 1.0',
        "# TYPE members gauge",
        "members 2.0",
    ]
    assert [each.name for each in text_fd_to_metric_families(StringIO(text_format(families)))]


PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


@pytest.mark.parametrize("accept", [PROMETHEUS, "text/plain, Application/OpenMetrics-Text"])
def test_openmetrics_is_the_answer_where_it_is_accepted(accept: str) -> None:
    text, media_type = exposition([], accept)
    assert text == "# EOF\n"
    assert media_type == CONTENT_TYPE


@pytest.mark.parametrize("accept", ["", "*/*", "text/html", "application/openmetrics-text;q=0"])
def test_prometheus_own_format_is_the_answer_otherwise(accept: str) -> None:
    text, media_type = exposition([], accept)
    assert text == ""
    assert media_type == TEXT_TYPE


def test_promtool_accepts_the_metrics_of_groups_and_members() -> None:
    verdict = GroupVerdict(
        "g", 0, (Finding("growing_lag", Severity.WARNING, "g", "saw", "cost", "change", 0.8),)
    )
    families = [
        *watched_families(ClusterView(0)),
        *finding_families([verdict]),
        *coordinator_families(CoordinatorMetrics().snapshot(0), {"group": "g"}),
    ]
    promtool("check", "metrics", text=text_format(families))
