"""Holds statuses to the form that Kafka Connect keeps."""

from dataclasses import replace

import pytest

from groupsdk.connect.group.work import Work
from groupsdk.connect.store.config_backing_store import ClusterConfigState
from groupsdk.connect.store.status_backing_store import (
    MAX_TRACE,
    State,
    Status,
    for_log,
    owned_before,
    stack_trace,
    status_key,
)
from groupsdk.wire.connect_protocol import ConnectorTaskId


def test_status_records_are_kafka_connects() -> None:
    assert status_key("a") == "status-connector-a"
    assert status_key("a", 3) == "status-task-a-3"
    status = Status(State.FAILED, "host:1", 7, "Traceback ...")
    assert status.record() == {
        "state": "FAILED",
        "worker_id": "host:1",
        "generation": 7,
        "trace": "Traceback ...",
    }
    assert Status(State.RUNNING, "host:1", 7).record().keys() == {
        "state",
        "worker_id",
        "generation",
    }


def test_written_status_is_read_back() -> None:
    status = Status(State.RESTARTING, "host:1", 7, "why", "1.0")
    assert Status.of(status.record()) == status
    # as Kafka Connect says of classes without one
    unversioned = Status.of({**status.record(), "version": "undefined"})
    assert unversioned == replace(status, version=None)


@pytest.mark.parametrize(
    "value",
    [
        *(None, (), {}, "RUNNING", {"state": "RUNNING"}),
        *({"state": "DREAMING", "generation": 1}, {"state": "RUNNING", "generation": 2**63}),
    ],
)
def test_malformed_status_is_ignored(value: object) -> None:
    assert Status.of(value) is None


def test_long_traces_are_cut_to_their_end() -> None:
    read = Status.of({"state": "FAILED", "generation": 1, "trace": "x" * MAX_TRACE + "ValueError"})
    assert read is not None
    assert read.trace is not None
    assert len(read.trace) == MAX_TRACE
    assert read.trace.endswith("ValueError")


def test_connectors_and_tasks_with_a_status_were_assigned_before() -> None:
    configs = ClusterConfigState(5, {"a": {}, "b": {}}, {}, {"a": 2})
    status = Status(State.RUNNING, "w1", 1)
    said = {"status-connector-a": status, "status-task-a-1": status, "status-task-gone-0": status}
    assert owned_before(configs, said) == Work(("a",), (ConnectorTaskId("a", 1),))


def test_logs_say_first_what_was_raised() -> None:
    assert for_log("Traceback ...\n  line\nValueError: no\n") == (
        "ValueError: no\nTraceback ...\n  line\nValueError: no"
    )
    assert for_log("its state cannot be read") == "its state cannot be read"


def test_a_stack_trace_is_kept_to_its_end() -> None:
    with pytest.raises(ValueError, match="the end") as raised:
        raise ValueError("x" * MAX_TRACE + "the end")
    trace = stack_trace(raised.value)
    assert len(trace) == MAX_TRACE
    assert trace.endswith("the end\n")
