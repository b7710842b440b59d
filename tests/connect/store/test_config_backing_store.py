"""Holds the config topic to Kafka Connect's records."""

import json

import pytest
from hypothesis import given, strategies as st

from groupsdk.connect.rest.session_key import SessionKey
from groupsdk.connect.store.config_backing_store import (
    ConfigLog,
    Record,
    RestartRequest,
    TargetState,
    connector_records,
    decode_value,
    epoch_record,
    fencing_record,
    restart_record,
    target_state_record,
    task_records,
)
from groupsdk.wire.connect_protocol import ConnectorTaskId


def applied(*records: Record) -> ConfigLog:
    """A log of these records."""
    log = ConfigLog()
    for offset, (key, value) in enumerate(records):
        log.apply(key, value, offset)
    return log


def test_session_keys_and_fencings_are_read(caplog: pytest.LogCaptureFixture) -> None:
    key = SessionKey(b"k" * 32, "HmacSHA256", 5)
    log = applied(key.record(), fencing_record("a", 3), fencing_record("b", 1))
    assert log.snapshot().session_key == key
    assert log.snapshot().fenced_tasks == {"a": 3, "b": 1}
    # the last key that is one goes on to count, and what is none is not logged
    log.apply("session-key", {"key": "c2VjcmV0"}, 3)
    log.apply("tasks-fencing-b", None, 4)
    assert log.snapshot().session_key == key
    assert log.snapshot().fenced_tasks == {"a": 3}
    assert "offset 3 is not a valid key" in caplog.text
    assert "c2VjcmV0" not in caplog.text


def test_configuration_records_are_kafka_connects() -> None:
    assert connector_records("a", {"k": "v"}) == [("connector-a", {"properties": {"k": "v"}})]
    assert connector_records("a", None) == [("connector-a", None), ("target-state-a", None)]
    assert task_records("a", [{"k": "v"}]) == [
        ("task-a-0", {"properties": {"k": "v"}}),
        ("commit-a", {"tasks": 1}),
    ]
    assert target_state_record("a", TargetState.STOPPED) == (
        "target-state-a",
        {"state": "PAUSED", "state.v2": "STOPPED"},
    )
    assert restart_record(RestartRequest("a", True, False)) == (
        "restart-connector-a",
        {"include-tasks": True, "only-failed": False},
    )


def test_the_offset_is_that_of_the_next_record() -> None:
    assert ConfigLog().snapshot().offset == -1
    assert applied(("connector-a", {"properties": {}})).snapshot().offset == 1


def test_tasks_count_when_they_are_committed() -> None:
    log = applied(*connector_records("a-b", {}), *task_records("a-b", [{"x": "0"}, {"x": "1"}]))
    assert log.snapshot().task_configs == {
        ConnectorTaskId("a-b", 0): {"x": "0"},
        ConnectorTaskId("a-b", 1): {"x": "1"},
    }
    log.apply("task-a-b-0", {"properties": {"x": "new"}}, 9)
    assert log.snapshot().task_configs[ConnectorTaskId("a-b", 0)] == {"x": "0"}
    log.apply("commit-a-b", {"tasks": 1}, 10)
    assert log.snapshot().task_configs == {ConnectorTaskId("a-b", 0): {"x": "new"}}
    assert log.snapshot().task_ids("a-b") == [ConnectorTaskId("a-b", 0)]


def test_a_commit_without_all_its_tasks_leaves_the_connector_without_any() -> None:
    # as compaction leaves it when a worker died in the middle of writing the tasks anew
    log = applied(
        *connector_records("a", {}), ("commit-a", {"tasks": 2}), ("task-a-0", {"properties": {}})
    )
    assert log.snapshot().inconsistent == {"a"}
    assert log.snapshot().task_ids("a") == []
    for offset, (key, value) in enumerate(task_records("a", [{}, {}]), 10):
        log.apply(key, value, offset)
    assert not log.snapshot().inconsistent
    assert len(log.snapshot().task_ids("a")) == 2


def test_a_deleted_connector_takes_its_tasks_and_its_target_state_along() -> None:
    log = applied(
        *connector_records("a", {}),
        *task_records("a", [{}]),
        target_state_record("a", TargetState.PAUSED),
    )
    assert log.snapshot().target_state("a") is TargetState.PAUSED
    for offset, (key, value) in enumerate(connector_records("a", None), 10):
        log.apply(key, value, offset)
    state = log.snapshot()
    assert (state.connectors, state.task_configs, state.target_states) == ({}, {}, {})


def test_target_states_of_older_workers_are_understood() -> None:
    log = applied(*connector_records("a", {}), ("target-state-a", {"state": "PAUSED"}))
    assert log.snapshot().target_state("a") is TargetState.PAUSED
    log.apply("target-state-a", {"state": "SLEEPING"}, 5)
    assert log.snapshot().target_state("a") is TargetState.PAUSED


def test_a_request_to_restart_changes_nothing_and_is_returned() -> None:
    log = applied(*connector_records("a", {}))
    key, value = restart_record(RestartRequest("a", include_tasks=True))
    assert log.apply(key, value, 3) == RestartRequest("a", True, False)
    assert log.snapshot().connectors == {"a": {}}


def test_epochs_only_grow() -> None:
    log = applied(epoch_record(3), epoch_record(2))
    assert log.snapshot().epoch == 3


def test_numbers_that_nobody_would_write_count_for_nothing() -> None:
    # an epoch is the high part of tokens of 64 bits, and each task is fenced for itself
    log = applied(epoch_record(3), fencing_record("a", 2))
    for offset, number in enumerate((-1, 2**31, 10**40), 10):
        log.apply("groupsdk-epoch", {"epoch": number}, offset)
        assert log.snapshot().epoch == 3
    for offset, (number, fenced) in enumerate(((1_000_000, {"a": 1_000_000}), (10**7, {})), 20):
        log.apply("tasks-fencing-a", {"task-count": number}, offset)
        assert log.snapshot().fenced_tasks == fenced


def test_snapshots_do_not_change_any_more() -> None:
    log = applied(*connector_records("a", {}))
    before = log.snapshot()
    log.apply("connector-b", {"properties": {}}, 7)
    assert set(before.connectors) == {"a"}
    assert set(log.snapshot().connectors) == {"a", "b"}


def test_kafkas_converter_with_schemas_is_understood() -> None:
    wrapped = json.dumps({"schema": {}, "payload": {"properties": {}}}).encode()
    assert decode_value("connector-a", wrapped) == {"properties": {}}
    assert decode_value("connector-a", None) is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["properties", "tasks", "state", "epoch", "x"]), inner)
    ),
    max_leaves=6,
)
keys = st.sampled_from(
    [
        *("connector-a", "task-a-0", "task-a-x", "commit-a", "target-state-a"),
        *("restart-connector-a", "groupsdk-epoch", "session-key", "task-", "connector-", ""),
    ]
)


@given(st.lists(st.tuples(keys, json_values), max_size=12))
def test_whatever_others_write_leaves_a_state_that_can_be_used(
    records: list[tuple[str, object]],
) -> None:
    state = applied(*records).snapshot()
    assert all(state.contains(each) for each in state.work().tasks)


@given(st.binary(max_size=30))
def test_value_that_is_not_json_deletes_no_configuration(data: bytes) -> None:
    value = decode_value("connector-a", data)
    log = applied(*connector_records("a", {"k": "v"}))
    log.apply("connector-a", value, 5)
    if data and value is not None and not (isinstance(value, dict) and "properties" in value):
        assert log.snapshot().connectors == {"a": {"k": "v"}}
