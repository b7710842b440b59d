"""Heartbeats that look as if they changed nothing, and members that come back into a full group."""

from typing import Any

from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from groupsdk.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from groupsdk.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from groupsdk.wire.messages.sync_group import SyncGroupRequest
from tests.broker.consumer_groups.rig import Rig, Topics
from tests.broker.group_coordinator.driving import subscription


_CLASSIC, _CONSUMER = 0, 1


def joined(rig: Rig, member_id: str) -> Any:
    """Joins, or joins again; returns the answer."""
    return rig.ask(
        ConsumerGroupHeartbeatRequest(
            *("g", member_id, 0),
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=("t",),
            topic_partitions=(),
        )
    )


def member_types(rig: Rig) -> dict[str, int]:
    """The protocol of each member: 0 for the classic one, 1 for the consumer protocol."""
    (group,) = rig.ask(ConsumerGroupDescribeRequest(("g",)), 1).groups
    return {each.member_id: each.member_type for each in group.members}


def test_a_classic_member_that_heartbeats_in_the_consumer_protocol_has_moved_to_it() -> None:
    """Also where the heartbeat says nothing that the coordinator does not know: it is in the epoch, and at rest."""
    rig = Rig(Topics(t=2))
    joined(rig, "m")
    offer = (JoinGroupRequestProtocol("range", subscription("t")),)
    given = "", -1
    for _ in range(2):  # in the second round it gets what the other one has given up
        asked = JoinGroupRequest("g", 30_000, 60_000, given[0], None, "consumer", offer)
        token, _ = rig.send(asked, 3)
        answer: Any = rig.answers.pop(token)
        assert answer.error_code == 0
        given = answer.member_id, answer.generation_id
        assert rig.ask(SyncGroupRequest("g", given[1], given[0]), 3).error_code == 0
        rig.ask(ConsumerGroupHeartbeatRequest("g", "m", 2, topic_partitions=()))
    assert member_types(rig) == {"m": _CONSUMER, given[0]: _CLASSIC}

    beaten = rig.ask(ConsumerGroupHeartbeatRequest("g", given[0], given[1]))

    assert (beaten.error_code, beaten.member_epoch) == (0, given[1])
    assert member_types(rig) == {"m": _CONSUMER, given[0]: _CONSUMER}


def test_a_full_group_takes_back_its_own_members_alone() -> None:
    rig = Rig(Topics(t=2), group_consumer_max_size=1)
    assert joined(rig, "m").error_code == 0
    assert joined(rig, "n").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    again = joined(rig, "m")
    assert (again.error_code, again.member_id) == (0, "m")
