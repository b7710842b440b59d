"""Test what the parts of the machine share."""

import logging
from random import Random

import pytest

from groupsdk.config import MemberConfig
from groupsdk.errors import DisconnectedError, FencedInstanceIdError, GroupSdkError
from groupsdk.membership.actions import Disconnect, Send
from groupsdk.membership.context import MemberContext
from groupsdk.membership.requests import heartbeat_request
from groupsdk.membership.state import MemberState, Trigger
from groupsdk.types import NO_GENERATION, Generation
from groupsdk.wire.schema import ApiKey
from tests.membership.driving import NODE, SETTINGS


GENERATION = Generation(4, "m-1", "even")
FENCED = FencedInstanceIdError(82)


@pytest.fixture
def context() -> MemberContext:
    return MemberContext(MemberConfig.of(SETTINGS), Random(0))


def _member(context: MemberContext) -> None:
    context.discovery.found(NODE)
    for trigger in (Trigger.JOIN_SENT, Trigger.JOIN_ANSWERED, Trigger.SYNC_ANSWERED):
        context.move(trigger)
    context.generation = GENERATION
    context.is_leader = True
    context.heartbeat.enable(0)
    context.heartbeat.prove(0)


def _beat(context: MemberContext) -> None:
    context.send(heartbeat_request(context.config, context.generation), ApiKey.HEARTBEAT, 1_000)


def test_sending_notes_the_generation_and_asks_the_driver(context: MemberContext) -> None:
    _member(context)
    _beat(context)
    (send,) = context.actions
    assert isinstance(send, Send)
    assert send.node == NODE
    flight = context.requests.take(send.request_id)
    assert flight is not None
    assert flight.generation == GENERATION


def test_nothing_is_sent_to_nobody(context: MemberContext) -> None:
    with pytest.raises(AssertionError, match="HEARTBEAT without a coordinator"):
        _beat(context)


@pytest.mark.parametrize("keep", [True, False])
def test_forgetting_the_membership(context: MemberContext, keep: bool) -> None:
    _member(context)
    context.forget_membership(keep_member_id=keep)
    assert context.state is MemberState.UNJOINED
    assert context.generation == (Generation(-1, "m-1", None) if keep else NO_GENERATION)
    assert context.generation.is_reset
    assert not context.is_leader
    assert context.heartbeat.valid_until_ms is None
    assert context.actions == []


def test_forgetting_drops_the_connection_only_under_a_parked_request(
    context: MemberContext,
) -> None:
    _member(context)
    _beat(context)
    context.forget_membership(keep_member_id=False)
    assert not any(isinstance(action, Disconnect) for action in context.actions)
    context.requests.add(ApiKey.LEAVE_GROUP, NO_GENERATION, 0, 1_000)
    context.requests.add(ApiKey.SYNC_GROUP, GENERATION, 0, 1_000)
    context.forget_membership(keep_member_id=False)
    assert isinstance(context.actions[-1], Disconnect)
    assert context.requests.next_deadline_ms is None, "what the connection carried has no deadline"


def test_a_failure_is_forgotten_once_it_was_raised(context: MemberContext) -> None:
    context.fail(DisconnectedError("one"))
    assert context.failure is not None
    first_id = context.failure.failure_id
    context.fail(DisconnectedError("two"))
    context.failure_raised(first_id)
    assert str(context.failure.error) == "two"
    context.failure_raised(context.failure.failure_id)
    assert context.failure is None


def test_a_fatal_failure_stays(context: MemberContext) -> None:
    context.fail(DisconnectedError("one"))
    context.fail(FENCED)
    context.fail(DisconnectedError("two"))
    assert context.failure is not None
    context.failure_raised(context.failure.failure_id)
    assert context.failure.error is FENCED


def test_recovering_takes_back_the_error_that_was_recovered_from(context: MemberContext) -> None:
    error: GroupSdkError = DisconnectedError("lookup")
    context.fail(error)
    context.recovered_from(DisconnectedError("lookup"))
    assert context.failure is not None
    context.recovered_from(error)
    assert context.failure is None


def test_logs_begin_with_group_member_and_generation(
    context: MemberContext, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        context.log(logging.INFO, "%d of %s", 1, "100%")
        context.generation = GENERATION
        context.log(logging.INFO, "plain")
        context.log(logging.DEBUG, "not shown")
    assert caplog.messages == [
        "group=g member=- generation=-1: 1 of 100%",
        "group=g member=m-1 generation=4: plain",
    ]
