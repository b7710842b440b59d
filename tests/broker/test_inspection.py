"""Tests what a test can see of a running broker."""

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.broker.groups.state import GroupState
from groupsdk.broker.inspection import committed_offsets, group_views
from groupsdk.clock import ManualClock
from groupsdk.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.broker.clients import Client, connect, join, join_request
from tests.broker.rig import ClusterRig
from tests.broker.test_coordinators import commit


def test_groups_are_seen_as_they_are(broker: EmbeddedBroker, client: Client) -> None:
    assert dict(broker.groups) == {}
    member = join(client, "g")
    join(client, "another")
    assert set(broker.groups) == {"g", "another"}
    group = broker.groups["g"]
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
        }


def test_what_is_seen_cannot_be_changed() -> None:
    rig = ClusterRig(topics={"t": 1})
    commit(rig, "g", 5)
    views = group_views(rig.cluster)
    assert views["g"].state is GroupState.EMPTY
    with pytest.raises(TypeError):
        views["h"] = views["g"]  # type: ignore[index]  # that is what is tested
    assert {place: each.offset for place, each in committed_offsets(rig.cluster, "g").items()} == {
        ("t", 0): 5
    }
    assert committed_offsets(rig.cluster, "none") == {}
