"""Holds what programs and REST ask of a worker, and what is refused."""

from collections.abc import Iterator

import pytest

from groupsdk.connect.connectors.admin import check_name
from groupsdk.connect.errors import (
    ConnectorConfigError,
    ConnectorExistsError,
    UnknownConnectorError,
)
from groupsdk.connect.store.config_backing_store import RestartRequest, TargetState
from groupsdk.connect.worker import ConnectWorker
from groupsdk.wire.connect_protocol import ConnectorTaskId
from tests.connect.workers import Failing, eventually, standalone, states


CONFIG = {"connector.class": "Counting", "count": "1"}


@pytest.fixture
def worker() -> Iterator[ConnectWorker]:
    """A worker that is alone."""
    with standalone() as made:
        yield made


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({}, "connector.class"),
        ({"connector.class": "Nowhere"}, "connector.class"),
        ({"connector.class": "Counting"}, "count"),
        ({"connector.class": "Counting", "count": "many"}, "count"),
        ({"connector.class": "Counting", "count": "1", "task.weight": "0"}, "task.weight"),
    ],
)
def test_a_wrong_configuration_is_refused_with_the_field_named(
    worker: ConnectWorker, config: dict[str, str], field: str
) -> None:
    with pytest.raises(ConnectorConfigError) as refused:
        worker.admin.put_connector("c", config).result(60)
    assert refused.value.field == field
    assert worker.admin.connectors() == []


@pytest.mark.parametrize("name", ["", "a/b", " a", "a\n", "x" * 201])
def test_a_wrong_name_is_refused(name: str) -> None:
    with pytest.raises(ConnectorConfigError, match="name"):
        check_name(name)


def test_creating_twice_is_refused_where_asked(worker: ConnectWorker) -> None:
    assert worker.admin.put_connector("c", CONFIG, create_only=True).result(60)
    with pytest.raises(ConnectorExistsError):
        worker.admin.put_connector("c", CONFIG, create_only=True).result(60)
    assert not worker.admin.put_connector("c", CONFIG).result(60)


def test_unknown_connector_or_task_cannot_be_changed(worker: ConnectWorker) -> None:
    for asked in (
        worker.admin.delete_connector("c"),
        worker.admin.set_target_state("c", TargetState.PAUSED),
        worker.admin.restart(RestartRequest("c")),
        worker.admin.restart_task(ConnectorTaskId("c", 0)),
    ):
        with pytest.raises(UnknownConnectorError):
            asked.result(60)


def test_stopped_it_has_no_tasks_until_it_is_resumed(worker: ConnectWorker) -> None:
    worker.admin.put_connector("c", CONFIG).result(60)
    eventually(lambda: states(worker).get("status-task-c-0") == "RUNNING")
    worker.admin.set_target_state("c", TargetState.STOPPED).result(60)
    eventually(lambda: states(worker) == {"status-connector-c": "STOPPED"}, lambda: states(worker))
    worker.admin.set_target_state("c", TargetState.STARTED).result(60)
    eventually(lambda: states(worker).get("status-task-c-0") == "RUNNING")


def test_restarts_reach_the_tasks(worker: ConnectWorker) -> None:
    worker.admin.put_connector("f", {"connector.class": "Failing"}).result(60)
    eventually(lambda: Failing.runs)
    Failing.runs.clear()
    worker.admin.restart(RestartRequest("f", include_tasks=True)).result(60)
    eventually(lambda: Failing.runs)
    assert worker.admin.restart_task(ConnectorTaskId("f", 0)).result(60)
