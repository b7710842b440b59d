from random import Random

from groupsdk.config import MemberConfig
from groupsdk.errors import AuthenticationError, DisconnectedError
from groupsdk.membership.actions import Disconnect, FindCoordinator, StopLooking
from groupsdk.membership.context import MemberContext
from groupsdk.membership.coordinator_access import CoordinatorAccess
from groupsdk.wire.messages.heartbeat import HeartbeatRequest
from groupsdk.wire.schema import ApiKey
from tests.membership.driving import NODE, SETTINGS


def access() -> tuple[CoordinatorAccess, MemberContext]:
    context = MemberContext(MemberConfig.of(SETTINGS), Random(0))
    return CoordinatorAccess(context), context


def test_a_lookup_begins_when_it_is_wanted_and_ends_when_it_is_not() -> None:
    each, context = access()
    each.advance(wanted=True)
    each.advance(wanted=True)
    assert context.actions == [FindCoordinator()]
    each.advance(wanted=False)
    assert context.actions[-1] == StopLooking()
    assert each.times_ms(wanted=False) == ()


def test_a_loss_drops_the_connection_and_says_why_until_an_answer_comes() -> None:
    each, context = access()
    each.found(NODE)
    context.send(HeartbeatRequest(group_id="g"), ApiKey.HEARTBEAT, 1_000)
    (flight,) = each.lost(DisconnectedError("cut off"))
    assert flight.api is ApiKey.HEARTBEAT
    assert context.actions[-1] == Disconnect()
    assert "cut off" in str(each.trouble)
    assert context.discovery.coordinator is None
    each.found(NODE)
    each.answered(ApiKey.HEARTBEAT)
    each.reached()
    assert not each.trouble
    assert each.lost(DisconnectedError("x")) == ()


def test_refused_credentials_reach_the_caller_and_are_forgotten_once_a_lookup_ends_well() -> None:
    each, context = access()
    each.delayed(DisconnectedError("refused"))
    assert each.trouble == "refused"
    each.failed(AuthenticationError("wrong password"))
    failures = [context.failure]
    each.found(NODE)
    failures.append(context.failure)
    assert [failure is None for failure in failures] == [False, True]
