"""Tests what a test can see of a running broker."""

import pytest

from groupsdk.broker.coordinator.classic.views import GroupView
from groupsdk.broker.coordinator.consumer.views import ConsumerGroupView
from groupsdk.broker.coordinator.group_status import GroupState
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.broker.inspection import group_views
from groupsdk.clock import ManualClock
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.broker.clients import Client, connect, join, join_request
from tests.broker.coordinator.consumer.members import WireMember
from tests.broker.rig import ClusterRig
from tests.broker.test_coordinators import commit


def test_groups_are_seen_as_they_are(broker: EmbeddedBroker, client: Client) -> None:
    assert dict(broker.groups) == {}
    member = join(client, "g")
    join(client, "another")
    assert set(broker.groups) == {"g", "another"}
    group = broker.classic_group("g")
    assert group is not None
    assert (group.state, group.generation_id, group.leader_id) == (
        GroupState.STABLE,
        member.generation_id,
        member.member_id,
    )
    (seen,) = group.members.values()
    assert (seen.client_id, seen.client_host, seen.assignment) == ("test", "/127.0.0.1", b"mine")


def test_groups_are_counted_and_say_how_far_they_are() -> None:
    clock = ManualClock(5_000_000)
    with EmbeddedBroker(topics={"t": 3}, clock=clock) as broker, connect(broker) as client:
        assert set(broker.group_metrics().values()) == {0}
        member = join(client, "g").member_id
        assert broker.groups["g"].members[member].joined_ms == 5_000_000
        broker.advance(100)
        # its leader comes again, and another one has only got its id
        other = client.ask(join_request("g"), 9).member_id
        client.send(join_request("g", member), 9)
        partitions = tuple(OffsetCommitRequestPartition(n, 5) for n in range(3))
        topics = (OffsetCommitRequestTopic("t", partitions=partitions),)
        with connect(broker) as second:
            commit_of = OffsetCommitRequest("h", topics=topics)
            assert second.ask(commit_of, 8).topics[0].partitions[0].error_code == 0
        while broker.group_statuses["g"].state is not GroupState.PREPARING_REBALANCE:
            pass
        status = broker.group_statuses["g"]
        assert (status.waiting_for, status.since_ms) == ((other,), 5_000_100)
        assert status.until_ms is not None
        assert status.until_ms > 5_000_100
        assert dict(broker.group_metrics()) == {
            "NumGroups": 2,
            "NumOffsets": 3,
            "NumGroupsEmpty": 1,
            "NumGroupsPreparingRebalance": 1,
            "NumGroupsCompletingRebalance": 0,
            "NumGroupsStable": 0,
            "NumGroupsDead": 0,
            **dict.fromkeys(
                (
                    f"consumer-group-count,state={state}"
                    for state in ("empty", "assigning", "reconciling", "stable", "dead")
                ),
                0,
            ),
            "NumMembers": 1,
            "offset-commit-count": 3,
            "offset-expiration-count": 0,
            "offset-deletion-count": 0,
            "group-completed-rebalance-count": 1,
            "consumer-group-rebalance-count": 0,
        }


def test_consumer_groups_are_seen_beside_classic_ones() -> None:
    with (
        EmbeddedBroker(topics={"t": 4}, clock=ManualClock(5_000_000)) as broker,
        connect(broker) as client,
        WireMember(broker, "new", "m1", instance_id="one", rack_id="r") as first,
        WireMember(broker, "new", "m2") as second,
    ):
        join(client, "old")
        first.until(4)
        assert {each: type(view) for each, view in broker.groups.items()} == {
            "old": GroupView,
            "new": ConsumerGroupView,
        }
        assert broker.classic_group("new") is None
        assert broker.consumer_group("old") is None
        assert second.heartbeat().error_code == 0
        assert (
            first.heartbeat().error_code == 0
        )  # it is told to give up, and has not said that it did
        group = broker.consumer_group("new")
        assert group is not None
        assert (group.state.value, group.epoch, group.assignment_epoch, group.assignor) == (
            *("Reconciling", 3, 3),
            "uniform",
        )
        one, two = group.members["m1"], group.members["m2"]
        assert (one.group_instance_id, one.rack_id, one.is_classic) == ("one", "r", False)
        assert (one.state.name, one.epoch) == ("UNREVOKED_PARTITIONS", 2)
        assert sorted((*one.assigned["t"], *one.pending_revocation["t"])) == [0, 1, 2, 3]
        assert one.assigned == one.target
        assert one.rebalance_until_ms == 5_060_000
        assert (two.state.name, two.assigned, two.waits_for) == (
            *("UNRELEASED_PARTITIONS", {}),
            ("m1",),
        )
        assert two.target == one.pending_revocation
        status = broker.group_statuses["new"]
        assert status.is_rebalancing
        assert (status.waiting_for, status.until_ms) == (("m1",), 5_060_000)
        # it never does, and is removed: the other one gets everything, on a clock of the test's own
        broker.advance(44_000)
        second.heartbeat()
        broker.advance(17_000)
        second.until(4)
        assert list(broker.groups["new"].members) == ["m2"]
        assert not broker.group_statuses["new"].is_rebalancing
        counts = broker.group_metrics()
        assert counts["consumer-group-count,state=stable"] == 1
        # one member came, the other one came, and the first one went
        assert counts["consumer-group-rebalance-count"] == 3


def test_faults_of_consumer_groups_are_scripted_as_those_of_classic_ones() -> None:
    with EmbeddedBroker(topics={"t": 4}) as broker, WireMember(broker, "g", "m1") as member:
        fault = broker.faults.answer("ConsumerGroupHeartbeat", ErrorCode.NOT_COORDINATOR)
        assert member.heartbeat().error_code == ErrorCode.NOT_COORDINATOR
        assert fault.hits == 1
        member.until(4)
        broker.faults.answer(
            "ConsumerGroupHeartbeat",
            ErrorCode.FENCED_MEMBER_EPOCH,
            match=lambda request: request.member_id == "m1",
        )
        assert member.heartbeat().error_code == ErrorCode.FENCED_MEMBER_EPOCH
        assert member.heartbeat(0 - 1).error_code == 0


def test_group_views_are_immutable() -> None:
    rig = ClusterRig(topics={"t": 1})
    commit(rig, "g", 5)
    views = group_views(rig.cluster)
    assert views["g"].state is GroupState.EMPTY
    with pytest.raises(TypeError):
        views["h"] = views["g"]  # type: ignore[index]  # that is what is tested
