"""Holds the shapes of answers."""

import json
from dataclasses import replace

import pytest

from groupsdk.connect.rest.messages import (
    connector_info,
    connector_status,
    task_status,
)
from groupsdk.connect.store.config_backing_store import ClusterConfigState
from groupsdk.connect.store.status_backing_store import State, Status
from groupsdk.connect.tasks.task import Connector
from groupsdk.http.access import JsonAnswer, error_answer
from groupsdk.wire.connect_protocol import ConnectorTaskId
from tests.connect.workers import Counting


class Sink(Counting):
    """One whose data goes out of Kafka."""

    kind = "sink"


CONFIGS = ClusterConfigState(connectors={"c": {"k": "v"}}, task_counts={"c": 2})
STATUSES = {
    "status-connector-c": Status(State.RUNNING, "h:1", 3, version="1.2"),
    "status-task-c-1": Status(State.FAILED, "h:2", 3, "ValueError"),
}
FAILED = {"id": 1, "state": "FAILED", "worker_id": "h:2", "trace": "ValueError"}


def test_a_connector_is_described_with_its_tasks() -> None:
    tasks = [{"connector": "c", "task": number} for number in range(2)]
    assert connector_info("c", CONFIGS, {}) == {
        "name": "c",
        "config": {"name": "c", "k": "v"},
        "tasks": tasks,
        "type": "unknown",
    }


@pytest.mark.parametrize(
    ("classes", "expected"), [({"K": Counting}, "source"), ({"K": Sink}, "sink"), ({}, "unknown")]
)
def test_which_way_its_data_goes_is_what_its_class_says(
    classes: dict[str, type[Connector]], expected: str
) -> None:
    configs = replace(CONFIGS, connectors={"c": {"connector.class": "K"}})
    assert connector_info("c", configs, classes)["type"] == expected
    assert connector_status("c", configs, STATUSES, classes)["type"] == expected


def test_task_without_a_status_is_unassigned() -> None:
    assert connector_status("c", CONFIGS, STATUSES, {}) == {
        "name": "c",
        "connector": {"state": "RUNNING", "worker_id": "h:1", "version": "1.2"},
        "tasks": [{"id": 0, "state": "UNASSIGNED", "worker_id": ""}, FAILED],
        "type": "unknown",
    }
    assert task_status(ConnectorTaskId("c", 1), STATUSES) == FAILED


def test_an_error_is_said_twice() -> None:
    answer = error_answer(409, "try again")
    said = {"error_code": 409, "message": "try again"}
    assert (answer.status_code, json.loads(bytes(answer.body))) == (409, said)


def test_lone_surrogates_are_escaped() -> None:
    # what a file's name that is not UTF-8, and an exception that names it, have in them
    said = {"trace": "no file \udcff", "name": "\u00e9"}
    answer = JsonAnswer(said)
    assert json.loads(bytes(answer.body)) == said
    assert b"\\udcff" in bytes(answer.body)
