"""Holds the shapes of answers."""

import json

from groupsdk.connect.config_state import ClusterConfigState
from groupsdk.connect.rest.answers import (
    connector_info,
    connector_status,
    error_answer,
    task_status,
)
from groupsdk.connect.status import State, Status
from groupsdk.wire.connect_protocol import ConnectorTaskId


CONFIGS = ClusterConfigState(connectors={"c": {"k": "v"}}, task_counts={"c": 2})
STATUSES = {
    "status-connector-c": Status(State.RUNNING, "h:1", 3),
    "status-task-c-1": Status(State.FAILED, "h:2", 3, "ValueError"),
}
FAILED = {"id": 1, "state": "FAILED", "worker_id": "h:2", "trace": "ValueError"}


def test_a_connector_is_described_with_its_tasks() -> None:
    tasks = [{"connector": "c", "task": number} for number in range(2)]
    assert connector_info("c", CONFIGS) == {
        "name": "c",
        "config": {"name": "c", "k": "v"},
        "tasks": tasks,
        "type": "source",
    }


def test_what_nobody_has_spoken_of_is_unassigned() -> None:
    assert connector_status("c", CONFIGS, STATUSES) == {
        "name": "c",
        "connector": {"state": "RUNNING", "worker_id": "h:1"},
        "tasks": [{"id": 0, "state": "UNASSIGNED", "worker_id": ""}, FAILED],
        "type": "source",
    }
    assert task_status(ConnectorTaskId("c", 1), STATUSES) == FAILED


def test_an_error_is_said_twice() -> None:
    answer = error_answer(409, "try again")
    said = {"error_code": 409, "message": "try again"}
    assert (answer.status_code, json.loads(bytes(answer.body))) == (409, said)
