"""Test what the parts of the machine share."""

import logging
from random import Random

import pytest

from groupsdk.errors import DisconnectedError, FencedInstanceIdError, GroupSdkError
from groupsdk.member.actions import Disconnect, Send
from groupsdk.member.classic.rebalance import Rebalance
from groupsdk.member.classic.requests import heartbeat_request
from groupsdk.member.member import Member
from groupsdk.member.state import MemberState
from groupsdk.settings.config import MemberConfig
from groupsdk.types import NO_GENERATION, Generation
from groupsdk.wire.schema import ApiKey
from tests.member.driving import NODE, SETTINGS


GENERATION = Generation(4, "m-1", "even")
FENCED = FencedInstanceIdError(82)


@pytest.fixture
def member() -> Member:
    return Member(MemberConfig.of(SETTINGS), Random(0))


def _member(member: Member) -> None:
    member.coordinator = NODE
    member.state = MemberState.STABLE
    member.generation = GENERATION
    member.is_leader = True
    member.heartbeat.enable(0)
    member.heartbeat.accepted(0, 0)


def _beat(member: Member) -> Send:
    return member.send(heartbeat_request(member.config, member.generation), ApiKey.HEARTBEAT, 1_000)


def test_sending_notes_the_generation_and_asks_the_driver(member: Member) -> None:
    _member(member)
    send = _beat(member)
    assert send.node == NODE
    flight = member.requests.take(send.request_id)
    assert flight is not None
    assert flight.generation == GENERATION


def test_nothing_is_sent_to_nobody(member: Member) -> None:
    with pytest.raises(AssertionError, match="HEARTBEAT without a coordinator"):
        _beat(member)


@pytest.mark.parametrize("keep", [True, False])
def test_forgetting_the_membership(member: Member, keep: bool) -> None:
    _member(member)
    assert Rebalance(member).forget_membership(keep_member_id=keep) == []
    assert member.state is MemberState.UNJOINED
    assert member.generation == (Generation(-1, "m-1", None) if keep else NO_GENERATION)
    assert member.generation.is_reset
    assert not member.is_leader
    assert member.heartbeat.possession.until_ms is None


def test_forgetting_drops_the_connection_only_under_a_parked_request(
    member: Member,
) -> None:
    _member(member)
    _beat(member)
    assert Rebalance(member).forget_membership(keep_member_id=False) == []
    member.requests.add(ApiKey.LEAVE_GROUP, NO_GENERATION, 0, 1_000)
    member.requests.add(ApiKey.SYNC_GROUP, GENERATION, 0, 1_000)
    assert Rebalance(member).forget_membership(keep_member_id=False) == [Disconnect()]
    assert member.requests.summary.first is None, "what the connection carried has no deadline"


def test_a_failure_is_forgotten_once_it_was_raised(member: Member) -> None:
    member.fail(DisconnectedError("one"))
    assert member.failure is not None
    first_id = member.failure.failure_id
    member.fail(DisconnectedError("two"))
    member.failure_raised(first_id)
    assert str(member.failure.error) == "two"
    member.failure_raised(member.failure.failure_id)
    assert member.failure is None


def test_a_fatal_failure_stays(member: Member) -> None:
    member.fail(DisconnectedError("one"))
    member.fail(FENCED)
    member.fail(DisconnectedError("two"))
    assert member.failure is not None
    member.failure_raised(member.failure.failure_id)
    assert member.failure.error is FENCED


def test_recovering_takes_back_the_error_that_was_recovered_from(member: Member) -> None:
    error: GroupSdkError = DisconnectedError("lookup")
    member.fail(error)
    member.recovered_from(DisconnectedError("lookup"))
    assert member.failure is not None
    member.recovered_from(error)
    assert member.failure is None


def test_logs_begin_with_group_member_and_generation(
    member: Member, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        member.log(logging.INFO, "%d of %s", 1, "100%")
        member.generation = GENERATION
        member.log(logging.INFO, "plain")
        member.log(logging.DEBUG, "not shown")
    assert caplog.messages == [
        "group=g member=- generation=-1: 1 of 100%",
        "group=g member=m-1 generation=4: plain",
    ]
