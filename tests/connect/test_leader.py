"""Holds what the leader writes, and when."""

from typing import Any

import pytest
from typing_extensions import override

from groupsdk.connect.config_records import connector_records, target_state_record, task_records
from groupsdk.connect.config_state import ClusterConfigState, TargetState
from groupsdk.connect.errors import StoreFencedError
from groupsdk.connect.file_store import FileStore
from groupsdk.connect.leader import Leader, fencing_token
from groupsdk.connect.status import State
from tests.connect.workers import Counting, eventually


CONFIG = {"connector.class": "Counting", "count": "2"}


class Claimed(FileStore):
    """Counts claims, and can shut its writer out."""

    def __init__(self) -> None:
        super().__init__()
        self.claims = 0
        self.fenced = False

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
    """A leader."""
    return Leader(store, {"Counting": Counting}, permanent, "w1", 0, lambda: None)


def planned(leader: Leader, store: FileStore, count: int) -> None:
    """Lead until a connector has so many tasks."""

    def look() -> bool:
        leader.lead(3, 0)
        return len(store.configs().work().tasks) == count

    eventually(look, store.configs)


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
    store = Claimed()
    leader = leader_of(store, c=CONFIG)
    leader.plan_at_ms = 0
    planned(leader, store, 2)
    offset = store.configs().offset
    leader.plan(["c"])
    eventually(lambda: not leader._planner._asking)
    leader.lead(3, 0)
    assert store.configs().offset == offset
    store.write_configs(connector_records("c", {**CONFIG, "count": "3"}))
    leader._permanent.clear()
    leader.plan(["c"])
    planned(leader, store, 3)
    leader.close()


def test_a_plan_that_fails_is_said_and_leaves_the_tasks() -> None:
    store = Claimed()
    leader = leader_of(store, c=CONFIG)
    leader.plan_at_ms = 0
    planned(leader, store, 2)
    leader._permanent.clear()
    store.write_configs(connector_records("c", {"connector.class": "Gone"}))
    leader.plan(["c"])

    def look() -> bool:
        leader.lead(3, 0)
        status = store.statuses().get("status-connector-c")
        return status is not None and status.state is State.FAILED

    eventually(look)
    assert len(store.configs().work().tasks) == 2


def test_what_is_stopped_is_not_planned() -> None:
    store = Claimed()
    leader = leader_of(store, c=CONFIG)
    leader.plan_at_ms = 0
    planned(leader, store, 2)
    store.write_configs([target_state_record("c", TargetState.STOPPED), *task_records("c", [])])
    leader.plan(["c"])
    leader.lead(3, 0)
    assert not store.configs().work().tasks


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
