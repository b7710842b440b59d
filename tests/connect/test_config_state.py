"""Holds comparisons of configurations, and what there is to do under them."""

from groupsdk.connect.store.config_backing_store import (
    ClusterConfigState,
    ConfigChanges,
    TargetState,
)
from groupsdk.wire.connect_protocol import ConnectorTaskId


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
