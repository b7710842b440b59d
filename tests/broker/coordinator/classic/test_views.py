import dataclasses

import pytest

from groupsdk.broker.coordinator.group_status import GroupState, GroupStatus
from groupsdk.wire.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolEncoder
from tests.broker.coordinator.group.driving import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    Driver,
    protocols,
    subscription,
)


NEW = protocols("even", metadata=b"new")


def status(driver: Driver) -> GroupStatus:
    found = driver.shard.status(GROUP)
    assert found is not None
    return found


def test_a_group_that_is_not_there_has_neither(driver: Driver) -> None:
    assert driver.shard.group(GROUP) is None
    assert driver.shard.status(GROUP) is None


def test_a_stable_group(driver: Driver) -> None:
    leader, follower = driver.stable(2)

    shown = driver.view

    assert (shown.state, shown.generation_id, shown.leader_id) == (GroupState.STABLE, 1, leader)
    assert (shown.protocol_type, shown.protocol_name) == ("work", "even")
    assert shown.state_since_ms == driver.now_ms
    member = shown.members[follower]
    assert not member.is_leader
    assert shown.members[leader].is_leader
    assert (member.client_id, member.client_host) == ("c", "/127.0.0.1")
    assert (member.protocols, member.assignment) == ({"even": b"m"}, follower.encode())
    assert member.session_until_ms == driver.now_ms + SESSION_MS
    assert member.waits_for is None
    assert status(driver) == GroupStatus(GROUP, GroupState.STABLE, 1, driver.now_ms, (), None)
    assert not status(driver).is_rebalancing


def test_view_of_a_group_does_not_change_with_the_group(driver: Driver) -> None:
    (member,) = driver.stable()
    before = driver.view

    driver.leave(member)

    assert member in before.members
    assert driver.view.members == {}
    with pytest.raises(dataclasses.FrozenInstanceError):
        before.state = GroupState.DEAD  # type: ignore[misc]  # what the test is about


def test_a_rebalance_says_whom_it_waits_for_until_when(driver: Driver) -> None:
    leader, follower = driver.stable(2)
    pending = driver.take_id()
    driver.join(follower, protocols=NEW)
    since_ms = driver.now_ms
    driver.pass_ms(1_000)

    told = status(driver)

    assert told.is_rebalancing
    assert told.state is GroupState.PREPARING_REBALANCE
    assert told.waiting_for == (leader, pending)
    assert (told.since_ms, told.until_ms) == (since_ms, since_ms + REBALANCE_MS)
    assert driver.view.members[follower].waits_for == "join"
    assert driver.view.pending_members == (pending,)


def test_then_for_those_who_have_not_synced(driver: Driver) -> None:
    tokens = [driver.join(version=3) for _ in range(3)]
    driver.pass_ms(0)
    leader, *followers = (driver.joined(each).member_id for each in tokens)
    driver.sync(followers[0], 1)

    told = status(driver)

    assert told.state is GroupState.COMPLETING_REBALANCE
    assert told.waiting_for == (leader, followers[1])
    assert told.until_ms == driver.now_ms + REBALANCE_MS
    assert driver.view.members[followers[0]].waits_for == "sync"
    driver.sync(leader, 1)
    assert status(driver).waiting_for == (followers[1],)


def test_a_simple_group_has_offsets_only(driver: Driver) -> None:
    driver.commit({0: 5})

    assert driver.view.protocol_type is None
    assert status(driver).state is GroupState.EMPTY


def test_what_a_consumer_joined_with_and_what_it_has_is_decoded(driver: Driver) -> None:
    driver.stable(2)
    (other, _) = driver.view.members.values()
    assert (other.subscription, other.assigned) == (None, {}), "a protocol of its own"
    has = ConsumerProtocolEncoder().assignment(ConsumerProtocolAssignment({"orders": (0, 2)}))
    consumer = dataclasses.replace(
        other, protocols={"range": subscription("orders", "payments")}, assignment=has
    )
    assert consumer.subscription is not None
    assert list(consumer.subscription.topics) == ["orders", "payments"]
    assert consumer.assigned == {"orders": (0, 2)}
    assert dataclasses.replace(consumer, assignment=b"").assigned == {}
    assert dataclasses.replace(consumer, assignment=b"?").assigned == {}
