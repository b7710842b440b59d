"""Heartbeats that look as if they changed nothing, and members that come back into a full group."""

import pytest

from groupsdk.error_code import ErrorCode
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


def member_types(rig: Rig) -> dict[str, int]:
    """The protocol of each member: 0 for the classic one, 1 for the consumer protocol."""
    (group,) = rig.ask(ConsumerGroupDescribeRequest(("g",)), 1).groups
    return {each.member_id: each.member_type for each in group.members}


def test_a_classic_member_that_heartbeats_in_the_consumer_protocol_has_moved_to_it() -> None:
    """Also where the heartbeat says nothing that the coordinator does not know: it is in the epoch, and at rest."""
    rig = Rig(Topics(t=2))
    rig.heartbeat("m")
    offer = (JoinGroupRequestProtocol("range", subscription("t")),)
    given = "", -1
    for _ in range(2):  # in the second round it gets what the other one has given up
        asked = JoinGroupRequest("g", 30_000, 60_000, given[0], None, "consumer", offer)
        answer = rig.ask(asked, 3)
        assert answer.error_code == 0
        given = answer.member_id, answer.generation_id
        assert rig.ask(SyncGroupRequest("g", given[1], given[0]), 3).error_code == 0
        rig.heartbeat("m", 2, topic_partitions=())
    assert member_types(rig) == {"m": _CONSUMER, given[0]: _CLASSIC}

    beaten = rig.heartbeat(given[0], given[1])

    assert (beaten.error_code, beaten.member_epoch) == (0, given[1])
    assert member_types(rig) == {"m": _CONSUMER, given[0]: _CONSUMER}


def test_a_full_group_takes_back_its_own_members_alone() -> None:
    rig = Rig(Topics(t=2), group_consumer_max_size=1)
    assert rig.heartbeat("m").error_code == 0
    assert rig.heartbeat("n").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    again = rig.heartbeat("m")
    assert (again.error_code, again.member_id) == (0, "m")


def test_a_member_that_does_not_revoke_is_removed_though_its_coordinator_moved() -> None:
    rig = Rig(Topics(t=2))
    epoch = rig.heartbeat("m", rebalance_timeout_ms=20_000).member_epoch
    rig.heartbeat("n")
    told = rig.heartbeat("m", epoch)
    assert len(told.assignment.topic_partitions[0].partitions) == 1, "it is to give one up"

    rig.advance(15_000)
    rig.reload()
    for _ in range(2):
        rig.advance(9_990)
        beaten = rig.heartbeat("m", epoch)
        assert beaten.error_code == 0, "the new coordinator gives it the whole time again"
    rig.advance(100)
    beaten = rig.heartbeat("m", epoch)

    assert beaten.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert member_types(rig) == {"n": _CONSUMER}


def test_a_classic_member_that_is_told_to_rejoin_and_does_not_is_removed() -> None:
    rig = Rig(Topics(t=2))
    rig.heartbeat("m")
    offer = (JoinGroupRequestProtocol("range", subscription("t")),)
    given = rig.ask(JoinGroupRequest("g", 10_000, 20_000, "", None, "consumer", offer), 3)
    sync = SyncGroupRequest("g", given.generation_id, given.member_id)
    assert rig.ask(sync, 3).error_code == 0
    # a member more: the classic one gets an epoch that it has to join for
    rig.heartbeat("n")

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
    epoch = rig.heartbeat("m").member_epoch
    joined = rig.heartbeat("n", subscribed_topic_names=None, subscribed_topic_regex="u.*")
    assert joined.error_code == 0
    rig.settle()
    assert set(rig.group.regexes) == {"u.*"}
    if leaves:
        rig.heartbeat("n", -1)
    else:
        # its session ends
        for _ in range(10):
            rig.advance(5_000)
            epoch = rig.heartbeat("m", epoch, topic_partitions=()).member_epoch
    assert set(rig.group.members) == {"m"}
    assert not rig.group.regexes
