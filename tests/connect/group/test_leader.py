"""Holds what the leader writes, and when."""

from typing import Any

import pytest
from typing_extensions import override

from groupsdk.connect.errors import RecordTooLargeError, StoreError, StoreFencedError
from groupsdk.connect.group.leader import Leader, fencing_token
from groupsdk.connect.group.work import StandbyRecord, Work
from groupsdk.connect.rest.session_key import SessionKeySettings
from groupsdk.connect.store.config_backing_store import (
    ClusterConfigState,
    TargetState,
    connector_records,
    target_state_record,
    task_records,
)
from groupsdk.connect.store.file_store import FileStore
from groupsdk.connect.store.status_backing_store import State, Status
from groupsdk.wire.connect_protocol import ConnectorTaskId
from tests.connect.workers import Counting, eventually


CONFIG = {"connector.class": "Counting", "count": "2"}


class Claimed(FileStore):
    """Counts claims and records of standbys, and can shut its writer out."""

    def __init__(self) -> None:
        super().__init__()
        self.claims = 0
        self.fenced = False
        self.said: list[StandbyRecord] = []

    @override
    def put_standbys(self, record: StandbyRecord) -> None:
        if self.fenced:
            raise StoreError("the brokers are away")
        self.said.append(record)

    @override
    def standbys(self) -> StandbyRecord:
        # as all readers have it: what is not newer counts for nothing
        return max(self.said, key=lambda each: each.generation, default=StandbyRecord())

    @override
    def claim(self) -> None:
        self.claims += 1
        self.fenced = False

    @override
    def write_configs(self, records: Any) -> None:
        if self.fenced:
            raise StoreFencedError("another worker has become the writer")
        super().write_configs(records)


def leader_of(store: FileStore, **permanent: dict[str, str]) -> Leader:
    return Leader(store, {"Counting": Counting}, permanent, "w1", 0, lambda: None)


def planned(leader: Leader, store: FileStore, count: int) -> None:
    """Lead until a connector has so many tasks."""

    def look() -> bool:
        leader.lead(3, 0)
        return len(store.configs().work().tasks) == count

    eventually(look, store.configs)


def planning() -> tuple[Claimed, Leader]:
    """A leader that has planned the two tasks of its connector."""
    store = Claimed()
    leader = leader_of(store, c=CONFIG)
    leader.plan_at_ms = 0
    planned(leader, store, 2)
    return store, leader


def test_tokens_grow_with_generations_and_beyond_their_reset() -> None:
    tokens = [
        fencing_token(ClusterConfigState(epoch=epoch), generation)
        for epoch, generation in ((0, 1), (0, 57), (1, 1), (1, 2), (2, 1))
    ]
    assert tokens == sorted(set(tokens))


def test_connectors_that_are_always_there_are_written_once() -> None:
    store = Claimed()
    leader = leader_of(store, c=CONFIG)
    leader.lead(3, 0)
    assert store.configs().connectors == {"c": CONFIG}
    assert store.claims == 1
    offset = store.configs().offset
    leader.lead(3, 0)
    assert store.configs().offset == offset
    leader.close()


def test_tasks_follow_what_the_connector_plans_and_nothing_is_written_for_nothing() -> None:
    store, leader = planning()
    offset = store.configs().offset
    leader.plan(["c"])
    eventually(lambda: not leader._planner.busy)
    leader.lead(3, 0)
    assert store.configs().offset == offset
    store.write_configs(connector_records("c", {**CONFIG, "count": "3"}))
    leader._permanent.clear()
    leader.plan(["c"])
    planned(leader, store, 3)
    leader.close()


def test_a_plan_that_fails_is_said_and_leaves_the_tasks() -> None:
    store, leader = planning()
    leader._permanent.clear()
    store.write_configs(connector_records("c", {**CONFIG, "count": "none"}))
    leader.plan(["c"])

    def look() -> bool:
        leader.lead(3, 0)
        status = store.statuses().get("status-connector-c")
        return status is not None and status.state is State.FAILED

    eventually(look)
    assert len(store.configs().work().tasks) == 2


def test_connector_class_that_only_another_worker_has_keeps_its_tasks() -> None:
    store = Claimed()
    leader = leader_of(store)
    records = connector_records("c", {"connector.class": "org.example.Source"})
    store.write_configs([*records, *task_records("c", [{"sent": "by its owner"}])])
    owner = Status(State.RUNNING, "java:8083", 3)
    store.put_status("status-connector-c", owner)
    leader.plan(["c"])
    eventually(lambda: not leader._planner.busy)
    leader.lead(3, 0)
    assert store.statuses() == {"status-connector-c": owner}
    assert len(store.configs().work().tasks) == 1


def test_stopped_connector_is_not_planned() -> None:
    store, leader = planning()
    store.write_configs([target_state_record("c", TargetState.STOPPED), *task_records("c", [])])
    leader.plan(["c"])
    leader.lead(3, 0)
    assert not store.configs().work().tasks


@pytest.mark.parametrize(
    "meanwhile",
    [
        connector_records("c", {**CONFIG, "count": "3"}),
        [target_state_record("c", TargetState.STOPPED), *task_records("c", [])],
    ],
    ids=["changed", "stopped"],
)
def test_a_plan_of_a_connector_that_was_changed_or_stopped_meanwhile_is_dropped(
    meanwhile: list[Any],
) -> None:
    store = Claimed()
    leader = leader_of(store)
    leader.write(connector_records("c", CONFIG))
    leader.plan(["c"])
    eventually(lambda: not leader._planner.busy)
    store.write_configs(meanwhile)
    offset = store.configs().offset
    leader.lead(3, 0)
    assert not store.configs().work().tasks
    assert store.configs().offset == offset, "nothing was written"
    leader.close()


def test_a_leader_that_was_shut_out_claims_again_only_if_it_leads_again() -> None:
    store = Claimed()
    leader = leader_of(store)
    leader.write(connector_records("c", CONFIG))
    store.fenced = True
    with pytest.raises(StoreFencedError):
        leader.write(connector_records("c", CONFIG))
    leader.follow()
    assert store.claims == 1
    leader.lead(5, 0)
    assert store.claims == 2


def test_a_new_epoch_is_one_more() -> None:
    store = Claimed()
    leader = leader_of(store)
    leader.begin_epoch()
    leader.begin_epoch()
    assert store.configs().epoch == 2


def test_session_keys_are_written_when_they_are_due_and_only_then() -> None:
    store = Claimed()
    leader = leader_of(store)
    settings = SessionKeySettings(ttl_ms=1_000)
    leader.rotate_key(settings, 5_000)
    first = store.configs().session_key
    assert first is not None
    leader.rotate_key(settings, 5_999)
    assert store.configs().session_key == first
    leader.rotate_key(settings, 6_000)
    second = store.configs().session_key
    assert second is not None
    assert (second.created_ms, second.key == first.key) == (6_000, False)


TASKS = tuple(ConnectorTaskId("c", number) for number in range(2))
SHARES = {"a": Work(("c",), TASKS[:1]), "b": Work((), TASKS[1:])}


def keeping(count: int = 2) -> tuple[Claimed, Leader]:
    """A leader of a group in which each task is to have a standby."""
    store = Claimed()
    config = {**CONFIG, "standby.replicas": "1"}
    store.write_configs([*connector_records("c", config), *task_records("c", [{}] * count)])
    return store, leader_of(store)


def test_standbys_are_said_once_for_each_change() -> None:
    store, leader = keeping()
    leader.lead(3, 0)
    assert not store.said  # alone
    for _ in range(2):
        leader.lead(3, 0, SHARES)
    assert store.said == [StandbyRecord(3, {TASKS[0]: ("b",), TASKS[1]: ("a",)})]
    leader.lead(4, 0, SHARES)  # nothing is new
    assert len(store.said) == 1
    leader.lead(5, 0, {"a": Work(("c",), TASKS)})
    assert store.standbys() == StandbyRecord(5, {})


def test_standbys_that_were_to_change_while_the_group_rebalances_change_afterwards() -> None:
    store, leader = keeping()
    leader.lead(3, 0, SHARES)
    store.write_configs(connector_records("c", CONFIG))
    leader.lead(-1, 0, SHARES)
    leader.lead(4, 0, SHARES)
    assert store.standbys() == StandbyRecord(4, {})


def test_standbys_that_cannot_be_said_hold_nothing_up_and_are_said_later() -> None:
    store, leader = keeping()
    leader.lead(3, 0)
    store.fenced = True
    leader.lead(3, 500, SHARES)
    store.fenced = False
    leader.lead(3, 10_499, SHARES)
    assert not store.said
    leader.lead(3, 10_500, SHARES)
    assert store.standbys().generation == 3


def test_tasks_that_are_gone_have_no_standbys_and_weigh_on_nobody() -> None:
    store, leader = keeping(count=1)
    gone = {ConnectorTaskId("c", number): ("b",) for number in range(1, 9)}
    store.said.append(StandbyRecord(2, gone))
    shares = {"a": Work(("c",), TASKS[:1]), "b": Work((), ()), "c": Work((), ())}
    leader.lead(3, 0, shares)
    assert store.standbys() == StandbyRecord(3, {TASKS[0]: ("b",)})


def test_members_that_keep_nothing_warm_are_chosen_like_any_other() -> None:
    # what members say when they join is Connect's, byte for byte: nobody can tell a worker in Java by it
    store, leader = keeping()
    leader.lead(3, 0, {"a": SHARES["a"], "java": SHARES["b"]})
    assert store.standbys().standbys == {TASKS[0]: ("java",), TASKS[1]: ("a",)}


class Narrow(Claimed):
    """Takes no large records, or none at all for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.away = False

    @override
    def write_configs(self, records: Any) -> None:
        if self.away:
            raise StoreError("the brokers are away")
        if any("t8" in str(record) for record in records):
            raise RecordTooLargeError("the brokers take no more than 7 tasks")
        super().write_configs(records)


def test_tasks_too_large_to_be_written_fail_their_connector_alone() -> None:
    store = Narrow()
    leader = leader_of(store, c={**CONFIG, "count": "9"}, d=CONFIG)
    leader.plan_at_ms = 0
    planned(leader, store, 2)
    eventually(lambda: not leader._planner.busy)
    leader.lead(3, 0)
    status = store.statuses()["status-connector-c"]
    assert status.state is State.FAILED
    assert "no more than 7 tasks" in (status.trace or "")


def test_plans_are_kept_while_they_cannot_be_written() -> None:
    store = Narrow()
    leader = leader_of(store, c=CONFIG, d=CONFIG)
    leader.lead(3, 0)
    leader.plan(["c", "d"])
    eventually(lambda: not leader._planner.busy)
    store.away = True
    with pytest.raises(StoreError):
        leader.lead(3, 0)
    store.away = False
    leader.lead(3, 0)
    assert len(store.configs().work().tasks) == 4
