"""Holds what is measured of a worker, under Kafka Connect's names."""

from collections.abc import Iterable
from contextlib import ExitStack

from groupsdk.connect.store.status_backing_store import State
from groupsdk.connect.tasks.tolerance import ErrorCounts
from groupsdk.connect.worker_metrics import (
    CommitTimes,
    ConnectorView,
    Metric,
    Startups,
    TaskView,
    work_metrics,
)
from groupsdk.wire.connect_protocol import ConnectorTaskId
from tests.connect.rest.test_api import served
from tests.connect.workers import app, eventually, standalone, states


def values(metrics: Iterable[Metric], **tags: str) -> dict[str, float | str]:
    """The values with exactly these tags, by group and name."""
    return {
        f"{each.group.removesuffix('-metrics')}:{each.name}": each.value
        for each in metrics
        if dict(each.tags) == tags
    }


def test_starts_are_counted() -> None:
    assert set(values(Startups().metrics("task")).values()) == {0}
    assert values(Startups(4, 1).metrics("connector")) == {
        "connect-worker:connector-startup-attempts-total": 4,
        "connect-worker:connector-startup-success-total": 3,
        "connect-worker:connector-startup-success-percentage": 0.75,
        "connect-worker:connector-startup-failure-total": 1,
        "connect-worker:connector-startup-failure-percentage": 0.25,
    }


def test_commits_are_measured() -> None:
    times = CommitTimes()
    assert times.values()["offset-commit-avg-time-ms"] == 0
    times.count(10, failed=False)
    times.count(40, failed=True)
    assert times.values() == {
        "offset-commit-max-time-ms": 40,
        "offset-commit-avg-time-ms": 25,
        "offset-commit-failure-percentage": 0.5,
        "offset-commit-success-percentage": 0.5,
    }


def test_assigned_work_is_counted_by_state() -> None:
    tasks = [
        TaskView(ConnectorTaskId(name, number), state, CommitTimes(), ErrorCounts())
        for name, number, state in (
            ("a", 0, State.RUNNING),
            ("a", 2, State.FAILED),
            ("b", 1, State.PAUSED),
        )
    ]
    connectors = [
        ConnectorView("a", State.RUNNING, "Tail", "source", "1.0"),
        # only tasks of it are here
        ConnectorView("b", None, "Tail", "source", "1.0"),
    ]
    metrics = work_metrics(connectors, tasks)
    assert values(metrics) == {"connect-worker:connector-count": 1, "connect-worker:task-count": 3}
    of_a = values(metrics, connector="a")
    assert of_a.pop("connect-worker:connector-total-task-count") == 2
    assert of_a.pop("connect-worker:connector-running-task-count") == 1
    assert of_a.pop("connect-worker:connector-failed-task-count") == 1
    assert {key: value for key, value in of_a.items() if value != 0} == {
        "connector:status": "running",
        "connector:connector-type": "source",
        "connector:connector-class": "Tail",
        "connector:connector-version": "1.0",
    }
    assert "connector:status" not in values(metrics, connector="b")
    failed = values(metrics, connector="a", task="2")
    assert failed["connector-task:status"] == "failed"
    assert failed["task-error:total-record-failures"] == 0


def test_a_worker_measures_what_it_runs() -> None:
    with standalone() as worker:
        worker.admin.put_connector("c", {"connector.class": "Counting", "count": "2"}).result(60)
        worker.admin.put_connector("f", {"connector.class": "Failing"}).result(60)
        eventually(lambda: list(states(worker).values()).count("RUNNING") >= 4)
        eventually(lambda: states(worker).get("status-task-f-0") == "RESTARTING")
        whole = values(worker.metrics())
        assert whole["connect-worker:connector-count"] == 2
        assert whole["connect-worker:task-count"] == 3
        assert whole["connect-worker:connector-startup-success-total"] == 2
        attempts = whole["connect-worker:task-startup-attempts-total"]
        assert isinstance(attempts, int)
        assert attempts >= 3
        of_c = values(worker.metrics(), connector="c")
        assert of_c["connect-worker:connector-running-task-count"] == 2
        assert of_c["connector:connector-version"] == "2.1"
        task = {"connector": "c", "task": "0"}
        eventually(
            lambda: values(worker.metrics(), **task)[
                "connector-task:offset-commit-success-percentage"
            ]
        )
        with served(worker) as ask:
            code, text = ask("GET", "/metrics")
        assert code == 200
        assert b'groupsdk_connect_worker_connector_running_task_count{connector="c"} 2' in text
        assert b"# TYPE groupsdk_connect_worker_task_startup_attempts_total counter" in text


def test_rebalances_are_measured(servers: str, group_id: str) -> None:
    with ExitStack() as stack:
        worker = app().start(bootstrap_servers=servers, group_id=group_id, url="http://w:1")
        stack.callback(worker.stop)
        eventually(lambda: worker.is_leader)
        rebalance = "connect-worker-rebalance:"
        measured = eventually(
            lambda: (
                (found := values(worker.metrics())).get(f"{rebalance}completed-rebalances-total")
                and found
            )
        )
        assert measured[f"{rebalance}connect-protocol"] == "sessioned"
        assert measured[f"{rebalance}leader-name"] == "http://w:1"
        assert measured[f"{rebalance}epoch"] >= 1
        assert measured[f"{rebalance}rebalance-max-time-ms"] >= 0
        assert measured[f"{rebalance}time-since-last-rebalance-ms"] >= 0
