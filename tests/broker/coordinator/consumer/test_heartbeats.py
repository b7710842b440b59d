"""Heartbeats that look as if they changed nothing, and members that come back into a full group."""

from typing import Any

import pytest

from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from groupsdk.wire.messages.group_admin import ConsumerGroupDescribeRequest
from groupsdk.wire.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
)
from tests.broker.coordinator.consumer.rig import Rig, Topics
from tests.broker.coordinator.group.driving import subscription


_CLASSIC, _CONSUMER = 0, 1


def joined(rig: Rig, member_id: str, rebalance_timeout_ms: int = 60_000) -> Any:
    """Joins, or joins again; returns the answer."""
    return rig.ask(
        ConsumerGroupHeartbeatRequest(
            *("g", member_id, 0),
            rebalance_timeout_ms=rebalance_timeout_ms,
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


def test_a_member_that_does_not_revoke_is_removed_though_its_coordinator_moved() -> None:
    rig = Rig(Topics(t=2))
    epoch = joined(rig, "m", 20_000).member_epoch
    joined(rig, "n")
    told = rig.ask(ConsumerGroupHeartbeatRequest("g", "m", epoch))
    assert len(told.assignment.topic_partitions[0].partitions) == 1, "it is to give one up"

    rig.advance(15_000)
    rig.reload()
    for _ in range(2):
        rig.advance(9_990)
        beaten = rig.ask(ConsumerGroupHeartbeatRequest("g", "m", epoch))
        assert beaten.error_code == 0, "the new coordinator gives it the whole time again"
    rig.advance(100)
    beaten = rig.ask(ConsumerGroupHeartbeatRequest("g", "m", epoch))

    assert beaten.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert member_types(rig) == {"n": _CONSUMER}


def test_a_classic_member_that_is_told_to_rejoin_and_does_not_is_removed() -> None:
    rig = Rig(Topics(t=2))
    joined(rig, "m")
    offer = (JoinGroupRequestProtocol("range", subscription("t")),)
    token, _ = rig.send(JoinGroupRequest("g", 10_000, 20_000, "", None, "consumer", offer), 3)
    given: Any = rig.answers.pop(token)
    sync = SyncGroupRequest("g", given.generation_id, given.member_id)
    assert rig.ask(sync, 3).error_code == 0
    # a member more: the classic one gets an epoch that it has to join for
    joined(rig, "n")

    codes = []
    for _ in range(5):
        beat = HeartbeatRequest("g", given.generation_id, given.member_id)
        codes.append(rig.ask(beat, 3).error_code)
        rig.advance(6_000)

    told, gone = ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID
    assert codes == [told] * 4 + [gone], "20 s after it was told first"
    assert given.member_id not in member_types(rig)


@pytest.mark.parametrize("leaves", [True, False])
def test_an_expression_is_forgotten_with_the_last_member_that_used_it(leaves: bool) -> None:
    rig = Rig(Topics(t=2, u=2))
    epoch = joined(rig, "m").member_epoch
    joining = ConsumerGroupHeartbeatRequest(
        *("g", "n", 0),
        rebalance_timeout_ms=60_000,
        subscribed_topic_regex="u.*",
        topic_partitions=(),
    )
    assert rig.ask(joining).error_code == 0
    rig.settle()
    group = rig.shard.consumer_group("g")
    assert group is not None
    assert set(group.regexes) == {"u.*"}
    if leaves:
        rig.ask(ConsumerGroupHeartbeatRequest("g", "n", -1))
    else:
        # its session ends
        for _ in range(10):
            rig.advance(5_000)
            beat = ConsumerGroupHeartbeatRequest("g", "m", epoch, topic_partitions=())
            epoch = rig.ask(beat).member_epoch
    group = rig.shard.consumer_group("g")
    assert group is not None
    assert set(group.members) == {"m"}
    assert not group.regexes
