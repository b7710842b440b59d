"""Holds the herder's decisions, in virtual time."""

import pytest

from groupsdk.connect.group.herder import (
    TRANSITIONS,
    Herder,
    HerderState,
    HerderTrigger,
    ReadConfigs,
    Reconcile,
    Rejoin,
)
from groupsdk.connect.group.work import NO_WORK, Work
from groupsdk.connect.store.config_backing_store import ClusterConfigState
from groupsdk.wire.connect_protocol import CONFIG_MISMATCH, ConnectAssignment, ConnectorTaskId


A0, A1 = ConnectorTaskId("a", 0), ConnectorTaskId("a", 1)
CONFIGS = ClusterConfigState(5, {"a": {}}, {A0: {}, A1: {}}, {"a": 2})
GIVEN = ConnectAssignment(offset=5, connectors=("a",), tasks=(A0,))


def settled_herder() -> Herder:
    """A herder that has started its work."""
    herder = Herder()
    herder.assigned(GIVEN, 3, 0)
    assert herder.step(CONFIGS, 0) == Reconcile(Work(("a",), (A0,)), 3)
    assert herder.step(CONFIGS, 0) is None
    return herder


def test_without_an_assignment_there_is_nothing_to_do() -> None:
    assert Herder().step(CONFIGS, 0) is None
    assert not Herder().settled


def test_an_assignment_at_our_offset_is_carried_out() -> None:
    assert settled_herder().settled


def test_a_worker_that_lags_behind_reads_first() -> None:
    herder = Herder()
    herder.assigned(GIVEN, 3, 0)
    assert herder.step(ClusterConfigState(2), 0) == ReadConfigs()
    herder.configs_read(True)
    assert isinstance(herder.step(CONFIGS, 0), Reconcile)


def test_when_it_cannot_read_it_starts_nothing_and_joins_again() -> None:
    herder = Herder()
    herder.assigned(GIVEN, 3, 0)
    assert herder.step(ClusterConfigState(2), 0) == ReadConfigs()
    herder.configs_read(False)
    assert isinstance(herder.step(ClusterConfigState(2), 0), Rejoin)
    assert herder.step(CONFIGS, 0) is None


def test_a_worker_that_is_ahead_starts_nothing_and_joins_again() -> None:
    herder = Herder()
    herder.assigned(GIVEN, 3, 0)
    step = herder.step(ClusterConfigState(6), 0)
    assert isinstance(step, Rejoin)
    assert "configurations at 6, the assignment was made at 5" in step.reason


def test_a_failed_assignment_is_read_for_and_joined_again() -> None:
    herder = Herder()
    herder.assigned(ConnectAssignment(error=CONFIG_MISMATCH, offset=5, tasks=(A0,)), 3, 0)
    assert herder.work == NO_WORK
    assert herder.step(CONFIGS, 0) == ReadConfigs()
    herder.configs_read(True)
    assert isinstance(herder.step(CONFIGS, 0), Rejoin)


@pytest.mark.parametrize(
    "revoking",
    [
        ConnectAssignment(offset=5, connectors=("a",), revoked_tasks=(A0,)),
        ConnectAssignment(offset=5, connectors=("a",), revoked_connectors=("b",)),
    ],
    ids=["a task", "a connector alone"],
)
def test_after_a_revocation_there_is_another_rebalance_at_once(revoking: ConnectAssignment) -> None:
    herder = Herder()
    herder.assigned(revoking, 3, 0)
    assert herder.step(CONFIGS, 0) == Reconcile(Work(("a",), ()), 3)
    assert herder.step(CONFIGS, 0) == Rejoin("revoked work has stopped")
    assert herder.step(CONFIGS, 0) is None


def test_work_that_is_held_back_is_asked_for_when_its_delay_is_over() -> None:
    herder = Herder()
    herder.assigned(ConnectAssignment(offset=5, delay_ms=40), 3, 1_000)
    assert isinstance(herder.step(CONFIGS, 1_000), Reconcile)
    assert herder.rejoin_at_ms == 1_040
    assert herder.step(CONFIGS, 1_039) is None
    assert isinstance(herder.step(CONFIGS, 1_040), Rejoin)
    assert herder.step(CONFIGS, 1_041) is None


def test_new_tasks_ask_for_a_rebalance_and_stop_only_what_changed() -> None:
    herder = settled_herder()
    new = ClusterConfigState(6, {"a": {}}, {A0: {"x": "1"}, A1: {}}, {"a": 2})
    assert herder.configs_changed(CONFIGS, new).stop_tasks == {A0}
    assert isinstance(herder.step(new, 0), Rejoin)
    more = ClusterConfigState(7, {"a": {}}, {A0: {"x": "1"}, A1: {}}, {"a": 3})
    assert not herder.configs_changed(new, more).stop_tasks
    assert isinstance(herder.step(more, 0), Rejoin)


def test_changed_connector_configuration_restarts_the_connector_where_it_runs() -> None:
    herder = settled_herder()
    new = ClusterConfigState(6, {"a": {"k": "v"}}, CONFIGS.task_configs, CONFIGS.task_counts)
    assert herder.configs_changed(CONFIGS, new).restart_connectors == {"a"}
    assert herder.step(new, 0) is None


def test_changed_connector_configuration_restarts_its_tasks_on_other_workers() -> None:
    herder = settled_herder()
    herder.revoked(Work(("a",), ()))
    new = ClusterConfigState(6, {"a": {"k": "v"}}, CONFIGS.task_configs, CONFIGS.task_counts)
    assert herder.configs_changed(CONFIGS, new).restart_connectors == {"a"}
    assert herder.changed_tasks(CONFIGS, new) == {A0}
    herder.lost()
    assert not herder.configs_changed(CONFIGS, new).restart_connectors
    assert not herder.changed_tasks(CONFIGS, new)


def test_a_new_epoch_stops_everything_for_new_tokens() -> None:
    herder = settled_herder()
    new = ClusterConfigState(
        6, CONFIGS.connectors, CONFIGS.task_configs, CONFIGS.task_counts, epoch=1
    )
    assert herder.configs_changed(CONFIGS, new).stop_tasks == {A0}
    assert isinstance(herder.step(new, 0), Rejoin)


def test_revoked_work_is_not_owned_and_nothing_is_outside_the_group() -> None:
    herder = settled_herder()
    herder.revoked(Work((), (A0,)))
    assert herder.work == Work(("a",), ())
    herder.lost()
    assert herder.work == NO_WORK
    assert herder.step(ClusterConfigState(99), 10**9) is None


def test_changes_on_the_way_to_an_assignments_offset_ask_for_no_rebalance() -> None:
    herder = Herder()
    herder.assigned(ConnectAssignment(offset=6, connectors=("a",), tasks=(A0,)), 3, 0)
    new = ClusterConfigState(6, {"a": {}}, {A0: {"x": "1"}, A1: {}}, {"a": 2})
    assert herder.configs_changed(CONFIGS, new).stop_tasks == {A0}
    assert herder.step(new, 0) == Reconcile(Work(("a",), (A0,)), 3)
    assert herder.step(new, 0) is None


def test_reading_is_asked_for_until_its_outcome_is_told() -> None:
    herder = Herder()
    herder.assigned(GIVEN, 3, 0)
    for _ in range(2):
        assert herder.step(ClusterConfigState(2), 0) == ReadConfigs()
    assert herder.state is HerderState.READING
    herder.configs_read(True)
    assert herder.step(ClusterConfigState(4), 0) == ReadConfigs(), "not at the offset yet"
    herder.configs_read(True)
    assert isinstance(herder.step(CONFIGS, 0), Reconcile)


def test_unknown_transition_of_the_herder_raises() -> None:
    with pytest.raises(ValueError, match="no transition from OUTSIDE on 'read'"):
        Herder().configs_read(True)
    reached = set(TRANSITIONS.values())
    assert reached == set(HerderState)
    assert {trigger for _, trigger in TRANSITIONS} == set(HerderTrigger)
