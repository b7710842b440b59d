"""Test what a consumer of the consumer protocol subscribes to, gives up and takes: no member, no broker, no time."""

import re
from typing import Any

import pytest
from typing_extensions import override

from groupsdk.consumer.coordinator import BrokerAssignedCoordinator
from groupsdk.consumer.subscription import SubscriptionPattern
from groupsdk.member.consumer.heartbeat_fields import HeartbeatSubscription
from groupsdk.types import NO_GENERATION, Generation, GroupMembers
from tests.consumer.coordinator_rig import ME, CoordinatorRig
from tests.consumer.rig import partitions


class Rig(CoordinatorRig[BrokerAssignedCoordinator]):
    """A coordinator whose broker assigns."""

    def __init__(self, topics: Any = "t") -> None:
        super().__init__(topics)
        self.changes["generation"] = Generation(2, ME, "consumer")

    @override
    def make_coordinator(self) -> BrokerAssignedCoordinator:
        return BrokerAssignedCoordinator(self, self, self.watch)

    @override
    def commit_before_join(self) -> None:
        raise AssertionError("nothing is given up to join")

    def hand_over(self, *names: str, epoch: int = 2, again: bool = False) -> None:
        self.changes["generation"] = Generation(epoch, ME, "consumer")
        self.deliver(epoch, names, "consumer", again)

    def subscribed(self) -> HeartbeatSubscription:
        return HeartbeatSubscription.of(self.coordinator.metadata())


def test_names_and_a_pattern_for_the_broker_are_told_without_looking_at_topics() -> None:
    rig = Rig(["u", SubscriptionPattern("t.*")])
    assert rig.subscribed() == HeartbeatSubscription(frozenset({"u"}), "t.*")
    assert rig.asked == []


def test_patterns_of_the_client_are_matched_by_the_client() -> None:
    rig = Rig([re.compile("t")])
    assert rig.subscribed() == HeartbeatSubscription(frozenset({"t"}))
    assert rig.asked == [None]


def test_moved_partitions_are_committed_and_revoked_before_new_ones_are_taken() -> None:
    rig = Rig()
    rig.hand_over("t-0", "t-1")
    assert rig.log == [("take", ["t-0", "t-1"]), ("generation", 2), ("assigned", ["t-0", "t-1"])]
    rig.hand_over("t-1", "t-2", epoch=3)
    assert rig.log == [
        ("commit", 1),
        ("revoked", ["t-0"]),
        ("release", ["t-0"]),
        ("take", ["t-2"]),
        ("generation", 3),
        ("assigned", ["t-2"]),
    ]
    assert rig.coordinator.owned == set(partitions("t-1", "t-2"))


def test_every_assignment_is_told_also_an_empty_one() -> None:
    """As Kafka's client, which always calls onPartitionsAssigned."""
    rig = Rig()
    rig.hand_over()
    assert ("assigned", []) in rig.log
    assert rig.coordinator.joined


def test_exception_of_a_listener_is_raised_and_the_second_delivery_only_acknowledges() -> None:
    rig = Rig()
    rig.hand_over("t-0")
    rig.listener.raises["revoked"] = ValueError("no")
    with pytest.raises(ValueError, match="no"):
        rig.hand_over("t-1")
    assert rig.coordinator.owned == set(partitions("t-1"))
    rig.hand_over("t-1", again=True)
    assert rig.log == []


def test_a_loss_is_told_once_and_nothing_is_committed() -> None:
    rig = Rig()
    rig.hand_over("t-0")
    rig.log.clear()
    rig.coordinator.on_join_prepare(-1, ME)
    assert rig.log == [("lost", ["t-0"]), ("release", ["t-0"])]
    assert not rig.coordinator.joined
    rig.log.clear()
    rig.coordinator.on_join_prepare(-1, ME)
    assert rig.log == []


def test_leaving_revokes_what_is_held_and_loses_what_is_not() -> None:
    rig = Rig()
    rig.hand_over("t-0")
    rig.log.clear()
    rig.coordinator.on_leave_prepare()
    assert ("revoked", ["t-0"]) in rig.log
    rig = Rig()
    rig.hand_over("t-0")
    rig.log.clear()
    rig.changes |= {"generation": NO_GENERATION, "valid_until_ms": None}
    rig.coordinator.on_leave_prepare()
    assert ("lost", ["t-0"]) in rig.log


def test_an_epoch_that_comes_without_an_assignment_is_told_once() -> None:
    rig = Rig()
    rig.coordinator.tell_epoch()
    assert rig.log == []  # nothing is taken up yet
    rig.hand_over("t-0")
    rig.log.clear()
    rig.coordinator.tell_epoch()
    assert rig.log == []
    rig.changes["generation"] = Generation(5, ME, "consumer")
    rig.coordinator.tell_epoch()
    rig.coordinator.tell_epoch()
    assert rig.log == [("generation", 5)]


def test_broker_assigned_consumer_is_never_asked_for_a_plan() -> None:
    with pytest.raises(AssertionError, match="no plan"):
        Rig().coordinator.perform_assignment(ME, "consumer", GroupMembers({}))
