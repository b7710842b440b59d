"""Holds the config topic to Kafka Connect's records, and comparisons of the configurations in it."""

import json

import pytest
from hypothesis import given, strategies as st

from groupsdk.connect.rest.session_key import SessionKey
from groupsdk.connect.store.config_backing_store import (
    ClusterConfigState,
    ConfigChanges,
    ConfigLog,
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
from tests.connect.workers import applied


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


A0, A1, B0 = ConnectorTaskId("a", 0), ConnectorTaskId("a", 1), ConnectorTaskId("b", 0)
STATE = ClusterConfigState(
    5, {"b": {}, "a": {"k": "v"}}, {A0: {"x": "0"}, A1: {"x": "1"}, B0: {}}, {"a": 2, "b": 1}
)


def test_the_work_is_sorted_and_leaves_out_what_is_not_whole() -> None:
    assert STATE.work().connectors == ("a", "b")
    assert STATE.work().tasks == (A0, A1, B0)
    broken = ClusterConfigState(
        5, STATE.connectors, STATE.task_configs, STATE.task_counts, {}, frozenset({"a"})
    )
    assert broken.work().tasks == (B0,)
    assert not broken.contains(A0)
    assert broken.contains("a")


def test_only_what_is_configured_is_contained() -> None:
    assert STATE.contains(A1)
    assert not STATE.contains(ConnectorTaskId("a", 2))
    assert not STATE.contains(ConnectorTaskId("c", 0))
    assert not STATE.contains("c")


def test_connectors_are_started_unless_something_else_is_said() -> None:
    assert STATE.target_state("a") is TargetState.STARTED


def test_equal_states_have_no_changes() -> None:
    changes = ConfigChanges.between(STATE, STATE)
    assert not changes.needs_rebalance
    assert not changes.connectors_changed
    assert not changes.targets_changed


def test_changes_between_two_configurations_are_told_apart() -> None:
    new = ClusterConfigState(
        6,
        {"a": {"k": "other"}, "c": {}},
        {A0: {"x": "other"}},
        {"a": 1},
        {"a": TargetState.PAUSED},
    )
    changes = ConfigChanges.between(STATE, new)
    assert changes.connectors_changed == {"a"}
    assert changes.connectors_differ
    assert changes.tasks_changed == {A0, A1, B0}
    assert changes.targets_changed == {"a"}
    assert changes.needs_rebalance


def test_changed_connector_configuration_alone_needs_no_rebalance() -> None:
    new = ClusterConfigState(
        6, {**STATE.connectors, "a": {}}, STATE.task_configs, STATE.task_counts
    )
    assert not ConfigChanges.between(STATE, new).needs_rebalance


def test_a_task_that_is_new_needs_one_and_stops_nothing() -> None:
    new = ClusterConfigState(6, STATE.connectors, STATE.task_configs, {"a": 2, "b": 2})
    changes = ConfigChanges.between(STATE, new)
    assert changes.needs_rebalance
    assert not changes.tasks_changed


def weighed(connector: str = "", task: str = "") -> ClusterConfigState:
    """The same work, with weights."""
    return ClusterConfigState(
        6,
        {"b": {}, "a": {"k": "v", **({"task.weight": connector} if connector else {})}},
        {**STATE.task_configs, A1: {"x": "1", **({"task.weight": task} if task else {})}},
        STATE.task_counts,
    )


def test_a_task_weighs_what_it_says_or_what_its_connector_says_or_one() -> None:
    assert weighed("2", "0.5").weights() == {A0: 2_000, A1: 500, B0: 1_000}
    # what is no weight is none
    assert weighed("2", "much").weights() == {A0: 2_000, A1: 2_000, B0: 1_000}


def test_equal_weights_count_as_none() -> None:
    assert STATE.weights() == {}
    assert weighed("1", "1.0").weights() == {}


def test_changed_weight_needs_a_rebalance_and_stops_nothing() -> None:
    for new in (weighed("3"), weighed("", "3")):
        changes = ConfigChanges.between(STATE, new)
        assert changes.needs_rebalance
        assert not changes.tasks_changed
        assert not changes.connectors_changed
